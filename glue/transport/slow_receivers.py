"""Slow receivers: members of a group that are served on their own and hold up no other member.

A member is *detached* for one of three causes: silence for a while, no room for more frames while the other members
have room, or much more loss than at the other members. From then on the member is served at its own rate. While its own
window keeps up with the group, the member still receives the multicast, and only missing frames go by unicast. A member
that falls behind receives every frame by unicast until it has caught up. So does each member of a group of which only
one is attached, because that one is served by unicast.

The channel keeps the frames that a detached member lacks, up to a limit. Beyond the limit the channel gives up whole
messages, the oldest first, and tells the member to skip them. The member's application is told of the gap. The member
is *attached* again when it keeps up and loses no more than usual.

A member that was stopped for a moment, or had no share of a busy machine, loses nothing. When the limit is reached,
the sender waits until that member has caught up, or has been silent or behind for too long.

A group may change while a member, detached on the older channel, still lacks messages that must not be overtaken. Then
the new channel invites this member only after the older channel has delivered them. The other members need not wait.

One member always stays attached: if no member keeps up, the sender is too fast. If this one falls silent, a detached
member that keeps up takes its place: one that has all, or else the one that answered last.

A member without room for more, as its application is slow, holds up the group. It does so only while it answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from typing import TypeVar

import orjson

from glue.contract import Outbound
from glue.transport.barrier import Barrier
from glue.transport.channel_state import ChannelState
from glue.transport.member import Member
from glue.transport.round_trip import MAX_PROBE
from glue.transport.wire import KEY, OPEN, SKIP

AnyChannel = TypeVar("AnyChannel", bound=ChannelState)

SILENCE = 0.1  # seconds without any answer, probes included: longer than a turn, short for the other members
CROWDING = 0.4  # seconds in which a member alone has no room for more: longer than a pattern of turns on a shared core
SPARE = 0.65  # share of its window that each other member has left then; `MOST_OF_GROUP` takes less
UNANSWERED = 3  # least probe timeouts in SILENCE and CROWDING: the first, and the second of twice the length (backoff)
LOSSY = 0.05  # share of loss above which a member may be detached
WORSE = 3.0  # a lossy member loses at least so many times what the other members lose
KEPT = 16 << 20  # bytes a channel keeps for detached members, beside a message begun: 4 times the default `queue_limit`
PATIENCE = 0.3  # seconds without an answer, or to catch up after a silence, before the sender gives up frames
GIVEN_UP = 1.0
"""Seconds without any answer after which a group may be closed for a new one, if there are too many, and after which a
member without room counts as silent: it is asked each 0.25 s, and loses nothing if some of it gets lost."""
TRIAL = 1.0  # seconds before a member is attached again; doubled by each time that did not last
LONGEST_TRIAL = 30.0
MEMBERS = 50  # ids in one invitation: 50 x 19 characters of JSON are 950 bytes, less than any frame


def serve_members(channel: ChannelState, now: float) -> list[Outbound]:
    """Return the control frames for members, and the frames that are due to detached members."""
    if channel.idle:
        return []
    out: list[Outbound] = []
    invited = []
    for member in channel.members.values():
        if member.held_by:
            channel.arm()
            if _is_held(member, now):
                continue
        if member.invite:
            invited.append(member)
            member.invite = False
        if member.detached:
            out += serve_detached(channel, member, now)
    if invited:
        peers = (invited[0].peer,) if len(invited) == 1 else ()
        # members that left or restarted are no longer invited; members that are held back are invited later
        present = [member.peer for member in channel.members.values() if not member.held_by]
        bodies = [orjson.dumps(present[i : i + MEMBERS]) for i in range(0, len(present), MEMBERS)]
        out = [Outbound(peers, [body], {KEY: OPEN.pack(channel=channel.number)}) for body in bodies] + out
    return out


def dispensable(groups: list[AnyChannel], now: float) -> AnyChannel | None:
    """Return a group that may be closed, as it is idle or kept only for silent members; else None."""
    return next((channel for channel in groups if channel.idle), None) or next(
        (channel for channel in groups if not channel.waiting and _serves_only_silent(channel, now)), None
    )


def _serves_only_silent(channel: ChannelState, now: float) -> bool:
    lacking = [member for member in channel.members.values() if member.missing(channel.next)]
    return all(member.detached and member.backoff and now >= member.answered_at + GIVEN_UP for member in lacking)


def is_uniform(channel: ChannelState) -> bool:
    """Whether one multicast serves all members of a group, and no member waits for a control frame."""
    if len(channel.destinations) != 1 or len(channel.attached) < len(channel.members):
        return False
    return True not in [member.invite for member in channel.attached]  # for each bundle, so no generator


def hold_back(channel: ChannelState, barrier: Barrier) -> bool:
    """Let members that are detached and behind on an older channel join this one later; False if others are behind.

    Only before the first frame is sent: later they would receive the multicast.
    """
    late = [member for member in channel.members.values() if barrier.holds_one(member.peer)]
    if channel.next or not all(barrier.is_detached(member.peer) for member in late):
        return False
    if all(member in late for member in channel.attached):
        return False
    for member in late:
        member.held_by.append(barrier)
        member.detached = True
        channel.statistics["members held back"] += 1
    channel.regroup()
    return True


def _is_held(member: Member, now: float) -> bool:
    """Whether a member still lacks messages that must not be overtaken; if not, it takes part from now on."""
    member.held_by = [barrier for barrier in member.held_by if barrier.holds_one(member.peer)]
    member.waiting_since = member.answered_at = now
    return bool(member.held_by)


def least_probe_timeout(channel: ChannelState) -> float:
    """Return the least probe timeout of the attached members that ever answered; `inf` if there is none."""
    trips = [member.round_trip for member in channel.attached]
    return min([trip.probe_timeout(0) for trip in trips if trip.measured], default=inf)


def detach_if_dead(channel: ChannelState, member: Member, now: float) -> None:
    """Detach a member that has all, lets nothing more come, and no longer answers when it is asked for more room."""
    timeout = max(_timeout(member, least_probe_timeout(channel)), MAX_PROBE)
    if now < member.asked_at + max(GIVEN_UP, UNANSWERED * timeout):
        return
    if len(channel.attached) > 1:
        _detach(channel, member, now, "silent")
    else:
        replace_if_silent(channel, member, now)


def silent_at(member: Member, others: float) -> float:
    """Return when a member counts as silent; the timeout of `others` stands in while its round trip is not known."""
    return member.answered_at + max(SILENCE, UNANSWERED * _timeout(member, others))


def _timeout(member: Member, others: float) -> float:
    return member.round_trip.probe_timeout(0) if member.round_trip.measured else others


def has_unmeasured(channel: ChannelState) -> bool:
    """Whether some attached members have no measured round trip, so that the timeouts of others decide for them."""
    return len(channel.attached) > 1 and False in [member.round_trip.measured for member in channel.attached]


def detach_if_silent(channel: ChannelState, member: Member, now: float) -> None:
    """Detach a member that has not answered in time: it may be stopped, or gone."""
    if not member.detached and now >= silent_at(member, least_probe_timeout(channel)):
        _detach(channel, member, now, "silent")


def replace_if_silent(channel: ChannelState, member: Member, now: float) -> None:
    """Attach another member in the place of the only attached one if that has not answered in time."""
    others = [other for other in channel.members.values() if other.detached and not other.held_by]
    timeouts = [other.round_trip.probe_timeout(0) for other in others if other.round_trip.measured]
    if member.detached or not timeouts or now < silent_at(member, min(timeouts)):
        return
    ready = [other for other in others if other.next >= channel.base and other.sent >= channel.next]
    newest = max(ready, key=lambda other: (not other.missing(channel.next), other.answered_at), default=member)
    if newest.answered_at > member.answered_at or not newest.missing(channel.next):  # else no receiver gains
        attach(newest)
        channel.regroup()
        _detach(channel, member, now, "silent")


def detach_if_crowded(channel: ChannelState, now: float) -> None:
    """Detach a member if its window alone has been full for too long."""
    rooms = []
    for member in channel.attached:
        frames = member.window.frames
        rooms.append(((frames - member.under_way(channel.next)) / frames, member))
    rooms.sort(key=lambda pair: pair[0])
    if len(rooms) < 2 or rooms[1][0] < SPARE:
        for _, member in rooms:
            member.crowded_since = now
        return
    for _, member in rooms[1:]:
        member.crowded_since = now
    tightest = rooms[0][1]
    tightest.crowded_since = min(tightest.crowded_since, now)
    trip = tightest.round_trip
    timeout = trip.least if trip.measured else least_probe_timeout(channel)  # others wait: no margin for its variance
    if now - tightest.crowded_since >= max(CROWDING, UNANSWERED * timeout):
        _detach(channel, tightest, now, "slow" if tightest.answered_at > tightest.crowded_since else "silent")


def detach_if_lossy(channel: ChannelState, member: Member, now: float) -> None:
    """Detach a member if its link is bad while those of the other members are not."""
    if member.window.loss > LOSSY and not member.detached:
        others = [other.window.loss for other in channel.attached if other is not member]
        if others and not any(map(isnan, others)) and member.window.loss > WORSE * _median(others):
            _detach(channel, member, now, "lossy")


def _detach(channel: ChannelState, member: Member, now: float, why: str) -> None:
    if member.detached or len(channel.attached) < 2:
        return
    channel.statistics[f"members detached: {why}"] += 1
    member.detached = True
    member.sent = channel.next
    member.behind_since = now
    member.return_at = now + min(TRIAL * 2**member.trials, LONGEST_TRIAL)
    member.trials += 1
    channel.regroup()


def attach(member: Member) -> None:
    """Serve a member together with the others again."""
    member.detached = member.stalled = False
    member.crowded_since = inf


def serve_detached(channel: ChannelState, member: Member, now: float) -> Iterator[Outbound]:
    """Mark for resend what a detached member lacks; attach it again when it keeps up."""
    if member.notice:
        member.notice = False
        yield Outbound((member.peer,), [b""], {KEY: SKIP.pack(channel=channel.number, sequence=member.skip)})
    if member.backoff and member.sent > member.next:
        return  # the member is silent
    start = max(member.sent, member.next)
    overheard = channel.next
    if channel.is_multicast:
        overheard = channel.flights.sent_since(now - member.round_trip.loss_delay(), channel.next)
    room = int(member.window.frames) - member.under_way(start)
    stop = min(overheard, member.limit, start + room)
    for first, end in member.ranges.gaps(start, stop):
        member.lost.update(range(first, end))
    member.sent = max(start, stop)
    if member.sent < channel.next:
        return
    member.stalled, member.behind_since = False, now
    if member.next >= channel.base and now >= member.return_at and _has_usual_loss(channel, member):
        attach(member)
        channel.statistics["members attached again"] += 1
        channel.regroup()


def _has_usual_loss(channel: ChannelState, member: Member) -> bool:
    others = [other.window.loss for other in channel.attached if not isnan(other.window.loss)]
    return not member.window.loss > max(LOSSY, WORSE * _median(others or [0.0]))


def count_overheard(channel: ChannelState, member: Member, count: int) -> None:
    """Count frames about to be multicast as sent to a detached member, too, if its window has room for them."""
    if member.sent == channel.next and channel.is_multicast and not member.held_by:
        room = min(member.limit - channel.next, member.window.frames - member.under_way(member.sent))
        if room >= count:
            member.sent += count


def waits_for_detached(channel: ChannelState, now: float) -> bool:
    """Give up frames beyond the limit; return whether the sender is to wait for a member that was silent."""
    awaited = []
    for member in channel.members.values():
        if member.detached and member.next < channel.base:
            member.stalled = member.stalled or member.backoff > 0
            if member.stalled and now < min(member.answered_at + PATIENCE, member.behind_since + 2 * PATIENCE):
                awaited.append(member)
    if channel.flights.kept_size > KEPT:
        _give_up(channel, awaited)
    return bool(awaited)


def _give_up(channel: ChannelState, awaited: list[Member]) -> None:
    """Give up the oldest messages for the detached members that the sender does not wait for."""
    bound = channel.flights.message_after(channel.flights.kept_size - KEPT // 2)
    for member in channel.members.values():
        if member.detached and member.next < bound and member not in awaited:
            before = member.next
            channel.statistics["frames given up for detached members"] += member.skip_to(bound)
            channel.outcomes.given_up(channel.flights, channel.awaited, member, before, "receiver too slow")
    channel.regroup()


def _median(values: list[float]) -> float:
    """Return the median. `statistics` takes 3 ms to import, and a turn must not import anything."""
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
