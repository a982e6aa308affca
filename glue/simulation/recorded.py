"""What happened to a link's datagrams once, to happen to others again: losses and delays from a trace.

Other settings send other datagrams, so outcomes are found by time, not by number. Datagrams that leave in some tenth of
a second have, one after the other, the outcomes of those that left in that tenth in the trace, and again from the first
if there are more. So bursts stay bursts, and a bad minute stays one. Where the trace has none, the latest outcome
before holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SLICE = 0.1  # seconds


class RecordedOutcomes:
    """The outcomes of one link's datagrams, in order of time."""

    __slots__ = ("_arrived", "_cursors", "_outcomes", "_times")

    def __init__(self, times: Sequence[float], delays: Sequence[float | None]) -> None:
        """When each left (true time, seconds, ascending), and how long it was under way; None: it was lost."""
        self._times = times
        self._outcomes = delays
        self._cursors: dict[int, int] = {}
        self._arrived = 0.0

    def arrival(self, now: float) -> float | None:
        """When a datagram that leaves now arrives; None if it is lost. None overtakes another."""
        delay = self._outcome(now)
        if delay is None:
            return None
        self._arrived = max(self._arrived, now + delay)
        return self._arrived

    def _outcome(self, now: float) -> float | None:
        part = int(now / SLICE)
        first, last = (bisect_left(self._times, edge * SLICE) for edge in (part, part + 1))
        if first == last:
            return self._outcomes[max(0, first - 1)] if self._times else 0.0
        number = self._cursors.get(part, 0)
        self._cursors[part] = number + 1
        return self._outcomes[first + number % (last - first)]
