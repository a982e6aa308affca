"""Each measure of a path, and each reason to ask it, to leave it or to forget it, at its limit and one step beyond."""

from __future__ import annotations

import math

import pytest

from glue.contract import Address
from glue.discovery.paths import (
    ACTIVE,
    ASK_INTERVAL,
    FLAPPING,
    HOLD,
    IDLE_INTERVAL,
    LAST_MISSES,
    LONGEST_HOLD,
    LONGEST_TIMEOUT,
    PATIENCE,
    STALE,
    STEADY,
    TIMEOUT,
    Path,
    Paths,
)

ETH: Address = ("10.0.0.2%eth0", 1)
WLAN: Address = ("10.1.0.2%wlan0", 1)
USB: Address = ("10.2.0.2%usb0", 1)


def two(is_leading: bool = True, look_at: float = math.inf) -> tuple[Paths, Path, Path]:
    paths = Paths(100.0, ETH, is_leading, look_at)
    paths.add(100.0, WLAN, False)
    return paths, paths.table[ETH], paths.table[WLAN]


def test_times_and_shares_are_those_that_the_text_explains() -> None:
    assert (PATIENCE, TIMEOUT, LONGEST_TIMEOUT, ASK_INTERVAL, IDLE_INTERVAL, ACTIVE) == (0.01, 0.01, 1.0, 1.0, 3.0, 2.0)
    assert (STEADY, HOLD, LONGEST_HOLD, FLAPPING, STALE, LAST_MISSES) == (3, 1.0, 16.0, 10.0, 10.0, 5)


def test_round_trips_are_measured_as_of_tcp_and_lost_questions_count_a_sixteenth() -> None:
    path = Path(100.0, ETH)
    assert (path.link, path.is_down, path.heard_at, path.is_asked) == ("eth0", False, 100.0, False)
    assert (path.timeout, path.cost, path.loss, path.misses, path.streak) == (0.03, 0.01, 0.0, 0, 0)
    assert not path.answer(100.0, 0), "nothing was asked"
    path.ask(100.0, 7)
    assert not path.answer(100.1, 6)
    assert path.answer(100.25, 7)
    assert (path.smoothed, path.variation, path.timeout, path.is_asked, path.streak) == (0.25, 0.125, 0.75, False, 1)
    assert not any(path.answer(100.25, token) for token in (7, 0, 1)), "an answer counts once"
    path.ask(101.0, 8)
    assert path.answer(101.5, 8)
    assert (path.smoothed, path.variation, path.streak, path.loss) == (0.28125, 0.15625, 2, 0.0)
    path.ask(102.0, 9)
    path.miss()
    assert (path.loss, path.misses, path.streak, path.is_asked) == (1 / 16, 1, 0, False)
    path.miss()
    assert (path.loss, path.misses) == (1 / 16 + 15 / 256, 2)
    assert path.answer(102.28125, 9), "a late answer tells the round trip, but the question counts as lost"
    assert (path.loss, path.misses, path.streak) == (1 / 16 + 15 / 256, 0, 1)
    path.ask(103.0, 10)
    assert path.answer(103.25, 10)
    assert path.loss == pytest.approx((1 / 16 + 15 / 256) * 15 / 16)


def test_the_first_answer_alone_sets_the_round_trip_whatever_it_was() -> None:
    path = Path(0.0, ETH)
    path.ask(0.0, 1)
    assert path.answer(0.01, 1)  # as was assumed
    path.ask(1.0, 2)
    assert path.answer(1.25, 2)
    assert path.smoothed == pytest.approx(0.01 + 0.24 / 8)
    path.miss()
    path.ask(2.0, 3)
    path.answer(2.0, 3)
    assert path.smoothed == pytest.approx(0.04 - 0.04 / 8), "one miss does not begin the measurement anew"


def test_an_answer_is_waited_for_twice_as_long_after_each_miss_within_bounds() -> None:
    path = Path(100.0, ETH)
    path.smoothed = path.variation = 0.0
    assert path.timeout == TIMEOUT
    path.variation = 0.01
    times = []
    for _ in range(7):
        times.append(path.timeout)
        path.miss()
    assert times == [0.04, 0.08, 0.16, 0.32, 0.64, LONGEST_TIMEOUT, LONGEST_TIMEOUT]


@pytest.mark.parametrize(("loss", "cost"), [(0.0, 0.01), (0.5, 0.03), (0.75, 0.07), (1.0, 2.01)])
def test_a_path_costs_its_round_trip_and_what_losses_add(loss: float, cost: float) -> None:
    path = Path(100.0, ETH)
    path.loss = loss
    assert path.cost == pytest.approx(cost)


def test_a_path_that_is_added_again_keeps_what_is_known_of_it() -> None:
    paths, _, wlan = two()
    paths.add(200.0, WLAN, True)
    assert paths.table[WLAN] is wlan
    paths.add(200.0, USB, True)
    assert (paths.table[USB].is_down, paths.table[USB].heard_at) == (True, 200.0)


# ------------------------------------------------------------------------------------------ when a path is asked


