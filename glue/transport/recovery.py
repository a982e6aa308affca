"""Loss recovery of a channel: detect losses, probe silent members, resend frames.

Loss detection follows RFC 8985 (RACK), probing RFC 9002 (section 6.2), per member. A resent frame keeps its sequence
number and carries a higher attempt. Therefore only first attempts measure round trips (Karn).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from glue.contract import Outbound
from glue.transport import slow_receivers
from glue.transport.channel_state import ChannelState
from glue.transport.member import Hole, Member
from glue.transport.round_trip import RoundTrip
from glue.transport.window import Window
from glue.transport.wire import MAX_HELD_US, MAX_RANGES

PROBES = 2  # frames resent by a probe (RFC 9002, section 6.2.4)
MAX_HELD = MAX_HELD_US / 1e6  # seconds; an answer held back that long, or longer, tells nothing about the way
REPAIRS = 512  # frames resent per turn at most; the rest follow in the next turns
CROWD = 12  # attached members from which on a repair goes to all: many will have lost the same frame


def acknowledge(
    channel: ChannelState, now: float, member: Member, upto: int, ranges: list[tuple[int, int]], held: float
) -> None:
    """Something is missing, or was: learn what arrived, and what seems lost."""
    top = max(member.next, member.ranges.stop)
    count = member.take(upto, ranges)
    if count:
        newest = max(member.next, member.ranges.stop)
        whole = len(ranges) < MAX_RANGES  # else there are newer ones, which `held` is of
        flowing = newest > top and newest - 1 not in member.holes and not (member.detached and newest > member.sent)
        round_trip = math.inf
        if newest > top:
            elapsed = now - channel.flights.find(newest - 1).sent_at
            member.round_trip.held_back(min(held, elapsed))
            if flowing:
                round_trip = arrived(channel, now, member, newest - 1, held if whole else MAX_HELD)
            elif held < MAX_HELD and not member.detached:
                # The way may be longer than the patience of the probes, and never be measured: rather too long.
                member.round_trip.guess(elapsed, held)
        member.fill(now, flowing)
        member.told = channel.next if whole else newest
        find_holes(channel, member, member.told)
        member.answered(now)
        member.window.acknowledged(now, count, round_trip, member.latest, channel.transmissions)
    if member.holes:
        find_lost(channel, now, member)
    if count:
        if newest > top and not (flowing or member.lost or member.round_trip.measured):
            follow(channel, member, newest, count)
        channel.release()
    channel.arm()


def taken_late(channel: ChannelState, peer: str) -> None:
    """An acknowledgement was taken some time after it came: what was sent meanwhile is waited for since then only."""
    member = channel.members.get(peer)
    if member is not None and member.missing(channel.next):
        sent_at = channel.flights.find(member.next).sent_at
        if sent_at > member.waiting_since:
            member.waiting_since = sent_at
            channel.arm()


def follow(channel: ChannelState, member: Member, newest: int, count: int) -> None:
    """A probe was answered, and nothing tells of what was sent along with the frames of it: that seems lost, too.

    Or the answer is a late one to these frames as they were first sent. So not all of it is sent again at once, but
    twice as many frames as were answered, as after a timeout of TCP (RFC 5681, section 3.1).
    """
    end = min(newest + 2 * count, member.sent if member.detached else channel.next)
    member.lost.update(sequence for sequence in range(newest, end) if sequence not in member.holes)


def arrived(channel: ChannelState, now: float, member: Member, newest: int, held: float) -> float:
    """Note the newest frame that arrived; return its round trip in seconds, infinite if unknown."""
    flight = channel.flights.find(newest)
    member.latest = max(member.latest, flight.number + newest - flight.first)
    if held >= MAX_HELD:
        return math.inf
    member.round_trip.sample(now - flight.sent_at, held)
    return member.round_trip.latest


def find_holes(channel: ChannelState, member: Member, end: int) -> None:
    """Note a member's holes below `end`, among frames sent before the latest frame known to have arrived."""
    if member.detached:
        end = min(end, member.sent)
    at = max(member.searched_to, member.next)
    while at < end:
        flight = channel.flights.find(at)
        stop = min(flight.stop, flight.first + member.latest - flight.number, end)
        if stop <= at:
            break
        decodable_until, ahead = flight.covered_at + member.round_trip.probe_timeout(0), flight.number - flight.first
        for first, last in member.ranges.gaps(at, stop):
            for sequence in range(first, last):
                if sequence not in member.holes:
                    member.holes[sequence] = Hole(ahead + sequence, flight.sent_at, decodable_until)
        at = stop
    member.searched_to = at


def find_lost(channel: ChannelState, now: float, member: Member) -> None:
    """Mark for repair what a member misses although it has what was sent later."""
    found = [*member.overdue(now)]
    if found:
        member.lost.update(found)
        if any(member.holes[sequence].decodable_until > -math.inf for sequence in found):
            member.waiting_since = now  # FEC was waited for: only now does the wait for what is sent again begin
        member.window.lost(len(found))
        channel.fec.lost(member.peer, len(found), channel.transmissions)
        channel.statistics["frames lost"] += len(found)
        if channel.kind == "group":
            slow_receivers.detach_if_lossy(channel, member, now)


