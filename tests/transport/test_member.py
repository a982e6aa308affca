"""What a sender knows of one receiver."""

from __future__ import annotations

import math

import pytest

from glue.transport.member import LATE, MARGIN, OVERTAKEN, REORDERING, TOO_LATE, Hole, Member
from glue.transport.window import Window


def test_only_frames_that_did_not_arrive_count_as_given_up() -> None:
    member = Member("a" * 16, Window(), invite=False)
    assert member.take(2, [(4, 6), (9, 10)]) == 5
    member.lost, member.holes = {3, 7, 11}, {6: Hole(6, 0.0), 11: Hole(11, 0.0)}
    assert member.skip_to(8) == 4  # 2, 3, 6 and 7
    assert (member.next, member.skip) == (8, 8)
    assert member.skip_to(9) == 1
    assert member.next == 10
    assert (member.lost, [*member.holes]) == ({11}, [11]), "what was given up is not sent again"


def member() -> Member:
    return Member("m" * 16, Window(), invite=True)


@pytest.mark.parametrize(
    ("first", "second", "news", "next", "ranges"),
    [
        ((5, []), (5, []), 0, 5, []), ((5, []), (4, []), 0, 5, []), ((5, []), (6, []), 1, 6, []),
        ((5, [(7, 9)]), (5, [(7, 9)]), 0, 5, [(7, 9)]), ((5, [(7, 9)]), (5, [(7, 10)]), 1, 5, [(7, 10)]),
        ((5, [(7, 9)]), (4, [(7, 10)]), 1, 5, [(7, 10)]), ((5, [(7, 9)]), (6, []), 1, 6, [(7, 9)]),
        ((5, [(7, 9)]), (7, []), 2, 9, []), ((5, [(7, 9)]), (8, []), 2, 9, []), ((5, [(7, 9)]), (9, []), 2, 9, []),
        ((5, [(7, 9)]), (5, [(5, 7)]), 2, 9, []), ((5, [(7, 9), (11, 12)]), (9, [(10, 11)]), 3, 9, [(10, 12)]),
    ],
)  # fmt: skip
def test_an_acknowledgement_adds_to_what_is_known(
    first: tuple[int, list[tuple[int, int]]], second: tuple[int, list[tuple[int, int]]], news: int, next: int,
    ranges: list[tuple[int, int]],
) -> None:  # fmt: skip
    one = member()
    one.take(*first)
    assert (one.take(*second), one.next, [*one.ranges]) == (news, next, ranges)
    assert [one.missing(next), one.missing(next + 1)] == [False, True]


def test_what_may_be_under_way_is_neither_here_nor_lost() -> None:
    one = member()
    one.take(5, [(7, 9)])
    one.lost = {5}
    assert [one.under_way(sent) for sent in (20, 9, 8, 0)] == [12, 1, 0, 0]
    assert [one.unscathed] == [False]
    one.lost, one.limit = set(), 11
    assert one.most_under_way == 6
    one.limit = 10**6
    assert one.most_under_way == one.window.frames
    assert [one.unscathed] == [False]
    one.take(9, [])
    assert [one.unscathed] == [True]
    one.holes[12] = Hole(3, 1.0)
    assert [one.unscathed] == [False]
    assert [one.attempts(12), one.attempts(13)] == [0, 0]
    one.repaired(5.0, range(12, 15), 40, 2, 4.0)
    told = [(hole.attempt, hole.number, hole.before, hole.sent_at) for hole in one.holes.values()]
    assert told == [(2, 40, 1.0, 5.0), (2, 41, 4.0, 5.0), (2, 42, 4.0, 5.0)]
    assert [one.attempts(12), one.attempts(15)] == [2, 0]
    assert not any(one.holes[n].probed for n in (12, 13, 14))
    one.backoff = 1
    one.repaired(6.0, range(12, 13), 50, 3, 4.0)
    assert (one.holes[12].probed, one.holes[12].before) == (True, 5.0)
    one.answered(7.0)
    assert (one.backoff, one.waiting_since) == (0, 7.0)


def test_a_hole_is_a_loss_after_a_few_later_frames_or_a_time() -> None:
    one = member()
    one.told = 10
    delay = one.round_trip.loss_delay()
    for number, sequence in ((0, 0), (1, 1), (2, 2), (3, 11), (9, 4)):
        one.holes[sequence] = Hole(number, 5.0)
    one.latest = REORDERING + 1
    assert [*one.overdue(5.0)] == [0, 1]
    assert one.check_at == 5.0 + delay
    assert [*one.overdue(5.0 + delay)] == [0, 1, 2], "11 was not told of, 4 was sent later"
    one.lost = {0, 1}
    assert [*one.overdue(5.0 + delay)] == [2]
    assert one.check_at == math.inf
    one.patience = 2 * delay
    assert [*one.overdue(5.0 + delay)] == []
    assert one.check_at == 5.0 + 2 * delay
    one.holes[2].decodable_until = 9.0
    assert [*one.overdue(8.9)] == []
    assert one.check_at == 9.0
    assert [*one.overdue(9.0)] == [2]


@pytest.mark.parametrize(("smoothed", "bound"), [(0.0001, LATE), (0.01, 0.08), (1.0, TOO_LATE)])
def test_patience_is_a_little_more_than_the_latest_arrival_that_was_not_too_late(smoothed: float, bound: float) -> None:
    for after, is_noted in ((bound * 0.999, True), (bound * 1.01, False)):
        one = member()
        one._came_late(after)
        assert one.patience == 0.0, "nothing was measured yet"
        one.round_trip.sample(smoothed, 0.0)
        one._came_late(after)
        assert one.patience == pytest.approx(MARGIN * after if is_noted else 0.0)
        one._came_late(after / 2)
        assert one.patience == pytest.approx(MARGIN * after if is_noted else MARGIN * after / 2, rel=0.02)


def test_an_answer_is_to_the_latest_attempt_unless_that_overtook_too_many() -> None:
    one = member()
    one.round_trip.sample(0.01, 0.0)
    least = one.round_trip.least
    hole = Hole(100, 5.0)
    hole.before = 4.999
    one.latest = 100 - OVERTAKEN
    assert one._explains(5.001 + least, hole)
    assert not one._explains(5.0 + least * 0.99, hole)
    one.latest -= 1
    assert not one._explains(5.001 + least, hole)
    hole.probed = True
    assert one._explains(5.001 + least, hole)
    hole.probed, hole.before = False, 5.0 - one.round_trip.probe_timeout(0)
    assert one._explains(5.0 + 1e-6, hole)
    assert not one._explains(5.0 - 1e-6, hole)
