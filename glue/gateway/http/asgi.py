"""The door as an ASGI application, to be mounted in a program's own server beside its other routes.

Each request goes on to the door, over loopback and as a stream in both directions. The door listens on loopback, so its
own port needs no protection. A client of this application counts as remote, so it needs a token.
"""

from __future__ import annotations

import asyncio
import string
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import quote, unquote

import aiohttp
from yarl import URL

from glue.gateway.http.gateway import Gateway
from glue.gateway.http.limits import MOUNTED

NOT_PASSED: Final = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"content-length")
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Application:
    """An ASGI 3 application of a running door without TLS; the mounting server calls it. Websockets are refused."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI says."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.Event()
        try:
            await self._request(scope, receive, send, gone)
        except aiohttp.ClientConnectionError:
            if not gone.is_set():  # else the client itself went
                raise

    async def _request(self, scope: Scope, receive: Receive, send: Send, gone: asyncio.Event) -> None:
        target = f"http://127.0.0.1:{self._gateway.port}{_place(scope)}"
        headers = [(k.decode("latin-1"), _text(v)) for k, v in scope["headers"] if k.lower() not in NOT_PASSED]
        body = await _body_of(scope, receive, gone)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                scope["method"], URL(target, encoded=True), headers=[*headers, (MOUNTED, "1")], data=body,
                allow_redirects=False, timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):  # fmt: skip
            told = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in NOT_PASSED]
            await send({"type": "http.response.start", "status": answer.status, "headers": told})
            watching = asyncio.create_task(_until_gone(receive))
            try:
                await _answer(answer.content, send, watching)
            finally:
                watching.cancel()


def _place(scope: Scope) -> str:
    """Return the path below the mount, and the query. Bytes that a URL cannot have are encoded.

    The place begins with a slash: what a client sends instead of a path must not become another host or port.
    """
    raw, query = scope.get("raw_path"), scope.get("query_string", b"")
    path = quote(raw, string.punctuation) if raw else quote(scope["path"])
    root = scope.get("root_path", "").rstrip("/")
    levels, depth = path.split("/"), root.count("/") + 1
    is_below = unquote("/".join(levels[:depth])) == root
    place = "/".join(levels[depth:]) if is_below else path.removeprefix("/")
    return f"/{place}" + (f"?{quote(query, string.punctuation)}" if query else "")


def _text(value: bytes) -> str:
    """Return the value of a header, which goes on as UTF-8; older clients send Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _answer(content: aiohttp.StreamReader, send: Send, watching: asyncio.Task[None]) -> None:
    """Send the body of an answer as it comes, until it ends or the client is gone."""
    while True:
        reading = asyncio.create_task(content.readany())
        try:
            await asyncio.wait([reading, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:  # also if the server ends this request
            is_read = reading.done()
            reading.cancel()
        if not is_read:
            return
        chunk = reading.result()
        await send({"type": "http.response.body", "body": chunk, "more_body": bool(chunk)})
        if not chunk:
            return


async def _body_of(scope: Scope, receive: Receive, gone: asyncio.Event) -> AsyncIterator[bytes] | None:
    """Return the body of a request, None if it has none. From HTTP/2 on no header has to tell that there is one."""
    if any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
        return _body(receive, gone)
    if scope.get("http_version", "1.1").startswith("1"):
        return None
    first = await receive()
    is_empty = first["type"] == "http.request" and not first.get("body") and not first.get("more_body")
    return None if is_empty else _body(receive, gone, first)


async def _body(
    receive: Receive, gone: asyncio.Event, first: MutableMapping[str, Any] | None = None
) -> AsyncIterator[bytes]:
    """Yield the body of a request as it comes, from its `first` message on if that is here already.

    Raises ConnectionError if the client goes before the end of the body.
    """
    message = first or await receive()
    while True:
        if message["type"] == "http.disconnect":
            gone.set()
            raise ConnectionError("the client went before the end of its body")
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return
        message = await receive()


async def _until_gone(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
