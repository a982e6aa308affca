"""When FEC begins, how much it adds and when it is off, on both sides of each bound."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue.transport.fec import REPAIR_SYMBOLS, SOURCE_SYMBOLS, policy
from glue.transport.fec.state import FecState, LossMeter
from glue.transport.round_trip import GRANULARITY


def member(peer: str = "a", smoothed: float = 0.1) -> Any:
    told: list[int] = []
    return SimpleNamespace(
        peer=peer, round_trip=SimpleNamespace(smoothed=smoothed), window=SimpleNamespace(lost=told.append, told=told),
        uncounted=0, next=0, missing=lambda stop: stop, waiting_since=0.0,
    )  # fmt: skip


class Flights(list[Any]):
    """Flights of one frame each."""

    def since(self, first: int) -> list[Any]:
        return [flight for flight in self if flight.first >= first]


def channel(*members: Any, share: float | None = None, next: int = 1000, sent: int = 1000) -> Any:
    return SimpleNamespace(
        fec=FecState(share), attached=[*members], next=next, transmissions=sent, flights=Flights(), waiting=False,
        statistics=Counter(), kind="data", number=7, destinations=("a",),
    )  # fmt: skip


def lossy(lost: int, smoothed: float = 0.1, sent: int = 1000) -> Any:
    """A channel whose only member lost so many of the frames sent so far."""
    found = channel(member(smoothed=smoothed), sent=sent)
    meter = found.fec.lost("a", lost, 0)
    assert isinstance(meter, LossMeter)
    return found


@pytest.mark.parametrize(
    ("lost", "smoothed", "loss"),
    [
        (4, 0.1, 0.0), (5, 0.1, 0.01), (50, 0.1, 0.06), (333, 0.1, 0.35), (334, 0.1, 0.0), (50, 0.00999, 0.0),
        (50, 0.01, 0.06), (200, 0.1, 0.215), (100, 0.1, 0.11),
    ],
)  # fmt: skip
def test_loss_counts_between_its_bounds_and_from_a_noticeable_distance(lost: int, smoothed: float, loss: float) -> None:
    assert (policy.LEAST, policy.MOST, policy.WORTH) == (0.005, 1 / 3, 0.01)
    found = lossy(lost, smoothed)
    assert policy._loss(found) == pytest.approx(loss)
    assert policy.is_wanted(found) == (loss > 0)
    found.fec.at = 5.0
    assert policy.is_wanted(found)  # parity is owed
    found.fec.active = False
    assert not policy.is_wanted(found)


def test_the_worst_of_the_members_counts_that_are_attached_and_far_away() -> None:
    near, far, further = member("a", 0.001), member("b"), member("c")
    found = channel(near, far, further)
    for peer, lost in (("a", 300), ("b", 50), ("c", 20), ("d", 200)):
        found.fec.lost(peer, lost, 0)
    assert policy._loss(found) == pytest.approx(0.06)
    further.uncounted = 180  # found by probing
    assert policy._loss(found) == pytest.approx(0.215)


def test_loss_is_known_after_a_hundred_frames_and_half_forgotten_after_a_thousand() -> None:
    meter = LossMeter(150)  # of which the latest 100 count
    meter.lost(10)
    assert (meter.share(149, 0), meter.share(150, 0), meter.share(250, 0)) == (0.0, 0.1, 0.05)
    assert meter.share(1050, 0) == 0.01
    assert meter.share(1050, 0) == 0.01
    assert meter.share(1051, 0) == pytest.approx(10 / 1001)
    assert meter.share(1051, 0) == pytest.approx(10 / 1001)  # as a share of 500
    meter.lost(-100)
    assert (meter.share(1051, 0), meter.share(1051, 0)) == (0.0, 0.0)
    meter.lost(10_000)
    assert meter.share(1051, 0) == 1.0


def test_frames_gather_for_an_eighth_of_the_longest_round_trip_or_until_they_are_enough() -> None:
    found = channel(member("a", 0.08), member("b", 0.4), share=0.25)
    policy.launched(found, 10.0, 1)
    assert (found.fec.at, found.fec.first) == (pytest.approx(10.05), 1000)
    found.flights.append(SimpleNamespace(first=1000))
    found.next = 1010
    policy.launched(found, 10.01, 5)
    assert (found.fec.at, found.fec.first) == (pytest.approx(10.05), 1000)
    policy.launched(found, 10.01, 6)
    assert (found.fec.at, found.fec.first) == (10.01 + GRANULARITY, 1000)
    policy.launched(found, 10.02, 6)
    assert found.fec.at == 10.01 + GRANULARITY
    found.flights.clear()  # all of it was acknowledged
    policy.launched(found, 11.0, 1)
    assert (found.fec.at, found.fec.first) == (pytest.approx(11.05), 1010)
    quick = channel(member("a", 0.0), share=0.25)
    policy.launched(quick, 10.0, 1)
    assert quick.fec.at == 10.0 + GRANULARITY
    for none in (channel(share=0.25), channel(member("a")), lossy(4)):
        policy.launched(none, 10.0, 100)
        assert none.fec.at == math.inf
    some = lossy(50)
    policy.launched(some, 10.0, 16)
    assert some.fec.at == 10.0 + GRANULARITY


def test_reports_of_decoded_frames_count_once_and_what_came_late_is_taken_back() -> None:
    one = member()
    found = channel(one, next=100)
    assert not policy.recovered(found, one, 101, 1.0)
    assert (found.fec.meters, found.statistics) == ({}, {})
    for total, counted, told in (
        (0, 0, []), (3, 3, [3]), (3, 3, [3]), (2, 2, [3]), (3, 3, [3]), (5, 5, [3, 2]), (100, 100, [3, 2, 95]),
    ):  # fmt: skip
        assert policy.recovered(found, one, total, 1.0)
        assert found.statistics["frames lost and recovered by FEC"] == counted
        assert one.window.told == told
    assert found.fec.active


def test_nothing_is_added_without_room_or_for_too_much_at_once() -> None:
    assert policy.BURST == 4 * SOURCE_SYMBOLS
    for count, waiting, share, asked in (
        (10, False, 0.25, True), (10, True, 0.25, False), (0, False, 0.25, False),
        (policy.BURST, False, 0.25, True), (policy.BURST + 1, False, 0.25, False), (10, False, 0.0, False),
    ):  # fmt: skip
        found = channel(member(), share=share, next=100 + count)
        found.flights += [SimpleNamespace(first=100 + place) for place in range(count)]
        found.fec.first, found.fec.at, found.waiting = 100, 5.0, waiting
        rows = policy._rows(found, 10, 1)
        assert rows == (3 if share else 0)
        if not asked:
            assert policy.cover(found, 6.0) == []
        assert (found.fec.at == math.inf) != asked
    for share, count, rows in ((0.01, 1, 1), (0.5, 9, 5), (1.0, 1000, REPAIR_SYMBOLS)):
        assert policy._rows(channel(member(), share=share), count, 1) == rows
    assert policy._rows(lossy(50), 52, 1) == policy.symbols_needed(52, 0.06, 0.01)
    assert policy._rows(lossy(50), 52, 4) == policy.symbols_needed(52, 0.06, 0.0025)
    assert policy._rows(lossy(4), 52, 1) == 0


def test_repair_symbols_are_the_fewest_that_suffice() -> None:
    table = {
        (1, 0.005): 1, (2, 0.01): 1, (4, 0.1): 3, (8, 0.05): 3, (16, 0.1): 6, (16, 0.3): 15, (52, 0.005): 2,
        (3, 0.45): 3, (2, 0.7): 0, (1, 0.71): 0, (1, 0.7): 1,
    }  # fmt: skip
    assert {key: policy.symbols_needed(*key, 0.01) for key in table} == table
