"""Members of a group that are served apart, so that they do not hold up the others.

Taken off is who is silent for a while, who alone has no room for more, and who loses much more than the others do.
From then on it has a pace of its own. As long as it keeps step within its own window, it goes on hearing what is sent
to all, and what it misses goes to it by unicast; when it falls behind, everything does, until it has caught up. What
all others have is kept for it up to a limit. What is beyond is given up from the oldest message on, whole
messages only, and it is told to skip that: a gap that its application hears of. It returns when it keeps step and its
losses are like those of others.

Who was stopped for a moment, or had no share of a busy machine, loses nothing: when so much is kept for it, the sender
waits, until it has caught up or is silent, or behind, for too long to be waited for.

Who is served apart on an older channel when its group changes, and has yet to get what must not be overtaken, is not
invited to the new channel before it has that: the others need not wait for it.

One member always stays: if nobody keeps up, it is the sender that is too fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from statistics import median
from typing import TypeVar

import orjson

from glue.contract import Outbound
from glue.transport.barrier import Barrier
from glue.transport.channel_state import ChannelState
from glue.transport.member import Member
from glue.transport.wire import KEY

Group = TypeVar("Group", bound=ChannelState)

SILENCE = 0.1  # seconds without any answer, probes included: more than a turn takes, a moment to the others
CROWDING = 0.4  # seconds in which a member alone has no room for more: longer than turns for a core follow a pattern
SPARE = 0.65  # share of the window that each of the others has left then; what they may owe by `MOST_OF_GROUP` is less
UNANSWERED = 3  # probe timeouts that either lasts at least: a first one, and another of twice the length (backoff)
LOSSY = 0.05  # share of loss from which on a member may be taken off
WORSE = 3.0  # times the loss of the others that it must be
KEPT = 16 << 20  # bytes for members served apart, a channel, beside a message begun: 4 times the default `queue_limit`
PATIENCE = 0.3  # seconds without any answer, or to catch up after that, for which a sender waits rather than give up
GIVEN_UP = 1.0  # seconds without any answer after which a group is given up for another one, if there are too many
TRIAL = 1.0  # seconds before the first return; doubled by each one that did not last
LONGEST_TRIAL = 30.0
MEMBERS = 50  # ids in one invitation: 50 x 19 characters of JSON are 950 bytes, less than any frame


def attend(channel: ChannelState, now: float) -> list[Outbound]:
    """What members are to be told, and what is due to those served apart."""
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
        if member.apart:
            out += serve(channel, member, now)
    if invited:
        peers = (invited[0].peer,) if len(invited) == 1 else ()
        # who was taken off, or has restarted since, is no longer meant; nor who is to join later
        present = [member.peer for member in channel.members.values() if not member.held_by]
        bodies = [orjson.dumps(present[i : i + MEMBERS]) for i in range(0, len(present), MEMBERS)]
        out = [Outbound(peers, [body], {KEY: ["open", channel.number]}) for body in bodies] + out
    return out


def least_wanted(groups: list[Group], now: float) -> Group | None:
    """A group that is done with; else one that is kept only for members that have not answered for long."""
    return next((channel for channel in groups if channel.idle), None) or next(
        (channel for channel in groups if not channel.waiting and _is_kept_in_vain(channel, now)), None
    )


def _is_kept_in_vain(channel: ChannelState, now: float) -> bool:
    lacking = [member for member in channel.members.values() if member.missing(channel.next)]
    return all(member.apart and member.backoff and now >= member.heard_at + GIVEN_UP for member in lacking)


def is_calm(channel: ChannelState) -> bool:
    """Whether what is sent to a group goes to all of its members at once, and nobody has to be told anything else."""
    if len(channel.destinations) != 1 or len(channel.attached) < len(channel.members):
        return False
    return True not in [member.invite for member in channel.attached]  # for each bundle, so no generator


def hold_back(channel: ChannelState, barrier: Barrier) -> bool:
    """Let those who are behind on an older channel, and apart there, join this one later; False if others are behind.

    Only before anything was sent: from then on they would overhear it.
    """
    late = [member for member in channel.members.values() if barrier.holds_one(member.peer)]
    if channel.next or not all(barrier.is_apart(member.peer) for member in late):
        return False
    if all(member in late for member in channel.attached):
        return False
    for member in late:
        member.held_by.append(barrier)
        member.apart = True
        channel.statistics["members held back"] += 1
    channel.regroup()
    return True


def _is_held(member: Member, now: float) -> bool:
    """Whether a member has yet to get what must not be overtaken; if not, from now on it takes part."""
    member.held_by = [barrier for barrier in member.held_by if barrier.holds_one(member.peer)]
    member.waiting_since = member.heard_at = now
    return bool(member.held_by)


def quickest(channel: ChannelState) -> float:
    """The least probe timeout of the attached members that ever answered; `inf` if there is none."""
    trips = [member.round_trip for member in channel.attached]
    return min([trip.probe_timeout(0) for trip in trips if trip.measured], default=inf)


def silent_at(member: Member, others: float) -> float:
    """When a member counts as silent; by the timeout of `others` as long as it is not known how far away it is."""
    return member.heard_at + max(SILENCE, UNANSWERED * _timeout(member, others))


def _timeout(member: Member, others: float) -> float:
    return member.round_trip.probe_timeout(0) if member.round_trip.measured else others


def guesses(channel: ChannelState) -> bool:
    """Whether for some members it depends on the answers of others when they count as silent."""
    return len(channel.attached) > 1 and False in [member.round_trip.measured for member in channel.attached]


def note_silence(channel: ChannelState, member: Member, now: float) -> None:
    """A member did not answer in time: it may be stopped, or gone."""
    if not member.apart and now >= silent_at(member, quickest(channel)):
        _take_off(channel, member, now, "silent")


def note_crowding(channel: ChannelState, now: float) -> None:
    """The windows are full: see whether it is one member alone whose is."""
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
    if now - tightest.crowded_since >= max(CROWDING, UNANSWERED * _timeout(tightest, quickest(channel))):
        _take_off(channel, tightest, now, "slow")


def note_loss(channel: ChannelState, member: Member, now: float) -> None:
    """A member has lost something: see whether its link is bad, and those of the others are not."""
    if member.window.loss > LOSSY and not member.apart:
        others = [other.window.loss for other in channel.attached if other is not member]
        if others and not any(map(isnan, others)) and member.window.loss > WORSE * median(others):
            _take_off(channel, member, now, "lossy")


def _take_off(channel: ChannelState, member: Member, now: float, why: str) -> None:
    if member.apart or len(channel.attached) < 2:
        return
    channel.statistics[f"members served apart: {why}"] += 1
    member.apart = True
    member.sent = channel.next
    member.behind_since = now
    member.return_at = now + min(TRIAL * 2**member.trials, LONGEST_TRIAL)
    member.trials += 1
    channel.regroup()


def attach(member: Member) -> None:
    """Serve a member with the others again."""
    member.apart = member.stalled = False
    member.crowded_since = inf


def serve(channel: ChannelState, member: Member, now: float) -> Iterator[Outbound]:
    """See to it that a member gets what the others got, or comes back to them."""
    if member.notice:
        member.notice = False
        yield Outbound((member.peer,), [b""], {KEY: ["skip", channel.number, member.skip]})
    if member.backoff and member.sent > member.next:
        return  # it is silent
    start = max(member.sent, member.next)
    overheard = channel.flights.sent_since(now - member.round_trip.loss_delay(), channel.next)
    room = int(member.window.frames) - member.under_way(start)
    stop = min(overheard, member.limit, start + room)
    for first, end in member.ranges.gaps(start, stop):
        member.lost.update(range(first, end))
    member.sent = max(start, stop)
    if member.sent < channel.next:
        return
    member.stalled, member.behind_since = False, now
    if member.next >= channel.base and now >= member.return_at and _heals(channel, member):
        attach(member)
        channel.statistics["members returned"] += 1
        channel.regroup()


def _heals(channel: ChannelState, member: Member) -> bool:
    others = [other.window.loss for other in channel.attached if not isnan(other.window.loss)]
    return not member.window.loss > max(LOSSY, WORSE * median(others or [0.0]))


def keep_step(channel: ChannelState, member: Member, count: int) -> None:
    """So many frames are about to be sent to all: see whether that serves this member, too."""
    if member.sent == channel.next and not member.held_by:
        room = min(member.limit - channel.next, member.window.frames - member.under_way(member.sent))
        if room >= count:
            member.sent += count


def overfull(channel: ChannelState, now: float) -> bool:
    """Too much is kept: give up what is kept for those who are not waited for; whether the sender is to wait."""
    awaited = []
    for member in channel.members.values():
        if member.apart and member.next < channel.base:
            member.stalled = member.stalled or member.backoff > 0
            if member.stalled and now < min(member.heard_at + PATIENCE, member.behind_since + 2 * PATIENCE):
                awaited.append(member)
    if channel.flights.kept_size > KEPT:
        _give_up(channel, awaited)
    return bool(awaited)


def _give_up(channel: ChannelState, awaited: list[Member]) -> None:
    """Whoever is farthest behind gets no more of the oldest messages."""
    bound = channel.flights.message_after(channel.flights.kept_size - KEPT // 2)
    for member in channel.members.values():
        if member.apart and member.next < bound and member not in awaited:
            before = member.next
            channel.statistics["frames given up for members served apart"] += member.skip_to(bound)
            channel.outcomes.given_up(channel.flights, channel.awaited, member, before, "receiver too slow")
    channel.regroup()
