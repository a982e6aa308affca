"""One receiver of a channel, as seen by the sender: frames acknowledged, frames lost, round trip.

A *hole* is a missing frame before a frame that has arrived. A hole is a loss or a reordered frame. Time
decides, as in RACK (RFC 8985). If no frame ever came late, a hole counts as lost at once. Else the sender waits for the
longest delay seen (the *patience*). Late frames and needless resends increase the patience, and it decays slowly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from glue.contract.ranges import RangeSet
from glue.transport.round_trip import RoundTrip
from glue.transport.window import Window
from glue.transport.wire import WINDOW

REORDERING = 3  # later frames that make a hole a loss at once, as long as none ever came late (RFC 8985, DupThresh)
OVERTAKEN = 32  # frames in a row: a resend overtook them, as their loss together is less likely
MARGIN = 1.25  # patience is so many times the latest arrival seen
LATEST = 8  # smoothed round trips: what came later than that was not overtaken, but its acknowledgements were lost
LATE, TOO_LATE = 0.02, 0.2  # seconds within which that bound stays, however fast or slow the network seems
FORGETTING = 64  # losses after which patience has mostly gone


class Obstacle(Protocol):
    """Frames of another channel that must not be overtaken (`barrier.Barrier`)."""

    def holds_one(self, peer: str) -> bool:
        """Whether this peer has yet to get some of them."""


class Hole:
    """A missing or resent frame: its latest transmission, and when the transmission `before` was sent."""

    __slots__ = ("attempt", "before", "decodable_until", "number", "probed", "sent_at")

    def __init__(self, number: int, sent_at: float, decodable_until: float = -math.inf) -> None:
        self.probed = False  # whether it was sent again for want of any answer
        self.decodable_until = decodable_until  # until when the member may report a recovery by FEC
        self.number = number
        self.sent_at = sent_at
        self.attempt = 0
        self.before = sent_at


class Member:
    """The state kept for one receiver of a channel."""

    __slots__ = (
        "_regressed_at", "answered_at", "asked_at", "backoff", "behind_since", "check_at", "crowded_since", "detached",
        "held_by", "holes", "invite", "invited", "latest", "limit", "lost", "next", "notice", "patience", "peer",
        "ranges", "regressions", "return_at", "round_trip", "searched_to", "sent", "skip", "stalled", "told", "trials",
        "uncounted", "waiting_since", "window",
    )  # fmt: skip

    def __init__(self, peer: str, window: Window, invite: bool) -> None:
        self.peer = peer
        self.window = window
        self.next = 0  # every frame below is acknowledged
        self.ranges = RangeSet()  # acknowledged beyond `next`
        self.limit = WINDOW  # frames below this it is ready to take
        self.latest = -1  # the latest transmission known to have arrived
        self.holes: dict[int, Hole] = {}  # by sequence; bounded by the window
        self.told = 0  # below this it has told what it has
        self.searched_to = 0  # below this, whatever is missing is among the holes
        self.lost: set[int] = set()  # those of the frames that are to be sent again
        self.patience = 0.0  # seconds after which a hole is a loss; 0 as long as nothing ever came late
        self.uncounted = 0  # losses that only a probe has shown, less what was counted as lost and was not
        self.round_trip = RoundTrip()
        self.backoff = 0  # probes in a row without an answer
        self.waiting_since = 0.0  # since when an answer is awaited: the latest progress, or the latest probe
        self.answered_at = 0.0  # when it last acknowledged anything, or began to be waited for
        self.asked_at = -math.inf  # when it was first asked for room since it last answered
        self.check_at = math.inf  # when a hole will count as lost
        self.invited = False  # whether an answer showed that the member knows the channel
        self.invite = invite  # whether the invitation is to be sent
        self.regressions = 0  # probes in a row answered with less than before, or with more than there is
        self._regressed_at = 0  # the number of the probe last answered so
        self.detached = False  # whether the member is served by unicast and holds up no other member
        self.held_by: list[Obstacle] = []  # when detached: what it must have received before it joins
        self.sent = 0  # when detached: every frame below was sent to it, by whatever way
        self.skip = 0  # every frame below that it misses was given up
        self.notice = False  # whether it is to be told so
        self.crowded_since = math.inf  # since when it alone has held up the others
        self.return_at = 0.0  # when detached: not to be taken back before
        self.trials = 0  # how often it was taken off
        self.stalled = False  # when detached: whether it was silent since it last kept up with the others,
        self.behind_since = 0.0  # and when that was

    def missing(self, sent: int) -> bool:
        """Whether it has yet to acknowledge any frame below `sent`."""
        return self.next < sent

    def under_way(self, sent: int) -> int:
        """How many of the first `sent` frames may be on their way to it."""
        return max(sent - self.next - self.ranges.size - len(self.lost), 0)

    @property
    def most_under_way(self) -> float:
        """The most frames on their way at once: the window, or less if the member promises less."""
        return min(self.window.frames, self.limit - self.next)

    def attempts(self, sequence: int) -> int:
        """How often a frame was sent again."""
        hole = self.holes.get(sequence)
        return hole.attempt if hole else 0

    @property
    def unscathed(self) -> bool:
        """Whether no frame on its way has a hole, a loss, or a gap before it."""
        return not (self.holes or self.ranges or self.lost)

    def answered(self, now: float) -> None:
        """Note progress: the wait for an answer begins anew."""
        self.backoff = self.regressions = self._regressed_at = 0
        self.waiting_since = now

    def take(self, upto: int, ranges: list[tuple[int, int]]) -> int:
        """Note an acknowledgement of all frames below `upto` and of `ranges`; return how many are new."""
        before = self.next + self.ranges.size
        # What a receiver has only grows. So of two acknowledgements the one that tells of more contains the other.
        if upto >= self.next and (not self.ranges or (ranges and ranges[-1][1] >= self.ranges.stop)):
            if upto + sum([stop - start for start, stop in ranges]) <= before:
                return 0
            self.next = upto
            self.ranges.replace(ranges)
        else:  # overtaken, or cut off at the most ranges it may have
            for start, stop in ranges:
                self.ranges.add(start, stop)
            self.next = max(self.next, upto)
            self.ranges.drop_below(self.next)
        if self.ranges and (first := next(iter(self.ranges)))[0] == self.next:
            self.next = first[1]
            self.ranges.drop_below(self.next)
        return self.next + self.ranges.size - before

    def skip_to(self, bound: int) -> int:
        """Give up what it misses below `bound`; returns how many frames that is."""
        missing = sum(stop - start for start, stop in self.ranges.gaps(self.next, bound))
        self.ranges.drop_below(bound)
        self.next = self.skip = bound
        if self.ranges and (first := next(iter(self.ranges)))[0] == bound:
            self.next = first[1]
            self.ranges.drop_below(self.next)
        self.holes = {sequence: hole for sequence, hole in self.holes.items() if sequence >= self.next}
        self.lost = {sequence for sequence in self.lost if sequence >= self.next}
        self.sent = max(self.sent, self.next)
        self.notice = True
        return missing

    def regressed(self) -> None:
        """Count an acknowledgement of less than before, or of unsent frames; once a probe, as answers may be stale."""
        if self.backoff > self._regressed_at:
            self._regressed_at = self.backoff
            self.regressions += 1

    def has(self, sequence: int) -> bool:
        """Whether it acknowledged a frame."""
        return sequence < self.next or sequence in self.ranges

    def fill(self, now: float, flowing: bool) -> None:
        """Forget the holes that are filled, and learn from them.

        `flowing`: what was never sent again arrived, too. Then it was not the probes that were answered.
        """
        bound = self.next
        had = [sequence for sequence in self.holes if sequence < bound]
        if self.ranges:
            had += self.ranges.common(self.holes)  # which are all beyond `next`
        for sequence in had:
            hole = self.holes.pop(sequence)
            self.lost.discard(sequence)
            if hole.probed and flowing:
                continue
            if not hole.attempt:
                if hole.decodable_until == -math.inf:
                    self._came_late(now - hole.sent_at)
            elif self._explains(now, hole):
                if self.round_trip.guessed and -math.inf < hole.before < now - self.round_trip.probe_timeout(0):
                    self.round_trip.guess(now - hole.sent_at, 0.0)  # had it been so long, there were no need to resend
                self.uncounted += hole.probed
                self.latest = max(self.latest, hole.number)
                self.patience -= self.patience / FORGETTING
                if self.patience < self.round_trip.loss_delay():
                    self.patience = 0.0
            else:
                self.uncounted -= not hole.probed
                self._came_late(now - hole.before)
        if self.lost:  # what is not among the holes is sent again unasked: their flights may be gone by now
            self.lost -= {sequence for sequence in self.lost - self.holes.keys() if self.has(sequence)}

    def _explains(self, now: float, hole: Hole) -> bool:
        """Whether an answer that comes now is to the latest attempt, and not to an earlier one (as Eifel, RFC 3522).

        An answer sooner than the least round trip is to an earlier attempt. So, most likely, is an answer to an attempt
        that seems to have overtaken many frames.
        """
        if now - hole.before > self.round_trip.probe_timeout(0):
            return True
        overtook = hole.number - self.latest
        return now - hole.sent_at >= self.round_trip.least and (hole.probed or overtook <= OVERTAKEN)

    def _came_late(self, after: float) -> None:
        if self.round_trip.measured and after <= min(max(LATEST * self.round_trip.smoothed, LATE), TOO_LATE):
            self.patience = max(self.patience, MARGIN * after)

    def overdue(self, now: float) -> Iterator[int]:
        """The holes that count as lost from now on; `check_at` tells when others will."""
        self.check_at = math.inf
        patience, latest, lost = self.patience, self.latest, self.lost
        delay = patience or self.round_trip.loss_delay()
        for sequence, hole in self.holes.items():
            if hole.number < latest and sequence < self.told and sequence not in lost:
                if hole.decodable_until > now:
                    self.check_at = min(self.check_at, hole.decodable_until)
                elif (not patience and latest - hole.number >= REORDERING) or hole.sent_at + delay <= now:
                    yield sequence
                elif hole.sent_at + delay < self.check_at:
                    self.check_at = hole.sent_at + delay

    def repaired(self, now: float, sequences: range, number: int, attempt: int, first_sent_at: float) -> None:
        """Note a resend of frames to this member."""
        for offset, sequence in enumerate(sequences):
            hole = self.holes.get(sequence)
            if hole is None:
                hole = self.holes[sequence] = Hole(0, first_sent_at)
            hole.before, hole.sent_at = hole.sent_at, now
            hole.number, hole.attempt, hole.probed = number + offset, attempt, self.backoff > 0
            self.lost.discard(sequence)

    def probe_at(self) -> float:
        """When it will have been silent for too long."""
        return self.waiting_since + self.round_trip.probe_timeout(self.backoff)
