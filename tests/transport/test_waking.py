"""The moment in which an endpoint wakes up: whom it asks when, when the moment is over, and what is told of it."""

from __future__ import annotations

from math import inf
from typing import Any

import orjson
import pytest

from glue.contract import Awake, Inbound
from glue.transport import waking as module
from glue.transport.incoming import GapBudget, IncomingChannel, IncomingPeer
from glue.transport.waking import (
    BRIEFLY,
    FIRST,
    LEAST,
    LONGEST,
    MARGIN,
    MOST,
    MOST_ENDS,
    PATIENCE,
    TRIES,
    Report,
    Waking,
    decode_ends,
)
from glue.transport.wire import KEY

A, B = "a" * 16, "b" * 16


class Sleeper:
    """An endpoint with these peers, each with a channel of number 7."""

    def __init__(self, *peers: str) -> None:
        self.sources: dict[str, IncomingPeer] = {}
        for peer in peers:
            self.sources[peer] = IncomingPeer(1)
            self.sources[peer].channels[7] = IncomingChannel(peer, 7, GapBudget())
        self.waking = Waking(self.sources)

    def begin(self, now: float = 100.0, cycle: int = 2) -> None:
        self.waking.fall_asleep()
        self.waking.begin(now, cycle)

    def asked(self, now: float) -> list[Any]:
        return [(item.peers, item.header[KEY], item.bodies) for item in self.waking.due(now)]

    def report(
        self, now: float, peer: str = A, waited: int = 0, dropped: int = 0, stop: int = 0, cycle: int = 2
    ) -> None:
        self.waking.take(now, peer, cycle, Report(waited, dropped, [7, stop]))

    def told(self, now: float) -> tuple[Any, ...] | None:
        awake = self.waking.finished(now)
        if awake is None:
            return None
        assert isinstance(awake, Awake)
        return awake.cycle, awake.waited, awake.dropped, awake.publishers, [*awake.silent]


def test_times_and_bounds_of_a_moment() -> None:
    assert (FIRST, MARGIN, LEAST, MOST, PATIENCE, LONGEST) == (0.01, 1.25, 0.002, 0.1, 0.5, 60.0)
    assert (MOST_ENDS, TRIES, BRIEFLY, module.MOST_SILENT) == (32, 3, 4, 1024)


def test_who_never_slept_and_who_is_asleep_waits_for_nobody() -> None:
    one = Sleeper(A)
    waking = one.waking
    assert (waking.is_asleep, waking.is_used, waking.deadline) == (False, False, inf)
    assert (one.asked(1e9), one.told(1e9)) == ([], None)
    one.report(5.0)
    assert waking.deadline == inf
    waking.begin(100.0, 2)
    assert (waking.is_asleep, waking.deadline) == (False, 100.0)
    waking.fall_asleep()
    assert (waking.is_asleep, waking.is_used, waking.deadline) == (True, True, inf)
    one.begin(200.0)
    assert not one.waking.is_asleep
    waking.fall_asleep()
    one.report(100.1)
    assert (one.asked(1e9), one.told(1e9), waking.deadline) == ([], None, inf)


def test_peers_are_asked_at_once_and_again_with_doubling_times_until_they_have_reported() -> None:
    one = Sleeper(A, B)
    one.begin()
    assert one.asked(100.0) == [((peer,), ["wake", 2], [b""]) for peer in (A, B)]
    times, now = [], 100.0
    for _ in range(6):
        times.append(round(one.waking.deadline - now, 9))
        assert one.asked(one.waking.deadline - 1e-6) == []
        now = one.waking.deadline
        assert len(one.asked(now)) == 2
    assert times == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    one.report(now, A)
    assert one.told(now) is None
    assert [peers for peers, _, _ in one.asked(now + MOST)] == [(B,)]
    del one.sources[B]
    assert one.asked(now + 1.0) == []
    one = Sleeper(A)
    for start in (100.0, 200.0):  # nobody answers, so the next moment begins as the first did
        one.begin(start)
        one.asked(start)
        assert one.waking.deadline == start + FIRST
        one.asked(start + FIRST)


