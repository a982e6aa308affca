"""Peers that are awake for moments only: reliable messages wait for them here.

Each such peer, a *sleeper*, has unicast channels of its own and is never a member of a group. While it is asleep its
channels are paused: nothing is sent, resent or probed, and no publisher waits for it. When it announces that it is
awake, its channels go on where they were. What was on its way when it fell asleep is sent again.

A sleeper gets a report at each of its announcements: how many messages waited, how many were given up, and the frames
with which all that waited has come. So a lost report is made good by the next announcement.

The announcement that a peer falls asleep may get lost. A sleeper that answers no probe for some time is taken to be
asleep, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from glue.contract import Flow, Outbound
from glue.contract.pieces import total
from glue.transport.barrier import Barrier
from glue.transport.channel import Channel
from glue.transport.channel_state import PEER_ASLEEP
from glue.transport.outcomes import Outcomes
from glue.transport.wire import KEY, WAITED

HELD_FOR_ONE = 16 << 20  # bytes that wait for a sleeper at most, as many as for a slow receiver
HELD_FOR_ALL = 64 << 20  # bytes that wait for all sleepers together
SILENT, SILENCE = (
    5,
    2.0,
)  # doublings of the timeout, or seconds, without an answer, after which a sleeper counts as asleep
ASLEEP = "receiver asleep"
"""The cause of what could not wait for a sleeper."""


class Sleeper:
    """One peer that is awake for moments only.

    `waited` and `dropped` are the counts for its latest cycle, `ends` the ends of what waited: for each channel, what
    was handed to it, and the frame that follows if nothing expires. `dropping` counts for the next cycle. `held` is in
    bytes, as of the last message for it.
    """

    __slots__ = ("asleep", "cycle", "dropped", "dropping", "ends", "held", "waited")

    def __init__(self) -> None:
        self.asleep = False
        self.cycle = 0
        self.waited = self.dropped = self.dropping = self.held = 0
        self.ends: list[tuple[Channel, Barrier, int]] = []


class Sleepers:
    """The sleepers among the peers of one endpoint, and what waits for them."""

    def __init__(self, channels: Mapping[int, Channel], outcomes: Outcomes) -> None:
        """`channels` are all sending channels by number."""
        self.table: dict[str, Sleeper] = {}
        self._channels = channels
        self._outcomes = outcomes
        self._held = 0

    def is_asleep(self, peers: tuple[str, ...]) -> bool:
        """Whether a flow goes to one sleeper alone that is asleep."""
        sleeper = self.table.get(peers[0])
        return sleeper is not None and sleeper.asleep

    def note(self, now: float, peer: str, cycle: int) -> list[Channel]:
        """Take news of a sleeper; return the channels that go on."""
        sleeper = self.table.get(peer)
        if sleeper is None:
            sleeper = self.table[peer] = Sleeper()
        channels = self._of(peer)
        is_other, sleeper.cycle = cycle != sleeper.cycle, cycle
        if cycle % 2:
            self._pause(sleeper, channels)
            return []
        if is_other:
            self._begin(now, sleeper, channels)
        if sleeper.asleep or is_other:
            sleeper.asleep = False
            for channel in channels:
                channel.resume(now)
        else:
            for channel in channels:
                channel.hurry(now)
        self._weigh(sleeper, [])
        return channels

    def may_wake(self, peer: str, cycle: int) -> bool:
        """Whether a peer that asks for its messages in this cycle is a sleeper that may do so."""
        sleeper = self.table.get(peer)
        return sleeper is not None and cycle >= sleeper.cycle and not cycle % 2

    def report(self, peer: str) -> Outbound | None:
        """Tell a sleeper that is awake what waited for it; None for one that has never slept."""
        sleeper = self.table[peer]
        if sleeper.asleep or not sleeper.cycle:
            return None
        ends: list[int] = []
        for channel, barrier, stop in sleeper.ends:
            ends += channel.number, stop if barrier.stop is None else barrier.stop
        entry = WAITED.pack(cycle=sleeper.cycle, waited=sleeper.waited, dropped=sleeper.dropped)
        return Outbound((peer,), [orjson.dumps(ends)], {KEY: entry})

    def check(self, channel: Channel, now: float) -> None:
        """Take a sleeper to be asleep if it did not answer for some time."""
        sleeper = self.table.get(channel.peers[0])
        if sleeper is None or sleeper.asleep:
            return
        silent = [
            one.round_trip.doublings(one.backoff) >= SILENT or now >= one.answered_at + SILENCE
            for one in channel.attached
            if one.backoff
        ]
        if any(silent):
            self._outcomes.statistics["sleepers found silent"] += 1
            self._pause(sleeper, self._of(channel.peers[0]))

    def forget(self, peer: str) -> None:
        """A peer is gone, and so are its channels."""
        sleeper = self.table.pop(peer, None)
        if sleeper is not None:
            self._held -= sleeper.held

    # ---------------------------------------------------------------------------------------- messages

    def split(self, item: Outbound) -> Iterator[Outbound]:
        """Yield a reliable message for all that are always awake, and one for each sleeper."""
        table = self.table
        sleeping = [peer for peer in item.peers if peer in table]
        awake = tuple([peer for peer in item.peers if peer not in table])
        for peer in sleeping:
            copy = Outbound((peer,), item.bodies, dict(item.header), expires=item.expires, priority=item.priority)
            copy.messages, copy.receipts = item.messages, item.receipts
            copy.after = tuple([((peer,), priority) for peers, priority in item.after if peer in peers])
            yield copy
        if awake:
            item.peers = awake
            item.after = tuple([flow for flow in map(self._awake, item.after) if flow[0]])
            yield item

    def _awake(self, flow: Flow) -> Flow:
        peers, priority = flow
        return tuple([peer for peer in peers if peer not in self.table]), priority

    def without(self, item: Outbound) -> Iterator[Outbound]:
        """Take sleepers that are asleep off a best-effort message; yield it if it still goes to anybody."""
        asleep = [peer for peer in item.peers if (sleeper := self.table.get(peer)) is not None and sleeper.asleep]
        for peer in asleep:
            self._outcomes.lost(peer, item.messages, ASLEEP)
        if asleep:
            item.peers = tuple([peer for peer in item.peers if peer not in asleep])
        if item.peers:
            yield item

    def bound(self, channel: Channel) -> None:
        """Give up the oldest of what waits, after a message was handed to a paused channel."""
        if channel.paused != PEER_ASLEEP:
            return
        peer = channel.peers[0]
        sleeper = self.table[peer]
        channels = self._of(peer)
        self._weigh(sleeper, channels)
        while sleeper.held > HELD_FOR_ONE and self._drop_oldest(peer, sleeper, channels):
            pass
        while self._held > HELD_FOR_ALL:
            most = max(self.table, key=lambda one: self.table[one].held)
            if not self._drop_oldest(most, self.table[most], self._of(most)):
                break

    def _of(self, peer: str) -> list[Channel]:
        return [channel for channel in self._channels.values() if channel.peers == (peer,)]

    def _pause(self, sleeper: Sleeper, channels: list[Channel]) -> None:
        sleeper.asleep = True
        for channel in channels:
            channel.paused = PEER_ASLEEP
        self._weigh(sleeper, channels)

    def _begin(self, now: float, sleeper: Sleeper, channels: list[Channel]) -> None:
        """A new moment awake begins: count what waited."""
        for channel in channels:
            sleeper.dropping += channel.drop_expired(now)
        sleeper.waited = sum([channel.messages for channel in channels])
        sleeper.dropped, sleeper.dropping = sleeper.dropping, 0
        sleeper.ends = [(channel, channel.barrier(), channel.end) for channel in channels if not channel.idle]

    def _weigh(self, sleeper: Sleeper, channels: list[Channel]) -> None:
        held = sum([channel.size for channel in channels])
        self._held += held - sleeper.held
        sleeper.held = held

    def _drop_oldest(self, peer: str, sleeper: Sleeper, channels: list[Channel]) -> bool:
        """Drop the oldest message that was never sent; one that is larger than the limit goes alone, at once."""
        found = [(channel, pending) for channel in channels if (pending := channel.droppable) is not None]
        if not found:
            return False
        huge = [channel for channel, _ in found if total(channel.newest.item.bodies) > HELD_FOR_ONE]
        channel, pending = (huge[0], huge[0].newest) if huge else min(found, key=lambda one: one[1].since)
        item = channel.drop(pending)
        sleeper.dropping += item.messages
        self._outcomes.lost(peer, item.messages, ASLEEP, item.receipts)
        self._weigh(sleeper, channels)
        return True
