"""The FEC state of one channel at its sender: the loss of each receiver, and the frames to be covered."""

from __future__ import annotations

import math

MEASURED = 100  # frames before which no loss is known; the standard error of 10 % is then 3 %
SPAN = 1000  # frames over which loss is measured; then half of them are forgotten


class LossMeter:
    """The share of frames that one receiver loses; a meter is made at the first loss."""

    __slots__ = ("_lost", "_since", "_uncounted", "most_recovered", "recovered")

    def __init__(self, sent: int) -> None:
        self._since = max(sent - MEASURED, 0)  # transmissions before this are forgotten
        self._lost = 0.0
        self._uncounted = 0  # the member's `uncounted`, as far as it is counted by now
        self.recovered = 0  # frames that the receiver reported as decoded, late arrivals deducted
        self.most_recovered = 0  # the largest report so far

    def lost(self, count: int) -> None:
        """Count frames that did not arrive; a negative number if they did after all."""
        self._lost += count

    def share(self, sent: int, uncounted: int) -> float:
        """Return the share lost of the latest transmissions, of `sent` in all; 0 if not yet known."""
        self._lost = max(self._lost + uncounted - self._uncounted, 0.0)
        self._uncounted = uncounted
        frames = sent - self._since
        if frames < MEASURED:
            return 0.0
        share = min(self._lost / frames, 1.0)
        if frames > SPAN:
            self._since = sent - SPAN // 2
            self._lost = share * (SPAN // 2)
        return share


class FecState:
    """The FEC state of one channel: `fec.policy.cover` is to be called at `at`."""

    __slots__ = ("active", "at", "first", "meters", "share")

    def __init__(self, share: float | None) -> None:
        """`share`: repair symbols for each frame; None to go by the loss seen, 0 for never."""
        self.share = share
        self.meters: dict[str, LossMeter] = {}  # by peer
        self.first = 0  # the first frame not yet covered
        self.active = bool(share)  # whether the policy is to be called for each frame sent
        self.at = math.inf  # when the frames sent so far are to be covered

    def lost(self, peer: str, count: int, transmissions: int) -> LossMeter:
        """Count frames that a peer lost, of so many transmissions in all."""
        meter = self.meters.get(peer)
        if meter is None:
            meter = self.meters[peer] = LossMeter(transmissions)
            self.active = self.share != 0
        meter.lost(count)
        return meter