@pytest.mark.parametrize(("elapsed", "wait"), [(0.0, LEAST), (0.004, 0.005), (0.04, 0.05), (0.08, MOST), (0.4, MOST)])
def test_the_first_answer_sets_the_time_between_questions_also_of_the_next_moment(elapsed: float, wait: float) -> None:
    one = Sleeper(A, B)
    one.begin()
    one.asked(100.0)
    one.report(100.0 + elapsed)
    asks_at = 100.0 + max(wait, elapsed)
    assert one.waking.deadline == pytest.approx(min(asks_at, 100.0 + elapsed + PATIENCE))
    one.report(100.0 + elapsed + 0.1, B, stop=1)
    assert one.told(100.0 + elapsed + 0.1) is None
    assert one.waking.deadline == pytest.approx(asks_at), "the second answer sets nothing"
    one.begin(200.0, 4)
    one.asked(200.0)
    assert one.waking.deadline == pytest.approx(200.0 + wait)


def test_a_moment_is_over_when_all_that_waited_has_come() -> None:
    one = Sleeper(A, B)
    one.begin()
    assert one.told(100.0) is None
    one.report(100.1, A, waited=3, dropped=2, stop=5)
    one.report(100.1, B)
    assert one.told(100.1) is None
    one.sources[A].channels[7].next = 4
    assert one.told(100.2) is None
    one.sources[A].channels[7].next = 5
    assert one.told(100.3) == (2, 3, 2, 1, [])
    assert (one.waking.deadline, one.told(100.4)) == (inf, None)


def test_who_only_dropped_messages_is_a_publisher_too_and_who_has_nothing_is_none() -> None:
    for waited, dropped, publishers in ((1, 0, 1), (0, 1, 1), (0, 0, 0)):
        one = Sleeper(A)
        one.begin()
        one.report(100.0, A, waited, dropped)
        assert one.told(100.0) == (2, waited, dropped, publishers, [])


def test_reports_of_another_cycle_count_for_nothing_and_a_later_one_takes_the_place_of_the_first() -> None:
    one = Sleeper(A)
    one.begin()
    one.report(100.0, A, waited=9, cycle=4)
    assert one.told(100.0) is None
    one.report(100.0, A, waited=1, stop=2)
    one.report(100.0, A, waited=4, stop=3)
    assert one.told(100.0) is None
    one.sources[A].channels[7].next = 3
    assert one.told(100.0) == (2, 4, 0, 1, [])


def test_a_moment_ends_half_a_second_after_the_last_sign_of_those_that_are_missing() -> None:
    one = Sleeper(A, B)
    one.begin()
    one.report(100.2, A, waited=9, stop=9)
    assert one.told(100.2) is None
    assert one.told(100.2 + PATIENCE - 1e-6) is None
    one.sources[A].channels[7].next = 1
    assert one.told(100.7) is None
    one.report(100.8, A, waited=9, stop=9)  # once more: that is no news
    assert one.told(100.7 + PATIENCE - 1e-6) is None
    assert one.waking.deadline <= 100.7 + PATIENCE
    one.sources[A].channels[7].take(100.9, run(3), 3)  # what came beside a gap counts, too
    assert one.told(101.1) is None
    assert one.told(101.1 + PATIENCE - 1e-6) is None
    assert one.told(101.1 + PATIENCE) == (2, 9, 0, 1, [A, B]), "what was reported is told, though not all has come"


def run(sequence: int) -> Inbound:
    return Inbound(A, 1, None, {KEY: ["data", 0, 0, 0, 0, 0, 7, sequence]}, [b"x"])


def test_a_moment_lasts_a_minute_at_most() -> None:
    one = Sleeper(A)
    one.begin()
    one.report(100.0, A, waited=10**6, stop=10**6)
    now = 100.0
    while now < 100.0 + LONGEST - 0.3:
        now += 0.3
        one.sources[A].channels[7].next += 1
        assert one.told(now) is None
    one.sources[A].channels[7].next += 1
    assert one.told(100.0 + LONGEST - 1e-6) is None
    one.sources[A].channels[7].next += 1
    assert one.told(100.0 + LONGEST) == (2, 10**6, 0, 1, [A])


