"""A route of the server with its description, and what handlers share: queries, bodies, answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from aiohttp import web

from glue.endpoint.history_options import seconds_of
from glue.errors import ConfigurationError
from glue.gateway.http.door import Door
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.tokens import Rights

Handler = Callable[[Door, Rights, web.Request], Awaitable[web.StreamResponse]]
TRUE: Final = ("1", "true", "yes", "")
FALSE: Final = ("0", "false", "no")


@dataclass(frozen=True)
class Route:
    """A method and a path, their handler, and what the OpenAPI description says of them."""

    method: str
    path: str
    handler: Handler
    summary: str
    query: Mapping[str, str] = field(default_factory=dict)
    """Names of parameters, with what they mean."""
    body: str = ""
    """What the body is; "" for none. Of an object, the names of its members in braces."""
    answers: Mapping[int, str] = field(default_factory=dict)
    is_open: bool = False
    """Whether it needs no token."""
    needs: Sequence[str] = ()
    """Members that must be in the body."""


def answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer with a JSON document."""
    return web.Response(
        body=orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS), status=status, headers=headers,
        content_type="application/json",
    )  # fmt: skip


async def body_of(door: Door, request: web.Request) -> bytes:
    """Return the body of a request. Raises ProblemError for one that is too large or too slow."""
    if (request.content_length or 0) > door.limits.body:
        raise ProblemError(413, f"a body has at most {door.limits.body} bytes")
    try:
        async with asyncio.timeout(door.limits.request_time):
            return await request.read()
    except TimeoutError:
        raise ProblemError(408, f"the body did not arrive within {door.limits.request_time:g} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise ProblemError(413, f"a body has at most {door.limits.body} bytes") from None


async def document_of(door: Door, request: web.Request) -> dict[str, Any]:
    """Return the body as a JSON object. Raises ProblemError."""
    body = await body_of(door, request)
    try:
        found = orjson.loads(body)
    except ValueError as error:
        raise ProblemError(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ProblemError(400, "the body is no JSON object")
    return found


def text_of(document: Mapping[str, Any], name: str) -> str:
    """Return a member of a document that must be a string. Raises ProblemError."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        what = "is missing" if name not in document else "is no string" if not isinstance(value, str) else "is empty"
        raise ProblemError(400, f"{name!r} {what}", pointer=f"/{name}")
    return value


def flag(request: web.Request, name: str) -> bool:
    """Return a parameter that is true or false; without it, false. Raises ProblemError."""
    value = request.query.get(name)
    if value is None or value.lower() in FALSE:
        return False
    if value.lower() in TRUE:
        return True
    raise ProblemError(400, f"{name}={value!r:.80}: expected 1 or 0")


def number(request: web.Request, name: str, default: float, most: float, least: float = 0.0) -> float:
    """Return a parameter that is a number. Raises ProblemError."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise ProblemError(400, f"{name}={text!r:.80}: expected a number from {least:g} to {most:g}")
    return value


def check_publish(rights: Rights, topic: str) -> None:
    """Raise ProblemError unless a client may publish to a topic."""
    if not rights.may_publish(topic):
        rule = rights.refused_by("publish", topic)
        raise ProblemError(403, f"{rights} may not publish to {topic!r:.200}: {rule}")


def check_subscribe(rights: Rights, pattern: str) -> None:
    """Raise ProblemError unless a client may read all topics of a pattern."""
    if not rights.may_subscribe(pattern):
        rule = rights.refused_by("subscribe", pattern)
        raise ProblemError(403, f"{rights} may not read {pattern!r:.200}: {rule}")


def start_time(text: str) -> float:
    """Return the Unix time that `since` says: "10m" ago, or a time as ISO 8601 or Unix seconds. Raises ProblemError."""
    try:
        if text.replace(".", "", 1).isdigit() and float(text) > 1e8:
            found = float(text)
        elif "-" in text:
            at = datetime.fromisoformat(text)
            found = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        else:
            found = time.time() - seconds_of(text if not text.isdigit() else float(text))
        datetime.fromtimestamp(found, UTC)  # raises for a time that no calendar has
        return found
    except (ConfigurationError, ValueError, OverflowError):
        raise ProblemError(400, f"since={text!r:.80}: expected such as 10m, 2h, or a time as ISO 8601") from None
