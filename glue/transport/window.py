"""How many frames may be on their way unacknowledged: the network is probed, not flooded.

Slow start, then additive increase and multiplicative decrease (RFC 5681, with the gentler factor of RFC 9438).
A policy object: hand another to `Transport` to replace it.
"""

from __future__ import annotations

INITIAL = 128  # frames: 3 trains, 164 kB; twice what a gigabit LAN holds in a round trip of 0.5 ms
LEAST = 32  # frames: 41 kB a round trip, so that random loss alone never starves a stream
MOST = 2048  # frames: 2.9 MB of datagrams, under the 4 MB of socket buffer that common systems grant
DECREASE = 0.7


class Window:
    """Congestion window of one channel, in frames."""

    __slots__ = ("_recovery_until", "frames", "threshold")

    def __init__(self) -> None:
        self.frames = float(INITIAL)
        self.threshold = float(MOST)
        self._recovery_until = 0.0

    def acknowledged(self, count: int) -> None:
        """`count` frames were acknowledged by the slowest member."""
        grown = count if self.frames < self.threshold else 4 * count / self.frames
        self.frames = min(self.frames + grown, MOST)

    def lost(self, now: float, round_trip: float) -> None:
        """Frames were lost; at most one decrease a round trip."""
        if now >= self._recovery_until:
            self._recovery_until = now + round_trip
            self.frames = self.threshold = max(self.frames * DECREASE, LEAST)