def test_a_peer_that_was_sent_something_is_asked_once_it_is_silent_for_long_enough() -> None:
    paths, eth, _ = two()
    assert paths.due == math.inf
    assert paths.sent(100.0)
    assert not paths.sent(100.005)
    assert paths.due == 100.0 + PATIENCE
    assert paths.plan(100.0 + PATIENCE - 1e-6) == ([], None)
    assert paths.plan(100.0 + PATIENCE) == ([eth], None)
    assert paths.due == math.inf
    assert paths.plan(100.5) == ([], None)
    assert paths.sent(101.0), "what is sent now counts anew"
    assert paths.heard(101.0, ETH) is None
    assert (eth.heard_at, paths.due) == (101.0, math.inf)
    assert paths.sent(102.0)
    assert paths.heard(102.0, WLAN) is None
    assert paths.due == 102.0 + PATIENCE, "another path tells nothing of this one"
    eth.ask(102.0, 1)
    assert paths.due == 102.0 + eth.timeout, "it is asked already"


def test_all_paths_are_asked_now_and_then_more_often_while_there_is_data() -> None:
    paths, eth, wlan = two(look_at=100.5)
    assert paths.plan(100.5 - 1e-6) == ([], None)
    assert paths.plan(100.5) == ([eth, wlan], None)
    assert paths.due == 100.5 + IDLE_INTERVAL
    for since, interval in ((ACTIVE, IDLE_INTERVAL), (ACTIVE - 1e-6, ASK_INTERVAL)):
        at = paths.due
        paths.sent(at - since)
        paths.heard(at - since, ETH)
        wlan.is_down = since == ACTIVE
        assert paths.plan(at) == ([eth] if wlan.is_down else [eth, wlan], None)
        assert paths.due == at + interval
    eth.ask(paths.due, 1)
    assert paths.plan(paths.due) == ([wlan], None), "the other one is asked already"


# ------------------------------------------------------------------------------------------ when data leaves a path


def test_a_path_is_suspected_if_it_is_silent_since_it_was_asked_and_then_any_other_one_that_speaks_is_taken() -> None:
    paths, eth, wlan = two()
    eth.ask(101.0, 1)
    assert paths.due == 101.0 + 0.03
    assert paths.plan(101.0299) == ([], None)
    assert paths.plan(101.0 + eth.timeout) == ([eth, wlan], None), "all of them are asked"
    assert (eth.misses, wlan.misses) == (1, 0)
    eth.ask(101.03, 2)
    wlan.ask(101.03, 3)
    assert paths.answered(101.031, WLAN, 9) is None
    assert paths.answered(101.031, USB, 3) is None
    assert paths.answered(101.031, WLAN, 3) is wlan
    wlan.is_down = True
    assert paths.heard(101.032, WLAN) is None
    wlan.is_down, wlan.misses = False, 1
    assert paths.heard(101.032, WLAN) is None, "it does not answer either"
    wlan.misses = 0
    assert paths.heard(101.033, WLAN) is wlan
    assert paths.heard(101.034, ETH) is None
    assert paths.heard(101.035, WLAN) is None, "the current one is fine again"


def test_while_a_path_is_suspected_only_those_that_miss_a_question_are_asked_again() -> None:
    paths, eth, wlan = two()
    eth.ask(101.0, 1)
    paths.plan(101.5)
    eth.ask(101.5, 2)
    wlan.ask(101.5, 3)
    assert paths.plan(102.5) == ([eth, wlan], None)
    wlan.ask(102.5, 4)
    assert paths.plan(103.5) == ([wlan], None)
    assert (eth.misses, wlan.misses) == (2, 2)


def test_a_path_that_was_heard_since_it_was_asked_is_suspected_after_two_misses() -> None:
    paths, eth, wlan = two()
    eth.ask(101.0, 1)
    paths.heard(101.0 + 1e-6, ETH)
    assert paths.plan(102.0) == ([eth], None)
    assert paths.heard(102.0, WLAN) is None
    eth.ask(102.0, 2)
    paths.heard(102.5, ETH)
    assert paths.plan(103.0) == ([eth, wlan], None)
    assert paths.heard(103.0, ETH) is None
    assert paths.heard(103.0, WLAN) is wlan, "though the other one is heard: it does not carry our questions"


def test_what_the_peer_says_of_its_path_counts_if_the_own_one_is_silent_or_the_peer_leads() -> None:
    for is_leading in (True, False):
        paths, eth, wlan = two(is_leading)
        paths.heard(101.0, ETH)
        assert paths.told(101.0 + PATIENCE - 1e-6, WLAN) is (None if is_leading else wlan)
        assert paths.told(101.0 + PATIENCE, WLAN) is wlan
        wlan.is_down = True
        assert paths.told(102.0, WLAN) is None
        wlan.is_down = False
        eth.ask(102.0, 1)
        paths.plan(103.0)
        eth.heard_at = 104.0  # it is suspected all the same
        assert paths.told(104.0, WLAN) is wlan


