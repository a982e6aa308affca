"""Topics by HTTP: publish, the last value, history; and requests to programs that answer."""

from __future__ import annotations

import asyncio
import base64
import time
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from glue.endpoint.encoding import encoded
from glue.errors import GlueError
from glue.gateway.http.door import Door
from glue.gateway.http.feed import described
from glue.gateway.http.lanes import matcher
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.records import described_record
from glue.gateway.http.routes import (
    Route,
    answer,
    body_of,
    check_publish,
    check_subscribe,
    flag,
    number,
    start_time,
)
from glue.gateway.http.signing import Item
from glue.gateway.http.streaming import is_stream, stream
from glue.gateway.http.tokens import Rights
from glue.topics import check_pattern, check_topic
from glue.topics.names import is_wildcard

QUIET = 0.3
"""Seconds without a message after which history of other endpoints is taken as complete."""
LINES = 10_000
"""Messages of a batch."""


def payload_of(request: web.Request, body: bytes) -> Any:
    """Return the payload that a body is, by its content type: JSON, text, or bytes.

    `curl -d` announces a form: the body is JSON if it parses, else text.
    """
    kind = request.content_type
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return orjson.loads(body)
        if kind.startswith("text/"):
            return body.decode()
        if kind == "application/x-www-form-urlencoded":
            text = body.decode()
            try:
                return orjson.loads(body)
            except ValueError:
                return text
    except ValueError as error:
        raise ProblemError(400, f"the body is no {kind}: {error}") from None
    return body


def options_of(request: web.Request) -> dict[str, Any]:
    """Return the options of `Endpoint.publish` that the query gives. Raises ProblemError."""
    query = request.query
    if not query:
        return {}
    options: dict[str, Any] = {"retain": flag(request, "retain")}
    for name in ("type", "priority", "key", "reliability"):
        if name in query:
            options[name] = query[name]
    if "lifespan" in query:
        options["lifespan"] = number(request, "lifespan", 0.0, 1e9, 1e-3)
    properties = {}
    for pair in query.getall("property", ()):
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ProblemError(400, f"property={pair!r:.80}: expected NAME=VALUE")
        properties[name] = value
    if properties:
        options["properties"] = properties
    return options


def acks_of(request: web.Request) -> Any:
    """Return what `?acks=` says: None, "sent", "disk", "replicas" or a number. Raises ProblemError."""
    text = request.query.get("acks")
    if text is None or text in ("sent", "disk", "replicas"):
        return text
    if text.isascii() and text.isdigit() and 0 < int(text[:3]) <= 64 and len(text) < 3:
        return int(text)
    raise ProblemError(400, f"acks={text!r:.80}: expected sent, disk, replicas or a number of keepers")


