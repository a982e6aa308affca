"""A door for HTTP at an endpoint: publish, read, stream, webhooks and a page."""

from __future__ import annotations

import logging
import secrets
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import glue
from glue.aio import Endpoint
from glue.aio.model import Model
from glue.errors import MissingExtraError
from glue.gateway.descriptors import open_files
from glue.gateway.http.delivering import Delivering
from glue.gateway.http.door import Door
from glue.gateway.http.feed import Feed
from glue.gateway.http.guard import LAN, Guard
from glue.gateway.http.idempotency import Idempotency
from glue.gateway.http.limits import Limits, fitted
from glue.gateway.http.store import FileStore, MemoryStore, Store
from glue.gateway.http.tokens import EVERYTHING, Access
from glue.network.interfaces import list_interfaces

HTTP_PORT = 8080

logger = logging.getLogger("glue.http")


class Gateway:
    """A door for HTTP clients, at an endpoint of asyncio; a context manager."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        host: str | None = None,
        port: int = HTTP_PORT,
        tls: ssl.SSLContext | None = None,
        data_dir: str | Path | None = None,
        keep: Sequence[str] = (),
        age: float | str | None = "7d",
        size: int | str | None = "1GB",
        access: Access | None = None,
        deliver_to: Sequence[str] = LAN,
        models: Mapping[str, Model] | None = None,
        shared: Model | None = None,
        cors: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        """Raises MissingExtraError without aiohttp, ConfigurationError for a wrong network.

        port: 0 for any free one. tls: HTTPS instead of HTTP.
        data_dir: the directory of subscriptions, positions and messages; without it they end with the door.
        keep: patterns of messages to keep for history, beside those of subscriptions.
        age, size: how long, and how many bytes of, messages are kept, as for `Endpoint.keep`; a subscriber that is away
            for longer misses messages, and is told so.
        access: the rights of clients; by default clients of this machine may do everything.
        deliver_to: networks open to webhooks; by default private networks.
        models: models with keys open to clients. shared: the model in which several doors share their
            subscriptions; without it each door has its own.
        cors: origins of pages that may call the door.

        `endpoint` must be started before the gateway.
        """
        self.endpoint = endpoint
        self.port = port
        self.limits = limits or Limits()
        self.access = access or Access(local=EVERYTHING)
        self.door: Door | None = None
        self._host, self._tls, self._cors = host, tls, cors
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._keep = list(keep)
        self._retention = {"age": age, "size": size}
        self._guard = Guard(deliver_to)
        self._models = dict(models or {})
        self._shared = shared
        self._closing: list[Any] = []
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            raise MissingExtraError.of("a door for HTTP", "aiohttp", "http") from None

    async def start(self) -> Self:
        """Go on from what is stored, and listen. Raises OSError if the port cannot be had, StorageError."""
        from glue.gateway.http.sender import Sender
        from glue.gateway.http.server import Server

        data_dir, limits = self._data_dir, fitted(self.limits, open_files())
        if limits is not self.limits:
            logger.warning(
                "this process may open %s files, so it takes %s connections and makes %s deliveries at a time; "
                "`ulimit -n` raises it", open_files(), limits.connections, limits.attempts,
            )  # fmt: skip
            self.limits = limits
        store = self._open_store()
        self._closing.append(store)
        try:
            sender = Sender(self._guard, f"glue/{glue.__version__}")
            self._closing.append(sender)
            delivering = Delivering(
                self.endpoint, store, sender, limits, data_dir=None if data_dir is None else data_dir / "log",
                is_portable=self._shared is not None, keep=self._retention,
            )  # fmt: skip
            self._closing.append(delivering)
            await delivering.start()
            if self._shared is not None:
                await self._share(self._shared, delivering)
            for pattern in self._keep:
                await delivering.journal.want(pattern)
            for topic in sorted(store.topics):
                await delivering.keep(topic)
            ring = f"{self.endpoint.id[:8]}-{secrets.token_hex(4)}"
            feed = Feed(self.endpoint, limits, ring, delivering.journal)
            self._closing.append(feed)
            answers = Idempotency(
                limits.idempotency_keys, limits.idempotency_time,
                None if data_dir is None else data_dir / "idempotency", time.time,
            )  # fmt: skip
            self._closing.append(answers)
            self.door = Door(self.endpoint, self.access, limits, delivering, feed, answers, self._models)
            server = Server(self.door, self._cors)
            self._closing.append(server)
            self.port = await server.listen(self._host, self.port, self._tls)
            for interface in list_interfaces():
                self._guard.add_own((*interface.ipv4, *interface.ipv6), self.port)
        except BaseException:
            await self.close()
            raise
        return self

    def _open_store(self) -> Store:
        if self._shared is not None:
            from glue.gateway.http.sharing import ModelStore

            return ModelStore(self._shared)
        return MemoryStore() if self._data_dir is None else FileStore(self._data_dir)

    async def _share(self, model: Model, delivering: Delivering) -> None:
        from glue.gateway.http.sharing import Sharing

        sharing = Sharing(model, delivering)
        self._closing.append(sharing)
        await sharing.start()

    async def close(self) -> None:
        """Close all connections, end deliveries and store their positions. A second time does nothing."""
        while self._closing:
            done = self._closing.pop().close()
            if done is not None:
                await done

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