def test_a_silent_peer_is_waited_for_at_length_once_and_twice_briefly() -> None:
    one = Sleeper(A)
    waits = []
    for cycle in range(2, 12, 2):
        one.begin(100.0 * cycle, cycle)
        asked = len(one.asked(100.0 * cycle))
        steps = (step for step in range(100) if one.told(100.0 * cycle + step / 100 + 1e-9) == (cycle, 0, 0, 0, [A]))
        waits.append((next(steps) / 100, asked))
    assert waits == [(PATIENCE, 1), (BRIEFLY * FIRST, 1), (BRIEFLY * FIRST, 1), (0.0, 0), (0.0, 0)]
    one.waking.gone(A)
    one.begin(2000.0, 20)
    assert one.told(2000.0 + BRIEFLY * FIRST) is None, "a peer that comes anew is waited for"


def test_an_answer_at_any_time_makes_a_silent_peer_one_that_is_waited_for() -> None:
    one = Sleeper(A)
    for cycle in (2, 4, 6):
        one.begin(100.0 * cycle, cycle)
        assert one.told(100.0 * cycle + PATIENCE) is not None
    one.report(700.0, cycle=6)
    one.begin(800.0, 8)
    assert one.asked(800.0) != []
    assert one.told(800.0 + PATIENCE - 1e-6) is None


def test_as_long_as_one_is_missing_that_is_not_known_as_silent_all_are_waited_for() -> None:
    one = Sleeper(A)
    one.begin(100.0, 2)
    assert one.told(100.0 + PATIENCE) is not None
    one.sources[B] = IncomingPeer(1)
    one.begin(200.0, 4)
    assert one.told(200.0 + BRIEFLY * FIRST) is None
    one.report(200.1, B, cycle=4, stop=0)
    assert one.told(200.0 + BRIEFLY * MOST - 1e-6) is None, "the first answer took so long"
    assert one.told(200.0 + BRIEFLY * MOST) == (4, 0, 0, 0, [A])
    one.waking.gone(A)
    one.begin(300.0, 6)
    one.waking.gone(A)
    one.report(300.0, B, cycle=6)
    assert one.told(300.0) == (6, 0, 0, 0, [A]), "it is gone, and not waited for"


def test_no_more_silent_peers_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SILENT", 1)
    one = Sleeper(A, B)
    for cycle in (2, 4, 6, 8):
        one.begin(100.0 * cycle, cycle)
        asked = [peers[0] for peers, _, _ in one.asked(100.0 * cycle)]
        assert asked == ([A, B] if cycle < 8 else [B])
        assert one.told(100.0 * cycle + PATIENCE - 1e-6) is None, "the other one may always answer"
        assert one.told(100.0 * cycle + PATIENCE) is not None


def test_a_report_is_complete_once_every_channel_is_where_it_says() -> None:
    source = Sleeper(A).sources[A]
    source.channels[7].next = 5
    cases: list[tuple[list[int], bool]] = [
        ([], True), ([7, 5], True), ([7, 6], False), ([8, 0], True), ([8, 1], False), ([8, 1, 7, 5], False),
        ([8, 0, 7, 5], True), ([7, 5, 8, 1], False),
    ]  # fmt: skip
    for ends, is_complete in cases:
        assert Report(1, 0, ends).is_complete(source) is is_complete
    assert not Report(0, 0, []).is_complete(None), "of a peer that is gone nothing is known"


def test_ends_are_pairs_of_whole_numbers_and_not_too_many() -> None:
    assert decode_ends(b"[]") == []
    assert decode_ends(b"[1,0]") == [1, 0]
    most = [1, 2] * MOST_ENDS
    assert decode_ends(orjson.dumps(most)) == most
    for wrong in ([1], [1, 2] * (MOST_ENDS + 1), [1, -1], [1, True], [1, 2.0], [1, "2"], {"1": 2}, None):
        assert decode_ends(orjson.dumps(wrong)) is None, wrong
    assert decode_ends(b"[") is None
