"""Streams: server-sent events, NDJSON, and websockets in both directions.

Each event has an id, with which a client that was cut off goes on and misses nothing, as long as the door's ring of
recent messages reaches back. If it does not, the client is told how many messages it missed. A client that reads
nothing for `send_time` is cut; it can go on later in the same way. A stream ends when its client loses the right to
read what it covers, before the next message is written.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import orjson
from aiohttp import WSCloseCode, WSMsgType, web

from glue.errors import ClosedError, GlueError
from glue.gateway.http.clients import Permit, tell_refusal
from glue.gateway.http.door import Door
from glue.gateway.http.problems import REFUSALS, ProblemError, problem_of
from glue.gateway.http.routes import check_publish, check_subscribe
from glue.gateway.http.sources import HistorySource, TailSource, source_of
from glue.gateway.http.tokens import Rights
from glue.topics import check_pattern, check_topic

SSE, NDJSON, WEBSOCKET = "text/event-stream", "application/x-ndjson", "websocket"
RETRY: Final = 1_000
"""Milliseconds after which a browser connects again."""
PATTERNS: Final = 100
"""Patterns of one websocket."""
POSITION: Final = "x-glue-position"
"""The header that tells a client where its stream begins: its `Last-Event-ID` if it is cut off before a message."""
LOST: Final = {"messages": None, "reason": "the id is too old, or of another door or life of it"}

logger = logging.getLogger("glue.http")


def kind_of(request: web.Request) -> str:
    """Return what kind of stream a request wants, "" for none."""
    if request.headers.get("upgrade", "").lower() == "websocket":
        return WEBSOCKET
    accept = request.headers.get("accept", "")
    if SSE in accept:
        return SSE
    return NDJSON if NDJSON in accept or request.query.get("stream") in ("1", "ndjson") else ""


def is_stream(request: web.Request) -> bool:
    """Whether a request wants a stream."""
    return kind_of(request) != ""


def check_room(door: Door) -> None:
    """Raise ProblemError if there may be no more streams."""
    if door.streams >= door.limits.streams:
        raise ProblemError(503, f"there are {door.limits.streams} streams already", {"retry-after": "5"})


async def stream(door: Door, rights: Rights, request: web.Request, patterns: list[str]) -> web.StreamResponse:
    """Stream some patterns until the client goes."""
    check_room(door)
    kind, patterns = kind_of(request), [*dict.fromkeys(patterns)]
    permit = Permit(door, rights, request, patterns)
    source = source_of(door, request, patterns)
    door.streams += 1
    try:
        if kind == WEBSOCKET:
            return await _websocket(door, permit, request, source)
        return await _lines(door, permit, request, source, kind)
    finally:
        door.streams -= 1
        source.close()


async def _lines(
    door: Door, permit: Permit, request: web.Request, source: TailSource | HistorySource, kind: str
) -> web.StreamResponse:
    """Write server-sent events or NDJSON."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no", POSITION: source.position}
    response = web.StreamResponse(headers=headers)
    response.content_type = kind if kind == SSE else NDJSON
    is_sse = kind == SSE
    await response.prepare(request)
    first = f"retry: {RETRY}\n\nid: {source.position}\nevent: ready\ndata: {{}}\n\n".encode() if is_sse else b""
    if source.is_lost:
        first += told(is_sse, "missed", LOST)
    if first and not await write(door, request, response, first):
        return response
    try:
        while await _next(door, permit, request, response, source, is_sse):
            pass
    except (GlueError, OSError) as error:  # the answer has begun, so it can only end
        failed(request, error)
    return response


def failed(request: web.Request, error: Exception) -> None:
    """Log why a stream fails, and cut it."""
    logger.error("a stream failed: %s", error)
    if request.transport is not None:
        request.transport.abort()


async def _next(
    door: Door, permit: Permit, request: web.Request, response: web.StreamResponse,
    source: TailSource | HistorySource, is_sse: bool,
) -> bool:  # fmt: skip
    """Wait for the next events of a stream and write them; whether the stream goes on."""
    events = await source.get(door.limits.ping)
    if refusal := permit.refusal():
        await write(door, request, response, told(is_sse, "refused", {"reason": refusal}))
        return False
    if missed := source.take_missed():
        event = told(is_sse, "missed", {"messages": missed, "reason": "read too slowly"})
        if not await write(door, request, response, event):
            return False
    if events is None:
        data = b": ping\n\n" if is_sse else b"\n"
    elif is_sse:
        data = b"".join(
            b"id: %b\ndata: %b\n\n" % (id.encode(), text) if id else b"data: %b\n\n" % text for id, text in events
        )
    else:
        data = b"".join(b'{"id":"%b",%b\n' % (id.encode(), text[1:]) if id else b"%b\n" % text for id, text in events)
    return await write(door, request, response, data)


