"""One receiver of a channel, as its sender sees it: what it has, what it lost, how far away it is."""

from __future__ import annotations

import math

from glue.transport.ranges import RangeSet
from glue.transport.round_trip import RoundTrip
from glue.transport.wire import WINDOW

REORDERING = 3  # frames that may overtake one before it counts as lost (RFC 9002, kPacketThreshold)


class Resent:
    """The latest attempt at a frame that was sent more than once, and when the one `before` it was sent."""

    __slots__ = ("attempt", "before", "number", "sent_at")

    def __init__(self, number: int, sent_at: float, attempt: int, before: float) -> None:
        self.number = number
        self.sent_at = sent_at
        self.attempt = attempt
        self.before = before

    def explains(self, now: float, round_trip: RoundTrip) -> bool:
        """Whether an answer that comes now is to this attempt: it took long enough, or for one before it too long."""
        return now - self.sent_at >= round_trip.least or now - self.before > round_trip.probe_timeout(0)


class Member:
    """The state kept for one receiver of a channel."""

    __slots__ = (
        "_regressed_at",
        "backoff",
        "check_at",
        "invite",
        "invited",
        "latest",
        "limit",
        "lost",
        "next",
        "peer",
        "ranges",
        "regressions",
        "resent",
        "round_trip",
        "waiting_since",
    )  # fmt: skip

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.next = 0  # every frame below is acknowledged
        self.ranges = RangeSet()  # acknowledged beyond `next`
        self.limit = WINDOW  # frames below this it is ready to take
        self.latest = -1  # the latest transmission known to have arrived
        self.lost: set[int] = set()  # to be repaired at once; bounded by the window, as `resent` is
        self.resent: dict[int, Resent] = {}
        self.round_trip = RoundTrip()
        self.backoff = 0  # probes in a row without an answer
        self.waiting_since = 0.0  # since when an answer is awaited: the latest progress, or the latest probe
        self.check_at = math.inf  # when a frame that others overtook will count as lost
        self.invited = False  # whether it has shown that it knows the channel
        self.invite = True  # whether the invitation is to be sent
        self.regressions = 0  # probes in a row answered with less than before, or with more than there is
        self._regressed_at = 0  # the number of the probe last answered so

    def missing(self, sent: int) -> bool:
        """Whether it has yet to acknowledge any frame below `sent`."""
        return self.next < sent

    def attempts(self, sequence: int) -> int:
        """How often a frame was sent again."""
        again = self.resent.get(sequence)
        return again.attempt if again else 0

    @property
    def unscathed(self) -> bool:
        """Whether nothing that is on its way to it was ever missed."""
        return not (self.resent or self.lost or self.ranges)

    def answered(self, now: float) -> None:
        """It acknowledged something new: the wait for an answer begins anew."""
        self.backoff = self.regressions = self._regressed_at = 0
        self.waiting_since = now

    def progress(self, now: float, upto: int, ranges: list[tuple[int, int]]) -> None:
        """It has acknowledged something new."""
        for start, stop in ranges:
            self.ranges.add(start, stop)
        self.next = max(self.next, upto)
        self.ranges.drop_below(self.next)
        if self.ranges and next(iter(self.ranges))[0] == self.next:
            self.next = next(iter(self.ranges))[1]
            self.ranges.drop_below(self.next)
        self.answered(now)
        if self.resent or self.lost:
            had = [sequence for sequence in self.resent if sequence < self.next or sequence in self.ranges]
            for sequence in had:
                del self.resent[sequence]
            self.lost = {s for s in self.lost if s >= self.next and s not in self.ranges}

    def regressed(self) -> None:
        """It acknowledged less than before, or more than there is: counted once a probe, for answers may be stale."""
        if self.backoff > self._regressed_at:
            self._regressed_at = self.backoff
            self.regressions += 1

    def overdue(self, now: float, number: int, sent_at: float) -> bool:
        """Whether a frame that later ones overtook counts as lost; if not yet, note when it will."""
        if self.latest - number >= REORDERING and now - sent_at >= 0.75 * self.round_trip.smoothed:
            return True
        at = sent_at + self.round_trip.loss_delay()
        if at <= now:
            return True
        self.check_at = min(self.check_at, at)
        return False

    def repaired(self, now: float, sequences: range, number: int, attempt: int, first_sent_at: float) -> None:
        """These frames were sent to it again."""
        for offset, sequence in enumerate(sequences):
            last = self.resent.get(sequence)
            before = last.sent_at if last else first_sent_at
            self.resent[sequence] = Resent(number + offset, now, attempt, before)
            self.lost.discard(sequence)

    def probe_at(self) -> float:
        """When it will have been silent for too long."""
        return self.waiting_since + self.round_trip.probe_timeout(self.backoff)
