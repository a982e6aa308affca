"""The fast path of transport: frames in the order of their channel, and the frames of a session.

In a session (`glue.fastpath.session`) each frame is a whole message. Frames are numbered at once; the rest of the work
is deferred to one commit for all frames. A session serves only the simple case: one unicast channel each way, without
missing or waiting frames. A commit brings transport to the state of the ordinary way. It records one flight for each
frame under way, and a single flight for all frames acknowledged since. The commit reads only the newest
acknowledgement, because it covers all earlier ones, and notes the acknowledgement owed in return.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from glue.contract import CONSUMED, NORMAL, Downward, Inbound, Outbound, Partner, Upward
from glue.contract.header import NUMBER
from glue.contract.pieces import total
from glue.transport.acknowledger import FEW_DIGITS, SHORT
from glue.transport.channel import Channel
from glue.transport.fec import policy
from glue.transport.incoming import IncomingChannel, IncomingPeer
from glue.transport.layer import Transport
from glue.transport.wire import DATA, KEY, MAX_HELD_US

MOST = 1024  # frames that leave before a commit: some 1.3 MB
OPEN = 256  # of them on their way: some 330 kB
ROOM = 256  # frames that pass at most until it is asked again whether there is room
FEW = 4  # frames that come without an answer: more are a stream, and acknowledged as such
_ATTEMPT, _AGE, _CHANNEL, _SEQUENCE = map(DATA.place, ("attempt", "age_ms", "channel", "sequence"))  # as in a group
_ACK_CHANNEL, _ACK_NEXT, _ACK_HELD = map(DATA.place, ("ack_channel", "ack_next", "ack_held_us"))
_GROUP = rb"(%b)" % NUMBER
_NONE = b"0"
_PLAIN = DATA.template(channel=b"%b", sequence=b"%d")
_ANSWER = DATA.template(ack_channel=b"%b", ack_next=b"%d", ack_held_us=b"%d", channel=b"%b", sequence=b"%d")
"""The text of an entry that carries an acknowledgement."""


class UnicastExchange:
    """The unicast frames to and from one peer, in a session."""

    __slots__ = (
        "_acked_at", "_acks", "_before", "_bodies", "_carried", "_carries", "_end", "_first", "_from", "_held",
        "_incoming", "_most", "_next", "_number", "_owed", "_owed_since", "_promised", "_received_at", "_sent",
        "_shared", "_source", "_times", "_upto", "_window", "channel", "is_full",
    )  # fmt: skip

    def __init__(self, shared: TransportFastPath, source: IncomingPeer, channel: Channel) -> None:
        self._shared = shared
        self._source = source
        self.channel = channel
        self._number = b"%d" % channel.number
        self._sent = channel.next  # the sequence of what leaves next
        self._bodies: list[bytes] = []  # of what has left,
        self._times: list[float] = []  # and when that was
        member = channel.attached[0]
        self._upto = self._before = member.next  # all below is acknowledged, and was before the newest that was news
        self._window = int(min(member.window.frames, OPEN))  # frames that may be on their way
        self._most = min(channel.next + MOST, member.limit)
        self._end = min(member.next + self._window, self._most)  # frames below this may leave
        self.is_full = self._sent >= self._end
        self._acks, self._acked_at, self._held = 0, 0.0, _NONE
        self._incoming: IncomingChannel | None = None
        self._from = b""  # the number of the channel that is received, once it is known
        self._first = self._next = self._promised = 0  # on this channel: first and next sequence
        self._owed, self._owed_since, self._received_at = 0, 0.0, 0.0  # frames that came since the last acknowledgement
        self._carries = self._carried = 0  # acknowledgements that left with frames, and up to where

    def listen(self, incoming: IncomingChannel | None) -> bool:
        """Receive this channel from now on, if nothing of it is missing, nor to be told but what frames can carry."""
        if incoming is None or incoming.ranges or incoming.decoder is not None:
            return False
        if incoming.recovered != incoming.reported:
            return False
        owing = self._shared.acknowledger.owing(incoming.peer)
        if owing is not incoming and (owing is not None or incoming.unacknowledged):
            return False
        if incoming.channel >= FEW_DIGITS or incoming.promised >= SHORT:
            return False
        self._incoming = incoming
        self._from = b"%d" % incoming.channel
        self._first = self._next = incoming.next
        self._promised = incoming.promised
        self._owed, self._received_at = incoming.unacknowledged, incoming.newest_at
        return True

    @property
    def waits_since(self) -> float:
        """Since when a frame waits for its acknowledgement; -inf: longer, or there is no room."""
        since = self._owed_since if self._owed else inf
        waiting = self._upto - self.channel.next
        if waiting < 0 or len(self._bodies) > MOST - ROOM:
            return -inf
        return min(since, self._times[waiting]) if self._upto < self._sent else since

    def take(self, now: float, numbers: tuple[bytes, ...]) -> bool:
        """Take the frame with these numbers, if it is the next; see `glue.fastpath.parts`."""
        ack_channel, ack_next, held, channel, sequence = numbers
        if channel != self._from and (self._from or not self.listen(self._source.channels.get(int(channel)))):
            return False
        number = self._next
        if int(sequence) != number or number >= self._promised or self._owed >= FEW:
            return False
        if ack_channel != _NONE:
            upto = int(ack_next)
            if ack_channel != self._number or not self._upto <= upto <= self._sent:
                return False
            if upto > self._upto:
                self._before = self._upto
            self._upto, self._held, self._acked_at = upto, held, now
            self._acks += 1
            self._end = min(upto + self._window, self._most)
            self.is_full = self._sent >= self._end
        self._next = number + 1
        if not self._owed:
            self._owed_since = now
        self._owed += 1
        self._received_at = now
        return True

    def write(self, now: float, body: bytes) -> bytes:
        """The entry of the next frame, of this body."""
        if self._owed:
            entry = _ANSWER % (
                self._from,
                self._next,
                min(int((now - self._received_at) * 1e6), MAX_HELD_US),
                self._number,
                self._sent,
            )
        else:
            entry = _PLAIN % (self._number, self._sent)
        self._sent += 1
        self.is_full = self._sent >= self._end
        self._bodies.append(body)
        self._times.append(now)
        if self._owed:
            self._owed = 0
            self._carries += 1
            self._carried = self._next
        return entry

    def commit(self) -> tuple[int, int]:
        """Complete the deferred work of the session; return the numbers of frames received and sent."""
        came, left = self._next - self._first, len(self._bodies)
        if self._incoming is not None and (came or self._carries):
            self._commit_received(self._incoming, came)
        if left:
            self._commit_sent()
        if self._acks:
            self._shared.statistics["acknowledgements received"] += self._acks - 1
            peer, number = self.channel.peers[0], self.channel.number
            self.channel.attached[0].next = self._before  # all at once would look like a window that was made use of
            self._shared.carried.append((self._acked_at, peer, number, self._upto, int(self._held)))
        return came, left

    def _commit_received(self, incoming: IncomingChannel, came: int) -> None:
        if came:
            incoming.advance(self._received_at, self._first, came)
            self._source.channels.move_to_end(incoming.channel)
            self._shared.statistics["frames received"] += came
        if self._carries:
            self._shared.acknowledger.was_carried(incoming, self._carries, self._carried, self._owed)
        if came and self._owed:
            self._shared.acknowledger.owe(self._owed_since, incoming)

    def _commit_sent(self) -> None:
        channel, bodies, times = self.channel, self._bodies, self._times
        done = max(self._upto - channel.next, 0)
        if done:
            had = bodies[:done]
            channel.launch(times[done - 1], Outbound(channel.peers, had, messages=done), total(had), times[0], True)
        for at, body in zip(times[done:], bodies[done:], strict=True):
            channel.launch(at, Outbound(channel.peers, [body]), len(body), at, True)
        channel.arm()  # else what was due for frames that have been acknowledged makes a turn in vain
        self._shared.busy[channel.number] = channel
        self._shared.statistics["frames sent"] += len(bodies)


def _is_plain(channel: Channel) -> bool:
    """Whether a channel has one member, no waiting frames, and no loss."""
    if channel.waits_for_some or channel.ahead or channel.paused or channel.awaited or policy.is_wanted(channel):
        return False
    if channel.kind != "data" or len(channel.attached) != 1 or not channel.attached[0].unscathed:
        return False
    return channel.next < SHORT - MOST and channel.number < FEW_DIGITS


class TransportFastPath:
    """Frames that nothing is missing or waits before; see `glue.contract.fastpath` and `glue.fastpath.parts`."""

    pattern = DATA.pattern(
        attempt=b"0", ack_channel=_GROUP, ack_next=_GROUP, ack_held_us=_GROUP, channel=_GROUP, sequence=_GROUP
    )

    def __init__(self, layer: Transport) -> None:
        self._layer = layer
        self.busy = layer.busy
        self.acknowledger = layer.acknowledger
        self.carried = layer.reception.carried
        self.statistics = layer.statistics

    def session_part(self) -> TransportFastPath:
        """The part that this layer takes in a session."""
        return self

    # -------------------------------------------------------------------------------------------- one run

    def receive_one(self, now: float, item: Upward) -> Upward | tuple[()] | None:
        """Frames of a known kind that are the next of their channel go up; an acknowledgement is taken."""
        if item.__class__ is not Inbound:
            return None
        kind, source = self._layer.kinds.get(item.form), self._layer.sources.get(item.peer)
        if source is None or source.incarnation != item.incarnation:
            return None
        if kind == "data" or kind == "group":
            return self._receive_frames(now, item, source)
        if kind != "ack":
            return None
        self._layer.receive_ack(now, item, source)
        return CONSUMED

    def _receive_frames(self, now: float, run: Inbound, source: IncomingPeer) -> Inbound | None:
        """Frames of data, sent for the first time, go up if they are the next; what they acknowledge can wait."""
        entry = run.header[KEY]
        channel, count = entry[_CHANNEL], len(run.bodies)
        incoming = source.channels.get(channel)
        if incoming is None or entry[_ATTEMPT] or incoming.decoder is not None:
            return None
        if not incoming.advance(now, entry[_SEQUENCE], count):
            return None
        source.channels.move_to_end(channel)
        if entry[_ACK_CHANNEL] and entry[0] == "data":
            self.carried.append((now, run.peer, entry[_ACK_CHANNEL], entry[_ACK_NEXT], entry[_ACK_HELD]))
        run.age = entry[_AGE] / 1000
        self.statistics["frames received"] += count
        self.acknowledger.taken(now, incoming, count, False)
        return run

    def awaits(self, run: Inbound) -> bool:
        """Whether a run (without bodies yet) begins with the next frame of its channel, sent for the first time."""
        source, kind = self._layer.sources.get(run.peer), self._layer.kinds.get(run.form)
        if source is None or source.incarnation != run.incarnation or (kind != "data" and kind != "group"):
            return False
        entry = run.header[KEY]
        incoming = source.channels.get(entry[_CHANNEL])
        if incoming is None or entry[_ATTEMPT] or incoming.decoder is not None:
            return False
        return entry[_SEQUENCE] == incoming.next and not incoming.ranges.size

    def send_one(self, now: float, item: Downward) -> Outbound | None:
        """The frames of a message that nothing stands before."""
        if item.__class__ is not Outbound or not item.reliable or item.after or item.expires < now:
            return None
        channel = self._layer.channels.get((item.peers, item.priority))
        if channel is None or (frames := channel.send_now(now, item)) is None:
            return None
        self.busy[channel.number] = channel
        self.statistics["frames sent"] += len(item.bodies)
        if channel.kind == "data":
            self.acknowledger.carry(now, frames)
        return frames

    # --------------------------------------------------------------------------------------- in a session

    def due(self, exchanges: Sequence[UnicastExchange]) -> float:
        """When anything is due but for the want of acknowledgements that these take; see `glue.fastpath.parts`."""
        those = [exchange.channel for exchange in exchanges]
        others = [channel.deadline for channel in self.busy.values() if channel not in those]
        return min([self.acknowledger.deadline, self._layer.sleeping.waking.deadline, *others])

    def exchange(self, partner: Partner) -> UnicastExchange | None:
        """The exchange of frames with a peer; None if it is not in the simple case."""
        peer = partner.id
        source, channel = self._layer.sources.get(peer), self._layer.channels.get(((peer,), NORMAL))
        if source is None or source.incarnation != partner.incarnation or not self.acknowledger.accepting:
            return None
        if channel is None or not _is_plain(channel):
            return None
        if any(other.waiting for other in self.busy.values()):  # most likely for what this peer is to acknowledge
            return None
        exchange = UnicastExchange(self, source, channel)
        owing = self.acknowledger.owing(peer)
        return exchange if owing is None or exchange.listen(owing) else None