def told(is_sse: bool, event: str, document: dict[str, Any]) -> bytes:
    """Return an event that is no message."""
    if is_sse:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps(document))
    return orjson.dumps({"event": event, **document}) + b"\n"


async def write(door: Door, request: web.Request, response: web.StreamResponse, data: bytes) -> bool:
    """Write, or cut a client that reads nothing; whether the client is still there."""
    try:
        async with asyncio.timeout(door.limits.send_time):
            await response.write(data)
    except TimeoutError:
        _cut(door, request)
        return False
    except (ConnectionError, RuntimeError):
        return False
    return True


def _cut(door: Door, request: web.Request) -> None:
    """Cut a client that reads nothing."""
    cause = "streams cut: the client read nothing"
    door.statistics[cause] += 1
    tell_refusal(door, request, cause)
    if request.transport is not None:
        request.transport.abort()


async def _websocket(
    door: Door, permit: Permit, request: web.Request, source: TailSource | HistorySource
) -> web.StreamResponse:
    """Send messages to a websocket, and take what it publishes and subscribes to."""
    socket = web.WebSocketResponse(heartbeat=door.limits.ping, max_msg_size=door.limits.body)
    await socket.prepare(request)
    more: list[TailSource] = []
    writers = [asyncio.create_task(_to_socket(door, permit, request, socket, source))]
    try:
        async for message in socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                break
            try:
                await _take(door, permit, request, socket, message.data, more, writers)
            except (ProblemError, GlueError, ValueError, TypeError) as error:
                problem = error if isinstance(error, ProblemError) else problem_of(error)
                if problem.status in REFUSALS:
                    tell_refusal(door, request, problem.detail)
                await socket.send_json({"error": problem.detail, "status": problem.status})
    except (ConnectionError, RuntimeError):
        pass
    finally:
        for task in writers:
            task.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        for one in more:
            one.close()
    return socket


async def _take(
    door: Door, permit: Permit, request: web.Request, socket: web.WebSocketResponse, data: Any,
    more: list[TailSource], writers: list[asyncio.Task[None]],
) -> None:  # fmt: skip
    """Take one message of a websocket: `{"publish": TOPIC, "payload"}` or `{"subscribe": PATTERN}`."""
    document = orjson.loads(data)
    if refusal := permit.refusal():
        await _refused(socket, refusal)
        return
    if not isinstance(document, dict):
        raise ProblemError(400, "expected a JSON object")
    if "publish" in document:
        topic = document["publish"]
        check_topic(topic)
        check_publish(permit.rights, topic)
        _, done = await door.publish(
            topic, document.get("payload"), document.get("acks"), {"retain": bool(document.get("retain", False))}
        )
        if "ref" in document:
            await socket.send_json({"done": document["ref"], **done})
    elif "subscribe" in document:
        pattern = document["subscribe"]
        check_pattern(pattern)
        check_subscribe(permit.rights, pattern)
        if len(more) >= PATTERNS:
            raise ProblemError(409, f"a websocket has at most {PATTERNS} further patterns")
        permit.add(pattern)
        more.append(TailSource(door, [pattern], None, bool(document.get("retained", False))))
        writers.append(asyncio.create_task(_to_socket(door, permit, request, socket, more[-1])))
    else:
        raise ProblemError(400, "expected a member publish or subscribe")


async def _refused(socket: web.WebSocketResponse, reason: str) -> None:
    """Close a websocket whose client may no longer read."""
    await socket.send_json({"event": "refused", "reason": reason})
    await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"the right to read was taken away")


async def _to_socket(
    door: Door, permit: Permit, request: web.Request, socket: web.WebSocketResponse,
    source: TailSource | HistorySource,
) -> None:  # fmt: skip
    try:
        if source.is_lost:
            await socket.send_json({"event": "missed", **LOST})
        while not socket.closed:
            events = await source.get(door.limits.ping)
            if refusal := permit.refusal():
                await _refused(socket, refusal)
                return
            if missed := source.take_missed():
                await socket.send_json({"event": "missed", "messages": missed})
            for id, text in events or ():
                line = b'{"id":"%b",%b' % (id.encode(), text[1:]) if id else text
                async with asyncio.timeout(door.limits.send_time):
                    await socket.send_str(line.decode())
    except TimeoutError:
        _cut(door, request)
    except (ConnectionError, RuntimeError, ClosedError):
        return
    except (GlueError, OSError) as error:  # the client comes back; a silent websocket would hold it
        failed(request, error)
