"""How many frames may be on their way to a receiver unacknowledged: the network is probed, not flooded.

What limits the window is congestion, and what shows that is judged once a round trip:

- *Delay*: the shortest round trip of the round is more than `QUEUE` above the least one known. Then the window
  shrinks to what keeps the way full with hardly a queue, as in Vegas (Brakmo and Peterson 1995) and Copa (Arun and
  Balakrishnan 2018). Therefore slow links keep short queues, and flows that share a link yield at the same moment.
  Variation that does not depend on the window is jitter, and no queue.
- *Loss beyond the usual*: a radio link loses the same share at any rate. An overflowing queue loses more at a
  higher rate. Therefore a clear excess of loss shrinks the window. If the loss stays, it is the link's own, and counts
  as usual from then on.

A late flow mistakes the present queue for a part of the way, and takes more than its share. Therefore a flow that has
seen a queue drains its own part now and then, for two round trips (as BBR's ProbeRTT).

Otherwise the window opens. It doubles each round trip at first. Later it grows by a few frames, and by ever more while
neither delay nor loss shrinks it. There is no pacing: acknowledgements set the pace, so that trains stay whole on a
fast network.

A policy object: hand another to `Transport` to replace it.
"""

from __future__ import annotations

import math

from glue.contract import BULK, NORMAL

INITIAL = 128  # frames: 3 trains, 164 kB; twice what a gigabit LAN holds in a round trip of 0.5 ms
LEAST = 8  # frames: 11 kB a round trip, 1 MB/s at 10 ms: no loss ever starves a stream
MOST = 2048  # frames: 2.9 MB of datagrams, under the 4 MB of socket buffer that common systems grant
QUEUE = 0.025  # seconds of queueing that are allowed: a fraction of what routers and radio links buffer
SLACK = 0.005  # seconds of queueing left when it was too much: acknowledgements may come 2 ms late, turns take some
BULK_QUEUE, BULK_SLACK = 0.0015, 0.00125  # the same for bulk, so that what is urgent is late by less than 5 ms
BULK_FAST_QUEUE = 0.002  # seconds, likewise on paths faster than FAST, where turns take a part of it
BULK_INITIAL = 16  # frames: 4 ms of a link with 50 Mb/s
GROWTH, BULK_GROWTH = 4, 16  # the window opens by at most one part in so many a round trip
NOISE = 2.0  # times by which round trips with the least window differ that are allowed beside a queue
FAST = 40_000  # frames a second (55 MB/s): MOST are gone in 50 ms then, whatever the delay is due to
FASTEST = 150_000  # frames a second (220 MB/s), as within one machine: from there on, MOST_THERE are allowed
MOST_THERE = 3328  # frames: four messages of 1 MiB, gone within QUEUE; 8 MB as the kernel counts 4 MB of socket buffer
SLOW = 12_000  # frames a second (17 MB/s): a path where queues last long enough to mistake them for a part of the way
OVERLOAD = 0.5  # factor after loss beyond the usual (RFC 5681): enough to tell whether the window was its cause
SAMPLE = 100  # frames for one measured share of loss; the standard error of 10 % is then 3 %
AVERAGED = 8  # samples that make up `Window.loss`, and rounds that make up the noise
MARGIN = 0.05  # share of loss beyond the usual that is tolerated, beside three standard errors
INTOLERABLE = 0.6  # share of loss that no radio link has and still carries data
UNCHANGED = 0.75  # of a share of loss: as much or more after the window shrank is not due to the window
SMALL = 32  # frames: less of a long message waits for the window to open, unless that is small itself
REMEMBERED = 10.0  # seconds for which the least round trip is remembered (as BBR's RTprop filter)
DRAIN_FIRST, DRAIN = 0.5, 4.0  # seconds after which, where queues were seen, one's own is let run dry


def least_part(left: int, window: float) -> int:
    """The least number of frames of a message to send at once, with `left` frames to go.

    Up to half of the window, a message waits until all of it may leave, because a receiver has to join the parts. The
    caller limits `window` to the frames promised by the receivers. Else a larger message would never be sent.
    """
    if left <= window / 2:
        return left
    return SMALL if window >= 4 * SMALL else int(window / 4) or 1