def test_of_the_links_that_are_up_the_one_with_the_fewest_misses_and_the_latest_sign_is_taken() -> None:
    paths, eth, wlan = two()
    paths.add(100.0, USB, False)
    usb = paths.table[USB]
    assert paths.set_down(101.0, "wlan0", True) is None
    assert (eth.is_down, wlan.is_down, usb.is_down) == (False, True, False)
    assert paths.set_down(101.0, "wlan0", False) is None
    wlan.heard_at, usb.heard_at = 100.5, 100.6
    assert paths.set_down(101.0, "eth0", True) is usb
    usb.misses = 1
    assert paths.set_down(101.0, "eth0", True) is wlan
    assert paths.heard(101.0, WLAN) is wlan, "the current path counts as dead"
    assert paths.set_down(101.0, "wlan0", True) is usb
    assert paths.set_down(101.0, "usb0", True) is None
    paths.change(102.0, eth)
    eth.is_down = False
    assert paths.heard(102.0, WLAN) is None


# ------------------------------------------------------------------------------------------ better paths


def looks(paths: Paths, better: Path, times: list[float]) -> list[float]:
    """Look at these times, with data in between; returns when the better path is to be taken."""
    taken = []
    for at in times:
        paths.sent(at - 0.5)
        paths.heard(at - 0.5, paths.current.address)
        _, path = paths.plan(at)
        assert path in (None, better)
        if path is not None:
            taken.append(at)
    return taken


def compared(streak: int = STEADY, is_leading: bool = True, more: float = 1e-6) -> tuple[Paths, Path, Path]:
    """Two paths, of which the second is better by as much as it takes, and a little `more`."""
    paths, eth, wlan = two(is_leading, 100.5)
    wlan.smoothed, wlan.streak, eth.streak = 0.01, streak, STEADY
    eth.smoothed = 2 * 0.01 + 0.001 + more
    return paths, eth, wlan


@pytest.mark.parametrize(
    ("streak", "is_leading", "more", "taken"),
    [
        (STEADY, True, 1e-6, [101.5, 102.5]), (STEADY - 1, True, 1e-6, []), (STEADY, False, 1e-6, []),
        (STEADY, True, 0.0, []),
    ],
)  # fmt: skip
def test_a_better_path_is_twice_as_good_answers_steadily_and_stays_so_for_a_second(
    streak: int, is_leading: bool, more: float, taken: list[float]
) -> None:
    paths, _, wlan = compared(streak, is_leading, more)
    assert looks(paths, wlan, [100.5, 101.5, 102.5]) == taken


def test_a_path_that_is_worse_or_misses_in_between_has_to_be_better_for_a_second_anew() -> None:
    paths, eth, wlan = compared()
    assert looks(paths, wlan, [100.5]) == []
    wlan.misses = 1
    assert looks(paths, wlan, [101.5]) == []
    wlan.misses = 0
    assert looks(paths, wlan, [102.5, 103.5]) == [103.5]
    eth.smoothed = 0.01
    assert looks(paths, wlan, [104.5]) == []
    eth.smoothed = 1.0
    assert looks(paths, wlan, [105.5, 106.5]) == [106.5]


def test_the_hold_doubles_with_changes_soon_after_one_another() -> None:
    paths, eth, wlan = compared(more=1.0)
    holds, at = [], 100.5
    for turn in range(8):
        better, other = (wlan, eth) if turn % 2 == 0 else (eth, wlan)
        better.smoothed, other.smoothed = 0.01, 1.0
        taken = next(look for look in (at + second for second in range(20)) if looks(paths, better, [look]))
        holds.append(taken - at)
        paths.change(taken, better)
        at = taken + 1.0
    assert holds == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 1.0, 2.0], "after 16 s it is a calm link again"


@pytest.mark.parametrize(
    ("spacing", "count", "hold"),
    [(1.0, 1, 1.0), (1.0, 2, 2.0), (1.0, 9, LONGEST_HOLD), (FLAPPING, 9, 1.0), (FLAPPING - 1e-6, 3, 4.0)],
)
def test_changes_for_other_reasons_count_too_if_they_are_close(spacing: float, count: int, hold: float) -> None:
    paths, eth, wlan = compared(more=1.0)
    for number in range(count):
        paths.change(100.0 + number * spacing, eth)
    at = 100.0 + count * spacing
    assert looks(paths, wlan, [at + second for second in range(18)])[0] == at + hold


def test_a_path_is_forgotten_after_ten_seconds_if_it_missed_five_questions_or_its_link_is_down() -> None:
    paths, eth, wlan = two()
    eth.misses = wlan.misses = LAST_MISSES
    assert paths.forget(100.0 + STALE - 1e-6) == []
    wlan.misses = LAST_MISSES - 1
    assert paths.forget(100.0 + STALE) == []
    wlan.is_down = True
    assert paths.forget(100.0 + STALE) == [WLAN]
    assert [*paths.table] == [ETH]
    paths.add(200.0, WLAN, False)
    paths.table[WLAN].misses = LAST_MISSES
    assert paths.forget(200.0 + STALE) == [WLAN]
