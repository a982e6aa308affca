"""Committed time: a clock that all replicas read alike, because it is in the log.

A leader takes up the time where the log left it and counts on by its own monotonic clock, so no two machines' clocks
are ever compared, a jump of a wall clock has no effect, and the time between two leaders is not counted at all.
"""

from __future__ import annotations

from math import inf

from glue.model.state import State

STAMP_INTERVAL = 1.0
"""Seconds until something that waits for a stamp gets one, if nothing else brings one before: the grain of leases."""


class LeaderClock:
    """The time that this replica stamps while it leads."""

    __slots__ = ("_base_ms", "_leads", "_since", "_stamped_at")

    def __init__(self) -> None:
        self._leads = False
        self._base_ms = 0
        self._since = 0.0
        self._stamped_at = -inf

    def role(self, now: float, leads: bool, time_ms: int) -> None:
        """This replica leads from now on, or not; `time_ms` is the committed time so far."""
        if leads and not self._leads:
            self._base_ms, self._since, self._stamped_at = max(1, time_ms), now, -inf
        self._leads = leads

    def stamp(self, now: float) -> int:
        """The time to write into an entry (ms)."""
        self._stamped_at = now
        return self._base_ms + int((now - self._since) * 1000)

    def due(self, state: State) -> float:
        """When a stamp is due (monotonic seconds) because something in the state ends, or waits for one."""
        at = state.next_expiry
        if at == 0:
            return self._stamped_at + STAMP_INTERVAL
        if at == inf:
            return inf
        return max(self._since + (at - self._base_ms) / 1000, self._stamped_at + 0.01)
