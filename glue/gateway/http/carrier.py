"""Carrier's three routes, word for word: `POST /create`, `/subscribe` and `/publish` with JSON bodies.

A subscriber is called at its `addr` with `{"payload", "payloadType"}`, the payload in base64.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import time

from aiohttp import web

from glue.gateway.http.door import Door
from glue.gateway.http.guard import check_url
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer, check_publish, check_subscribe, document_of, text_of
from glue.gateway.http.subscriptions import Subscription
from glue.gateway.http.tokens import Rights
from glue.topics import check_topic


async def create(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Create a topic: the door keeps its messages from now on. A second time does nothing."""
    topic = text_of(await document_of(door, request), "topic")
    check_topic(topic)
    check_publish(rights, topic)
    store, journal = door.delivering.store, door.delivering.journal
    if topic not in store.topics and len(store.topics) >= door.limits.subscriptions:
        raise ProblemError(409, f"there are {door.limits.subscriptions} topics already")
    if topic not in store.topics or topic in door.delivering.unkept:
        await journal.want(topic)  # first: what the door may not keep is not stored
        door.delivering.unkept.pop(topic, None)
        await store.create(topic)
    return answer({"topic": topic})


async def subscribe(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Call an address with each message of a topic from now on. A second time does nothing."""
    document = await document_of(door, request)
    topic, url = text_of(document, "topic"), check_url(text_of(document, "addr"))
    check_created(door, topic)
    check_subscribe(rights, topic)
    for known in door.delivering.subscriptions.values():
        if (known.topic, known.url, known.format, known.owner) == (topic, url, "carrier", rights.name):
            return answer({"topic": topic, "addr": url, "id": known.id})
    made = Subscription(
        secrets.token_hex(8), topic, url, format="carrier", owner=rights.name, created=time.time()
    )  # fmt: skip
    await door.delivering.add(made)
    return answer({"topic": topic, "addr": url, "id": made.id})


async def publish(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Publish a message; the answer comes once the log has it."""
    document = await document_of(door, request)
    topic = text_of(document, "topic")
    check_created(door, topic)
    check_publish(rights, topic)
    payload_type = document.get("payloadType", "")
    if not isinstance(payload_type, str):
        raise ProblemError(400, "'payloadType' is no string", pointer="/payloadType")
    text = document.get("payload")
    if not isinstance(text, str):
        raise ProblemError(400, "'payload': expected a string, bytes in base64", pointer="/payload")
    try:
        payload = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise ProblemError(400, "'payload' is no base64", pointer="/payload") from None
    await door.publish(topic, payload, None, {"type": payload_type or None})
    return answer({"topic": topic})


def check_created(door: Door, topic: str) -> None:
    """Raise ProblemError for a topic that was not created, or that this door may no longer keep."""
    if topic not in door.delivering.store.topics:
        raise ProblemError(404, f"no topic {topic!r:.200}; create it first, by POST /create")
    if (reason := door.delivering.unkept.get(topic)) is not None:
        raise ProblemError(403, reason)


ROUTES = [
    Route(
        "POST", "/create", create, "Create a topic (Carrier)", body='{"topic"}', needs=["topic"],
        answers={200: "It is there"},
    ),
    Route(
        "POST", "/subscribe", subscribe, "Call an address with each message of a topic (Carrier)",
        body='{"topic", "addr"}', needs=["topic", "addr"],
        answers={200: "From now on", 404: "The topic was not created"},
    ),
    Route(
        "POST", "/publish", publish, "Publish a message (Carrier)", body='{"topic", "payload", "payloadType"}',
        needs=["topic", "payload"],
        answers={200: "The log has it", 404: "The topic was not created"},
    ),
]  # fmt: skip
