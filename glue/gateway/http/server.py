"""The shell of the HTTP server: sockets, limits, access control, and errors as problem details."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

import glue
from glue.errors import ConfigurationError, GlueError
from glue.gateway.http import carrier, models, overview, resources, topics
from glue.gateway.http.clients import rights_of, tell_refusal
from glue.gateway.http.descriptions import openapi_document
from glue.gateway.http.door import Door
from glue.gateway.http.problems import CONTENT_TYPE, REFUSALS, ProblemError, problem_of
from glue.gateway.http.routes import Route
from glue.gateway.http.tokens import EVERYTHING, Rights

ROUTES: Final = [*carrier.ROUTES, *topics.ROUTES, *resources.ROUTES, *models.ROUTES, *overview.ROUTES]
SWEEP: Final = 2.0
"""Seconds between two looks for connections on which no request comes."""
AT_ONCE: Final = 32
"""Connections that are accepted at once: each takes a file before it is known whether there are too many."""
BACKLOG: Final = 1_024
"""Connections that wait in the system to be accepted."""
FIRST_REQUEST: Final = 10.0
"""Seconds from a connection to its first request."""

ALLOWED: Final = "authorization, content-type, idempotency-key, last-event-id, if-match, if-none-match"
"""Headers of requests that pages of other servers may send."""
SHOWN: Final = "etag, location, retry-after, x-glue-position"
"""Headers of answers that pages of other servers may read."""

logger = logging.getLogger("glue.http")
malformed = logging.getLogger("glue.http.malformed")
malformed.setLevel(logging.CRITICAL)
"""Where aiohttp tells of requests that are no HTTP, each with a traceback: nothing that a log should be filled with."""


class Full(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it at once."""
        transport.close()


