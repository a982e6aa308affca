"""When to acknowledge: at once, after a short delay, or with data that goes the other way anyway.

A gap, a duplicate or a resent frame is acknowledged in the same turn, and so is every n-th frame of a stream (the
*stride*). A stream that loses frames always has an open gap. Once its sender knows of one gap, further gaps are
reported with the usual delay. In a group, a gap is reported after a random time (`spread`), because other members are
likely to miss the same frames, and one report may repair the gap for all. Other acknowledgements may wait for
`ACK_DELAY`, as data to the same peer carries them free of cost.

The stride adapts to the sender. It grows while frames keep coming, since each acknowledgement costs both sides a turn.
It shrinks when frames stop short of it: the sender's window may be smaller than the stride, and the sender waits.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from random import Random

import orjson

from glue.contract import Outbound
from glue.transport.incoming import IncomingChannel, IncomingPeer
from glue.transport.round_trip import ACK_DELAY
from glue.transport.wire import ACK, DATA, KEY, MAX_HELD_US, MENDED, WINDOW, encode_ranges

FEWEST, MOST = 32, 384  # frames between acknowledgements: the smallest window, and a fifth of a large one
MOST_OF_GROUP = 640  # in a group, a third of a large window: the sender reads the acknowledgements of all members
FEW = 3  # members of a group that may all report at once
SPREAD = 0.00025  # seconds for each member of a group over which reports of the same loss are spread
WIDEST = 0.0125  # the most seconds of this spread: many times the duration of a report and its repair on a LAN
SHORT, FEW_DIGITS = 10**8, 10**5  # sequences and channels below: 8 + 8 + 5 + 5 digits, which DATA has room for
STREAM = 8  # frames within ACK_DELAY that make a stream: 5 MB/s of full frames, or 4,000 small ones a second
PAUSE = 24  # frames: an acknowledgement that was due by time for this many means that the sender may be waiting

_ACK_CHANNEL, _ACK_NEXT, _ACK_HELD = map(DATA.place, ("ack_channel", "ack_next", "ack_held_us"))
_CHANNEL, _SEQUENCE = map(DATA.place, ("channel", "sequence"))
_LONGEST = DATA.longest - 1  # bytes of an entry; its sequence may grow by a digit within the run
_fields = ACK.getter("held_us", "window", "channel", "next")
_pack = ACK.packer("held_us", "window", "channel", "next")
_pack_mended = MENDED.packer("mended", "held_us", "window", "channel", "next")


class Acknowledger:
    """Which channels owe an acknowledgement, and since when."""

    __slots__ = ("_chance", "_late", "_owing", "_prompt", "_reports", "_statistics", "accepting")

    def __init__(self, statistics: Counter[str], chance: Random) -> None:
        self.accepting = True  # whether windows are opened further
        self._statistics = statistics
        self._late: deque[tuple[float, IncomingChannel]] = deque()  # delayed acknowledgements by time due
        self._owing: dict[str, IncomingChannel] = {}  # by peer: what data to that peer can carry
        self._chance = chance
        self._reports: list[tuple[float, int, IncomingChannel]] = []  # of gaps in groups: a heap by time due
        self._prompt: dict[int, IncomingChannel] = {}  # to be acknowledged in this turn

    @property
    def deadline(self) -> float:
        """When the first acknowledgement is due."""
        if self._prompt:
            return -math.inf
        late = self._late
        while late and late[0][1].acknowledge_at != late[0][0]:  # else there is a turn in vain for each of them
            late.popleft()
        at = late[0][0] if late else math.inf
        return min(at, self._reports[0][0]) if self._reports else at

    def taken(self, now: float, incoming: IncomingChannel, count: int, at_once: bool) -> None:
        """Note `count` frames received on a channel, to be acknowledged at once or soon."""
        if at_once and self._cannot_wait(now, incoming, count):
            self._prompt[id(incoming)] = incoming
        elif incoming.unacknowledged >= incoming.stride:
            most = MOST_OF_GROUP if incoming.members > 1 else MOST
            incoming.stride = min(incoming.stride + incoming.stride // 4, most)
            self._prompt[id(incoming)] = incoming
        elif not incoming.acknowledge_at:
            incoming.acknowledge_at = at = now + ACK_DELAY
            self._late.append((at, incoming))
            self._owing[incoming.peer] = incoming

    def _cannot_wait(self, now: float, incoming: IncomingChannel, count: int) -> bool:
        """Whether what is to be told at once is; in a group, a gap is reported after a random time."""
        if incoming.members > FEW:
            if incoming.ranges and not incoming.report_at:
                incoming.report_at = now + spread(self._chance, incoming.members)
                heappush(self._reports, (incoming.report_at, id(incoming), incoming))
            return False
        return not _can_wait(now, incoming, count)

    def accept(self, accepting: bool, sources: Iterable[IncomingPeer]) -> None:
        """Stop or start promising windows; on start, acknowledge to all senders that may be waiting."""
        self.accepting = accepting
        for source in sources if accepting else ():
            for incoming in source.channels.values():
                if incoming.promised - incoming.next < WINDOW:
                    self.now(incoming)

    def now(self, incoming: IncomingChannel) -> None:
        """Acknowledge in this turn, whatever the channel."""
        self._prompt[id(incoming)] = incoming

    def hurry(self) -> None:
        """Acknowledge in this turn all that would be acknowledged soon."""
        for at, incoming in self._late:
            if incoming.acknowledge_at == at:
                self._prompt[id(incoming)] = incoming

    def forget(self, peer: str) -> None:
        """Drop the acknowledgements owed to a removed peer, as its next life numbers its channels anew."""
        self._owing.pop(peer, None)
        self._prompt = {key: incoming for key, incoming in self._prompt.items() if incoming.peer != peer}
        for _, incoming in self._late:
            if incoming.peer == peer:
                incoming.acknowledge_at = 0.0
        for report in [report for report in self._reports if report[2].peer == peer]:
            report[2].report_at = 0.0
            self._reports.remove(report)
        heapify(self._reports)

    def due(self, now: float) -> list[Outbound]:
        """The acknowledgements to send now: all urgent ones, and the delayed acknowledgements now due."""
        late = self._late
        while late and late[0][0] <= now:
            at, incoming = late.popleft()
            if incoming.acknowledge_at == at:
                if incoming.unacknowledged >= PAUSE:
                    incoming.stride = max(incoming.stride // 2, FEWEST)
                self._prompt[id(incoming)] = incoming
        while self._reports and self._reports[0][0] <= now:
            _, _, incoming = heappop(self._reports)
            incoming.report_at = 0.0
            if incoming.ranges:  # else FEC recovered it before
                self._statistics["gaps reported to groups"] += 1
                self._prompt[id(incoming)] = incoming
        if not self._prompt:
            return []
        prompt, self._prompt = self._prompt, {}
        self._statistics["acknowledgements sent"] += len(prompt)
        return [answer for incoming in prompt.values() for answer in self._answers(now, incoming)]

    def _answers(self, now: float, incoming: IncomingChannel) -> Iterator[Outbound]:
        answer = self._acknowledgement(now, incoming)
        if incoming.recovered != incoming.reported:  # twice, for if none came, all recovered frames would be sent again
            incoming.reported = incoming.recovered
            answer.header[KEY] = _pack_mended(incoming.recovered, *_fields(answer.header[KEY]))
            yield Outbound(answer.peers, answer.bodies, dict(answer.header))
        yield answer

    def _acknowledgement(self, now: float, incoming: IncomingChannel) -> Outbound:
        held = self._held(now, incoming)
        incoming.gap_told = bool(incoming.ranges)
        body = encode_ranges(list(incoming.ranges), incoming.next)
        entry = _pack(held, incoming.window(self.accepting), incoming.channel, incoming.next)
        return Outbound((incoming.peer,), [body], {KEY: entry})

    def _held(self, now: float, incoming: IncomingChannel) -> int:
        """Note that it is acknowledged now; return for how long the newest frame had to wait, in µs."""
        self._acknowledged(incoming)
        held = int((now - incoming.newest_at) * 1e6)
        return held if held < MAX_HELD_US else MAX_HELD_US

    def _acknowledged(self, incoming: IncomingChannel) -> None:
        incoming.acknowledge_at = 0.0
        incoming.unacknowledged = 0
        if self._owing.get(incoming.peer) is incoming:
            del self._owing[incoming.peer]

    def owing(self, peer: str) -> IncomingChannel | None:
        """The channel of which data to a peer would carry an acknowledgement."""
        return self._owing.get(peer)

    def was_carried(self, incoming: IncomingChannel, times: int, upto: int, left: int) -> None:
        """Data has carried acknowledgements of a channel, the last up to this frame; after which so many came."""
        incoming.gap_told = False
        incoming.promised = max(incoming.promised, upto + WINDOW)
        self._acknowledged(incoming)
        incoming.unacknowledged = left
        self._statistics["acknowledgements carried by data"] += times

    def owe(self, since: float, incoming: IncomingChannel) -> None:
        """Acknowledge soon, with data if there is any, what has come since then: a few frames, told of late."""
        if not incoming.acknowledge_at:
            late, place = self._late, len(self._late)
            incoming.acknowledge_at = at = since + ACK_DELAY
            while place and late[place - 1][0] > at:
                place -= 1
            late.insert(place, (at, incoming))
            self._owing[incoming.peer] = incoming

    def carry(self, now: float, item: Outbound) -> None:
        """Let data to a single peer carry the acknowledgement that is owed to it."""
        incoming = self._owing.get(item.peers[0])
        if incoming is None or not self.accepting or incoming.ranges.size or incoming.recovered != incoming.reported:
            return
        entry = item.header[KEY]
        if entry[0] != "data":
            return  # a repair symbol
        channel, upto = incoming.channel, incoming.next
        if not (upto < SHORT > entry[_SEQUENCE] and channel < FEW_DIGITS > entry[_CHANNEL]):
            carried = entry.copy()
            carried[_ACK_CHANNEL], carried[_ACK_NEXT], carried[_ACK_HELD] = channel, upto, MAX_HELD_US
            if len(orjson.dumps(carried)) > _LONGEST:
                return  # after years; the acknowledgement goes on its own
        incoming.gap_told = False
        incoming.promise()
        entry[_ACK_CHANNEL], entry[_ACK_NEXT], entry[_ACK_HELD] = channel, upto, self._held(now, incoming)
        self._statistics["acknowledgements carried by data"] += 1


def _can_wait(now: float, incoming: IncomingChannel, count: int) -> bool:
    """Whether these frames are of a stream, the sender of which knows that some are missing."""
    if now - incoming.burst_at > ACK_DELAY:
        incoming.burst_at, incoming.burst = now, 0
    incoming.burst += count
    return incoming.gap_told and incoming.burst > STREAM


def spread(chance: Random, members: int) -> float:
    """After how many seconds one of so many members reports what all may have lost.

    A truncated exponential: few draw a short time, most a long one, so that of any number a few come first
    (Nonnenmacher and Biersack 1999, as in RFC 5401, section 4.2.3).
    """
    longest = min(SPREAD * members, WIDEST)
    rate = math.log(members) + 1
    return longest / rate * math.log(1 + chance.random() * (math.exp(rate) - 1))
