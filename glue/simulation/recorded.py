"""What happened to a link's datagrams once, to happen to others again: losses and delays from a trace.

Other settings send other datagrams, so fates cannot be told by number. They are told by time: what leaves in some tenth
of a second meets, one after the other, what those met that left in that tenth once, and again from the first of them if
there are more. So bursts stay bursts, and a bad minute stays one. Where nothing was sent, the latest fate before holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SLICE = 0.1  # seconds


class RecordedFates:
    """The fates of one link's datagrams, in order of time."""

    __slots__ = ("_arrived", "_cursors", "_fates", "_times")

    def __init__(self, times: Sequence[float], delays: Sequence[float | None]) -> None:
        """When each left (true time, seconds, ascending), and how long it was under way; None: it was lost."""
        self._times = times
        self._fates = delays
        self._cursors: dict[int, int] = {}
        self._arrived = 0.0

    def arrival(self, now: float) -> float | None:
        """When a datagram that leaves now arrives; None if it is lost. None overtakes another."""
        delay = self._fate(now)
        if delay is None:
            return None
        self._arrived = max(self._arrived, now + delay)
        return self._arrived

    def _fate(self, now: float) -> float | None:
        part = int(now / SLICE)
        first, last = (bisect_left(self._times, edge * SLICE) for edge in (part, part + 1))
        if first == last:
            return self._fates[max(0, first - 1)] if self._times else 0.0
        number = self._cursors.get(part, 0)
        self._cursors[part] = number + 1
        return self._fates[first + number % (last - first)]
