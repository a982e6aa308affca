"""Replay of recorded losses and delays on a link.

Other settings send other datagrams, so a datagram cannot have the fate of its number. Time selects the fate instead.
Datagrams of a tenth of a second take the recorded fates of the same tenth, in order, and start over when there are more
datagrams than fates. Therefore bursts stay bursts, and a bad minute stays bad. Where the trace has recorded, the latest
earlier fate applies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SLICE = 0.1  # seconds


class RecordedOutcomes:
    """Recorded outcomes of one link's datagrams, in order of time."""

    __slots__ = ("_arrived", "_cursors", "_outcomes", "_times")

    def __init__(self, times: Sequence[float], delays: Sequence[float | None]) -> None:
        """`times`: true seconds when each datagram left, ascending. `delays`: seconds on the way, None if lost."""
        self._times = times
        self._outcomes = delays
        self._cursors: dict[int, int] = {}
        self._arrived = 0.0

    def arrival(self, now: float) -> float | None:
        """Return when a datagram that leaves now arrives, None if it is lost. No datagram overtakes another."""
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