def probe(channel: ChannelState, now: float, member: Member) -> None:
    """No answer: send the first missing frames again (or the invitation, if that was never answered)."""
    member.backoff += 1
    member.waiting_since = now
    channel.statistics["probes"] += 1
    if channel.kind == "group" and (not member.invited or member.backoff % 4 == 0):
        member.invite = True
    if member.skip and member.next == member.skip:
        member.notice = True
    for start, stop in member.ranges.gaps(member.next, member.sent if member.detached else channel.next):
        member.lost.update(range(start, min(stop, start + PROBES)))
        break


def path_changed(channel: ChannelState, now: float, member: Member, window: Window, is_lost: bool) -> None:
    """Frames to a member take another path from now on, of which nothing is known yet (RFC 9000, section 9.4).

    If the former path has failed, all that is unacknowledged is sent again, as far as the new `window` lets it.
    """
    member.round_trip, member.window, member.patience = RoundTrip(), window, 0.0
    member.backoff, member.waiting_since = 0, now
    if is_lost:
        for start, stop in member.ranges.gaps(member.next, member.sent if member.detached else channel.next):
            member.lost.update(range(start, stop))
            channel.statistics["frames lost with a path"] += stop - start
    channel.arm()


def is_shut(channel: ChannelState, member: Member) -> bool:
    """Whether a member that has all lets nothing more come, although more waits."""
    return channel.waiting and not member.held_by and member.next >= channel.next >= member.limit


def ask(channel: ChannelState, now: float, member: Member) -> None:
    """Ask whether more may come, as the acknowledgement that says so may have been lost (RFC 9293, section 3.8.6.1).

    An invitation is what is always answered.
    """
    if member.answered_at >= member.asked_at:
        member.asked_at = now
    member.backoff += 1
    member.waiting_since = now
    member.invite = True
    channel.statistics["window probes"] += 1


def repairs(channel: ChannelState, now: float) -> list[Outbound]:
    """Frames to send again: by unicast where one member lost them, by multicast where several did."""
    out: list[Outbound] = []
    wanted: dict[int, list[Member]] = {}
    for member in channel.members.values():
        if member.lost:
            sent = member.sent if member.detached else channel.next
            room = max(int(member.window.frames) - member.under_way(sent), PROBES)
            for sequence in sorted(member.lost)[: min(room, REPAIRS)]:
                wanted.setdefault(sequence, []).append(member)
    for start, count, members in _grouped(wanted):
        out += resend(channel, now, start, count, members)
    return out


def _grouped(wanted: dict[int, list[Member]]) -> Iterator[tuple[int, int, list[Member]]]:
    """Runs of consecutive sequences that the same members lost in the same attempt: start, count, members."""
    start, count, key = 0, 0, ()
    members: list[Member] = []
    for sequence in sorted(wanted):
        now_key: tuple[object, ...] = tuple((m.peer, m.attempts(sequence)) for m in wanted[sequence])
        if count and sequence == start + count and now_key == key:
            count += 1
            continue
        if count:
            yield start, count, members
        start, count, key, members = sequence, 1, now_key, wanted[sequence]  # type: ignore[assignment]
    if count:
        yield start, count, members


def resend(channel: ChannelState, now: float, start: int, count: int, members: list[Member]) -> Iterator[Outbound]:
    """Send the frames [start, start + count) again to these members, flight by flight."""
    stop = start + count
    attempt = 1 + max(member.attempts(start) for member in members)
    destinations: list[tuple[str, ...]] = [(member.peer,) for member in members]
    if not channel.unicast_only and not any(member.detached for member in members):
        if len(channel.attached) >= CROWD:
            members = [member for member in channel.attached if not member.has(start)]
        if len(members) > 1 or len(channel.attached) >= CROWD:
            destinations = [()]
    while start < stop:
        flight = channel.flights.find(start)
        end = min(stop, flight.stop)
        for member in members:
            flight.repaired |= {member.peer}
            first_sent_at = -math.inf if member.detached else flight.sent_at  # it may be the first time
            member.repaired(now, range(start, end), channel.transmissions, attempt, first_sent_at)
        channel.transmissions += end - start
        channel.statistics["frames resent"] += end - start
        for destination in destinations:
            yield channel.frames(now, flight, start - flight.first, end - start, attempt, destination)
        start = end


def due_at(channel: ChannelState) -> float:
    """When something may be overdue, a member has to be probed, or counts as silent."""
    at = channel.fec.at
    if channel.flights or channel.waiting:
        alone = len(channel.attached) < 2
        others = math.inf if alone else slow_receivers.least_probe_timeout(channel)
        for member in channel.members.values():
            if member.next < channel.next and not member.held_by:
                at = min(at, member.check_at, member.waiting_since + member.round_trip.probe_timeout(member.backoff))
                if not (alone or member.detached):
                    at = min(at, slow_receivers.silent_at(member, others))
            elif is_shut(channel, member):
                at = min(at, member.probe_at())
    return at


def is_due_before(channel: ChannelState, now: float, member: Member, at: float) -> bool:
    """Whether, now that a member has acknowledged, something may be due before `at`, or nothing at all.

    If not, that may stand: it is too early then, but another acknowledgement mostly comes before.
    """
    return (
        not channel.flights or now + member.round_trip.probe_timeout(0) < at or slow_receivers.has_unmeasured(channel)
    )