class Connection(RequestHandler):
    """A connection that tells when it is lost."""

    __slots__ = ("_tell_lost",)

    def __init__(self, lost: Callable[[Connection], object], manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._tell_lost = lost

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note the end of the connection."""
        super().connection_lost(exc)
        self._tell_lost(self)


class Server:
    """Serves the routes of a door on one or more ports."""

    def __init__(self, door: Door, cors: Sequence[str] = ()) -> None:
        """`cors` are origins of pages that may call this door, beside its own page. Raises ConfigurationError."""
        self._door = door
        door.describe = partial(openapi_document, ROUTES)
        self._cors = origins(cors)
        self._application = application(door, self._cors)
        self._runner = web.AppRunner(
            self._application, handle_signals=False, access_log=None, handler_cancellation=True
        )
        self._servers: list[asyncio.Server] = []
        self._young: dict[RequestHandler, float] = {}
        self._unread: dict[RequestHandler, tuple[float, int]] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def listen(self, host: str | None, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port. Raises OSError."""
        if self._sweeper is None:
            await self._runner.setup()
            self._sweeper = asyncio.create_task(self._sweep(), name="glue http connections")
        if host is None and port == 0:  # the same free port of both families
            port = await self._listen("0.0.0.0", 0, tls)
            with suppress(OSError):
                await self._listen("::", port, tls)
            return port
        return await self._listen(host, port, tls)

    async def _listen(self, host: str | None, port: int, tls: ssl.SSLContext | None) -> int:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._connection, host, port, ssl=tls, backlog=AT_ONCE,
            ssl_handshake_timeout=None if tls is None else FIRST_REQUEST,
        )  # fmt: skip
        for listening in server.sockets:
            with socket.fromfd(listening.fileno(), listening.family, listening.type) as again:
                again.listen(BACKLOG)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _connection(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        manager, limits = self._runner.server, self._door.limits
        assert manager is not None
        if len(manager.connections) >= limits.connections:
            self._tell("connections refused: too many")
            return Full()
        handler = Connection(
            lambda lost: self._young.pop(lost, None), manager, loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.keep_alive, access_log=None, max_line_size=limits.header,
            max_field_size=limits.header, max_headers=100, lingering_time=5.0, auto_decompress=False, logger=malformed,
        )  # fmt: skip
        self._young[handler] = asyncio.get_running_loop().time()
        return handler

    async def _sweep(self) -> None:
        """Close connections on which no request has come or no answer is read; read tokens that have changed."""
        while True:
            await asyncio.sleep(SWEEP)
            self._door.access.check()
            now = asyncio.get_running_loop().time()
            for handler, since in list(self._young.items()):
                if handler._request_count or handler._current_request is not None:
                    del self._young[handler]
                elif handler.transport is None:  # its handshake lasts, or has failed
                    if now - since > 2 * FIRST_REQUEST:
                        del self._young[handler]
                elif now - since > FIRST_REQUEST:
                    del self._young[handler]
                    handler.transport.abort()
                    self._tell("connections closed: no request came")
            self._cut_suspended(now)

    def _cut_suspended(self, now: float) -> None:
        """Cut the clients that have read nothing of what waits for them for `send_time`: it is held in memory."""
        assert self._runner.server is not None
        before, self._unread = self._unread, {}
        for handler in list(self._runner.server.connections):
            waiting = 0 if handler.transport is None else handler.transport.get_write_buffer_size()
            if not waiting:
                continue
            since, size = before.get(handler, (now, waiting))
            if waiting < size:
                since = now
            if now - since > self._door.limits.send_time:
                assert handler.transport is not None
                handler.transport.abort()
                self._tell("connections cut: the client read nothing")
            else:
                self._unread[handler] = since, waiting

    def _tell(self, cause: str) -> None:
        """Count and log what became of a connection."""
        self._door.statistics[cause] += 1
        self._door.refusals.tell(time.monotonic(), cause)

    async def close(self) -> None:
        """Close all connections."""
        if self._sweeper is None:
            return
        self._sweeper.cancel()
        for server in self._servers:
            server.close()
        if (manager := self._runner.server) is not None:
            for connection in list(manager.connections):
                connection.force_close()
                if connection.transport is not None and connection._current_request is not None:
                    connection.transport.abort()
        await self._runner.cleanup()


def application(door: Door, cors: frozenset[str]) -> web.Application:
    """Return the application of a door."""

    @web.middleware
    async def checked(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if request.method == "OPTIONS":
                check_origin(request, cors)
                return preflight()
            answer: web.StreamResponse = await handler(request)
        except ProblemError as error:
            if error.status in REFUSALS:
                tell_refusal(door, request, error.detail)
            return _problem(error)
        except web.HTTPException as error:
            return _problem(_refused(request, error))
        except (GlueError, ValueError, TypeError, ConnectionError) as error:
            problem = problem_of(error)
            if problem.status in REFUSALS:
                tell_refusal(door, request, problem.detail)
            return _problem(problem)
        except Exception:
            logger.exception("a request failed: %s %.200s", request.method, request.path)
            return _problem(ProblemError(500, "the door has a fault; its log tells more"))
        return answer

    made = web.Application(middlewares=[checked], client_max_size=door.limits.body)
    for route in ROUTES:
        made.router.add_route(route.method, route.path, _handler(door, route, cors))
    made.on_response_prepare.append(_signature(cors))
    return made


def _handler(
    door: Door, route: Route, cors: frozenset[str]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:  # fmt: skip
    """Return the handler of a route, which authenticates the client and calls the route."""

    async def handle(request: web.Request) -> web.StreamResponse:
        check_origin(request, cors)
        if route.is_open:
            return await route.handler(door, EVERYTHING if route.method == "GET" else Rights(), request)
        return await route.handler(door, rights_of(door, request), request)

    return handle


def origins(texts: Sequence[str]) -> frozenset[str]:
    """Return origins, checked: browsers write scheme, host and port, and nothing more. Raises ConfigurationError."""
    for text in texts:
        try:
            parts = urlsplit(text)
            is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_origin = False
        if not is_origin or text != f"{parts.scheme}://{parts.netloc}" or "@" in text or not text.isascii():
            raise ConfigurationError(
                f"origin {text!r:.200}: expected such as http://panel.lan or https://panel.lan:8443"
            )
    return frozenset(text.lower() for text in texts)


def check_origin(request: web.Request, cors: frozenset[str]) -> None:
    """Raise ProblemError for a request from a page of another origin, unless `cors` names it."""
    origin = request.headers.get("origin")
    if origin is None or origin in cors or origin.lower().partition("://")[1:] == ("://", request.host.lower()):
        return
    raise ProblemError(403, f"pages of {origin!r:.200} may not call this door; --cors names those that may")


def preflight() -> web.Response:
    """Tell a browser what pages of other servers may send; those that may are checked before."""
    headers = {
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": ALLOWED,
        "access-control-max-age": "600",
    }
    return web.Response(status=204, headers=headers)


def _signature(cors: frozenset[str]) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    name = f"glue/{glue.__version__}"

    async def sign(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["server"] = name
        if cors and (origin := request.headers.get("origin")) in cors:
            response.headers["access-control-allow-origin"] = str(origin)
            response.headers["access-control-expose-headers"] = SHOWN
            response.headers["vary"] = "origin"

    return sign


def _refused(request: web.Request, error: web.HTTPException) -> ProblemError:
    """Return what a client is told of a request that no route takes."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = error.headers["Allow"]
        detail = f"this path takes {allowed.replace(',', ', ')}, and not {error.method}"
        return ProblemError(error.status, detail, {"allow": allowed})
    if isinstance(error, web.HTTPNotFound):
        return ProblemError(error.status, f"there is no path {request.path!r:.200}; openapi.json lists all")
    return ProblemError(error.status, error.reason)


def _problem(error: ProblemError) -> web.Response:
    return web.Response(
        body=orjson.dumps(error.document()), status=error.status, headers=error.headers, content_type=CONTENT_TYPE
    )
