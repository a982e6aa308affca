"""Who is stopped by a full queue, and who goes on when."""

from __future__ import annotations

from glue.contract import BULK, HIGH, LARGE, NORMAL, URGENT
from glue.endpoint.admission import OPEN, SHARES, Admission


def test_a_filling_queue_stops_the_least_urgent_first() -> None:
    admission = Admission(1000)
    stopped = []
    for backlog in (750, 751, 1001, 1501, 2001):
        admission.update(backlog)
        stopped.append(admission.closed_from)
    assert stopped == [OPEN, LARGE, NORMAL, HIGH, URGENT]


def test_each_class_goes_on_well_below_its_limit_and_is_told_once() -> None:
    admission = Admission(1000)
    admission.update(2001)
    assert admission.closed_from == URGENT
    told = [(admission.update(backlog), admission.closed_from) for backlog in (1001, 1000, 751, 750, 501, 500, 0)]
    assert told == [
        (False, URGENT),
        (True, HIGH),
        (False, HIGH),
        (True, NORMAL),
        (False, NORMAL),
        (True, OPEN),
        (False, OPEN),
    ]


def test_large_messages_go_on_while_some_are_still_on_their_way_and_bulk_does_not_wait_for_them_to_cease() -> None:
    admission = Admission(1000)
    for _ in range(3):
        admission.update(751)
        told = [(admission.update(backlog), admission.closed_from) for backlog in (563, 562)]
        assert told == [(False, LARGE), (True, OPEN)]


def test_normal_takes_the_limit_as_it_is_and_less_urgent_classes_no_more_than_others() -> None:
    assert SHARES[NORMAL] == 1
    assert len(SHARES) == BULK + 1
    assert list(SHARES) == sorted(SHARES, reverse=True)