class Window:
    """Congestion window towards one receiver, in frames."""

    __slots__ = (
        "_allowed", "_allowed_fast", "_arrived", "_best", "_clean", "_crowded", "_delivered", "_drain_after",
        "_drain_at", "_drained", "_draining", "_growth", "_least", "_lost", "_mean", "_noise", "_previous",
        "_rotate_at", "_round_ends", "_samples", "_slack", "_started", "_starting", "_tolerance", "_tried", "_usual",
        "frames", "loss",
    )  # fmt: skip

    def __init__(self, priority: int = NORMAL) -> None:
        """`priority`: its class. Bulk makes hardly a queue, and so yields to all that does (as in LEDBAT, RFC 6817)."""
        is_bulk = priority == BULK
        self.frames = float(BULK_INITIAL if is_bulk else INITIAL)
        self._allowed, self._slack = (BULK_QUEUE, BULK_SLACK) if is_bulk else (QUEUE, SLACK)
        self._allowed_fast = BULK_FAST_QUEUE if is_bulk else math.inf
        self._tolerance = NOISE if is_bulk else 0.0  # the others are allowed more queue than most jitter
        self._growth = BULK_GROWTH if is_bulk else GROWTH
        self._starting = True  # doubling each round trip
        self._round_ends = 0  # this round ends when this transmission arrives
        self._started = 0.0  # when this round began
        self._delivered = 0  # frames acknowledged in this round
        self._best = math.inf  # shortest round trip of this round
        self._previous = math.inf  # that of the round before, both with the least window; else infinite
        self._noise = 0.0  # seconds by which these differ: jitter, as the window has no part in it
        self._least = [math.inf, math.inf]  # the shortest of this REMEMBERED seconds, and of those before
        self._rotate_at = 0.0
        self._drain_after = DRAIN_FIRST
        self._drain_at = math.inf
        self._draining = 0  # rounds until that is over
        self._drained = 0.0  # the window to go back to
        self._crowded = 0  # rounds in a row with too long a queue
        self._clean = 0  # rounds since the window last shrank
        self._arrived = self._lost = 0  # of this sample of outcomes
        self._tried = 0.0  # mean loss when it shrank the window; negative until what was under way is accounted for
        self._mean = 0.0  # of the samples
        self._samples = 0
        self.loss = math.nan  # share of frames lost lately; not a number until there are a few samples
        self._usual = 0.0  # share of loss that is taken to be the link's own

    def lost(self, count: int) -> None:
        """Count frames found to be lost."""
        self._lost += count

    def acknowledged(self, now: float, count: int, round_trip: float, latest: int, sent: int) -> None:
        """`count` frames were acknowledged, the newest after `round_trip` seconds (`inf` if that is not known).

        `latest` is the latest transmission known to have arrived, `sent` how many there have been.
        """
        self._delivered += count
        if round_trip < self._best:
            self._best = round_trip
        if latest >= self._round_ends:
            self._end_round(now, sent)

    def _end_round(self, now: float, sent: int) -> None:
        """Judge what this round trip has shown."""
        best, delivered, seconds = self._best, self._delivered, now - self._started
        queue = self._queue(now, best)
        self._arrived += delivered
        self._round_ends, self._started, self._delivered, self._best = sent, now, 0, math.inf
        if self._draining:
            self._drain(now)
            return
        allowed = self._allowed if delivered < FAST * seconds else self._allowed_fast
        is_fastest = delivered >= FASTEST * seconds
        if self.frames > MOST and not is_fastest:
            self.frames = float(MOST)
        self._listen(best)
        self._crowded = self._crowded + 1 if queue > allowed + self._tolerance * self._noise else 0
        if queue > self._slack and delivered < SLOW * seconds and self._drain_at == math.inf:
            self._drain_at = now + self._drain_after
            self._drain_after = DRAIN
        if self._crowded > (0 if self._starting else 1):
            self._shrink((best - queue + self._slack) / best)
        elif self._overloaded():
            self._shrink(OVERLOAD)
        elif now >= self._drain_at:
            self._drain_at, self._drained, self._draining = math.inf, self.frames, 3
            self._drain(now)
        elif delivered * 2 >= self.frames and not self._crowded and not self._tried:  # it was used, and is not on trial
            self._open(delivered, MOST_THERE if is_fastest else MOST)

    def _listen(self, best: float) -> None:
        """With the least window, learn how much round trips differ all the same: so much delay is not its fault."""
        if self.frames > LEAST:
            self._previous = math.inf
        elif best < math.inf:
            if self._previous < math.inf:
                self._noise += (abs(best - self._previous) - self._noise) / AVERAGED
            self._previous = best

    def _drain(self, now: float) -> None:
        """Drain the own part of the queue, so that all flows on the link can measure the least round trip."""
        self._draining -= 1
        self.frames = LEAST if self._draining else self._drained

    def _queue(self, now: float, best: float) -> float:
        """How much of a round trip was spent in queues."""
        if best == math.inf:
            return 0.0
        least = self._least
        if now >= self._rotate_at:
            self._rotate_at = now + REMEMBERED
            self._noise /= 2
            least[1], least[0] = least[0], best
        elif best < least[0]:
            least[0] = best
        return best - min(least)

    def _open(self, delivered: int, most: int) -> None:
        if self._starting:
            grown = float(delivered)
        else:
            grown = min(4 + self._clean * self._clean / 4, self.frames / self._growth)
        self._clean += 1
        self.frames = min(self.frames + grown, most)

    def _shrink(self, factor: float) -> None:
        self.frames = max(self.frames * factor, LEAST)
        self._starting = False
        self._clean = self._crowded = 0

    def _overloaded(self) -> bool:
        """Whether the latest sample shows clearly more loss than usual; and learn what is usual.

        If a smaller window does not lessen the loss, it was not the window's fault.
        """
        total = self._arrived + self._lost
        if total < SAMPLE:
            return False
        if not (self._lost or self._tried or self.loss):  # as ever on a wire
            self._arrived = 0
            return False
        share, before = self._lost / total, self._tried
        self._arrived = self._lost = 0
        self._average(share)
        if share:
            self._starting = False
        if before < 0:  # these were under way when the window shrank
            self._tried = -before
            return False
        self._tried = 0.0
        if before and UNCHANGED * before < share < INTOLERABLE:
            self._usual = max(self._usual, min(share, before))
        elif self._mean < self._usual:
            self._usual = self._mean
        error = math.sqrt(share * (1 - share) / total)
        if share > self._usual + MARGIN + 3 * error or share > INTOLERABLE:
            self._tried = -self._mean  # and not this share, which is an extreme
            return True
        return False

    def _average(self, share: float) -> None:
        self._samples = min(self._samples + 1, AVERAGED)
        self._mean += (share - self._mean) / self._samples
        if self._samples == AVERAGED:
            self.loss = self._mean