async def publish(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Publish the body on a topic."""
    topic = request.match_info["topic"]
    check_topic(topic)
    check_publish(rights, topic)
    body = await body_of(door, request)
    payload, options, acks = payload_of(request, body), options_of(request), acks_of(request)
    key = request.headers.get("idempotency-key")
    status, document = await door.idempotency.once(
        rights.name, key, topic.encode() + b"\n" + body, lambda: door.publish(topic, payload, acks, options)
    )
    return answer(document, status)


async def publish_many(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Publish a batch: a JSON object a line, with `topic`, and `payload` or `payload_base64`."""
    body = await body_of(door, request)
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > LINES:
        raise ProblemError(413, f"a batch has at most {LINES} lines")
    runs: list[tuple[str, list[Any]]] = []
    for place, line in enumerate(lines, 1):
        try:
            one = orjson.loads(line)
            topic = one["topic"]
            is_encoded = "payload" not in one and "payload_base64" in one
            payload = base64.b64decode(one["payload_base64"], validate=True) if is_encoded else one["payload"]
            encoded(payload)
            if not runs or runs[-1][0] != topic:
                check_topic(topic)
                check_publish(rights, topic)
                runs.append((topic, []))
        except (ValueError, KeyError, TypeError) as error:
            missing = f"{error} is missing" if isinstance(error, KeyError) else ""
            reason = missing or (str(error) if isinstance(error, ValueError | GlueError) else "expected an object")
            raise ProblemError(400, f"line {place}: {reason:.200}; nothing was published", line=place) from None
        runs[-1][1].append(payload)
    for topic, payloads in runs:
        await door.endpoint.publish_many(topic, payloads)
    door.statistics["messages published"] += len(lines)
    return answer({"messages": len(lines), "acks": "sent"}, 202)


async def read(door: Door, rights: Rights, request: web.Request) -> web.StreamResponse:
    """Give the last value of a topic; or history with `since`, `offset` or `last`; or a stream, as Accept says."""
    pattern = request.match_info["topic"]
    check_pattern(pattern)
    check_subscribe(rights, pattern)
    if is_stream(request):
        return await stream(door, rights, request, [pattern])
    query = request.query
    if any(name in query for name in ("since", "offset", "last")):
        return await history(door, request, pattern)
    if is_wildcard(pattern):
        raise ProblemError(400, "a pattern has no last value; ask for ?since=10m, ?last=1, or a stream")
    return await last_value(door, request, pattern)


async def last_value(door: Door, request: web.Request, topic: str) -> web.Response:
    """Give the newest message that the network remembers: a retained value, or the last one of history."""
    text = door.feed.last(topic)
    if text is None:
        found = await remembered(door, topic, {"last": 1}, 1_000, number(request, "timeout", QUIET, 10.0))
        if not found:
            raise ProblemError(404, f"no endpoint remembers a value of {topic!r:.200}; publish it with ?retain=1")
        text = orjson.dumps(max(found, key=lambda message: float(message["published_at"])))
    if flag(request, "raw"):
        value = orjson.loads(text)
        if "payload_base64" in value:
            return web.Response(body=base64.b64decode(value["payload_base64"]), content_type="application/octet-stream")
        return answer(value["payload"])
    return web.Response(body=text, content_type="application/json")


async def remembered(
    door: Door, pattern: str, start: dict[str, Any], limit: int, quiet: float
) -> list[dict[str, Any]]:  # fmt: skip
    """Return what publishers and keepers remember, until nothing comes for a while, or it is as large as a body."""
    found: list[dict[str, Any]] = []
    subscription, size = door.endpoint.subscribe(pattern, **start), 0
    try:
        while len(found) < limit and size < door.limits.body:
            async with asyncio.timeout(quiet):
                found.append(described(await subscription.get()))
            size += len(orjson.dumps(found[-1]))
    except TimeoutError:
        pass
    finally:
        subscription.close()
    return found


async def history(door: Door, request: web.Request, pattern: str) -> web.Response:
    """Give messages of the past: from the door's own log if it keeps the pattern, else from the network."""
    query, journal = request.query, door.delivering.journal
    limit = int(number(request, "limit", min(100, door.limits.history), door.limits.history, 1))
    if "last" in query:
        count = int(number(request, "last", 1, door.limits.history, 1))
        return answer({"messages": await remembered(door, pattern, {"last": count}, 10 * limit, QUIET)})
    is_here = pattern in journal.patterns or (not is_wildcard(pattern) and journal.keeps(pattern))
    if "offset" in query:
        log, _, place = query["offset"].rpartition(".")
        if not is_here or log != journal.recent.id or not place.isascii() or not place.isdigit() or len(place) > 18:
            raise ProblemError(410, "this offset is of another log, or this door does not keep the topic; use since")
        offset = int(place)
    else:
        at = start_time(query["since"])
        if not is_here:
            start = {"start": datetime.fromtimestamp(min(at, time.time() - 1e-3), UTC)}
            return answer({"messages": await remembered(door, pattern, start, limit, QUIET)})
        offset = journal.recent.offset_at(at)
    found, offset = await asyncio.to_thread(logged, door, pattern, offset, limit)
    return answer({"messages": found, "next": f"{journal.recent.id}.{offset}"})


def logged(door: Door, pattern: str, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Return messages of the door's log from an offset on, in all about as large as a body, and the next offset."""
    log, found, size = door.delivering.journal.recent.log, list[dict[str, Any]](), 0
    matches = matcher(pattern)
    while len(found) < limit and offset < log.durable:
        reading = log.read(matches, offset, 256 << 10)
        for at, record in reading.records:
            for place in range(len(record.payloads)):
                found.append(described_record(Item(at + place, record, place), log.id))
                size += len(record.payloads[place])
                if len(found) == limit or size >= door.limits.body:
                    return found, at + place + 1
        offset = max(reading.next, offset + 1)
    return found, offset


async def ask(door: Door, rights: Rights, request: web.Request) -> web.Response:
    """Ask a program that answers a topic; its answer is the answer."""
    topic = request.match_info["topic"]
    check_publish(rights, topic)
    payload = payload_of(request, await body_of(door, request))
    timeout = number(request, "timeout", 10.0, door.limits.request_timeout, 1e-3)
    reply = await door.endpoint.request(topic, payload, timeout)
    if isinstance(reply, bytes):
        return web.Response(body=reply, content_type="application/octet-stream")
    return answer(reply)


async def stream_of(door: Door, rights: Rights, request: web.Request) -> web.StreamResponse:
    """Stream several patterns."""
    patterns = request.query.getall("topic", [])
    if not 1 <= len(patterns) <= 100:
        raise ProblemError(400, "expected ?topic=PATTERN, once to a hundred times")
    for pattern in patterns:
        check_pattern(pattern)
        check_subscribe(rights, pattern)
    return await stream(door, rights, request, patterns)


PUBLISH_QUERY = {
    "retain": "1: keep it as the topic's last value", "type": "a tag", "lifespan": "seconds",
    "priority": "urgent, high, normal or bulk", "key": "for groups", "property": "NAME=VALUE, several times",
    "acks": "sent, disk, replicas or a number of keepers",
}  # fmt: skip
STREAM_QUERY = {
    "since": "begin with history: 10m, or a time as ISO 8601", "retained": "1: begin with the last values",
}  # fmt: skip

ROUTES = [
    Route(
        "POST", "/v1/topics/{topic:.+}", publish, "Publish a message", PUBLISH_QUERY, "The payload",
        {202: "The log has it, or as `acks` in the answer says"},
    ),
    Route("PUT", "/v1/topics/{topic:.+}", publish, "Publish a message", PUBLISH_QUERY, "The payload", {202: "As POST"}),
    Route("POST", "/v1/publish", publish_many, "Publish a batch", body="NDJSON: topic, payload", answers={202: "Sent"}),
    Route(
        "GET", "/v1/topics/{topic:.+}", read, "Last value, history, or a stream",
        {
            **STREAM_QUERY, "offset": "from this place of the door's log on, as `next` says", "last": "n of each topic",
            "limit": "messages at most", "raw": "1: the payload alone", "timeout": "seconds to wait for a value",
        },
        answers={200: "The message, {messages, next}, or a stream", 404: "There is no value"},
    ),
    Route(
        "GET", "/v1/stream", stream_of, "A stream of several patterns: server-sent events, NDJSON or websocket",
        {**STREAM_QUERY, "topic": "a pattern; several times"}, answers={200: "A stream"},
    ),
    Route(
        "POST", "/v1/requests/{topic:.+}", ask, "Ask a program that answers", {"timeout": "seconds"}, "The request",
        {200: "The reply", 502: "The program failed", 404: "There is none", 504: "It did not answer in time"},
    ),
]  # fmt: skip
