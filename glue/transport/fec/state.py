"""What FEC keeps of one channel at its sender: the loss of each receiver, and the frames to be covered."""

from __future__ import annotations

import math

MEASURED = 100  # frames before which no loss is known; the standard error of 10 % is then 3 %
SPAN = 1000  # frames over which loss is measured; then half of them are forgotten


class Meter:
    """The share of frames that one receiver loses; kept from its first loss on, so that it costs nothing before."""

    __slots__ = ("_lost", "_since", "_uncounted", "mended", "most_mended")

    def __init__(self, sent: int) -> None:
        self._since = max(sent - MEASURED, 0)  # transmissions before this are forgotten
        self._lost = 0.0
        self._uncounted = 0  # that of the member, as far as it is counted by now
        self.mended = 0  # frames that it has told were mended, and are not known to have come late
        self.most_mended = 0  # the most that this ever was

    def lost(self, count: int) -> None:
        """Count frames that did not arrive; a negative number if they did after all."""
        self._lost += count

    def share(self, sent: int, uncounted: int) -> float:
        """The share lost of what was sent lately, `sent` transmissions having been made in all; 0 if not yet known."""
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
        self.meters: dict[str, Meter] = {}  # by peer
        self.first = 0  # from this frame on nothing was covered
        self.active = bool(share)  # whether the policy is to be told of what is sent
        self.at = math.inf  # when what was sent is to be covered

    def lost(self, peer: str, count: int, transmissions: int) -> Meter:
        """Count frames that a peer lost, of so many transmissions in all."""
        meter = self.meters.get(peer)
        if meter is None:
            meter = self.meters[peer] = Meter(transmissions)
            self.active = self.share != 0
        meter.lost(count)
        return meter
