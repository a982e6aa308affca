"""A hybrid logical clock: stamps close to the wall clock that grow along every chain of messages (Kulkarni, Demirbas,
Madappa, Avva and Leone, "Logical Physical Clocks", 2014), so that the last of concurrent writes is nearly the last.

A stamp is milliseconds since 1970 and a number among those of one millisecond. Whoever sees a stamp stamps higher from
then on; but a clock that is far ahead drags nobody along: its stamps are taken as they are, and this one stays.
"""

from __future__ import annotations

DRIFT_MS = 10_000
"""How far ahead another clock may be and still be followed: NTP keeps milliseconds, a forgotten one is hours off."""

LOGICAL_LIMIT = 1 << 16
"""Stamps of one millisecond; then comes the next, early."""

STAMP_LIMIT = 1 << 42
"""Milliseconds of a stamp: until May 2109. It is the same limit for all, and not so far from each one's own clock: a
board without a battery begins in 1970, and must hear the others all the same."""

LATEST_MS = STAMP_LIMIT - (1 << 20)
"""What a clock that shows more is taken to show, with room for the stamps of milliseconds that are full."""

Stamp = tuple[int, int]
"""Milliseconds, number."""


class HybridClock:
    """The clock of one replica."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Stamp = (0, 0)

    def stamp(self, wall_ms: int) -> Stamp:
        """A stamp above all that were given or followed before; `wall_ms` is what the wall clock shows."""
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
        """Stamp higher than another clock did, from now on; False if that one is too far ahead, and is not followed."""
        if stamp[0] > wall_ms + DRIFT_MS:
            return False
        self._last = max(self._last, stamp)
        return True
