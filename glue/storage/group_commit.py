"""When a log syncs: at once if a publisher waits for it, else after 5 ms or 1 MiB.

While a sync is under way, what arrives is gathered for the next one. So a lone message waits for one sync. Under load a
sync covers all messages that arrived during the previous sync.
"""

from __future__ import annotations

from math import inf

INTERVAL = 0.005
"""Seconds that a stored message waits for a sync at most, if nobody asked for one."""
SIZE = 1 << 20
"""Bytes stored without a sync at most."""


class GroupCommit:
    """Decides when the next sync is due."""

    __slots__ = ("_deadline", "_interval", "_limit", "_size")

    def __init__(self, interval: float = INTERVAL, limit: int = SIZE) -> None:
        self._interval = interval
        self._limit = limit
        self._size = 0
        self._deadline = inf

    @property
    def deadline(self) -> float:
        """When a sync is due (monotonic seconds): -inf for now, inf if nothing is to be synced."""
        return self._deadline

    def stored(self, now: float, size: int, is_awaited: bool) -> None:
        """Note stored bytes; a publisher waits for them if `is_awaited`."""
        self._size += size
        if is_awaited or self._size >= self._limit:
            self._deadline = -inf
        else:
            self._deadline = min(self._deadline, now + self._interval)

    def synced(self) -> None:
        """Note that everything stored so far is durable."""
        self._size, self._deadline = 0, inf
