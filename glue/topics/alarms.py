"""Alarms: times of which the application is told when they come.

An alarm is set under a token, and setting it again moves it. The caller bounds the number of tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from math import inf

SPARE = 64
"""Entries of moved alarms that may wait in the heap, beside as many as there are alarms."""


class Alarms:
    """The alarms that are set, each with its time (monotonic seconds)."""

    __slots__ = ("_count", "_times", "heap")

    def __init__(self) -> None:
        self._times: dict[Hashable, tuple[float, int]] = {}
        self.heap: list[tuple[float, int, Hashable]] = []  # with entries of alarms that were moved
        self._count = 0

    @property
    def deadline(self) -> float:
        """When the next alarm is due; a little early if that alarm was moved."""
        return self.heap[0][0] if self.heap else inf

    def set(self, token: Hashable, due: float) -> None:
        """Set the alarm of a token, or move it; `inf` takes it back."""
        if due == inf:
            self._times.pop(token, None)
        else:
            self._count += 1
            self._times[token] = due, self._count
            heapq.heappush(self.heap, (due, self._count, token))
        if len(self.heap) > 2 * len(self._times) + SPARE:
            self.heap = [(due, count, token) for token, (due, count) in self._times.items()]
            heapq.heapify(self.heap)

    def due(self, now: float) -> Iterator[Hashable]:
        """Remove and yield the tokens of alarms that are due at `now`."""
        while self.heap and self.heap[0][0] <= now:
            due, count, token = heapq.heappop(self.heap)
            if self._times.get(token) == (due, count):
                del self._times[token]
                yield token
