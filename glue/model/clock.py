"""Committed time: a clock in the log, which reads the same at every replica.

A new leader continues from the time in the log and counts by its own monotonic clock. Clocks of two machines are never
compared, a jump of the wall clock has no effect, and the time between two leaders does not count.
"""

from __future__ import annotations

from math import inf

from glue.model.state import State

STAMP_INTERVAL = 1.0
"""Seconds until the leader logs a stamp that a lease or session waits for: the resolution of leases."""


class LeaderClock:
    """The committed time that this replica stamps while it leads."""

    __slots__ = ("_base_ms", "_leads", "_since", "_stamped_at")

    def __init__(self) -> None:
        self._leads = False
        self._base_ms = 0
        self._since = 0.0
        self._stamped_at = -inf

    def role(self, now: float, leads: bool, time_ms: int) -> None:
        """Note whether this replica leads from now on; `time_ms` is the committed time so far."""
        if leads and not self._leads:
            self._base_ms, self._since, self._stamped_at = max(1, time_ms), now, -inf
        self._leads = leads

    def stamp(self, now: float) -> int:
        """Return the time to write into an entry (ms), and note that a stamp was made."""
        self._stamped_at = now
        return self._base_ms + int((now - self._since) * 1000)

    def due(self, state: State) -> float:
        """The time at which a stamp is due (monotonic seconds), because a lease or session ends or waits for one."""
        at, waiting = state.next_expiry, inf
        if at == 0:
            at, waiting = state.locks.first_end, self._stamped_at + STAMP_INTERVAL
        if at == inf:
            return waiting
        return min(waiting, max(self._since + (at - self._base_ms) / 1000, self._stamped_at + 0.01))
