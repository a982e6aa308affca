"""The door's log: what it keeps of the topics that subscriptions and programs want, and news of what is stored."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final

from glue.aio import Endpoint
from glue.contract.matching import covers
from glue.endpoint.keeper import Keeper
from glue.endpoint.sealing import require
from glue.gateway.http.dead_letters import DEAD
from glue.gateway.http.recent import RecentLog
from glue.storage import Record
from glue.topics.index import Index

LAG: Final = 1.0
"""Seconds by which a program may get a message later than the disk; under load some hundredths."""

Stored = Callable[[int, list[tuple[int, Record]] | None], None]


class Journal:
    """The log of one door, on disk or in memory, with the newest records at hand."""

    def __init__(self, endpoint: Endpoint, data_dir: Path | None, tell: Stored, **limits: Any) -> None:
        """`tell` is called in the event loop with the offset before, and with what is new above it.

        `limits` are the `age`, `size` and `count` of what is kept.
        """
        self.data_dir = data_dir
        self._endpoint = endpoint
        self._tell = tell
        self._limits = limits
        self._keepers: dict[str, Keeper] = {}
        self._wanted: Counter[str] = Counter()
        self._index: Index[str] = Index()
        self._opening = asyncio.Lock()
        self._pending: list[tuple[int, int, Sequence[Record]]] = []  # belongs to the thread that stores
        self._loop = asyncio.get_running_loop()
        self._recent: RecentLog | None = None
        self._ends: deque[tuple[float, int]] = deque()
        self._is_closed = False

    async def open(self) -> None:
        """Open the log. Raises StorageError."""
        pattern = f"{DEAD}#"
        keeper = await self._endpoint.keep(pattern, data_dir=self.data_dir, **self._limits)
        self._keepers[pattern] = keeper
        self._wanted[pattern] = 1
        self._index.add(pattern, pattern)
        self._recent = RecentLog(keeper.log)
        self._ends.append((-inf, self._recent.durable))
        keeper._watch(self)

    async def want(self, pattern: str) -> None:
        """Keep a pattern from now on, once more. Raises StorageError, ForbiddenError."""
        require(self._endpoint._core.guard, "subscribe", [pattern])  # else publishers would send nothing to be kept
        async with self._opening:
            if pattern not in self._keepers:
                self._keepers[pattern] = await self._endpoint.keep(pattern, data_dir=self.data_dir, **self._limits)
                self._index.add(pattern, pattern)
            self._wanted[pattern] += 1

    async def unwant(self, pattern: str) -> None:
        """Keep a pattern no more, unless it is wanted for another reason."""
        async with self._opening:
            self._wanted[pattern] -= 1
            if self._wanted[pattern] <= 0:
                del self._wanted[pattern]
                self._keepers.pop(pattern).close()
                self._index.remove(pattern, pattern)

    def keeps(self, topic: str) -> bool:
        """Whether the messages of a topic are in this log from now on."""
        return bool(self._index.match(topic))

    def covers(self, patterns: Sequence[str]) -> bool:
        """Whether all messages of some patterns are in this log from now on."""
        return all(any(covers(kept, pattern) for kept in self._keepers) for pattern in patterns)

    @property
    def settled(self) -> int:
        """The end of what was durable a second ago: an offset below which the program has got everything."""
        ends, at = self._ends, self._loop.time() - LAG
        while len(ends) > 1 and ends[1][0] <= at:
            ends.popleft()
        return ends[0][1]

    @property
    def patterns(self) -> list[str]:
        """The kept patterns."""
        return sorted(self._keepers)

    def close(self) -> None:
        """Look at the log no more; the endpoint closes it."""
        self._is_closed = True

    # ------------------------------------------------------------------------------------ in the thread that stores

    def appended(self, begin: int, end: int, records: Sequence[Record]) -> None:
        """As `LogWatcher` says."""
        self._pending.append((begin, end, list(records)))

    def synced(self, durable: int) -> None:
        """As `LogWatcher` says."""
        pending, self._pending = self._pending, []
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take, pending, durable)

    def _take(self, pending: list[tuple[int, int, Sequence[Record]]], durable: int) -> None:
        """Take what was stored, in the event loop."""
        if self._is_closed:
            return
        recent = self.recent
        for part in pending:
            recent.add(*part)
        before = recent.durable
        found = recent.sync(durable)
        self._ends.append((self._loop.time(), recent.durable))
        _ = self.settled  # forgets what is old
        self._tell(before, found)

    # ---------------------------------------------------------------------------------------------------- reading

    @property
    def recent(self) -> RecentLog:
        """The log with its newest records in memory."""
        assert self._recent is not None
        return self._recent
