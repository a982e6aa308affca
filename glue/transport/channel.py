"""The sending end of one channel: frames numbered in one sequence for a fixed set of receivers.

A channel belongs to a flow: a set of peers and a class. One peer is served by unicast, several peers by multicast. Each
member acknowledges on its own. The channel queues frames beyond the windows and keeps frames until all members have
acknowledged them. It detects the losses of each member, and probes silent members (see `recovery`).

A member that would hold up the others is detached (see `slow_receivers`). A detached member receives each frame by
unicast, at its own rate.
"""

from __future__ import annotations

import math

from glue.contract import Outbound
from glue.contract.pieces import total
from glue.transport import recovery, slow_receivers
from glue.transport.barrier import Barrier, PendingMessage, rest
from glue.transport.channel_state import PEER_ASLEEP, ChannelState
from glue.transport.fec import policy
from glue.transport.flight import Flight
from glue.transport.member import Member
from glue.transport.outcomes import Awaited
from glue.transport.window import least_part
from glue.transport.wire import DATA, GROUP, KEY, WINDOW

HURRY = 0.02  # seconds: a round trip that was not measured yet, as in `round_trip`
HURRIED = 8  # frames of each gap that are sent again because the receiver asks: what it acknowledges shows the rest

_PACK_FIRST = {entry.kind: entry.packer("channel", "sequence") for entry in (DATA, GROUP)}


