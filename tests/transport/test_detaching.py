"""Slow receivers of a group, each cause and each limit by itself: detached, served, attached again, given up."""

from __future__ import annotations

from collections import Counter
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.contract import NORMAL, Outbound, Undelivered
from glue.transport import slow_receivers as module
from glue.transport.channel import Channel
from glue.transport.member import Member
from glue.transport.outcomes import Outcomes
from glue.transport.round_trip import MAX_PROBE
from glue.transport.slow_receivers import CROWDING, GIVEN_UP, LOSSY, PATIENCE, SILENCE, SPARE, TRIAL, UNANSWERED
from glue.transport.window import Window
from glue.transport.wire import KEY

NOW = 100.0


class Group:
    """A channel to so many peers that has sent so many frames of ten bytes, each a message; all answered just now."""

    def __init__(self, count: int = 3, frames: int = 10) -> None:
        self.statistics: Counter[str] = Counter()
        self.outcomes = Outcomes(self.statistics)
        peers = tuple(f"{number:016x}" for number in range(count))
        self.channel = Channel(7, (peers, NORMAL), peers, Window, self.statistics, self.outcomes)
        for number in range(frames):
            self.channel.launch(NOW - 1.0 + number / 100, Outbound(peers, [bytes(10)], messages=1), 10, NOW, True)
        for member in self.members:
            member.invite = False
            member.answered_at = NOW
            member.round_trip.sample(0.001, 0.0)

    @property
    def members(self) -> list[Member]:
        return [*self.channel.members.values()]

    def detach(self, number: int, now: float = NOW) -> Member:
        member = self.members[number]
        module._detach(self.channel, member, now, "slow")
        return member

    def detached(self) -> list[bool]:
        return [member.detached for member in self.members]


def test_limits_of_slow_receivers() -> None:
    assert (SILENCE, CROWDING, SPARE, UNANSWERED, LOSSY, module.WORSE) == (0.1, 0.4, 0.65, 3, 0.05, 3.0)
    assert (module.KEPT, PATIENCE, GIVEN_UP, TRIAL, module.LONGEST_TRIAL, module.MEMBERS) == (
        16 << 20,
        0.3,
        1.0,
        1.0,
        30.0,
        50,
    )


def test_a_silent_member_is_detached_after_a_tenth_of_a_second_or_three_times_its_answer() -> None:
    for smoothed, wait in ((0.001, SILENCE), (0.2, None)):
        group = Group()
        member = group.members[1]
        if wait is None:
            member.round_trip.sample(smoothed, 0.0)
            wait = UNANSWERED * member.round_trip.probe_timeout(0)
        module.detach_if_silent(group.channel, member, NOW + wait - 1e-6)
        assert group.detached() == [False] * 3
        module.detach_if_silent(group.channel, member, NOW + wait)
        assert group.detached() == [False, True, False]
        module.detach_if_silent(group.channel, member, NOW + 9.0)
        assert group.statistics["members detached: silent"] == 1


def test_who_was_never_measured_is_judged_by_the_quickest_of_the_others() -> None:
    group = Group()
    assert not module.has_unmeasured(group.channel)
    fresh = Member("f" * 16, Window(), invite=False)
    assert module.silent_at(fresh, 0.5) == 1.5
    assert module.silent_at(fresh, inf) == inf
    group.members[0].round_trip.sample(1.0, 0.0)
    assert module.least_probe_timeout(group.channel) == group.members[1].round_trip.probe_timeout(0)
    group.members[2].round_trip.measured = False
    assert module.has_unmeasured(group.channel)
    for member in group.members:
        member.round_trip.measured = False
    assert module.least_probe_timeout(group.channel) == inf
    for other in (Group(2), Group(1)):
        other.members[0].round_trip.measured = False
        assert module.has_unmeasured(other.channel) is (len(other.members) == 2)


def test_what_a_detached_member_is_and_when_it_may_return() -> None:
    group = Group()
    member = group.members[1]
    times = []
    for trial in range(7):
        group.detach(1)
        assert (member.detached, member.sent, member.behind_since, member.trials) == (True, 10, NOW, trial + 1)
        times.append(member.return_at - NOW)
        member.stalled, member.crowded_since = True, NOW
        module.attach(member)
        assert (member.detached, member.stalled, member.crowded_since) == (False, False, inf)
        group.channel.regroup()
    assert (times, group.statistics["members detached: slow"]) == ([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], 7)


