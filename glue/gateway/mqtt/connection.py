"""The connections of clients: plain TCP and TLS. Websockets are in a file of their own, as they need an extra."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Any, Protocol, cast

from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.session import Client

FULL, EMPTY = 1 << 20, 256 << 10
"""Bytes that wait in a connection when it takes nothing more, and when it does again."""

TLS_TIMEOUT = 10.0
"""Seconds for a TLS handshake."""

CLOSE_TIMEOUT = 2.0
"""Seconds that a closing connection has to take what was written last."""


class Transport(Protocol):
    """The output of a connection: a socket, or a websocket around one."""

    def write(self, data: bytes) -> None:
        """Write bytes."""

    def close(self) -> None:
        """Close, once all is written."""


class Listener(Protocol):
    """The door that a connection came in by."""

    broker: Broker
    loop: asyncio.AbstractEventLoop
    buffer: memoryview
    """What all connections read into."""
    is_network_full: bool
    """Whether publishers are not to be read."""

    @property
    def is_store_full(self) -> bool:
        """Whether publishers are not to be read, as the disk has no room."""

    def opened(self, connection: Connection, remote: Remote) -> None:
        """Take a new connection."""

    def received(self, client: Client, data: bytes) -> None:
        """Take bytes of a client."""

    def lost(self, client: Client) -> None:
        """Note the end of a connection."""

    def flush(self) -> None:
        """Write what the broker has for its clients."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and keep it until it ends."""


class Connection(asyncio.BufferedProtocol):
    """One connection of a client."""

    __slots__ = ("client", "door", "early", "is_paused", "transport", "writer")

    def __init__(self, door: Listener) -> None:
        self.door = door
        self.client: Client | None = None
        self.transport: asyncio.Transport | None = None
        self.writer: Transport | None = None
        self.is_paused = False
        self.early = b""  # what came with the end of a TLS handshake

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
        early, self.early = self.early, b""
        if early:
            self.received(early)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer of all connections: what was read is taken before the next read."""
        return self.door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: the first `nbytes` bytes of the buffer have just been read from the client."""
        data = bytes(self.door.buffer[:nbytes])
        if self.client is None:
            self.early += data
        else:
            self.received(data)

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
            data = out[0] if len(out) == 1 else b"".join(out)
            self.door.broker.statistics["bytes sent"] += len(data)
            writer.write(data)
        if client.is_closing:
            transport.pause_reading()
            writer.close()
            self.door.loop.call_later(CLOSE_TIMEOUT, transport.abort)
            return
        should_pause = (
            client.held > 0 or client.waits is not None or self.door.is_network_full or self.door.is_store_full
        )
        if should_pause != self.is_paused:
            self.is_paused, now = should_pause, time.monotonic()
            client.last_heard += max(0.0, now - client.unread_since)
            client.unread_since = now if should_pause else float("inf")
            (transport.pause_reading if should_pause else transport.resume_reading)()


class Plain(Connection):
    """A connection without TLS; a client that begins a TLS handshake is told in the log what is wrong."""

    __slots__ = ()

    def received(self, data: bytes) -> None:
        """Take bytes of MQTT, or name what they are instead."""
        if self.client is not None and not self.client.version and data[:2] == b"\x16\x03":
            self.client.reason = "a TLS client on the plain port"
            self.door.broker.statistics["TLS on the plain port"] += 1
            tell_refusal(self.door.broker, self.client.remote, "a TLS client on the plain port; it needs the TLS port")
            assert self.transport is not None
            self.transport.abort()
            return
        super().received(data)


class Handshake(asyncio.Protocol):
    """A connection before its TLS handshake; afterwards a `kind` takes its place."""

    def __init__(self, door: Listener, context: ssl.SSLContext, kind: Callable[[Listener], Connection]) -> None:
        self._door = door
        self._context = context
        self._kind = kind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, unless there are too many connections."""
        made, broker = cast(asyncio.Transport, transport), self._door.broker
        if broker.has_room(time.monotonic(), Remote(_address(made.get_extra_info("peername")))):
            broker.handshakes += 1
            self._door.spawn(self._upgrade(made))
        else:
            made.abort()

    async def _upgrade(self, transport: asyncio.Transport) -> None:
        connection = self._kind(self._door)
        remote = Remote(_address(transport.get_extra_info("peername")))
        broker = self._door.broker
        try:
            upgraded = await self._door.loop.start_tls(
                transport, connection, self._context, server_side=True, ssl_handshake_timeout=TLS_TIMEOUT
            )
        except (OSError, ssl.SSLError) as error:
            broker.statistics["TLS handshakes failed"] += 1
            is_plain = getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL")
            cause = "it does not speak TLS; it needs the plain port" if is_plain else str(error)
            tell_refusal(broker, remote, f"TLS handshake failed: {cause}")
            with contextlib.suppress(Exception):
                transport.abort()
            return
        finally:
            broker.handshakes -= 1
        if upgraded is not None:
            connection.connection_made(upgraded)


def tell_refusal(broker: Broker, remote: Remote, reason: str) -> None:
    """Log why a connection was refused; see `Refusals`."""
    broker.refusals.tell(time.monotonic(), f"{remote.address}: {reason}", f"{remote.host}: {reason}")


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
