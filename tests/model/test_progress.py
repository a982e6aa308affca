"""How a leader serves one follower: what is sent again and when, and how much may be in flight."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from glue.model.consensus import Configuration, Snapshot
from glue.model.consensus.progress import ALLOWANCE_LIMIT, FIRST_ALLOWANCE, FollowerProgress, Service

KIB = 1 << 10


def progress(match: int = 0, **fields: Any) -> FollowerProgress:
    made = FollowerProgress("life-b", 100.0, 0.2)
    made.match, made.next = match, match + 1
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def repairing(match: int = 5, index: int = 9, **fields: Any) -> FollowerProgress:
    made = progress(match)
    made.repair_from(index)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_new_follower_takes_the_stream_and_little_in_flight() -> None:
    made = FollowerProgress("life-b", 100.0, 0.2)
    assert (made.match, made.next, made.round, made.since, made.service) == (0, 1, 0, 0, Service.STREAM)
    assert (made.allowance, made.threshold) == (FIRST_ALLOWANCE, ALLOWANCE_LIMIT) == (64 * KIB, 64 << 20)
    assert (made.waits(100.19), made.waits(100.2)) == (True, False)


def test_an_acknowledgement_ends_the_flights_before_it() -> None:
    made = progress(3)
    made.flights.extend([4, 6, 8])
    made.matched(100.1, 6)
    assert (made.match, [*made.flights], made.allowance) == (6, [8], 256 * KIB)  # doubled twice
    made.matched(100.1, 5)  # late
    assert (made.match, [*made.flights], made.allowance) == (6, [8], 256 * KIB)
    assert (made.service, made.next) == (Service.STREAM, 4)
    made = repairing(5, 9)
    assert (made.probing, made.probed, made.next) == (True, 8, 9)
    made.matched(100.1, 7)
    assert (made.probing, made.next, made.match) == (False, 9, 7)
    made.matched(100.1, 12)
    assert made.next == 13


def test_a_repair_begins_behind_what_matches() -> None:
    for index, next in ((3, 6), (6, 6), (7, 7)):
        made = repairing(5, index)
        assert (made.next, made.probed, made.service, [*made.flights]) == (next, next - 1, Service.REPAIR, [])


def test_a_snapshot_is_followed_by_a_repair_once_it_is_there() -> None:
    snapshot = Snapshot(20, 2, Configuration({"a": "life-a"}, {}), b"state")
    made = progress(3)
    made.flights.append(7)
    made.offset = 9
    made.needs_snapshot(snapshot)
    assert (made.service, made.snapshot, made.offset, [*made.flights]) == (Service.SNAPSHOT, snapshot, 0, [])
    assert not made.refused(9, 4, 1, 100.5)
    made.matched(100.1, 19)
    assert made.service is Service.SNAPSHOT
    made.matched(100.1, 20)
    assert (made.service, made.snapshot, made.next, made.probing) == (Service.REPAIR, None, 21, True)


def test_which_refusals_begin_anew() -> None:
    """`probed` is 8 where a repair began at 9; the last unicast left at 100.0 in round 4, with a patience of 0.2."""
    sent: dict[str, Any] = {"sent_round": 4, "since": 2}
    table: list[tuple[FollowerProgress, tuple[int, int, int, float], tuple[bool, int]]] = [
        (repairing(5, 9, **sent), (8, 6, 4, 100.1), (True, 7)),  # the answer to what was asked
        (repairing(5, 9, **sent), (7, 6, 4, 100.1), (False, 9)),
        (repairing(5, 9, **sent), (7, 6, 5, 100.19), (False, 9)),  # that may still be on its way
        (repairing(5, 9, **sent), (7, 6, 5, 100.2), (True, 7)),
        (repairing(5, 9, **sent), (7, 6, 4, 100.2), (False, 9)),  # no later round was answered
        (repairing(5, 9, **sent), (8, 6, 1, 100.1), (False, 9)),  # from before it began anew
        (repairing(5, 9, **sent), (8, 6, 2, 100.1), (True, 7)),
        (repairing(8, 9, **sent), (8, 6, 4, 100.1), (False, 9)),  # more was acknowledged since
        (repairing(5, 9, **sent), (8, 30, 4, 100.1), (True, 8)),  # a hint beyond what was refused
        (repairing(5, 9, **sent), (20, 30, 5, 100.3), (True, 9)),  # no further than what was refused before
        (progress(5, **sent), (9, 7, 5, 100.1), (True, 8)),  # of the stream: nothing is on its way
        (progress(5, **sent), (9, 7, 4, 100.1), (False, 6)),
        (progress(5, next=12, flights=[7, 9, 11], **sent), (9, 7, 5, 100.1), (True, 8)),  # reordered
        (progress(5, next=10, flights=[7, 9], **sent), (9, 7, 4, 100.1), (False, 10)),  # the latest of them
        (progress(5, next=12, flights=[7, 11], **sent), (9, 7, 4, 100.1), (False, 12)),
    ]
    for place, (made, call, (begins, next)) in enumerate(table):
        made.flights = deque(made.flights)
        assert (made.refused(*call), made.next) == (begins, next), place


def test_a_repeat_halves_what_may_be_in_flight_and_waits_twice_as_long() -> None:
    made = repairing(5, 9, sent_round=4, allowance=1024 * KIB)
    assert made.refused(8, 6, 5, 100.3)  # an answer, and a later round: it was lost as well
    assert (made.patience, made.repeated) == (0.4, True)
    assert (made.allowance, made.threshold) == (64 * KIB, 512 * KIB)
    made.sent_at = 101.0
    assert (made.waits(101.39), made.waits(101.4)) == (True, False)
    made.advances(101.9)  # which of the two was acknowledged is not known
    assert (made.patience, made.repeated, made.allowance) == (0.4, False, 128 * KIB)
    made.advances(101.9)
    assert made.patience == pytest.approx(1.8)
    assert made.allowance == 256 * KIB
    made.advances(101.01)
    assert made.patience == pytest.approx(1.35)
    assert made.allowance == 512 * KIB
    made.advances(101.01)  # from the threshold on by one part at a time
    assert made.allowance == 576 * KIB
    for _ in range(9):
        made.advances(101.01)
    assert made.patience == 0.2  # a heartbeat at least
    for _ in range(5):
        made.repeats()
    assert (made.patience, made.threshold) == (1.6, 64 * KIB)  # eight heartbeats at most
    made.allowance = made.threshold = ALLOWANCE_LIMIT
    made.advances(101.01)
    assert made.allowance == ALLOWANCE_LIMIT


def test_what_is_asked_anew_without_a_loss_costs_nothing() -> None:
    made = repairing(5, 9, sent_round=4)
    made.flights.clear()
    assert made.refused(8, 6, 4, 100.1)
    assert (made.patience, made.allowance, made.repeated) == (0.2, 64 * KIB, False)
    made = progress(5, sent_round=4)
    assert made.refused(9, 7, 5, 100.1)  # of the stream, with nothing in flight
    assert not made.repeated
    made.streams()
    assert made.service is Service.STREAM