def test_the_last_attached_member_stays() -> None:
    group = Group(2)
    group.detach(0)
    group.detach(0)
    group.detach(1)
    assert group.detached() == [True, False]
    assert group.statistics["members detached: slow"] == 1


@pytest.mark.parametrize(
    ("loss", "others", "is_detached"),
    [
        (0.06, (0.01, 0.01), True), (LOSSY, (0.0, 0.0), False), (0.06, (0.02, 0.02), False),
        (0.07, (0.02, 0.02), True), (0.3, (0.05, 0.2), False), (0.4, (0.05, 0.2), True), (0.9, (nan, 0.0), False),
    ],
)  # fmt: skip
def test_a_member_that_loses_three_times_as_much_as_the_others_is_detached(
    loss: float, others: tuple[float, float], is_detached: bool
) -> None:
    group = Group()
    for member, share in zip(group.members, (loss, *others), strict=True):
        member.window.loss = share
    module.detach_if_lossy(group.channel, group.members[0], NOW)
    assert group.detached() == [is_detached, False, False]
    assert group.statistics["members detached: lossy"] == is_detached


def test_the_median_is_that_of_the_sorted_values() -> None:
    assert [module._median(values) for values in ([5.0], [1.0, 2.0], [9.0, 1.0, 2.0])] == [5.0, 1.5, 2.0]


def full(group: Group, *shares: float) -> None:
    """Let each member have so much of its window left."""
    for member, share in zip(group.members, shares, strict=True):
        member.next = 0
        member.window.frames = 10 / (1 - share)


def test_a_member_that_alone_has_no_room_is_detached_after_a_while() -> None:
    for answers, cause in ((True, "slow"), (False, "silent")):
        group = Group()
        full(group, 0.0, 0.9, 0.8)
        module.detach_if_crowded(group.channel, NOW)
        assert [member.crowded_since for member in group.members] == [NOW] * 3
        tightest = group.members[0]
        module.detach_if_crowded(group.channel, NOW + CROWDING - 1e-6)
        assert [member.crowded_since for member in group.members] == [NOW] + [NOW + CROWDING - 1e-6] * 2
        tightest.answered_at = NOW + 0.1 if answers else NOW
        module.detach_if_crowded(group.channel, NOW + CROWDING + 1e-9)
        assert group.detached() == [True, False, False]
        assert group.statistics[f"members detached: {cause}"] == 1


def test_nobody_is_detached_while_another_member_is_as_full_or_the_way_is_long() -> None:
    group = Group()
    for step in range(20):
        full(group, 0.0, SPARE - 0.01 if step % 2 else 0.9, 0.9)
        module.detach_if_crowded(group.channel, NOW + step * 0.3)
    assert group.detached() == [False] * 3
    for measured in (True, False):
        group = Group()
        full(group, 0.0, SPARE + 0.01, 0.9)
        trips = [member.round_trip for member in group.members]
        if measured:
            trips[0].least = 0.3
            wait = UNANSWERED * 0.3
        else:
            trips[0].measured = False
            trips[1].sample(1.0, 0.0)
            trips[2].sample(1.0, 0.0)
            wait = UNANSWERED * min(trip.probe_timeout(0) for trip in trips[1:])
        assert wait > CROWDING
        module.detach_if_crowded(group.channel, NOW)
        module.detach_if_crowded(group.channel, NOW + wait - 1e-6)
        assert group.detached() == [False] * 3
        module.detach_if_crowded(group.channel, NOW + wait + 1e-6)
        assert group.detached() == [True, False, False]


@pytest.mark.parametrize("attached", [2, 1])
def test_who_lets_nothing_come_and_answers_no_question_is_detached_or_replaced(attached: int) -> None:
    group = Group(2)
    member, other = group.members
    for each in group.members:
        each.next = 10
    if attached == 1:
        group.detach(1)
        other.answered_at = NOW + 9.0
    member.asked_at = NOW
    module.detach_if_dead(group.channel, member, NOW + GIVEN_UP - 1e-6)
    assert group.detached() == [False, attached == 1]
    module.detach_if_dead(group.channel, member, NOW + GIVEN_UP)
    assert group.detached() == [True, False]
    assert group.statistics["members detached: silent"] == 1


def test_a_question_for_room_is_waited_for_three_timeouts_on_a_long_way() -> None:
    group = Group(2)
    member = group.members[0]
    member.round_trip.sample(1.0, 0.0)
    member.round_trip.sample(1.0, 0.0)
    timeout = member.round_trip.probe_timeout(0)
    assert UNANSWERED * timeout > GIVEN_UP > UNANSWERED * MAX_PROBE
    member.asked_at = NOW
    module.detach_if_dead(group.channel, member, NOW + UNANSWERED * timeout - 1e-6)
    assert group.detached() == [False, False]
    module.detach_if_dead(group.channel, member, NOW + UNANSWERED * timeout)
    assert group.detached() == [True, False]


