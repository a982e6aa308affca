"""The storage of one group: writes that are not durable yet, and what follows from a failed write.

A full disk keeps no part of a write, so the write is repeated until there is room. After any other error the content of
the disk is unknown, and nothing is tried again (Rebello et al., "Can Applications Recover from fsync Failures?", ATC
2020).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from glue.errors import StorageError, StorageFullError
from glue.model.consensus import DurableWrite
from glue.model.storage import Storage

RETRY_INTERVAL = 1.0
"""Seconds between two tries to write to a full disk: people must make room, which takes a while."""

logger = logging.getLogger("glue")


class Disk:
    """Writes that are not durable yet.

    `failure` says what is wrong, "" if nothing is. `is_over` is true once the storage has failed for good.
    """

    def __init__(self, name: str, storage: Storage, statistics: Counter[str]) -> None:
        """`name` is the model's, for the log messages."""
        self.failure = ""
        self.is_over = False
        self.unwritten: list[DurableWrite] = []
        self._name = name
        self._storage = storage
        self._statistics = statistics
        self._retry_at = inf

    @property
    def deadline(self) -> float:
        """The time of the next try to write to a full disk, inf if none is planned."""
        return inf if self.is_over else self._retry_at

    def flush(self) -> int:
        """Make all writes durable; returns the number of the last one, 0 if there was none. Raises StorageError."""
        number = 0
        while self.unwritten:
            self._storage.write(self.unwritten[0])
            number = self.unwritten.pop(0).number
        self._storage.sync()
        return number

    def fail(self, now: float, error: StorageError) -> None:
        """Record a failure: until there is room if the disk is full, else for good."""
        self.is_over = not isinstance(error, StorageFullError)
        self._retry_at = now + RETRY_INTERVAL
        if not self.failure or self.is_over:
            self._statistics["storage failures" if self.is_over else "times that the disk was full"] += 1
            self.failure = f"the storage failed: {error}"
            logger.error("model %r: %s", self._name, self.failure)

    def retry(self, now: float, others: Iterable[Callable[[], None]]) -> int | None:
        """Try again once the time has come; returns the result of `flush`, or None if nothing could be written.

        First the `others` write what other parts of the group hold.
        """
        if now < self.deadline:
            return None
        try:
            for recover in others:
                recover()
            number = self.flush()
        except StorageError as error:
            self.fail(now, error)
            return None
        self.failure = ""
        logger.warning("model %r: there is room on the disk again, so this replica goes on", self._name)
        return number

    def close(self) -> None:
        """Close the files."""
        self._storage.close()
