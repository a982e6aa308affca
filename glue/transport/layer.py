"""Reliable delivery between endpoint ids over datagrams that may be lost, doubled or overtaken.

A flow is a set of receivers and a class of data. Each flow has a channel: a sequence of frames, by unicast to one
receiver or by multicast to several. Each receiver acknowledges on its own. This module finds the channel of an item and
runs timers and acknowledgements. `channel` is the sending end, `reception` the receiving end. Channels of a more urgent
class send first. Each channel has its own windows. Therefore no channel delays another, and none starves.

Channel numbers count up and are never used twice in the life of an endpoint. A new set of receivers starts at sequence
0, and frames of an older set cannot be mistaken for its own. Barriers hold back frames that must not overtake others
(`Outbound.after`). If discovery loses a peer and finds the same life again, the sequences of the peer continue.
Therefore no frame is delivered twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from glue.contract import (
    Accept,
    Downward,
    Flow,
    Inbound,
    Outbound,
    PathChanged,
    PeerAdded,
    PeerRemoved,
    PeerSleeps,
    Sleep,
    Upward,
)
from glue.contract.counters import Counters
from glue.transport import recovery, slow_receivers
from glue.transport.acknowledger import Acknowledger
from glue.transport.barrier import Barrier
from glue.transport.best_effort import BestEffort
from glue.transport.channel import Channel
from glue.transport.fec import policy
from glue.transport.incoming import IncomingPeer
from glue.transport.outcomes import Outcomes
from glue.transport.reception import Handler, Reception
from glue.transport.sleeping import Sleeping
from glue.transport.window import Window
from glue.transport.wire import ACKNOWLEDGED, KEY, MENDED, WINDOW, Kinds, decode_ranges

GROUPS = 64  # multicast channels at most; beyond, data in a new flow to several goes by unicast to each
ABSENT = 1024  # peers remembered after discovery lost them; the size of discovery's own table
REGRESSIONS = 5  # probes in a row answered with less than before, or more than was sent: that receiver's state is lost
_mended = MENDED.getter("mended")


class Transport:
    """The transport layer of one endpoint. `Layer[Upward, Upward, Downward, Downward]`."""

    def __init__(
        self, *, endpoint_id: str, window: Callable[[int], Window] = Window, parity: float | None = None
    ) -> None:
        """`window` makes the congestion windows of each new channel, by its class; `parity`: see `FecState`."""
        self.statistics = Counters()
        self._id = endpoint_id
        self._make_window = window
        self._parity = parity
        self.channels: OrderedDict[Flow, Channel] = OrderedDict()
        self._by_number: dict[int, Channel] = {}
        self._replaced: dict[Flow, list[Channel]] = {}  # left by members, but not yet done with
        self._numbers = 0
        self.busy: dict[int, Channel] = {}  # channels with anything queued or unacknowledged
        self.sources: dict[str, IncomingPeer] = {}
        self._absent: OrderedDict[str, IncomingPeer] = OrderedDict()
        self.acknowledger = Acknowledger(self.statistics, Random(endpoint_id))
        self._best_effort = BestEffort(self.statistics)
        self.reception = Reception(endpoint_id, self.statistics, self.acknowledger, self._best_effort)
        self._outcomes = Outcomes(self.statistics)
        self._stirred = False  # whether anything happened that may let channels send
        self._eased = False  # whether acknowledgements came, which do so if anything waits for them
        self.kinds = Kinds()
        self.sleeping = Sleeping(self._by_number, self.busy, self.sources, self._outcomes, self.acknowledger)
        self._handlers: dict[str, Handler] = {
            **self.reception.handlers, "ack": self._on_ack, "mended": self._on_ack,
            **self.sleeping.handlers,
        }  # fmt: skip

    def fit(self, size: int) -> int:
        """The header is paid for below; frames are as large as they may be."""
        return size

    @property
    def backlog(self) -> int:
        """Bytes queued, or sent and not yet acknowledged by every receiver."""
        return sum([channel.backlog for channel in self.busy.values()]) if self.busy else 0

    @property
    def unfinished(self) -> int:
        """Reliable messages that are on their way, once for each receiver."""
        return sum([channel.unfinished for channel in self._by_number.values()])

    @property
    def deadline(self) -> float:
        """At once if there is news, or more to send; else when an acknowledgement, a frame or a probe is due."""
        if self._outcomes.news or self._stirred:
            return -inf
        at = min(self.acknowledger.deadline, self.sleeping.waking.deadline)
        for channel in self.busy.values():
            if channel.deadline < at:
                at = channel.deadline
        return at

    def receive_ack(self, now: float, run: Inbound, source: IncomingPeer) -> None:
        """Take acknowledgements that came alone, on the fast path."""
        self._take_carried()  # which are older
        self._on_ack(now, run, run.header[KEY], source, [])

    def commit(self) -> None:
        """Take what came with data, and find out, once a turn, whether acknowledgements let anything be sent."""
        self._take_carried()
        if self._eased:
            self._stirred = self._stirred or not all(channel.resting for channel in self.busy.values())
            self._eased = False

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Upward]) -> tuple[list[Upward], list[Downward]]:
        """Frames in order go up; acknowledgements, repairs and what the windows now let go come back."""
        self._take_carried()
        up: list[Upward] = []
        for item in items:
            if item.__class__ is not Inbound:
                self._on_news(now, item, up)
            elif KEY in item.header:
                self._on_frames(now, item, up)
            else:
                up.append(item)
        for channel in self.busy.values():
            if channel.deadline <= now:
                channel.due(now)
                self._stirred = True
                if self.sleeping.sleepers.table:
                    self.sleeping.sleepers.check(channel, now)
            if channel.awaited:
                self._outcomes.acknowledged(channel.awaited, channel.members)
        down: list[Downward] = [*self.acknowledger.due(now)] if self.acknowledger.deadline <= now else []
        if self._stirred or self._eased or self.sleeping.reports:  # else all that it lets go has been sent
            down += self._pump(now)
        down += self.sleeping.advance(now, up)
        if self._outcomes.news:
            up += self._outcomes.news
            self._outcomes.news.clear()
        return up, down

    def _on_frames(self, now: float, run: Inbound, up: list[Upward]) -> None:
        entry = run.header[KEY]
        kind = self.kinds.get(run.form) or self.kinds.check(run.form, entry)
        source = self.sources.get(run.peer)
        if kind is None or source is None or source.incarnation != run.incarnation:
            self.statistics["malformed entries" if kind is None else "frames of unknown peers"] += 1
            return
        self._handlers[kind](now, run, entry, source, up)

    def _on_ack(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        """Take acknowledgements, one in each body."""
        held_us, window, channel, upto = ACKNOWLEDGED[entry[0]](entry)
        if entry[0] == "mended" and not self._on_recovered(now, run.peer, channel, _mended(entry)):
            self.statistics["malformed entries"] += 1
            return
        for offset, body in enumerate(run.bodies):
            ranges = decode_ranges(body, upto + offset)
            if ranges is None:
                self.statistics["malformed entries"] += 1
                continue
            self._acknowledged(now, run.peer, channel, upto + offset, ranges, window, held_us / 1e6)

    def _take_carried(self) -> None:
        """Take the acknowledgements that came with data, as of their arrival.

        Call this before any use of the acknowledged state, and before another acknowledgement. The delay lets the
        application answer the data first.
        """
        carried = self.reception.carried
        if carried:
            for came, peer, number, upto, held_us in carried:
                self._acknowledged(came, peer, number, upto, [], WINDOW, held_us / 1e6)
                if (channel := self._by_number.get(number)) is not None:
                    recovery.taken_late(channel, peer)
            carried.clear()

    def _on_recovered(self, now: float, peer: str, number: int, total: int) -> bool:
        """A receiver reports how many frames of a channel it recovered by FEC; False if that cannot be true."""
        channel = self._by_number.get(number)
        member = channel.members.get(peer) if channel else None
        return channel is None or member is None or policy.recovered(channel, member, total, now)

    def _acknowledged(
        self, now: float, peer: str, number: int, upto: int, ranges: list[tuple[int, int]], window: int, held: float
    ) -> None:
        """Let a channel know of an acknowledgement; a receiver with another state of it gets a new channel."""
        channel = self._by_number.get(number)
        self._eased = True
        self.statistics["acknowledgements received"] += 1
        if channel is None:
            return  # closed since
        if not channel.acknowledge(now, peer, upto, ranges, window, held):
            self.statistics["acknowledgements of what was never sent"] += 1
        member = channel.members.get(peer)
        if member is not None and member.regressions >= REGRESSIONS:
            self._restart(channel, peer)

    def _restart(self, channel: Channel, peer: str) -> None:
        """A receiver's state of a channel is not ours: send it the rest on another one, from sequence 0."""
        self.statistics["channels restarted"] += 1
        other = self._make_channel(channel.flow, (peer,))
        channel.hand_over(peer, other)
        self._retire(channel)
        self._replaced.setdefault(channel.flow, []).append(other)

    # -------------------------------------------------------------------------------------------- news

    def _on_news(self, now: float, item: Upward, up: list[Upward]) -> None:
        self._stirred = True
        up.append(item)
        if isinstance(item, PeerAdded):
            source = self._absent.pop(item.peer, None)
            if source is not None and source.incarnation != item.incarnation:
                source.drop()
                source = None
            self.sources[item.peer] = source or IncomingPeer(item.incarnation)
            for channel in self._by_number.values():
                channel.avoid(item.peer)
        elif isinstance(item, PeerRemoved):
            self._remove(item)
        elif isinstance(item, PathChanged):
            for channel in self._by_number.values():
                if (member := channel.members.get(item.peer)) is not None:
                    recovery.path_changed(channel, now, member, self._make_window(channel.flow[1]), item.is_lost)
        elif isinstance(item, PeerSleeps):
            self.sleeping.note(now, item.peer, item.cycle)

    def _remove(self, item: PeerRemoved) -> None:
        """Remove a peer: give up its unacknowledged frames. If its lease expired, keep its channels for a return."""
        source = self.sources.pop(item.peer, None)
        if source is not None and item.reason == "expired":
            self._absent[item.peer] = source
            if len(self._absent) > ABSENT:
                self._absent.popitem(last=False)[1].drop()
        elif source is not None:
            source.drop()
        self.acknowledger.forget(item.peer)
        given_up = 0
        for channel in list(self._by_number.values()):
            if item.peer in channel.members:
                given_up += channel.remove(item.peer, "peer removed")
                self._retire(channel)
        if given_up:
            self.statistics["frames undelivered"] += given_up
        self.sleeping.forget(item.peer)

    def _retire(self, channel: Channel) -> None:
        """Accept no new frames on a channel that lost a member; close it once the others have received all frames."""
        if self.channels.get(channel.flow) is channel:
            del self.channels[channel.flow]
            self._replaced.setdefault(channel.flow, []).append(channel)
        if not channel.members or channel.idle:
            self._close(channel)

    def _close(self, channel: Channel) -> None:
        """Forget a channel."""
        self._by_number.pop(channel.number, None)
        self.busy.pop(channel.number, None)
        if self.channels.get(channel.flow) is channel:
            del self.channels[channel.flow]
        old = self._replaced.get(channel.flow, [])
        if channel in old:
            old.remove(channel)
            if not old:
                del self._replaced[channel.flow]

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Downward]) -> list[Downward]:
        """Queue messages on their channels and send what the windows let go."""
        down: list[Downward] = []
        for item in items:
            if item.__class__ is Outbound:
                for part in self.sleeping.split(item) if self.sleeping.sleepers.table else (item,):
                    if part.reliable:
                        self._submit(now, part)
                    else:
                        down.append(self._best_effort.send(part))
            elif item.__class__ is Accept:
                self.acknowledger.accept(item.accepting, self.sources.values())
            elif item.__class__ is Sleep:
                down += self.sleeping.order(now, item)
            else:
                down.append(item)
        if self.acknowledger.deadline <= now:
            down += self.acknowledger.due(now)
        if self.busy:
            down += self._pump(now)
        return down

    def _submit(self, now: float, item: Outbound) -> None:
        """Queue a message on the channel of its flow; what it must not overtake comes first."""
        flow = item.peers, item.priority
        barriers = [barrier for other in item.after for barrier in self._barriers(other)] if item.after else []
        channel = self.channels.get(flow)
        if channel is None:
            barriers += self._barriers(flow)
            if len(item.peers) > 1 and not self._room_for_group(now):
                self._scatter(now, item, barriers)
                return
            channel = self._new_channel(flow)
        self._queue(now, channel, item, barriers)
        if channel.paused:
            self.sleeping.sleepers.bound(channel)

    def _queue(self, now: float, channel: Channel, item: Outbound, barriers: list[Barrier]) -> None:
        channel.submit(now, item, [barrier for barrier in barriers if barrier.number != channel.number])
        self.busy[channel.number] = channel

    def _scatter(self, now: float, item: Outbound, barriers: list[Barrier]) -> None:
        """Send to each by unicast what is for several."""
        self.statistics["messages sent by unicast for want of a group"] += 1
        for peer in item.peers:
            copy = Outbound((peer,), item.bodies, dict(item.header), expires=item.expires)
            copy.messages, copy.receipts = item.messages, item.receipts
            flow = (peer,), item.priority
            channel = self.channels.get(flow) or self._new_channel(flow)
            self._queue(now, channel, copy, barriers)
            channel.scattered = channel.barrier()

    def _barriers(self, flow: Flow) -> list[Barrier]:
        """All that went in this flow until now, as far as it is not done with."""
        peers, priority = flow
        channels = [*self._replaced.get(flow, ()), self.channels.get(flow)]
        barriers = [channel.barrier() for channel in channels if channel is not None and not channel.idle]
        if len(peers) > 1:
            unicast = [self.channels.get(((peer,), priority)) for peer in peers]
            barriers += [channel.scattered for channel in unicast if channel is not None and channel.scattered]
        return barriers

    def _new_channel(self, flow: Flow) -> Channel:
        channel = self.channels[flow] = self._make_channel(flow, flow[0])
        return channel

    def _make_channel(self, flow: Flow, peers: tuple[str, ...]) -> Channel:
        self._numbers += 1
        channel = Channel(self._numbers, flow, peers, self._make_window, self.statistics, self._outcomes, self._parity)
        self._by_number[channel.number] = self.busy[channel.number] = channel
        channel.paused = self.sleeping.pause_of(peers)
        if self.sleeping.is_urgent(peers):
            for member in channel.members.values():
                member.round_trip.hurry()
        return channel

    def _room_for_group(self, now: float) -> bool:
        """Whether another group may be made, if need be by closing one that is done with, or kept for the silent."""
        groups = [channel for channel in self._by_number.values() if channel.kind == "group"]
        channel = slow_receivers.dispensable(groups, now) if len(groups) >= GROUPS else None
        if channel is not None:
            for peer in [member.peer for member in channel.members.values() if member.missing(channel.next)]:
                self.statistics["frames undelivered"] += channel.remove(peer, "receiver silent")
            self._close(channel)
        return channel is not None or len(groups) < GROUPS

    def _pump(self, now: float) -> list[Downward]:
        """Send what may be sent on every busy channel, the most urgent first; let go of those that are done with."""
        down: list[Downward] = []
        told = len(self._outcomes.news)
        busy = list(self.busy.values())
        if len(busy) > 1:
            busy.sort(key=lambda channel: channel.flow[1])
        for channel in busy:
            frames = channel.pump(now)
            if frames:
                for item in frames:
                    self.statistics["frames sent"] += len(item.bodies)
                down += frames
                if channel.kind == "data":
                    self.acknowledger.carry(now, frames[-1])
                    continue  # it is not done with what it just sent
            if channel.idle:
                if channel.awaited:  # an idle channel is not visited again
                    self._outcomes.acknowledged(channel.awaited, channel.members)
                del self.busy[channel.number]
                if self.channels.get(channel.flow) is not channel:
                    self._close(channel)
        self._eased = False  # whatever they let go has been sent
        self._stirred = len(self._outcomes.news) > told  # what was given up may have held up channels that came before
        return down