def test_the_only_attached_member_is_replaced_by_one_that_has_all_or_answered_last() -> None:
    for next, answered, replaced in (
        ((0, 10, 5), (NOW, NOW - 1, NOW + 5), 1), ((0, 5, 5), (NOW, NOW + 1, NOW + 5), 2),
        ((0, 5, 5), (NOW, NOW - 1, NOW), 0), ((0, 5, 5), (NOW, NOW + 1e-6, NOW), 1),
        ((6, 5, 5), (NOW, NOW + 5, NOW), 0),
    ):  # fmt: skip
        group = Group(3)
        group.detach(1)
        group.detach(2)
        for member, has, at in zip(group.members, next, answered, strict=True):
            member.next, member.answered_at = has, at
        group.channel.release()
        module.replace_if_silent(group.channel, group.members[0], NOW + SILENCE - 1e-6)
        assert group.detached() == [False, True, True]
        module.replace_if_silent(group.channel, group.members[0], NOW + SILENCE)
        assert [number for number, is_off in enumerate(group.detached()) if not is_off] == [replaced]


# ------------------------------------------------------------------------------------------ served on its own


def test_a_detached_member_is_sent_what_it_lacks_within_its_window_and_what_it_may_take() -> None:
    for window, limit, ranges, sent in ((4.9, 99, [], 4), (99.0, 3, [], 3), (99.0, 99, [(2, 5)], 10)):
        group = Group()
        member = group.detach(1)
        member.sent, member.window.frames, member.limit = 0, window, limit
        member.ranges.replace(ranges)
        assert [*module.serve_detached(group.channel, member, NOW + 9.0)] == []
        assert member.lost == {*range(sent)} - ({2, 3, 4} if ranges else set())
        assert member.sent == sent
    group = Group()
    member = group.detach(1)
    member.next, member.sent, member.window.frames = 2, 6, 6.0  # four of six are on their way
    [*module.serve_detached(group.channel, member, NOW + 9.0)]
    assert (member.lost, member.sent) == ({6, 7}, 8)
    member.backoff = 1
    member.window.frames = 99.0
    [*module.serve_detached(group.channel, member, NOW + 9.0)]
    assert member.sent == 8, "it is silent"


def test_what_it_may_still_overhear_is_not_sent_to_it_yet() -> None:
    group = Group()
    member = group.detach(1)
    member.sent = 0
    late = member.round_trip.loss_delay()
    assert late < 0.005
    [*module.serve_detached(group.channel, member, NOW - 1.0 + 0.055 + late)]
    assert member.sent == 6, "those after that left just now, to all"


def test_it_is_told_once_what_it_is_to_skip() -> None:
    group = Group()
    member = group.detach(1)
    member.skip_to(4)
    (told,) = module.serve_detached(group.channel, member, NOW)
    assert (told.peers, told.header[KEY], told.bodies) == ((member.peer,), ["skip", 7, 4], [b""])
    assert [*module.serve_detached(group.channel, member, NOW)] == []


@pytest.mark.parametrize(
    ("next", "late", "loss", "others", "is_attached"),
    [
        (5, 0.0, nan, nan, True), (4, 0.0, nan, nan, False), (5, -1e-6, nan, nan, False), (5, 0.0, LOSSY, 0.0, True),
        (5, 0.0, 0.06, 0.0, False), (5, 0.0, 0.06, 0.02, True), (5, 0.0, 0.07, 0.02, False), (5, 0.0, 0.06, nan, False),
    ],
)  # fmt: skip
def test_it_is_attached_again_when_it_keeps_up_after_a_while_with_the_usual_loss(
    next: int, late: float, loss: float, others: float, is_attached: bool
) -> None:
    group = Group()
    member = group.detach(1)
    for other in group.members:
        other.next, other.window.loss = 5, others
    group.channel.release()
    member.next, member.window.loss, member.stalled = next, loss, True
    now = NOW + TRIAL + late
    [*module.serve_detached(group.channel, member, now)]
    assert (member.detached, member.behind_since, member.stalled) == (not is_attached, now, False)
    assert group.statistics["members attached again"] == is_attached
    assert len(group.channel.attached) == 2 + is_attached


