"""The receiving end of one channel: order, no duplicates, and what is to be acknowledged.

Frames ahead of a gap wait until it is filled, up to the window that was promised. What has been handed up in
order is one number (`next`); what waits beyond it is a set of ranges.
"""

from __future__ import annotations

from collections import OrderedDict

from glue.contract import Inbound, advanced
from glue.contract.pieces import total
from glue.contract.ranges import RangeSet
from glue.transport.fec.decoder import Decoder
from glue.transport.wire import KEY, WINDOW

STRIDE = 64  # frames: half of a sender's first window
BUDGET = 64 << 20  # bytes waiting behind gaps, over all channels of all peers, bookkeeping included
UNKNOWN = 1.0  # seconds: more than an acknowledgement can tell
RUN_COST = 1000  # bytes of bookkeeping a run: its header as parsed is most of it


class GapBudget:
    """Bytes held behind gaps, over all channels."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0


class IncomingChannel:
    """One channel of one peer, as received here."""

    __slots__ = (
        "_budget", "_early", "acknowledge_at", "burst", "burst_at", "channel", "decoder", "gap_told", "members",
        "newest_at", "next", "outcome", "peer", "promised", "ranges", "recovered", "report_at", "reported", "stride",
        "unacknowledged",
    )  # fmt: skip

    def __init__(self, peer: str, channel: int, budget: GapBudget) -> None:
        self.peer = peer
        self.channel = channel
        self.next = 0  # all frames below were handed up
        self.ranges = RangeSet()  # frames had beyond `next`
        self.promised = WINDOW  # frames below this are taken; never lowered, as the sender may rely on it
        self.stride = STRIDE  # frames after which to acknowledge without delay
        self.unacknowledged = 0  # frames taken since the last acknowledgement
        self.gap_told = False  # whether that told of a gap
        self.burst_at = 0.0  # since when frames are counted that came beside a gap,
        self.burst = 0  # and how many have
        self.members = 1  # of the channel, as far as is known
        self.report_at = 0.0  # when a gap is to be reported to the sender of a group; 0: none is
        self.acknowledge_at = 0.0  # when a delayed acknowledgement is due; 0: none is
        self.newest_at = 0.0  # when the frame with the highest sequence came
        self.outcome = ""  # why the latest frames were not all taken, for the counters
        self.decoder: Decoder | None = None  # if repair symbols come
        self.recovered = 0  # frames recovered by FEC
        self.reported = 0  # recovered frames reported to the sender
        self._early: dict[int, tuple[Inbound, float]] = {}  # by first sequence: the run, and when it came
        self._budget = budget

    def advance(self, now: float, sequence: int, count: int) -> bool:
        """Take frames that come in order while nothing else waits; False, and nothing is done, if these are not so."""
        stop = sequence + count
        if sequence != self.next or self.ranges.size or stop > self.promised:
            return False
        self.outcome = ""
        self.next = stop
        self.unacknowledged += count
        self.newest_at = now
        return True

    def take(self, now: float, run: Inbound, sequence: int) -> list[Inbound]:
        """Take a run from `sequence` on that `advance` refused; return the runs to hand up now, in order.

        Sets `outcome`: empty if all frames were new, else the cause for the counters.
        """
        count = len(run.bodies)
        self.outcome = ""
        stop = sequence + count
        if stop > self.promised:
            stop = self.promised
            self.outcome = "beyond window"
        start = max(sequence, self.next)
        if start >= stop:
            self.outcome = self.outcome or "duplicate frames"
            return []
        if stop > self.ranges.stop:
            self.newest_at = now
        fresh = self.ranges.add(start, stop)
        news = sum(b - a for a, b in fresh)
        self.unacknowledged += news
        if news < count:
            self.outcome = self.outcome or "duplicate frames"
        for begin, end in fresh:
            self._keep(now, _part(run, sequence, begin, end), begin)
        return self._ready(now)

    def missing(self, first: int, count: int) -> list[int]:
        """The frames not yet received of `count` from `first` on."""
        gaps = self.ranges.gaps(max(first, self.next), first + count)
        return [sequence for start, stop in gaps for sequence in range(start, stop)]

    def newest_decoded(self, now: float) -> None:
        """Forget the arrival time of the newest frame if FEC recovered it, as that says nothing about the link."""
        if self.newest_at == now:
            self.newest_at = now - UNKNOWN

    def _keep(self, now: float, run: Inbound, start: int) -> None:
        self._early[start] = run, now
        self._budget.held += _cost(run)

    def _ready(self, now: float) -> list[Inbound]:
        """Remove and return the early runs that now follow the frames handed up before."""
        out: list[Inbound] = []
        while self.next in self._early:
            run, came = self._early.pop(self.next)
            self._budget.held -= _cost(run)
            run.age += now - came
            self.next += len(run.bodies)
            out.append(run)
        if out:
            self.ranges.drop_below(self.next)
        return out

    def skip(self, now: float, sequence: int) -> tuple[int, list[Inbound]]:
        """Skip to `sequence`; return the number of frames given up, and the runs to hand up now.

        Early frames below `sequence` are dropped: each belongs to a message with a gap.
        """
        if sequence <= self.next:
            return 0, []
        given_up = sequence - self.next
        for start in [start for start in self._early if start < sequence]:
            run, came = self._early.pop(start)
            self._budget.held -= _cost(run)
            if start + len(run.bodies) > sequence:
                self._early[sequence] = _part(run, start, sequence, start + len(run.bodies)), came
                self._budget.held += _cost(self._early[sequence][0])
        self.next = sequence
        self.promised = max(self.promised, sequence)
        self.ranges.drop_below(sequence)
        return given_up, self._ready(now)

    def drop(self) -> None:
        """Give back what is held; the channel is done with."""
        for run, _ in self._early.values():
            self._budget.held -= _cost(run)
        self._early.clear()
        if self.decoder is not None:
            self.decoder.drop()
            self.decoder = None

    def window(self, accepting: bool) -> int:
        """Frames beyond `next` that the sender may send from now on; what was promised stays promised."""
        if accepting:
            self.promise()
        return self.promised - self.next

    def promise(self) -> None:
        """Let the sender go on by a whole window."""
        promised = self.next + WINDOW
        if promised > self.promised:
            self.promised = promised


def _cost(run: Inbound) -> int:
    """Bytes that a run takes while it waits."""
    return total(run.bodies) + RUN_COST


def _part(run: Inbound, sequence: int, start: int, stop: int) -> Inbound:
    """The frames [start, stop) of a run that starts at `sequence`."""
    skip = start - sequence
    if not skip and stop - start == len(run.bodies):
        return run
    header = advanced(run.header, skip) if skip else run.header
    return Inbound(run.peer, run.incarnation, run.address, header, run.bodies[skip : stop - sequence], run.age)


class RecentFrames:
    """The latest best-effort sequences of a peer: drops duplicates, keeps no order.

    A run far from the latest sequences is dropped, so that one forged number does not make later frames look old. Runs
    that continue each other there are believed in the end (as RFC 3550, appendix A.1). Beyond LEAP the second run is
    believed: the sender may have sent to others meanwhile. Below SPAN, where duplicates are, RETURN runs are needed.
    """

    __slots__ = ("_bits", "_stray_stop", "_strays", "_top")
    SPAN = 4096  # sequences remembered below the highest; older ones count as duplicates
    LEAP = 1 << 20  # sequences that one frame may be ahead: 10 minutes of 1,700 frames a second to others
    RETURN = 32

    def __init__(self) -> None:
        self._top = 0  # one more than the highest sequence had
        self._bits = 0  # bit i: sequence top - 1 - i was had
        self._strays = self._stray_stop = 0  # runs far from the rest that continue each other; where the last ended

    def take(self, run: Inbound) -> list[Inbound]:
        """The frames of the run that were not had before."""
        sequence, count = run.header[KEY][-1], len(run.bodies)
        is_near = sequence + count > self._top - self.SPAN and sequence <= self._top + self.LEAP
        if self._top and not is_near and self._strays_to(sequence, count):
            return []
        if sequence >= self._top:
            shift = sequence + count - self._top
            self._bits = (self._bits << min(shift, self.SPAN) | ((1 << min(count, self.SPAN)) - 1)) & (
                (1 << self.SPAN) - 1
            )
            self._top = sequence + count
            return [run]
        return [
            _part(run, sequence, number, number + 1)
            for number in range(sequence, sequence + count)
            if self._new(number)
        ]

    def _strays_to(self, sequence: int, count: int) -> bool:
        """Whether a run far from the rest is not to be believed; else it begins anew there."""
        follows = self._stray_stop <= sequence < self._stray_stop + self.SPAN
        self._strays = self._strays + 1 if follows else 1
        self._stray_stop = sequence + count
        if self._strays < (2 if sequence > self._top else self.RETURN):
            return True
        self._strays = self._bits = 0
        self._top = sequence
        return False

    def _new(self, number: int) -> bool:
        if number >= self._top:
            self._bits = (self._bits << min(number + 1 - self._top, self.SPAN)) & ((1 << self.SPAN) - 1)
            self._top = number + 1
        bit = 1 << (self._top - 1 - number) if self._top - number <= self.SPAN else 0
        fresh = bit and not self._bits & bit
        self._bits |= bit
        return bool(fresh)


class IncomingPeer:
    """A peer as a sender: the channels that it uses towards this endpoint."""

    __slots__ = ("best", "channels", "incarnation")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.channels: OrderedDict[int, IncomingChannel] = OrderedDict()  # the least recently used first
        self.best = RecentFrames()

    def use(self, channel: int) -> IncomingChannel | None:
        """A channel that is about to be used; None if it is not known."""
        incoming = self.channels.get(channel)
        if incoming is not None:
            self.channels.move_to_end(channel)
        return incoming

    def drop(self) -> None:
        """Give back what its channels hold; this life of it is done with."""
        for incoming in self.channels.values():
            incoming.drop()
        self.channels.clear()
