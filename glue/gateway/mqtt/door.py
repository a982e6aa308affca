"""The listeners of a broker: TCP, TLS and websockets, all in one event loop.

Whatever a read brings is handled at once, and what it gives for other clients is written in the same pass: one write a
client. All connections read into one buffer, so an idle connection costs no memory for it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.codes import IMPLEMENTATION_ERROR
from glue.gateway.mqtt.committing import Committing
from glue.gateway.mqtt.connection import CLOSE_TIMEOUT, Connection, Handshake, Plain
from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.session import Client
from glue.gateway.mqtt.store import Store

READ_SIZE = 256 << 10
"""Bytes of one read: what a publisher sends while a turn of others runs, and a run of 4,096 packets of 64 bytes."""

BACKLOG = 4_096
"""Connections that wait to be accepted: all clients of a broker that restarts come at once."""

logger = logging.getLogger("glue.mqtt")


class Door:
    """The listeners of a broker. `after` is called once what happened has been written to the clients."""

    def __init__(self, broker: Broker, after: Callable[[], None] = lambda: None) -> None:
        self.broker = broker
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_SIZE))
        self.is_network_full = False
        self.committing: Committing | None = None
        self.is_cluster_full: Callable[[], bool] = lambda: False
        """Whether publishers are not to be read, as too much waits for the cluster."""
        self._after = after
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._tasks: set[asyncio.Task[Any]] = set()

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

    def store_in(self, store: Store) -> None:
        """Make what the broker stores durable."""
        self.committing = Committing(self.broker, store, self.flush)

    @property
    def is_store_full(self) -> bool:
        """Whether the disk or the cluster has no room, so that publishers are not to be read."""
        return (self.committing is not None and self.committing.store.is_full) or self.is_cluster_full()

    async def _serve(self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int) -> int:
        # asyncio tries to accept as many at once as it is told to queue, also when no descriptor is left
        server = await self.loop.create_server(factory, host or None, port, backlog=1)
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        self._servers.append(server)
        return cast(int, server.sockets[0].getsockname()[1])

    async def close(self, other: str = "", hand_over: Callable[[], Awaitable[None]] | None = None) -> None:
        """Tell all clients, and end. Wills are published; `hand_over` may hand sessions over to the `other` door."""
        for server in self._servers:
            server.close()
        self.broker.shut_down(time.monotonic(), other)
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
        if hand_over is not None:
            await hand_over()
        if self.committing is not None:
            await self.committing.close()
        else:
            self.broker.publish_waiting_wills(time.monotonic())

    # ------------------------------------------------------------------------------------- of connections

    def opened(self, connection: Connection, remote: Remote) -> None:
        """Take a new connection."""
        connection.client = self.broker.open(time.monotonic(), connection, remote)
        self.flush()

    def received(self, client: Client, data: bytes) -> None:
        """Take bytes of a client."""
        self.broker.statistics["bytes received"] += len(data)
        self.broker.receive(time.monotonic(), client, data)
        if self.is_network_full or self.is_store_full:
            self.broker.changed[client] = None  # it is read no more, though there may be nothing to write to it
        self.flush()

    def lost(self, client: Client) -> None:
        """Note the end of a connection."""
        self.broker.lost(time.monotonic(), client)
        self.flush()

    def flush(self) -> None:
        """Write the broker's output to its clients, identify new clients, and set the timer."""
        broker, committing = self.broker, self.committing
        while broker.changed:
            if committing is not None:
                committing.write()
            changed, broker.changed = broker.changed, {}
            for client in changed:
                cast(Connection, client.link).update()
        while broker.asked:
            self.spawn(self._find_out(broker.asked.pop()))
        self._after()
        if committing is not None:
            committing.write()
            committing.begin()
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

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and keep it until it ends."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
