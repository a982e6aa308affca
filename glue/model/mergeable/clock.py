"""A hybrid logical clock: stamps near the wall clock that grow along every chain of messages.

The algorithm is that of Kulkarni et al., "Logical Physical Clocks" (2014). The highest of several concurrent stamps is
nearly the last in real time. A stamp is milliseconds since 1970 and a number within the millisecond. A replica that
sees a stamp gives higher stamps from then on. A clock that is far ahead is not followed: its stamps are kept, and this
clock stays.
"""

from __future__ import annotations

DRIFT_MS = 10_000
"""How far ahead a clock may be and be followed (ms). NTP keeps milliseconds; a clock without NTP is hours off."""

LOGICAL_LIMIT = 1 << 16
"""Stamps of one millisecond. After these, the clock moves to the next millisecond early."""

STAMP_LIMIT = 1 << 42
"""The end of stamps: May 2109 in milliseconds.

The limit is the same for all replicas and independent of their clocks. A board without a battery starts in 1970 and
must accept the stamps of the others.
"""

LATEST_MS = STAMP_LIMIT - (1 << 20)
"""The latest time taken from a wall clock. It leaves room for stamps of milliseconds that are full."""

Stamp = tuple[int, int]
"""Milliseconds, number."""


class HybridClock:
    """The clock of one replica."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Stamp = (0, 0)

    def stamp(self, wall_ms: int) -> Stamp:
        """Return a stamp above all that were given or followed before; `wall_ms` is the wall clock."""
        last_ms, number = self._last
        wall_ms = min(wall_ms, LATEST_MS)
        if wall_ms > last_ms:
            self._last = (wall_ms, 0)
        elif number + 1 < LOGICAL_LIMIT:
            self._last = (last_ms, number + 1)
        else:
            self._last = (last_ms + 1, 0)
        return self._last

    def follow(self, stamp: Stamp, wall_ms: int) -> bool:
        """Give higher stamps than another clock from now on; false if that clock is too far ahead to be followed."""
        if stamp[0] > wall_ms + DRIFT_MS:
            return False
        self._last = max(self._last, stamp)
        return True
