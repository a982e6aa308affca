"""A heap of actions by the time at which they are due. Cancelled timers are removed at once, or when there are many."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

Action = Callable[[float], None]

KEPT = 1_000
"""Timers that were called off and may stay: 1,000 lists of 100 B. Beyond it they are at most half of all."""


class Timers:
    """Actions with their times. At a time, there is one timer about a thing."""

    __slots__ = ("_about", "_heap", "_numbers", "_off")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, list[Action]]] = []  # an empty list: called off
        self._about: dict[Hashable, list[Action]] = {}
        self._numbers = count()
        self._off = 0  # timers in the heap that were called off

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def deadline(self) -> float:
        """When `advance` is to be called next; `inf` without timers."""
        return self._heap[0][0] if self._heap else float("inf")

    def advance(self, now: float) -> None:
        """Do what is due. What this begins anew waits for the next call, so that clients are served in between."""
        last, later = next(self._numbers), list[tuple[float, int, list[Action]]]()
        try:
            while self._heap and self._heap[0][0] <= now:
                entry = heapq.heappop(self._heap)
                timer = entry[2]
                if not timer:
                    self._off -= 1
                elif entry[1] > last:
                    later.append(entry)
                else:
                    timer.pop()(now)
        finally:
            for entry in later:
                heapq.heappush(self._heap, entry)

    def at(self, when: float, action: Action, about: Hashable = None) -> None:
        """Call an action at a time. If it is about a thing, it replaces the timer about the same."""
        timer = [action]
        if about is not None:
            self.call_off(about)
            self._about[about] = timer
        heapq.heappush(self._heap, (when, next(self._numbers), timer))

    def call_off(self, about: Hashable) -> None:
        """Forget the timer about a thing, if there is one."""
        timer = self._about.pop(about, None)
        if not timer:
            return
        timer.clear()
        self._off += 1
        if self._off > max(KEPT, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2]]
            heapq.heapify(self._heap)
            self._off = 0
