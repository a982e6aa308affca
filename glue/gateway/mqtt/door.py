"""The sockets of a broker: TCP, TLS and websockets, all in one event loop.

Whatever a read brings is handled at once, and what it gives for other clients is written in the same pass: one write a
client. All connections read into one buffer, so an idle connection costs no memory for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Protocol, cast

from glue.gateway.mqtt.access import Identity, Refusal, Remote
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.client import Client
from glue.gateway.mqtt.codes import IMPLEMENTATION_ERROR

READ_SIZE = 256 << 10
"""Bytes of one read: what a publisher sends while a turn of others runs, and a run of 4,096 packets of 64 bytes."""

FULL, EMPTY = 1 << 20, 256 << 10
"""Bytes that wait in a connection when it takes nothing more, and when it does again."""

BACKLOG = 4_096
"""Connections that wait to be accepted: all clients of a broker that restarts come at once."""

TLS_TIMEOUT = 10.0
"""Seconds for a TLS handshake."""

CLOSE_TIMEOUT = 2.0
"""Seconds that a closing connection has to take what was written last."""

logger = logging.getLogger("glue.mqtt")


class Transport(Protocol):
    """What a connection writes to: a socket, or a websocket around one."""

    def write(self, data: bytes) -> None:
        """Write bytes."""

    def close(self) -> None:
        """Close, once all is written."""


class Connection(asyncio.BufferedProtocol):
    """One connection of a client."""

    __slots__ = ("client", "door", "is_paused", "transport", "writer")

    def __init__(self, door: Door) -> None:
        self.door = door
        self.client: Client | None = None
        self.transport: asyncio.Transport | None = None
        self.writer: Transport | None = None
        self.is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with the transport of a TCP or a TLS connection."""
        self.transport = cast(asyncio.Transport, transport)
        self.begin(self.transport)

    def begin(self, writer: Transport) -> None:
        """Take part in the broker."""
        assert self.transport is not None
        self.transport.set_write_buffer_limits(FULL, EMPTY)
        raw = self.transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.writer = writer
        self.door.opened(self, _remote(self.transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer of all connections: what was read is taken before the next read."""
        return self.door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self.received(bytes(self.door.buffer[:nbytes]))

    def received(self, data: bytes) -> None:
        """Take bytes of MQTT."""
        if self.client is not None:
            self.door.received(self.client, data)

    def pause_writing(self) -> None:
        """Tell the broker that this connection takes nothing more."""
        if self.client is not None:
            self.door.broker.full(time.monotonic(), self.client)

    def resume_writing(self) -> None:
        """Tell the broker that this connection takes bytes again."""
        if self.client is not None:
            self.door.broker.free(time.monotonic(), self.client)
            self.door.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the broker that the connection has ended."""
        if self.client is not None:
            if error is not None and not self.client.reason:
                self.client.reason = str(error)
            self.door.lost(self.client)
        self.transport = self.writer = None

    def update(self) -> None:
        """Write what there is, and read on or not, as the broker wants it."""
        client, transport, writer = self.client, self.transport, self.writer
        if client is None or transport is None or writer is None:
            return
        out = client.out
        if out:
            client.out = []
            writer.write(out[0] if len(out) == 1 else b"".join(out))
        if client.is_closing:
            transport.pause_reading()
            writer.close()
            self.door.loop.call_later(CLOSE_TIMEOUT, transport.abort)
            return
        should_pause = client.held > 0 or client.waits is not None or self.door.is_network_full
        if should_pause != self.is_paused:
            self.is_paused = should_pause
            (transport.pause_reading if should_pause else transport.resume_reading)()


class Door:
    """The listeners of a broker. `after` is called once what happened has been written to the clients."""

    def __init__(self, broker: Broker, after: Callable[[], None] = lambda: None) -> None:
        self.broker = broker
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_SIZE))
        self.is_network_full = False
        self._after = after
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[Connection] = set()  # publishers that wait for the network

    async def listen(self, host: str | None, port: int) -> int:
        """Listen for MQTT over TCP; returns the port. Raises OSError."""
        return await self._serve(lambda: Plain(self), host, port)

    async def listen_tls(self, host: str | None, port: int, context: ssl.SSLContext) -> int:
        """Listen for MQTT over TLS; returns the port. Raises OSError."""
        return await self._serve(lambda: Handshake(self, context, Connection), host, port)

    async def listen_websocket(self, host: str | None, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen for MQTT over websockets; returns the port. Raises OSError, MissingExtraError."""
        from glue.gateway.mqtt.websocket import WebsocketConnection  # needs an extra

        if context is None:
            return await self._serve(lambda: WebsocketConnection(self), host, port)
        return await self._serve(lambda: Handshake(self, context, WebsocketConnection), host, port)

    async def _serve(self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int) -> int:
        server = await self.loop.create_server(factory, host or None, port, backlog=BACKLOG)
        self._servers.append(server)
        return cast(int, server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Tell all clients, and end. Wills are published."""
        for server in self._servers:
            server.close()
        self.broker.shut_down(time.monotonic())
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
        until = self.loop.time() + CLOSE_TIMEOUT
        while self.broker.clients and self.loop.time() < until:
            await asyncio.sleep(0.01)
        for client in list(self.broker.clients.values()):
            cast(Connection, client.link).transport.abort()  # type: ignore[union-attr]
            self.lost(client)
        for task in list(self._tasks):
            task.cancel()

    # ------------------------------------------------------------------------------------- of connections

    def opened(self, connection: Connection, remote: Remote) -> None:
        """Take a new connection."""
        connection.client = self.broker.open(time.monotonic(), connection, remote)
        self.flush()

    def received(self, client: Client, data: bytes) -> None:
        """Take bytes of a client."""
        self.broker.receive(time.monotonic(), client, data)
        self.flush()

    def lost(self, client: Client) -> None:
        """Note the end of a connection."""
        self.broker.lost(time.monotonic(), client)
        self.flush()

    def flush(self) -> None:
        """Write what the broker has for its clients, find out who has connected, and see what is due next."""
        broker = self.broker
        while broker.changed:
            changed, broker.changed = broker.changed, {}
            for client in changed:
                cast(Connection, client.link).update()
        while broker.asked:
            self._spawn(self._find_out(broker.asked.pop()))
        self._after()
        if broker.deadline < self._due:
            self._arm()

    def network_full(self, is_full: bool) -> None:
        """Read no more of clients that publish while the network takes nothing more."""
        if is_full == self.is_network_full:
            return
        self.is_network_full = is_full
        if not is_full:
            self.broker.changed.update(dict.fromkeys(self.broker.clients.values()))
            self.flush()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self.broker.deadline
        if self._due < float("inf"):
            self._timer = self.loop.call_later(max(0.0, self._due - time.monotonic()), self._advance)

    def _advance(self) -> None:
        self._timer, self._due = None, float("inf")
        self.broker.advance(time.monotonic())
        self.flush()

    async def _find_out(self, client: Client) -> None:
        """Check a password in a thread of its own, as that takes long on purpose."""
        assert client.connect is not None
        answer: Identity | Refusal
        try:
            answer = await asyncio.to_thread(self.broker.access.check, client.connect, client.remote)
        except Exception:
            logger.exception("the check of a client failed")
            answer = Refusal(IMPLEMENTATION_ERROR, "the check failed")
        self.broker.admit(time.monotonic(), client, answer)
        self.broker.changed[client] = None
        self.flush()

    def spawn(self, work: Any) -> None:
        """Run a coroutine, and keep it until it ends."""
        self._spawn(work)

    def _spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Plain(Connection):
    """A connection without TLS; a client that begins a TLS handshake is told in the log what is wrong."""

    __slots__ = ()

    def received(self, data: bytes) -> None:
        """Take bytes of MQTT, or name what they are instead."""
        if self.client is not None and not self.client.version and data[:2] == b"\x16\x03":
            self.client.reason = "a TLS client on the plain port"
            self.door.broker.statistics["TLS on the plain port"] += 1
            self.door.broker.warn(
                f"{self.client.remote.address}: a TLS client on the plain port; it needs the TLS port"
            )
            assert self.transport is not None
            self.transport.abort()
            return
        super().received(data)


class Handshake(asyncio.Protocol):
    """A connection before its TLS handshake, which then becomes one of `kind`."""

    def __init__(self, door: Door, context: ssl.SSLContext, kind: Callable[[Door], Connection]) -> None:
        self._door = door
        self._context = context
        self._kind = kind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._door.spawn(self._upgrade(cast(asyncio.Transport, transport)))

    async def _upgrade(self, transport: asyncio.Transport) -> None:
        connection = self._kind(self._door)
        address = _address(transport.get_extra_info("peername"))
        broker = self._door.broker
        try:
            upgraded = await self._door.loop.start_tls(
                transport, connection, self._context, server_side=True, ssl_handshake_timeout=TLS_TIMEOUT
            )
        except (OSError, ssl.SSLError) as error:
            broker.statistics["TLS handshakes failed"] += 1
            is_plain = getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL")
            cause = "it does not speak TLS; it needs the plain port" if is_plain else str(error)
            broker.warn(f"{address}: TLS handshake failed: {cause}")
            with contextlib.suppress(Exception):
                transport.abort()
            return
        if upgraded is not None:
            connection.connection_made(upgraded)


def _address(peer: Any) -> str:
    """An address for people."""
    if isinstance(peer, tuple) and len(peer) >= 2:
        return f"[{peer[0]}]:{peer[1]}" if ":" in str(peer[0]) else f"{peer[0]}:{peer[1]}"
    return str(peer or "local")


def _remote(transport: asyncio.Transport) -> Remote:
    """The other end of a connection."""
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    is_local = not isinstance(peer, tuple) or peer[0] == own[0] or ip_address(peer[0].partition("%")[0]).is_loopback
    return Remote(_address(peer), _certificate_name(transport.get_extra_info("peercert")), is_local)


def _certificate_name(certificate: Any) -> str:
    """The common name in a client's certificate, "" without one."""
    for attributes in (certificate or {}).get("subject", ()):
        for name, value in attributes:
            if name == "commonName":
                return str(value)
    return ""
