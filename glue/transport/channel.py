"""The sending end of one channel: frames numbered in one sequence for a fixed set of receivers.

A channel belongs to a lane, a set of peers and a class: one peer (served by unicast) or several (by multicast, each
member acknowledging on its own). It queues what the windows do not let go, remembers what is not yet acknowledged by
all members, notices what each of them lost, and probes those that are silent (see `recovery`).

A member that would hold up the others is served apart (see `apart`): each frame goes to it by unicast, at its own pace.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable

from glue.contract import Lane, Outbound, advanced
from glue.contract.pieces import total
from glue.transport import recovery, slow_receivers
from glue.transport.fec.policy import Protection
from glue.transport.flight import Barrier, Flight, Flights, Pending, rest
from glue.transport.member import Member
from glue.transport.outcomes import Awaited, Fates
from glue.transport.window import Window, enough
from glue.transport.wire import KEY, MAX_AGE_MS, MAX_ATTEMPT, WINDOW


class Channel:
    """The sending end of one channel."""

    __slots__ = (
        "_deadline", "_limit", "_queue", "_queued", "attached", "awaited", "base", "destinations", "fates", "flights",
        "handed_over", "kind", "lane", "members", "needed", "next", "number", "peers", "protection",
        "scattered", "singly", "statistics", "transmissions", "waits_for_some",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        lane: Lane,
        peers: tuple[str, ...],
        make_window: Callable[[int], Window],
        statistics: Counter[str],
        fates: Fates,
        parity: float | None = None,
    ) -> None:
        """`peers`: those of the lane, or the one of them that is to get the rest of another channel of the lane."""
        self.number = number
        self.lane = lane
        self.peers = peers
        self.kind = "data" if len(peers) == 1 else "group"
        self.members = {peer: Member(peer, make_window(lane[1]), len(peers) > 1) for peer in peers}
        self.attached = list(self.members.values())  # those that are served together
        self.statistics = statistics
        self.next = 0  # the next sequence to send
        self.base = 0  # every frame below is acknowledged by all attached members
        self.needed = 0  # every frame below is acknowledged by all members
        self._deadline: float | None = math.inf  # no later than it is; None: to be found anew
        self.flights = Flights()
        self.fates = fates
        self.awaited: list[Awaited] = []  # by receipts
        self.singly = False  # whether each member is served by unicast, so that nobody else listens
        self.scattered: Barrier | None = None  # before it lies what is for several, but came here for want of a group
        self.handed_over: dict[str, Barrier] = {}  # by peer that gets the rest on another channel: what had been sent
        self.protection = Protection(parity)
        self.destinations = [peers if len(peers) == 1 else ()]  # where frames for all attached members go
        self._limit = WINDOW  # frames below this every attached member is ready to take, and maybe some beyond
        self._queue: deque[Pending] = deque()
        self._queued = 0  # bytes
        self.transmissions = 0
        self.waits_for_some = False  # whether nothing new is sent until those have caught up who were silent

    @property
    def idle(self) -> bool:
        """Whether everything handed to the channel is done with."""
        return not self._queue and not self.flights

    @property
    def waiting(self) -> bool:
        """Whether anything waits to be sent for the first time."""
        return bool(self._queue)

    @property
    def resting(self) -> bool:
        """Whether all is on its way, and nothing to be said of it until something is due."""
        if self._queue or self.awaited or self.protection.active or not self.flights:
            return False
        calm = self.kind == "data" or slow_receivers.is_calm(self)
        return calm and not any(member.lost for member in self.attached)

    @property
    def backlog(self) -> int:
        """Bytes queued, or sent and not yet acknowledged by every attached member."""
        return self._queued + self.flights.open_size

    def submit(self, now: float, item: Outbound, barriers: list[Barrier]) -> None:
        """Queue a message for sending, not before these barriers let it pass."""
        self._queue.append(Pending(item, now, barriers))
        self._queued += total(item.bodies)

    # ------------------------------------------------------------------------------------------ sending

    def express(self, now: float, item: Outbound) -> Outbound | None:
        """Send a message at once, if nothing stands before it; else it has to be queued."""
        if self._queue or not (self.kind == "data" or slow_receivers.is_calm(self)) or self.protection.is_wanted(self):
            return None
        bodies = item.bodies
        stop = self.next + len(bodies)
        if stop > self._limit and stop > self._renewed_limit():
            return None
        for member in self.attached:
            if member.lost or stop > member.next + member.window.frames:
                return None
        self.launch(now, item, len(bodies[0]) if len(bodies) == 1 else total(bodies), now, True)
        header = {**item.header, KEY: [self.kind, 0, 0, 0, 0, 0, self.number, stop - len(bodies)]}
        return Outbound(self.destinations[0], bodies, header)

    def pump(self, now: float) -> list[Outbound]:
        """Whatever may be sent now: what concerns single members, repairs, then new frames."""
        out: list[Outbound] = []
        if self.next or not self._queue or not self._waits(self._queue[0]):
            out += slow_receivers.attend(self, now)
        for member in self.members.values():
            if member.lost:
                out += recovery.repairs(self, now)
                break
        if self.waits_for_some or self.flights.kept_size > slow_receivers.KEPT:
            self.waits_for_some = slow_receivers.overfull(self, now)
        queue = self._queue
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
            if room < left and room < enough(left, min([member.most_under_way for member in self.attached])):
                if not self.flights:  # it is the receivers that let nothing more come
                    self.arm()
                elif self.kind == "group":
                    slow_receivers.note_crowding(self, now)
                break
            begins = not pending.offset
            part = pending.take(min(left, room))
            size = total(part.bodies)
            self._queued -= size
            flight = self.launch(now, part, size, pending.since, begins)
            out += [self.frames(now, flight, 0, len(part.bodies), 0, peers) for peers in self.destinations]
            if room >= left:
                self._end(queue.popleft())
        if self.protection.active:
            if self.protection.at <= now:
                out += self.protection.cover(self, now)
            self.arm()
        return out

    def _expire(self, pending: Pending) -> None:
        """The message at the head of the queue is too old to be sent at all."""
        self._end(pending)
        self._queued -= total(pending.item.bodies)
        self.statistics["frames expired unsent"] += len(pending.item.bodies)
        self.fates.expired(self, pending.item)

    def _end(self, pending: Pending) -> None:
        """The message that was at the head of the queue is wholly sent, or will not be."""
        for barrier in pending.ends:
            barrier.stop = self.next

    def barrier(self) -> Barrier:
        """All that was handed to this channel until now."""
        if not self._queue:
            return Barrier(self, self.next)
        barrier = Barrier(self, None)
        self._queue[-1].ends += (barrier,)
        return barrier

    def _waits(self, pending: Pending) -> bool:
        """Whether the message must wait for other channels, so as not to overtake."""
        while pending.barriers:
            barrier = pending.barriers[-1]
            if barrier.holds(self.members) and not slow_receivers.hold_back(self, barrier):
                return True
            pending.barriers.pop()
        return False

    def unsent(self) -> list[Outbound]:
        """The messages that are not yet sent, or not wholly."""
        return [pending.item for pending in self._queue]

    def _unsent(self) -> int:
        return sum(len(pending.item.bodies) - pending.offset for pending in self._queue)

    def room(self) -> int:
        """How many more frames the windows let go."""
        sent = self.next
        least = self._renewed_limit() - sent
        for member in self.attached:
            room = member.window.frames - sent + member.next
            if room < least:
                if member.ranges.size:  # then look closer: what is there beyond a gap, and what is lost
                    room = member.window.frames - member.under_way(sent)
                if room < least:
                    least = int(room)
        return least

    def launch(self, now: float, item: Outbound, size: int, since: float, begins: bool) -> Flight:
        """Frames leave for the first time: a message that came at `since`, or a part that `begins` it or not."""
        first, count = self.next, len(item.bodies)
        flight = Flight(first, item, self.transmissions, now, since, size, begins)
        for member in self.members.values():
            if member.next == first:
                member.waiting_since, member.heard_at, member.backoff = now, now, 0
                self.arm()
            if member.apart:
                slow_receivers.keep_step(self, member, count)
        if self.protection.active:
            self.protection.launched(self, now, count)
        self.flights.append(flight)
        self.transmissions += count
        self.next = first + count
        if item.receipts:
            self.awaited.append(Awaited(self.next, item.receipts, self.members))
        return flight

    def frames(
        self, now: float, flight: Flight, skip: int, count: int, attempt: int, peers: tuple[str, ...]
    ) -> Outbound:
        """Some frames of a flight, ready to go to one peer, or (none given) to all by multicast."""
        item = flight.item
        bodies = item.bodies
        header = advanced(item.header, skip) if skip else dict(item.header)
        age = 0 if now <= flight.since else min(int((now - flight.since) * 1000), MAX_AGE_MS)
        if attempt > MAX_ATTEMPT:
            attempt = MAX_ATTEMPT
        header[KEY] = [self.kind, attempt, age, 0, 0, 0, self.number, flight.first + skip]
        if skip or count < len(bodies):
            bodies = bodies[skip : skip + count]
        return Outbound(peers, bodies, header)

    # --------------------------------------------------------------------------------------- acknowledged

    def acknowledge(
        self, now: float, peer: str, upto: int, ranges: list[tuple[int, int]], window: int, held: float
    ) -> bool:
        """Take an acknowledgement of everything below `upto` and of `ranges`; False if it cannot be true."""
        member = self.members.get(peer)
        if member is None:
            return True  # of one who was taken off: late, not wrong
        if upto > self.next:  # it took frames for ours that were not
            member.regressed()
            return False
        if ranges and ranges[-1][1] > self.next:  # the same; what is ours shall not wait for them
            self.statistics["ranges of what was never sent"] += 1
            ranges = [(start, min(stop, self.next)) for start, stop in ranges if start < self.next]
        if not member.invited:  # the first answer, to the invitation: from now on it is not silent
            member.invited = True
            member.answered(now)
        member.heard_at = now
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

    def _renewed_limit(self) -> int:
        """The limit as it is by now; that it has moved on need not be known before it is reached."""
        self._limit = limit = min([member.limit for member in self.attached], default=self.next)
        return limit

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

    def regroup(self) -> None:
        """Members have gone, were taken off, have returned, or were given up for."""
        self.attached = [member for member in self.members.values() if not member.apart]
        if self.singly or len(self.attached) == 1:
            self.destinations = [(member.peer,) for member in self.attached]
        else:
            self.destinations = [()]
        self._renewed_limit()
        self.release()
        self.arm()

    def release(self) -> None:
        """Let go of what every member has."""
        base = needed = min([member.next for member in self.members.values()], default=self.next)
        if len(self.attached) < len(self.members):
            base = min([member.next for member in self.attached], default=self.next)
        if base > self.base or needed > self.needed:
            self.base, self.needed = base, needed
            flights = self.flights
            flights.release(base, needed, self.members)
            if flights.messages:
                self.fates.delivered(flights.messages, flights.repairs)
                flights.messages = flights.repairs = 0

    def due(self, now: float) -> None:
        """Time has passed: look for what is overdue, and probe the members that are silent."""
        for member in self.members.values():
            if not member.missing(self.next) or member.held_by:
                if recovery.is_shut(self, member) and now >= member.probe_at():
                    recovery.ask(self, now, member)
                continue
            if now >= member.check_at:
                recovery.find_lost(self, now, member)
            if now >= member.probe_at():
                recovery.probe(self, now, member)
            if len(self.attached) > 1:
                slow_receivers.note_silence(self, member, now)
        self.arm()

    # -------------------------------------------------------------------------------------------- members

    def remove(self, peer: str, cause: str | None) -> int:
        """A member is gone; returns how many of the frames handed to this channel it did not acknowledge.

        They are lost for this cause; if there is none, they take another way.
        """
        if peer not in self.members:
            return 0
        self.fates.removed(self, self.members[peer], cause)
        member = self.members.pop(peer)
        self.flights.leave(peer)
        missing = self._unsent() + self.next - member.next - member.ranges.size
        if self.members:
            if all(other.apart for other in self.members.values()):
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
            self.singly = True
            self.regroup()

    def hand_over(self, now: float, peer: str, other: Channel) -> None:
        """Let another channel deliver what a member has not acknowledged, in order; it leaves this one."""
        missing = self.members[peer].next
        for flight in self.flights:
            if flight.stop > missing:
                other.submit(now, rest(peer, flight.item, max(0, missing - flight.first)), [])
        self.handed_over[peer] = other.barrier()
        for pending in self._queue:
            other.submit(now, rest(peer, pending.item, pending.offset), [*pending.barriers])
            for barrier in pending.ends:
                barrier.handed_over[peer] = other.barrier()
        self.remove(peer, None)

    def arm(self) -> None:
        """Let the deadline be set anew; after anything that may move a member's timers."""
        self._deadline = None

    @property
    def deadline(self) -> float:
        """When `due` must be called."""
        at = self._deadline
        if at is None:
            at = self._deadline = recovery.due_at(self)
        return at
