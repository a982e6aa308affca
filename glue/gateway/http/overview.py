"""The overview of a door and its network: endpoints, counters, descriptions of the interface, the page."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, Final

from aiohttp import web

import glue
from glue.errors import NoResponderError
from glue.gateway.http.door import Door
from glue.gateway.http.paths import own_paths, shown
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer
from glue.gateway.http.tokens import Rights
from glue.gateway.http.typed import asyncapi_document
from glue.gateway.names import MQTT_DOORS
from glue.metrics.exposition import CONTENT_TYPE, exposition

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page loads nothing: scripts and styles are in it."""
ASK_TIME: Final = 2.0
"""Seconds for MQTT doors to answer."""


@cache
def page_bytes() -> bytes:
    """Return the page."""
    return (files("glue.gateway.http") / "page.html").read_bytes()


async def page(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Give the page."""
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "cache-control": "no-cache"}
    return web.Response(body=page_bytes(), content_type="text/html", charset="utf-8", headers=headers)


def check_admin(rights: Rights) -> None:
    """Raise ProblemError unless a client may see the network as a whole."""
    if not rights.admin:
        raise ProblemError(403, f"{rights} has no admin rights, which this needs (glue http token new --admin)")


async def endpoints(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """List the known endpoints, with the door's path to each that it sends reliable messages."""
    check_admin(rights)
    endpoint = door.endpoint
    ways = {path.receiver: shown(path) for path in own_paths(endpoint)}
    found = [
        {
            "name": peer.name, "id": peer.id, "incarnation": peer.incarnation,
            "address": ":".join(str(part) for part in peer.address[:2]), **ways.get(peer.id, {}),
        }
        for peer in endpoint.peers
    ]  # fmt: skip
    own = {"name": endpoint.name, "id": endpoint.id, "incarnation": endpoint.incarnation}
    return answer({"door": own, "endpoints": found})


async def paths(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Tell how well endpoints hear each other; `answered` has the ids of those that told their paths."""
    check_admin(rights)
    found, answered = await door.paths.get()
    names = {**{peer.id: peer.name for peer in door.endpoint.peers}, **answered}
    told = [
        {
            "sender": names.get(path.sender, path.sender), "receiver": names.get(path.receiver, path.receiver),
            "sender_id": path.sender, "receiver_id": path.receiver, **shown(path),
        }
        for path in found
    ]  # fmt: skip
    return answer({"paths": told, "answered": sorted(answered)})


async def mqtt_clients(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """List the clients of all MQTT doors of the network; `doors` names those that answered."""
    check_admin(rights)
    doors: list[str] = []
    clients: list[dict[str, Any]] = []
    with suppress(NoResponderError):
        async for reply in door.endpoint.request_all(MQTT_DOORS, "clients", ASK_TIME):
            if isinstance(reply.payload, list):
                doors.append(reply.responder)
                clients += [{**one, "door": reply.responder} for one in reply.payload if isinstance(one, dict)]
    return answer({"doors": sorted(doors), "clients": clients})


async def status(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Show versions, counters and limits of this door."""
    delivering, feed = door.delivering, door.feed
    journal = delivering.journal
    found: dict[str, Any] = {
        "door": door.endpoint.name, "version": glue.__version__, "peers": len(door.endpoint.peers),
        "rights": {
            "name": rights.name, "publish": rights.publish, "subscribe": rights.subscribe, "admin": rights.admin,
        },
        "streams": door.streams, "topics_seen": len(feed._values),
        "counters": {**door.statistics, **delivering.machine.statistics, **feed.statistics},
    }  # fmt: skip
    if rights.admin:
        found["log"] = {
            "keeps": journal.patterns, "on_disk": journal.data_dir is not None, "first": journal.recent.first,
            "end": journal.recent.durable, "failure": journal.recent.log.failure,
        }  # fmt: skip
        found["subscriptions"] = len(delivering.subscriptions)
    return answer(found)


async def metrics(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Give counters in Prometheus's format."""
    check_admin(rights)
    lines = [exposition(door.endpoint).rstrip("\n")]
    counters = {**door.statistics, **door.delivering.machine.statistics}
    lines += ["# HELP glue_http_events_total Counters of the HTTP door.", "# TYPE glue_http_events_total counter"]
    lines += [f'glue_http_events_total{{event="{name}"}} {value}' for name, value in sorted(counters.items())]
    return web.Response(body="\n".join(lines).encode() + b"\n", headers={"content-type": CONTENT_TYPE})


async def openapi(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Describe the routes (OpenAPI 3.1)."""
    return answer(door.describe())


async def asyncapi(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Describe the typed topics of the network that this client may use (AsyncAPI 3.0)."""
    return answer(asyncapi_document(await door.typed.get(), rights))


async def health(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Tell whether the door works: its log can store, and its endpoint is open."""
    failure = door.delivering.journal.recent.log.failure
    if failure or door.endpoint.closed:
        raise ProblemError(503, failure or "the endpoint is closed")
    return answer({"status": "ok"})


ROUTES = [
    Route("GET", "/", page, "The page", is_open=True),
    Route("GET", "/v1/health", health, "Whether the door works", is_open=True),
    Route("GET", "/v1/status", status, "Counters of the door, and what this client may do"),
    Route("GET", "/v1/endpoints", endpoints, "The endpoints of the network"),
    Route("GET", "/v1/paths", paths, "How well the endpoints hear each other"),
    Route("GET", "/v1/mqtt/clients", mqtt_clients, "The clients of the MQTT doors of the network"),
    Route("GET", "/metrics", metrics, "Counters for Prometheus"),
    Route("GET", "/openapi.json", openapi, "This description", is_open=True),
    Route("GET", "/asyncapi.json", asyncapi, "The typed topics of the network"),
]
