"""Where a door keeps its subscriptions and positions: in files, in memory, or in a model that several doors share.

Positions are stored several times a second, and only those that moved. After a crash a subscriber may get the messages
of that time again, under the same ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from glue.drivers.directory import FileDirectory
from glue.errors import CorruptStorageError
from glue.gateway.http.lanes import Position
from glue.storage import replace_file

DEFINITIONS, POSITIONS = "subscriptions.json", "positions.json"

logger = logging.getLogger("glue.http")

Stored = dict[str, Any]


class Store(Protocol):
    """The state that outlives a door. All methods raise StorageError or the errors of a model."""

    subscriptions: dict[str, Stored]
    """By id; only read by the caller."""
    topics: set[str]
    """Topics that were created by Carrier's route."""

    async def open(self) -> None:
        """Read what is stored."""

    async def put(self, id: str, subscription: Stored | None) -> None:
        """Store a subscription, or remove it with its position; returns once durable."""

    async def create(self, topic: str) -> None:
        """Store that a topic was created."""

    async def position(self, lane: str) -> Position | None:
        """Return the position of a lane; None if it has none."""

    async def save(self, positions: Mapping[str, Position | None]) -> None:
        """Store positions; None removes one."""

    def close(self) -> None:
        """Release the files."""


class MemoryStore:
    """A store that ends with the door."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, Stored] = {}
        self.topics: set[str] = set()
        self._positions: dict[str, Position] = {}

    async def open(self) -> None:
        """Nothing is stored yet."""

    async def put(self, id: str, subscription: Stored | None) -> None:
        """As `Store` says."""
        if subscription is None:
            self.subscriptions.pop(id, None)
            self._positions.pop(id, None)
        else:
            self.subscriptions[id] = subscription

    async def create(self, topic: str) -> None:
        """As `Store` says."""
        self.topics.add(topic)

    async def position(self, lane: str) -> Position | None:
        """As `Store` says."""
        return self._positions.get(lane)

    async def save(self, positions: Mapping[str, Position | None]) -> None:
        """As `Store` says."""
        for lane, position in positions.items():
            if position is None:
                self._positions.pop(lane, None)
            else:
                self._positions[lane] = position

    def close(self) -> None:
        """Nothing is open."""


class FileStore(MemoryStore):
    """A store in two files, each replaced as a whole: 10,000 positions are 1.5 MB."""

    def __init__(self, path: Path) -> None:
        """Raises StorageError if the directory cannot be written or is in use."""
        super().__init__()
        self._directory = FileDirectory(path)
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """As `Store` says. Raises CorruptStorageError."""
        definitions = self._read(DEFINITIONS)
        self.subscriptions = dict(definitions.get("subscriptions", {}))
        self.topics = set(definitions.get("topics", ()))
        self._positions = dict(self._read(POSITIONS))

    def _read(self, name: str) -> Stored:
        data = self._directory.read(name)
        try:
            found = orjson.loads(data) if data is not None else {}
        except ValueError as error:
            raise CorruptStorageError(f"{name} is damaged: {error}") from None
        if not isinstance(found, dict):
            raise CorruptStorageError(f"{name} is damaged: expected an object")
        return found

    async def put(self, id: str, subscription: Stored | None) -> None:
        """As `Store` says. What cannot be written is not stored with the next write either."""
        await asyncio.shield(self._put(id, subscription))  # a caller that is cancelled does not end it half-way

    async def _put(self, id: str, subscription: Stored | None) -> None:
        async with self._writing:
            former, position = self.subscriptions.get(id), self._positions.get(id)
            await super().put(id, subscription)
            try:
                await self._write_definitions()
            except Exception:
                await super().put(id, former)
                if former is not None and position is not None:
                    self._positions[id] = position
                raise

    async def create(self, topic: str) -> None:
        """As `Store` says, likewise."""
        await asyncio.shield(self._create(topic))

    async def _create(self, topic: str) -> None:
        async with self._writing:
            if topic in self.topics:
                return
            await super().create(topic)
            try:
                await self._write_definitions()
            except Exception:
                self.topics.discard(topic)
                raise

    async def save(self, positions: Mapping[str, Position | None]) -> None:
        """As `Store` says."""
        await super().save(positions)
        await asyncio.shield(self._save())

    async def _save(self) -> None:
        async with self._writing:
            await self._write(POSITIONS, self._positions)

    async def _write_definitions(self) -> None:
        await self._write(DEFINITIONS, {"subscriptions": self.subscriptions, "topics": sorted(self.topics)})

    async def _write(self, name: str, content: Any) -> None:
        """Replace a file, in a thread; the caller holds the lock."""
        await asyncio.to_thread(replace_file, self._directory, name, orjson.dumps(content))

    def close(self) -> None:
        """As `Store` says."""
        self._directory.close()
