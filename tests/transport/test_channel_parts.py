"""The receiving end of a channel on its own: what it takes, keeps and skips, and what it acknowledges when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from glue.contract import Inbound, Outbound
from glue.contract.counters import Counters
from glue.transport.acknowledger import FEWEST, PAUSE, SPREAD, STREAM, WIDEST, Acknowledger, spread
from glue.transport.incoming import RUN_COST, UNKNOWN, GapBudget, IncomingChannel, IncomingPeer, RecentFrames
from glue.transport.round_trip import ACK_DELAY
from glue.transport.wire import KEY, MAX_HELD_US, WINDOW

PEER = "a" * 16


def run(sequence: int, count: int, age: float = 0.0) -> Inbound:
    bodies = [b"%04d" % number for number in range(sequence, sequence + count)]
    return Inbound(PEER, 1, None, {KEY: ["data", 0, 0, 0, 0, 0, 7, sequence]}, bodies, age)


def bodies(runs: Sequence[Inbound]) -> list[int]:
    return [int(body) for run in runs for body in run.bodies]


def channel(budget: GapBudget | None = None) -> IncomingChannel:
    return IncomingChannel(PEER, 7, budget or GapBudget())


# ------------------------------------------------------------------------------------------ the receiving end


def test_frames_in_order_pass_up_to_what_was_promised() -> None:
    one = channel()
    assert (one.promised, one.window(False), one.stride, one.members) == (WINDOW, WINDOW, 64, 1)
    assert one.advance(5.0, 0, 10)
    assert (one.next, one.unacknowledged, one.newest_at, one.outcome) == (10, 10, 5.0, "")
    for sequence, count in ((9, 2), (11, 1), (10, WINDOW - 9)):
        assert not one.advance(6.0, sequence, count)
    assert (one.next, one.newest_at) == (10, 5.0)
    assert one.advance(6.0, 10, WINDOW - 10)
    assert (one.window(False), one.window(True), one.promised) == (0, WINDOW, 2 * WINDOW)
    one.promise()
    assert one.promised == 2 * WINDOW


@pytest.mark.parametrize(
    ("sequence", "count", "given", "outcome", "news", "newest"),
    [
        (10, 2, [10, 11], "", 2, 5.0), (8, 4, [10, 11], "duplicate frames", 2, 5.0),
        (8, 2, [], "duplicate frames", 0, 5.0), (12, 3, [], "", 3, 5.0), (15, 5, [], "", 5, 5.0),
        (18, 4, [], "duplicate frames", 2, 5.0),
        (20, 2, [], "duplicate frames", 0, 5.0), (22, 3, [], "", 3, 9.0),
        (10, 10, [*range(10, 22)], "", 10, 5.0), (WINDOW - 1, 2, [], "beyond window", 1, 9.0),
        (WINDOW, 2, [], "beyond window", 0, 5.0), (9, 14, [*range(10, 23)], "duplicate frames", 11, 9.0),
    ],
)  # fmt: skip
def test_what_comes_beside_a_gap_is_taken_kept_or_refused(
    sequence: int, count: int, given: list[int], outcome: str, news: int, newest: float
) -> None:
    budget = GapBudget()
    one = channel(budget)
    assert one.advance(4.0, 0, 10)
    assert one.take(5.0, run(20, 2), 20) == []
    kept = budget.held
    assert kept == 2 * 4 + RUN_COST
    one.unacknowledged = 0
    found = one.take(9.0, run(sequence, count, 0.5), sequence)
    assert (bodies(found), one.outcome, one.unacknowledged, one.newest_at) == (given, outcome, news, newest)
    assert one.next == (given[-1] + 1 if given else 10)
    assert budget.held == (kept + (4 * news + RUN_COST if news else 0) if not given else 0 if 20 in given else kept)
    one.drop()
    assert budget.held == 0
    assert [round(part.age, 6) for part in found] == [4.0 if 20 in bodies([part]) else 0.5 for part in found]


def test_what_was_given_up_is_skipped_and_a_run_across_the_place_is_cut() -> None:
    budget = GapBudget()
    one = channel(budget)
    one.take(5.0, run(4, 2), 4)
    one.take(6.0, run(8, 4), 8)
    one.take(6.0, run(20, 1), 20)
    assert one.skip(7.0, 0) == (0, [])
    given_up, ready = one.skip(7.0, 10)
    assert (given_up, bodies(ready), one.next) == (10, [10, 11], 12)
    assert [round(part.age, 6) for part in ready] == [1.0]
    assert ready[0].header[KEY][-1] == 10
    assert budget.held == 4 + RUN_COST
    assert [*one.ranges] == [(20, 21)]
    assert one.missing(10, 12) == [*range(12, 20), 21]
    assert one.promised == WINDOW, "what was promised stays promised"
    given_up, ready = one.skip(7.0, WINDOW + 5)
    assert (given_up, ready, one.next, one.promised, budget.held) == (WINDOW - 7, [], WINDOW + 5, WINDOW + 5, 0)
    assert one.skip(7.0, WINDOW + 5) == (0, [])


def test_a_frame_that_was_recovered_tells_nothing_of_the_way() -> None:
    one = channel()
    one.advance(5.0, 0, 1)
    one.newest_decoded(6.0)
    assert one.newest_at == 5.0
    one.newest_decoded(5.0)
    assert one.newest_at == 5.0 - UNKNOWN


def best(sequence: int, count: int = 1) -> Inbound:
    return Inbound(PEER, 1, None, {KEY: ["best", 0, sequence]}, [b"%d" % n for n in range(sequence, sequence + count)])


def test_best_effort_runs_far_from_the_rest_are_believed_in_the_end() -> None:
    span, leap = RecentFrames.SPAN, RecentFrames.LEAP
    recent = RecentFrames()

    def taken(sequence: int, count: int = 1) -> list[int]:
        return bodies(recent.take(best(sequence, count)))

    assert taken(leap * 3) == [leap * 3], "the first one tells where it is"
    top = leap * 3 + 1
    assert taken(top + leap) == [top + leap]
    top += leap + 1
    assert taken(top + leap + 1) == []
    assert taken(top + leap + 2) == [top + leap + 2], "the second one that goes on there"
    top += leap + 3
    assert taken(top - span - 1) == []
    assert taken(top - span) == [top - span]
    assert taken(top - span) == []
    for start in (0, 10 * leap):  # neither goes on where the other was
        assert taken(start) == []
    assert [taken(number) for number in range(100, 100 + RecentFrames.RETURN - 1)] == [[]] * (RecentFrames.RETURN - 1)
    assert taken(100 + RecentFrames.RETURN - 1) == [100 + RecentFrames.RETURN - 1]
    assert taken(101 + RecentFrames.RETURN, 2) == [101 + RecentFrames.RETURN, 102 + RecentFrames.RETURN]
    assert taken(99 + RecentFrames.RETURN, 4) == [100 + RecentFrames.RETURN]


def test_a_channel_that_is_used_is_the_latest_and_all_are_dropped_with_their_peer() -> None:
    budget, peer = GapBudget(), IncomingPeer(1)
    for number in range(3):
        peer.channels[number] = IncomingChannel(PEER, number, budget)
        peer.channels[number].take(1.0, run(5, 1), 5)
    assert peer.use(0) is peer.channels[0]
    assert peer.use(9) is None
    assert [*peer.channels] == [1, 2, 0]
    peer.drop()
    assert (peer.channels, budget.held) == ({}, 0)


# ------------------------------------------------------------------------------------------ acknowledgements


def answers(one: Acknowledger, now: float) -> list[tuple[Any, ...]]:
    return [(answer.peers, answer.header[KEY], [bytes(body) for body in answer.bodies]) for answer in one.due(now)]


def test_a_gap_is_told_at_once_but_not_again_and_again_within_a_stream() -> None:
    statistics = Counters()
    one, incoming = Acknowledger(statistics, Random(1)), channel()
    incoming.take(5.0, run(3, 2), 3)
    one.taken(5.0, incoming, 2, at_once=True)
    assert one.deadline == -math.inf
    assert answers(one, 5.0 + 2**-16) == [((PEER,), ["ack", 15, WINDOW, 7, 0], [b"[3,5]"])]
    assert (incoming.gap_told, incoming.unacknowledged, one.deadline) == (True, 0, math.inf)
    one.taken(5.0001, incoming, STREAM - 2, at_once=True)
    assert one.deadline == -math.inf, "so few frames are no stream"
    one.due(5.0001)
    one.taken(5.0002, incoming, 1, at_once=True)
    assert one.deadline == 5.0002 + ACK_DELAY
    one.taken(5.0002 + 2 * ACK_DELAY, incoming, 1, at_once=True)
    assert one.deadline == -math.inf
    assert statistics == {"acknowledgements sent": 2}


def test_the_stride_grows_within_a_stream_and_shrinks_where_it_stops() -> None:
    one, incoming = Acknowledger(Counters(), Random(1)), channel()
    incoming.unacknowledged = 63
    one.taken(5.0, incoming, 1, at_once=False)
    assert (incoming.stride, one.deadline) == (64, 5.0 + ACK_DELAY)
    incoming.unacknowledged = 64
    one.taken(5.0, incoming, 1, at_once=False)
    assert (incoming.stride, one.deadline) == (80, -math.inf)
    one.due(5.0)
    for count, stride in ((PAUSE - 1, 80), (PAUSE, 40), (PAUSE, FEWEST), (PAUSE, FEWEST)):
        incoming.unacknowledged = count
        one.taken(6.0, incoming, 1, at_once=False)
        assert one.due(6.0 + ACK_DELAY - 1e-9) == []
        assert len(one.due(6.0 + ACK_DELAY)) == 1
        assert incoming.stride == stride


def test_in_a_group_a_gap_is_told_after_a_while_unless_it_is_filled() -> None:
    statistics = Counters()
    one, incoming, filled = Acknowledger(statistics, Random(1)), channel(), channel()
    incoming.members = filled.members = 4
    for each in (incoming, filled):
        each.take(5.0, run(3, 2), 3)
        one.taken(5.0, each, 2, at_once=True)
        one.taken(5.0, each, 2, at_once=True)  # one report is enough
    assert 5.0 < one.deadline <= 5.0 + 4 * SPREAD
    filled.ranges.drop_below(9)
    assert len(one.due(5.0 + 4 * SPREAD)) == 1
    assert statistics == {"gaps reported to groups": 1, "acknowledgements sent": 1}
    assert (incoming.report_at, filled.report_at) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("members", "longest"), [(1, SPREAD), (4, 4 * SPREAD), (50, WIDEST), (51, WIDEST), (900, WIDEST)]
)
def test_reports_of_a_group_are_spread_most_of_them_late(members: int, longest: float) -> None:
    drawn: Any = type("Drawn", (), {"random": lambda self: self.share})()
    times = []
    for share in (0.0, 0.5, 1.0):
        drawn.share = share
        times.append(spread(drawn, members))
    assert times[0] == 0.0
    assert times[2] == pytest.approx(longest)
    assert 0.5 * longest < times[1] < longest


def item(sequence: int = 5, number: int = 3, kind: str = "data", peer: str = PEER) -> Outbound:
    return Outbound((peer,), [b"x"], {KEY: [kind, 0, 0, 0, 0, 0, number, sequence]})


def test_data_carries_what_is_owed_to_its_peer_once() -> None:
    statistics = Counters()
    one, incoming = Acknowledger(statistics, Random(1)), channel()
    incoming.advance(5.0, 0, 9)
    one.taken(5.0, incoming, 9, at_once=False)
    for other in (item(peer="b" * 16), item(kind="parity")):
        one.carry(5.0, other)
        assert other.header[KEY][2:6] == [0, 0, 0, 0]
    assert one.owing(PEER) is incoming
    carrying, later = item(), item()
    incoming.gap_told = True
    one.carry(5.00002, carrying)
    one.carry(5.00002, later)
    assert sorted(carrying.header[KEY][1:6]) == [0, 0, 7, 9, 20]
    assert later.header[KEY][2:6] == [0, 0, 0, 0]
    assert (incoming.promised, incoming.gap_told, incoming.unacknowledged) == (9 + WINDOW, False, 0)
    assert (one.owing(PEER), one.deadline, one.due(9.0)) == (None, math.inf, [])
    assert statistics == {"acknowledgements carried by data": 1}


def test_what_cannot_be_carried_goes_on_its_own() -> None:
    for hinders in ("accepting", "ranges", "recovered", "long"):
        one, incoming = Acknowledger(Counters(), Random(1)), channel()
        incoming.advance(5.0, 0, 9)
        one.taken(5.0, incoming, 9, at_once=False)
        data = item()
        if hinders == "accepting":
            one.accept(False, [])
        elif hinders == "ranges":
            incoming.take(5.0, run(12, 1), 12)
        elif hinders == "recovered":
            incoming.recovered = 1
        else:
            data = item(sequence=2**53 - 1, number=2**53 - 1)
            incoming.channel = incoming.next = 2**53 - 1
        one.carry(5.0, data)
        assert data.header[KEY][2:6] == [0, 0, 0, 0], hinders
        assert one.owing(PEER) is incoming
    one.forget(PEER)
    one.forget(PEER)
    assert one.owing(PEER) is None


def test_after_a_stop_those_who_may_wait_are_told_that_it_goes_on() -> None:
    one, source = Acknowledger(Counters(), Random(1)), IncomingPeer(1)
    for number, consumed in ((1, 0), (2, 1)):
        source.channels[number] = IncomingChannel(PEER, number, GapBudget())
        source.channels[number].next = consumed
    one.accept(False, [source])
    assert (one.accepting, one.deadline) == (False, math.inf)
    one.accept(True, [source])
    (answer,) = one.due(5.0)
    assert (one.accepting, answer.header[KEY][2:]) == (True, [WINDOW, 2, 1])


def test_recovered_frames_are_reported_twice_and_a_long_wait_as_the_longest() -> None:
    one, incoming = Acknowledger(Counters(), Random(1)), channel()
    incoming.advance(5.0, 0, 2)
    incoming.recovered = 3
    one.now(incoming)
    assert [entry for _, entry, _ in answers(one, 6.0)] == [["mended", 3, MAX_HELD_US, WINDOW, 7, 2]] * 2
    one.now(incoming)
    assert [entry for _, entry, _ in answers(one, 5.0 + 2**-4)] == [["ack", 62500, WINDOW, 7, 2]]
    one.was_carried(incoming, 4, 10, 6)
    assert (incoming.promised, incoming.unacknowledged) == (10 + WINDOW, 6)
    one.was_carried(incoming, 1, 3, 0)
    assert incoming.promised == 10 + WINDOW


def test_all_that_is_owed_may_be_told_now() -> None:
    one = Acknowledger(Counters(), Random(1))
    first, second = channel(), IncomingChannel("b" * 16, 1, GapBudget())
    one.taken(5.0, first, 1, False)
    one.owe(4.9, second)
    one.owe(4.0, second)  # it is owed already
    assert one.deadline == 4.9 + ACK_DELAY
    one.hurry()
    assert len(one.due(5.0)) == 2
    one.hurry()
    assert one.due(9.0) == []


def test_nothing_is_told_to_a_peer_that_is_gone() -> None:
    one, others = Acknowledger(Counters(), Random(1)), [IncomingChannel("b" * 16, 7, GapBudget()) for _ in range(3)]
    for incoming in (channel(), *others[:1]):
        one.taken(5.0, incoming, 1, at_once=False)
    for incoming in (channel(), *others[1:2]):
        one.now(incoming)
    for incoming in (in_group := channel(), *others[2:]):
        incoming.members = 4
        incoming.take(5.0, run(3, 2), 3)
        one.taken(5.0, incoming, 2, at_once=True)
    one.forget(PEER)
    assert [answer.peers for answer in one.due(6.0)] == [("b" * 16,)] * 3
    assert (one.owing(PEER), one.deadline) == (None, math.inf)
    one.taken(7.0, in_group, 1, at_once=True)
    assert 7.0 < one.deadline < 8.0, "the same life is back"