@pytest.mark.parametrize(
    ("count", "limit", "window", "sent"), [(2, 99, 12.0, 12), (3, 99, 12.0, 10), (3, 12, 99.0, 10)]
)
def test_what_it_has_room_for_it_overhears(count: int, limit: int, window: float, sent: int) -> None:
    group = Group()
    member = group.detach(1)
    member.limit, member.window.frames = limit, window
    module.count_overheard(group.channel, member, count)
    assert member.sent == sent
    member.sent = 9
    module.count_overheard(group.channel, member, 1)
    assert member.sent == 9, "it is behind"


# ------------------------------------------------------------------------------------------ invited, closed, given up


def test_members_are_invited_once_in_bodies_of_fifty_ids() -> None:
    group = Group(module.MEMBERS + 1)
    assert module.serve_members(group.channel, NOW) == []
    for count, peers in ((1, (group.members[0].peer,)), (2, ())):
        for member in group.members[:count]:
            member.invite = True
        assert not module.is_uniform(group.channel)
        told = module.serve_members(group.channel, NOW)
        assert [(item.peers, item.header[KEY], len(orjson.loads(item.bodies[0]))) for item in told] == [
            (peers, ["open", 7], module.MEMBERS), (peers, ["open", 7], 1),
        ]  # fmt: skip
        assert module.serve_members(group.channel, NOW) == []
        assert module.is_uniform(group.channel)


def test_a_member_that_is_held_by_an_older_channel_takes_part_later() -> None:
    group = Group(3, frames=0)
    behind: set[str] = {group.members[1].peer}
    barrier: Any = SimpleNamespace(holds_one=lambda peer: peer in behind, is_detached=lambda peer: True)
    assert module.hold_back(group.channel, barrier)
    assert (group.detached(), group.statistics["members held back"]) == ([False, True, False], 1)
    member = group.members[1]
    assert module._is_held(member, NOW + 5.0)
    assert (member.waiting_since, member.answered_at) == (NOW + 5.0, NOW + 5.0)
    behind.clear()
    assert not module._is_held(member, NOW + 6.0)
    for case in ("sent", "attached there", "all"):
        group = Group(2, frames=case == "sent")
        behind = {member.peer for member in group.members[: 2 if case == "all" else 1]}
        barrier.is_detached = lambda peer, case=case: case != "attached there"
        assert not module.hold_back(group.channel, barrier), case
        assert group.statistics["members held back"] == 0


def test_a_group_is_closed_for_another_if_it_is_idle_or_serves_silent_members_only() -> None:
    idle, busy = Group(2, frames=0).channel, Group(2)
    assert module.dispensable([busy.channel, idle], NOW) is idle
    busy.members[0].next, busy.members[1].next = 3, 10
    member = busy.detach(0)
    member.backoff = 1
    assert module.dispensable([busy.channel], NOW + GIVEN_UP - 1e-6) is None
    assert module.dispensable([busy.channel], NOW + GIVEN_UP) is busy.channel
    member.backoff = 0
    assert module.dispensable([busy.channel], NOW + 9.0) is None
    member.backoff, busy.members[1].next = 1, 9
    assert module.dispensable([busy.channel], NOW + 9.0) is None


def test_the_sender_waits_for_who_was_silent_a_moment_and_gives_up_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT", 40)
    group = Group()
    member = group.detach(1)
    for other in group.members:
        other.next = 10
    member.next, member.backoff = 2, 0
    group.channel.release()
    assert group.channel.flights.kept_size == 80
    assert not module.waits_for_detached(group.channel, NOW), "it is slow, but was never silent"
    assert (member.next, member.skip, group.channel.flights.kept_size) == (8, 8, 20), "half of what may be kept is left"
    assert group.statistics["frames given up for detached members"] == 6
    (told,) = group.outcomes.news
    assert isinstance(told, Undelivered)
    assert (told.peer, told.count, told.cause) == (member.peer, 6, "receiver too slow")
    group = Group()
    member = group.detach(1)
    for other in group.members:
        other.next = 10
    member.next, member.backoff = 2, 1
    group.channel.release()
    assert module.waits_for_detached(group.channel, NOW + PATIENCE - 1e-6)
    assert member.next == 2
    member.backoff, member.answered_at = 0, NOW + PATIENCE
    assert module.waits_for_detached(group.channel, NOW + 2 * PATIENCE - 1e-6), "it was silent, and has not caught up"
    assert not module.waits_for_detached(group.channel, NOW + 2 * PATIENCE)
    assert member.next == 8