class Channel(ChannelState):
    """The sending end of one channel."""

    __slots__ = ()

    @property
    def resting(self) -> bool:
        """Whether all is on its way, and nothing to be said of it until something is due."""
        if self.paused:
            return True
        if self._queue or self.awaited or self.fec.active or not self.flights:
            return False
        calm = self.kind == "data" or slow_receivers.is_uniform(self)
        return calm and not any(member.lost for member in self.attached)

    def submit(self, since: float, item: Outbound, barriers: list[Barrier]) -> None:
        """Queue a message, handed to transport at `since`, for sending, not before these barriers let it pass."""
        if self.ahead:
            barriers, self.ahead = [*barriers, *self.ahead], []
        self._queue.append(PendingMessage(item, since, barriers))
        size = total(item.bodies)
        self._queued += size
        self._fresh += size

    # ------------------------------------------------------------------------------------------ sending

    def send_now(self, now: float, item: Outbound) -> Outbound | None:
        """Send a message at once, if nothing stands before it; else it has to be queued."""
        if self._queue or self.ahead or self.paused or not (self.kind == "data" or slow_receivers.is_uniform(self)):
            return None
        if self.fec.active and policy.is_wanted(self):
            return None
        bodies = item.bodies
        stop = self.next + len(bodies)
        if stop > self._limit and stop > self.renewed_limit():
            return None
        for member in self.attached:
            if member.lost or stop > member.next + member.window.frames:
                return None
        self.launch(now, item, len(bodies[0]) if len(bodies) == 1 else total(bodies), now, True)
        header = {**item.header, KEY: _PACK_FIRST[self.kind](self.number, stop - len(bodies))}
        return Outbound(self.destinations[0], bodies, header)

    def pump(self, now: float) -> list[Outbound]:
        """Return the frames to send now: those for single members, then repairs, then new frames."""
        out: list[Outbound] = []
        if self.paused:
            return out
        if self.next or not self._queue or not self._waits(self._queue[0]):
            out += slow_receivers.serve_members(self, now)
        for member in self.members.values():
            if member.lost:
                out += recovery.repairs(self, now)
                break
        if self.waits_for_some or self.flights.kept_size > slow_receivers.KEPT:
            self.waits_for_some = slow_receivers.waits_for_detached(self, now)
        queue, first = self._queue, self.next
        while queue and not self.waits_for_some:
            pending = queue[0]
            item = pending.item
            if not pending.offset:
                if self._waits(pending):  # even if it has expired: what follows it must not overtake, either
                    break
                if item.expires < now:
                    self._expire(queue.popleft())
                    continue
            left = len(item.bodies) - pending.offset
            room = self.room()
            if room < left and room < least_part(left, min([member.most_under_way for member in self.attached])):
                if not self.flights:  # it is the receivers that let nothing more come
                    self.arm()
                elif self.kind == "group":
                    slow_receivers.detach_if_crowded(self, now)
                break
            begins = not pending.offset
            part = pending.take(min(left, room))
            size = total(part.bodies)
            self._queued -= size
            flight = self.launch(now, part, size, pending.since, begins)
            out += [self.frames(now, flight, 0, len(part.bodies), 0, peers) for peers in self.destinations]
            if room >= left:
                self._end(queue.popleft())
        if self.next > first and len(self.attached) < len(self.members) and not self.is_multicast:
            # Detached members receive nothing of that by themselves. The first call marks it as lost for them. Without
            # a second look at repairs in this turn, it would wait for a probe.
            out += slow_receivers.serve_members(self, now)
            out += recovery.repairs(self, now)
        if self.fec.active:
            if self.fec.at <= now:
                out += policy.cover(self, now)
            self.arm()
        return out

    def _expire(self, pending: PendingMessage) -> None:
        """The message at the head of the queue is too old to be sent at all."""
        self._end(pending)
        self._queued -= total(pending.item.bodies)
        self.statistics["frames expired unsent"] += len(pending.item.bodies)
        self.outcomes.expired(self.members, pending.item)

    def _end(self, pending: PendingMessage, stop: int | None = None) -> None:
        """All up to this message is sent, or will not be; or, with `stop`, all of it lies before this sequence."""
        for barrier in pending.ends:
            barrier.stop = self.next if stop is None else stop

    def barrier(self) -> Barrier:
        """All that was handed to this channel until now."""
        if not self._queue:
            return Barrier(self.number, self.members, self.handed_over, self.next)
        newest = self._queue[-1]
        if not newest.ends:
            newest.ends = (Barrier(self.number, self.members, self.handed_over, None),)
        return newest.ends[0]

    def _waits(self, pending: PendingMessage) -> bool:
        """Whether the message must wait for other channels, so as not to overtake."""
        while pending.barriers:
            barrier = pending.barriers[-1]
            if barrier.holds(self.members) and not slow_receivers.hold_back(self, barrier):
                return True
            pending.barriers.pop()
        return False

    def _unsent(self) -> int:
        return sum(len(pending.item.bodies) - pending.offset for pending in self._queue)

    def room(self) -> int:
        """How many more frames the windows let go."""
        sent = self.next
        least = self.renewed_limit() - sent
        for member in self.attached:
            room = member.window.frames - sent + member.next
            if room < least:
                if member.ranges.size:  # then look closer: what is there beyond a gap, and what is lost
                    room = member.window.frames - member.under_way(sent)
                if room < least:
                    least = int(room)
        return least

    def launch(self, now: float, item: Outbound, size: int, since: float, begins: bool) -> Flight:
        """Record the first transmission of a message, or of a part; `begins` tells whether a part is the first.

        `since` is when the message was handed to transport (monotonic seconds), `size` its bytes.
        """
        first, count = self.next, len(item.bodies)
        flight = Flight(first, item, self.transmissions, now, since, size, begins)
        for member in self.members.values():
            if member.next == first:
                member.waiting_since, member.answered_at, member.backoff = now, now, 0
                self.arm()
            if member.detached:
                slow_receivers.count_overheard(self, member, count)
        if self.fec.active:
            policy.launched(self, now, count)
        self.flights.append(flight)
        self.transmissions += count
        self.next = first + count
        if item.receipts:
            self.awaited.append(Awaited(self.next, item.receipts, self.members))
        return flight

    # --------------------------------------------------------------------------------------- acknowledged

    def acknowledge(
        self, now: float, peer: str, upto: int, ranges: list[tuple[int, int]], window: int, held: float
    ) -> bool:
        """Take an acknowledgement of everything below `upto` and of `ranges`; False if it cannot be true."""
        member = self.members.get(peer)
        if member is None:
            return True  # of a removed member: late, not wrong
        if upto > self.next:  # it took frames for ours that were not
            member.regressed()
            return False
        if ranges and ranges[-1][1] > self.next:  # the same; what is ours shall not wait for them
            self.statistics["ranges of what was never sent"] += 1
            ranges = [(start, min(stop, self.next)) for start, stop in ranges if start < self.next]
        if not member.invited:  # the first answer, to the invitation: from now on it is not silent
            member.invited = True
            member.answered(now)
        member.answered_at = now
        if upto < member.next:  # overtaken by a later one; or the receiver forgot, or has to be told to go on
            if upto < member.skip:
                member.notice = True
            else:
                member.regressed()
            return True
        limit = upto + min(window, WINDOW)
        if limit > member.limit:
            member.limit = limit
        if not ranges and member.unscathed:
            if upto > member.next:
                self._acknowledge_cleanly(now, member, upto, held)
            return True
        recovery.acknowledge(self, now, member, upto, ranges, held)
        return True

    def _acknowledge_cleanly(self, now: float, member: Member, upto: int, held: float) -> None:
        """The common case, kept short: everything below `upto` is there, and nothing was lost before."""
        flight = self.flights.find(upto - 1)
        elapsed, round_trip = now - flight.sent_at, math.inf
        member.round_trip.held_back(min(held, elapsed))
        if held < recovery.MAX_HELD:
            member.round_trip.sample(elapsed, held)
            round_trip = member.round_trip.latest
        member.latest = flight.number + upto - 1 - flight.first
        count = upto - member.next
        member.next = upto
        member.answered(now)
        member.window.acknowledged(now, count, round_trip, member.latest, self.transmissions)
        self.release()
        if self._deadline is not None and recovery.is_due_before(self, now, member, self._deadline):
            self.arm()

    def due(self, now: float) -> None:
        """Time has passed: look for what is overdue, and probe the members that are silent."""
        for member in self.members.values():
            if not member.missing(self.next) or member.held_by:
                if recovery.is_shut(self, member) and now >= member.probe_at():
                    recovery.ask(self, now, member)
                    if self.kind == "group":
                        slow_receivers.detach_if_dead(self, member, now)
                continue
            if now >= member.check_at:
                recovery.find_lost(self, now, member)
            if now >= member.probe_at():
                recovery.probe(self, now, member)
            if len(self.attached) > 1:
                slow_receivers.detach_if_silent(self, member, now)
            elif self.kind == "group":
                slow_receivers.replace_if_silent(self, member, now)
        self.arm()

    # -------------------------------------------------------------------------------------------- asleep

    def resume(self, now: float) -> None:
        """Go on after one side slept: send again at once what was on its way before. Be quick from now on."""
        if self.paused == PEER_ASLEEP:
            self._fresh = 0
        self.paused = ""
        for member in self.members.values():
            member.backoff = 0
            member.waiting_since = member.answered_at = now
            member.round_trip.hurry()
            for start, stop in member.ranges.gaps(member.next, member.sent if member.detached else self.next):
                member.lost.update(range(start, stop))
        self.arm()

    def hurry(self, now: float) -> None:
        """Send again what is under way for longer than a round trip: the receiver says that it waits for it."""
        for member in self.attached:
            trip = member.round_trip.loss_delay() if member.round_trip.measured else HURRY
            for start, stop in member.ranges.gaps(member.next, self.next):
                for sequence in range(start, min(stop, start + HURRIED)):
                    hole = member.holes.get(sequence)
                    sent_at = self.flights.find(sequence).sent_at if hole is None else hole.sent_at
                    if now >= sent_at + trip * (1 << min(member.attempts(sequence), 4)):
                        member.lost.add(sequence)

    @property
    def end(self) -> int:
        """The sequence after all frames handed to the channel so far, if none of them expires."""
        return self.next + self._unsent()

    @property
    def droppable(self) -> PendingMessage | None:
        """The oldest message of which nothing was sent; None if there is none."""
        for pending in self._queue:
            if not pending.offset:
                return pending
        return None

    @property
    def newest(self) -> PendingMessage:
        """The latest message that was not wholly sent."""
        return self._queue[-1]

    def drop(self, pending: PendingMessage) -> Outbound:
        """Drop a message of which nothing was sent; return it."""
        self._withdraw(pending)
        self._end(pending)
        self._queued -= total(pending.item.bodies)
        return pending.item

    def drop_expired(self, now: float) -> int:
        """Drop the messages that are too old; return how many. Those that wait for other channels are dropped later."""
        before = self.messages
        for pending in [one for one in self._queue if one.item.expires < now and not one.offset]:
            if not self._waits(pending):
                self._withdraw(pending)
                self._expire(pending)
        return before - self.messages

    def _withdraw(self, pending: PendingMessage) -> None:
        """Take a message for a single peer out of the queue; its barriers keep the order of those around it."""
        place = self._queue.index(pending)
        del self._queue[place]
        if place:
            before = self._queue[place - 1]
            if before.offset:  # all the rest of it will be sent
                self._end(pending, self.next + len(before.item.bodies) - before.offset)
            else:
                before.ends += pending.ends
            pending.ends = ()
        after = self._queue[place].barriers if place < len(self._queue) else self.ahead
        known = {barrier.number for barrier in after}  # a later barrier of a channel stands for the earlier ones
        after += [one for one in pending.barriers if one.number not in known and one.holds(self.members)]

    # -------------------------------------------------------------------------------------------- members

    def remove(self, peer: str, cause: str | None) -> int:
        """A member is gone; returns how many of the frames handed to this channel it did not acknowledge.

        They are lost for this cause; if there is none, they take another way.
        """
        unsent = [pending.item for pending in self._queue]
        self.outcomes.acknowledged(self.awaited, self.members)
        self.outcomes.removed(self.flights, self.awaited, unsent, self.members[peer], cause)
        member = self.members.pop(peer)
        self.flights.leave(peer)
        missing = self._unsent() + self.next - member.next - member.ranges.size
        if self.members:
            if all(other.detached for other in self.members.values()):
                for other in self.members.values():
                    slow_receivers.attach(other)
            self.regroup()
        else:
            self.attached = []
            self._queue.clear()
            self._queued = 0
            self.flights.clear()
            self.base = self.needed = self.next
        self.arm()
        return missing

    def avoid(self, peer: str) -> None:
        """A former member is back and must not overhear the rest, which is older than what it is sent from now on."""
        if peer in self.peers and peer not in self.members:
            self.unicast_only = True
            self.regroup()

    def hand_over(self, peer: str, other: Channel) -> None:
        """Let another channel deliver what a member has not acknowledged, in order; it leaves this one."""
        missing = self.members[peer].next
        for flight in self.flights:
            if flight.stop > missing:
                other.submit(flight.since, rest(peer, flight.item, max(0, missing - flight.first)), [])
        self.handed_over[peer] = other.barrier()
        for pending in self._queue:
            item = rest(peer, pending.item, pending.offset)
            item.expires = math.inf if pending.offset else pending.item.expires
            other.submit(pending.since, item, [*pending.barriers])
            if pending.offset:  # barriers may end with it, too
                self.handed_over[peer] = other.barrier()
            for barrier in pending.ends:
                barrier.handed_over[peer] = other.barrier()
        self.remove(peer, None)

    @property
    def deadline(self) -> float:
        """When `due` must be called."""
        if self.paused:
            return math.inf
        at = self._deadline
        if at is None:
            at = self._deadline = recovery.due_at(self)
        return at
