"""The sending end of one channel: frames numbered in one sequence for a fixed set of receivers.

A channel belongs to a set of peers: one (served by unicast) or several (served by multicast, each member
acknowledging on its own). It queues what the windows do not let go, remembers what is not yet acknowledged by
all members, notices what each of them lost, and probes those that are silent.

Loss detection and probing follow RFC 9002 (sections 6.1 and 6.2), per member; a resent frame keeps its
sequence number and carries a higher attempt, so round trips are only taken from first attempts (Karn).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator

import orjson

from glue.contract import Outbound, advanced
from glue.transport.flight import Flight, Pending, grouped
from glue.transport.member import Member
from glue.transport.window import Window
from glue.transport.wire import KEY, MAX_AGE_MS, MAX_ATTEMPT, MAX_HELD_US, WINDOW

SMALL = 32  # frames: a train smaller than this waits for the window to open, unless nothing is on its way
PROBES = 2  # frames resent by a probe (RFC 9002, section 6.2.4)
MEMBERS = 50  # ids in one invitation: 50 x 19 characters of JSON are 950 bytes, less than any frame
MAX_HELD = MAX_HELD_US / 1e6  # seconds; an answer held back that long, or longer, tells nothing about the way
REPAIRS = 512  # frames resent per turn at most; the rest follow in the next turns


class Channel:
    """The sending end of one channel."""

    __slots__ = (
        "_apart", "_destination", "_flights", "_limit", "_queue", "_transmissions", "backlog", "base", "deadline",
        "kind", "members", "next", "number", "peers", "statistics", "submitted", "window",
    )  # fmt: skip

    def __init__(self, number: int, peers: tuple[str, ...], window: Window, statistics: Counter[str]) -> None:
        self.number = number
        self.peers = peers
        self.kind = "data" if len(peers) == 1 else "group"
        self._destination = peers if len(peers) == 1 else ()
        self._apart = False  # whether each member is served by unicast, so that nobody else listens
        self._limit = WINDOW  # frames below this every member is ready to take
        self.members = {peer: Member(peer) for peer in peers}
        self.window = window
        self.statistics = statistics
        self.next = 0  # the next sequence to send
        self.base = 0  # every frame below is acknowledged by all members
        self.submitted = 0  # frames handed to this channel so far, sent or not
        self.backlog = 0  # bytes queued or not yet acknowledged
        self.deadline = math.inf  # when `due` must be called
        self._queue: deque[Pending] = deque()
        self._flights: deque[Flight] = deque()
        self._transmissions = 0

    @property
    def idle(self) -> bool:
        """Whether everything handed to the channel is done with."""
        return not self._queue and not self._flights

    def submit(self, now: float, item: Outbound, barriers: list[tuple[Channel, int]]) -> None:
        """Queue a message for sending."""
        self._queue.append(Pending(item, now, barriers))
        self.submitted += len(item.bodies)
        self.backlog += sum(map(len, item.bodies))

    # ------------------------------------------------------------------------------------------ sending

    def pump(self, now: float) -> list[Outbound]:
        """Whatever may be sent now: an invitation to a new group, repairs, then new frames."""
        out = self._invitation() if self.kind == "group" else []
        for member in self.members.values():
            if member.lost:
                out += self._repairs(now)
                break
        queue = self._queue
        while queue:
            pending = queue[0]
            item = pending.item
            if not pending.offset:
                if item.expires < now:
                    self._expire(queue.popleft())
                    continue
                if self._waits(pending):
                    break
            left = len(item.bodies) - pending.offset
            room = self._room()
            if room < left and (room <= 0 or (room < SMALL and self._flights)):
                break
            out += self._launch(now, pending, min(left, room))
            if room >= left:
                queue.popleft()
        if out:
            self._arm()
        return out

    def _invitation(self) -> list[Outbound]:
        """Tell the members of a group that they are, until each has shown that it knows."""
        if not self._flights and not self._queue:
            return []
        invited = [member for member in self.members.values() if member.invite]
        if not invited:
            return []
        for member in invited:
            member.invite = False
        peers = (invited[0].peer,) if len(invited) == 1 else ()
        present = list(self.members)  # who was taken off, or has restarted since, is no longer meant
        bodies = [orjson.dumps(present[i : i + MEMBERS]) for i in range(0, len(present), MEMBERS)]
        return [Outbound(peers, [body], {KEY: ["open", self.number]}) for body in bodies]

    def _expire(self, pending: Pending) -> None:
        """The message at the head of the queue is too old to be sent at all."""
        count = len(pending.item.bodies)
        self.submitted -= count
        self.backlog -= sum(map(len, pending.item.bodies))
        self.statistics["frames expired unsent"] += count

    def _waits(self, pending: Pending) -> bool:
        """Whether the message must wait for other channels, so as not to overtake."""
        while pending.barriers:
            channel, bound = pending.barriers[-1]
            if channel.members and not channel.settled(bound):
                return True
            pending.barriers.pop()
        return False

    def settled(self, submitted: int) -> bool:
        """Whether the first `submitted` frames handed to this channel are done with."""
        unsent = sum(len(p.item.bodies) - p.offset for p in self._queue)
        open_frames = self.next - self.base + unsent
        return self.submitted - open_frames >= submitted

    def _room(self) -> int:
        """How many more frames the windows let go."""
        missing = self.next - self.base
        if missing >= self.window.frames:  # then look closer: some of these may be there, beyond a gap
            missing = max(self.next - member.next - member.ranges.size for member in self.members.values())
        room, limit = int(self.window.frames) - missing, self._limit - self.next
        return room if room < limit else limit

    def _launch(self, now: float, pending: Pending, count: int) -> list[Outbound]:
        """Send the next `count` frames of a message for the first time."""
        item, offset = pending.item, pending.offset
        if offset or count < len(item.bodies):
            header = advanced(item.header, offset) if offset else item.header
            item = Outbound(item.peers, item.bodies[offset : offset + count], header)
        pending.offset += count
        flight = Flight(self.next, item, self._transmissions, now, pending.since, sum(map(len, item.bodies)))
        if not self._flights:
            for member in self.members.values():
                member.waiting_since = now
        self._flights.append(flight)
        self._transmissions += count
        self.next += count
        destinations = [(peer,) for peer in self.members] if self._apart else [self._destination]
        return [self._frames(now, flight, 0, count, 0, destination) for destination in destinations]

    def _frames(
        self, now: float, flight: Flight, skip: int, count: int, attempt: int, peers: tuple[str, ...]
    ) -> Outbound:
        """Some frames of a flight, ready to go to one peer, or (none given) to all by multicast."""
        bodies = flight.item.bodies
        header = advanced(flight.item.header, skip) if skip else dict(flight.item.header)
        age = int((now - flight.since) * 1000) if now > flight.since else 0
        if age > MAX_AGE_MS:
            age = MAX_AGE_MS
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
        member.invited = True
        if upto < member.next:  # overtaken by a later one; or the receiver forgot
            member.regressed()
            return True
        limit = upto + min(window, WINDOW)
        if limit > member.limit:
            member.limit = limit
            self._limit = min(other.limit for other in self.members.values())
        if not ranges and member.unscathed:
            if upto > member.next:
                self._acknowledge_cleanly(now, member, upto, held)
            return True
        fresh = self._fresh(member, upto, ranges)
        if fresh:
            self._measure(now, member, fresh, max(upto, ranges[-1][1] if ranges else 0) - 1, held)
            member.progress(now, upto, ranges)
            self._release()
        if member.next < self.next:
            self._find_lost(now, member)
        self._arm()
        return True

    def _acknowledge_cleanly(self, now: float, member: Member, upto: int, held: float) -> None:
        """The common case, kept short: everything below `upto` is there, and nothing was lost before."""
        flight = self._flight(upto - 1)
        if held < MAX_HELD:
            member.round_trip.sample(now - flight.sent_at, held)
        member.latest = flight.number + upto - 1 - flight.first
        member.next = upto
        member.answered(now)
        self._release()
        self._arm()

    @staticmethod
    def _fresh(member: Member, upto: int, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The frames that this acknowledgement is the first to acknowledge, ascending."""
        out = list(member.ranges.gaps(member.next, upto))
        for start, stop in ranges:
            out += member.ranges.gaps(start, stop)
        return out

    def _measure(self, now: float, member: Member, fresh: list[tuple[int, int]], newest: int, held: float) -> None:
        """Learn the round trip, and which transmission is the latest known to have arrived.

        The receiver `held` the acknowledgement since it got the `newest` frame; so that one tells the round
        trip, if this is the first to acknowledge it.
        """
        for start, stop in fresh:
            for sequence in [stop - 1] if not member.resent else range(start, stop):
                again = member.resent.get(sequence)
                if again is None:
                    flight = self._flight(sequence)
                    number, sent_at = flight.number + sequence - flight.first, flight.sent_at
                    if sequence == newest and held < MAX_HELD:
                        member.round_trip.sample(now - sent_at, held)
                else:
                    number = again.number
                    if not again.explains(now, member.round_trip):
                        continue  # that answers an earlier attempt
                if number > member.latest:
                    member.latest = number

    def _flight(self, sequence: int) -> Flight:
        """The flight that holds a frame which is not yet acknowledged by all."""
        index = bisect_right(self._flights, sequence, key=lambda flight: flight.first) - 1
        return self._flights[index]

    def _release(self) -> None:
        """Let go of what every member has."""
        if not self.members:
            return
        base = min([member.next for member in self.members.values()])
        if base > self.base:
            self.window.acknowledged(base - self.base)
            self.base = base
        flights = self._flights
        while flights and flights[0].stop <= self.base:
            self.backlog -= flights.popleft().size

    # ----------------------------------------------------------------------------------------------- lost

    def _find_lost(self, now: float, member: Member) -> None:
        """Mark for repair what a member misses although it has what was sent later."""
        found = len(member.lost)
        for sequence, number, sent_at in self._overtaken(member):
            if member.overdue(now, number, sent_at):
                member.lost.add(sequence)
        found = len(member.lost) - found
        if found:
            self.statistics["frames lost"] += found
            self.window.lost(now, member.round_trip.smoothed)

    def _overtaken(self, member: Member) -> Iterator[tuple[int, int, float]]:
        """What a member misses and later transmissions overtook: sequence, latest transmission, when that was."""
        for start, stop in member.ranges.gaps(member.next, self.next):
            flight = self._flight(start)
            for sequence in range(start, stop):
                if sequence >= flight.stop:
                    flight = self._flight(sequence)
                again = member.resent.get(sequence)
                if again is None:
                    number, sent_at = flight.number + sequence - flight.first, flight.sent_at
                    if number > member.latest:
                        return  # and so is everything after it
                else:
                    number, sent_at = again.number, again.sent_at
                if number < member.latest and sequence not in member.lost:
                    yield sequence, number, sent_at

    def due(self, now: float) -> None:
        """Time has passed: look for what is overdue, and probe the members that are silent."""
        for member in self.members.values():
            if not member.missing(self.next):
                continue
            if now >= member.check_at:
                member.check_at = math.inf
                self._find_lost(now, member)
            if now >= member.probe_at():
                self._probe(now, member)
        self._arm()

    def _probe(self, now: float, member: Member) -> None:
        """No answer: send the first missing frames again (or the invitation, if that was never answered)."""
        member.backoff += 1
        member.waiting_since = now
        self.statistics["probes"] += 1
        if self.kind == "group" and (not member.invited or member.backoff % 4 == 0):
            member.invite = True
        for start, stop in member.ranges.gaps(member.next, self.next):
            member.lost.update(range(start, min(stop, start + PROBES)))
            break

    def _repairs(self, now: float) -> list[Outbound]:
        """Frames to send again: by unicast where one member lost them, by multicast where several did."""
        out: list[Outbound] = []
        wanted: dict[int, list[Member]] = {}
        for member in self.members.values():
            if member.lost:
                for sequence in sorted(member.lost)[:REPAIRS]:
                    wanted.setdefault(sequence, []).append(member)
        for start, count, members in grouped(wanted):
            out += self._resend(now, start, count, members)
        return out

    def _resend(self, now: float, start: int, count: int, members: list[Member]) -> Iterator[Outbound]:
        """Send the frames [start, start + count) again to these members, flight by flight."""
        stop = start + count
        while start < stop:
            flight = self._flight(start)
            end = min(stop, flight.stop)
            attempt = 1 + max(member.attempts(start) for member in members)
            for member in members:
                member.repaired(now, range(start, end), self._transmissions, attempt, flight.sent_at)
            self._transmissions += end - start
            self.statistics["frames resent"] += end - start
            apart = self._apart or len(members) == 1
            for destination in [(member.peer,) for member in members] if apart else [self._destination]:
                yield self._frames(now, flight, start - flight.first, end - start, attempt, destination)
            start = end

    # -------------------------------------------------------------------------------------------- members

    def remove(self, peer: str) -> int:
        """A member is gone; returns how many of the frames handed to this channel it did not acknowledge."""
        member = self.members.pop(peer, None)
        if member is None:
            return 0
        unsent = sum(len(p.item.bodies) - p.offset for p in self._queue)
        missing = unsent + self.next - member.next - member.ranges.size
        if self.members:
            self._limit = min(other.limit for other in self.members.values())
            self._release()
        else:
            self._queue.clear()
            self._flights.clear()
            self.backlog = 0
            self.base = self.next
        self._arm()
        return missing

    def avoid(self, peer: str) -> None:
        """A former member is back and must not overhear the rest, which is older than what it is sent from now on."""
        if peer in self.peers and peer not in self.members:
            self._apart = True

    def unfinished(self, peer: str) -> Iterable[Outbound]:
        """The messages, or rests of them, that a member has not acknowledged, in order, as handed in."""
        member = self.members[peer]
        for flight in self._flights:
            skip = max(0, member.next - flight.first)
            if skip < len(flight.item.bodies):
                yield Outbound((peer,), flight.item.bodies[skip:], advanced(flight.item.header, skip))
        for pending in self._queue:
            item = pending.item
            yield Outbound((peer,), item.bodies[pending.offset :], advanced(item.header, pending.offset))

    def _arm(self) -> None:
        """Set the deadline anew; after anything that may move a member's timers."""
        at = math.inf
        if self._flights:
            for member in self.members.values():
                if member.next < self.next:
                    probe_at = member.waiting_since + member.round_trip.probe_timeout(member.backoff)
                    at = min(at, member.check_at, probe_at)
        self.deadline = at
