"""Timers follow the measured round trip, and stay within bounds whatever is measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.transport.round_trip import ACK_DELAY, GRANULARITY, INITIAL, MAX_PROBE, RoundTrip

SECONDS = st.floats(0, 10)


def after(*elapsed: float, held: float = 0.0) -> RoundTrip:
    measured = RoundTrip()
    for one in elapsed:
        measured.sample(one, held)
    return measured


def test_before_any_measurement_a_busy_lan_is_assumed() -> None:
    assert RoundTrip().smoothed == INITIAL
    assert INITIAL < RoundTrip().probe_timeout(0) < 4 * INITIAL


def test_the_first_measurement_replaces_the_assumption() -> None:
    measured = after(0.004)
    assert (measured.smoothed, measured.variation, measured.least) == (0.004, 0.002, 0.004)


def test_measurements_are_smoothed_as_in_rfc_6298() -> None:
    measured = after(0.008, 0.016)
    assert measured.variation == pytest.approx(0.004 * 3 / 4 + 0.008 / 4)
    assert measured.smoothed == pytest.approx(0.008 * 7 / 8 + 0.016 / 8)


def test_a_steady_round_trip_is_learned() -> None:
    measured = after(*[0.5] * 5, *[0.001] * 100)
    assert measured.smoothed == pytest.approx(0.001, rel=0.01)
    assert measured.probe_timeout(0) < 0.01


def test_the_time_that_an_answer_was_held_back_does_not_count() -> None:
    measured = after(0.003)
    measured.sample(0.052, held=0.050)
    assert measured.latest == measured.least == pytest.approx(0.002)


def test_a_receiver_that_holds_answers_back_for_longer_than_it_should_is_given_that_time_for_a_while() -> None:
    measured = after(*[0.002] * 50)
    usual = measured.probe_timeout(0)
    measured.held_back(0.020)
    assert measured.probe_timeout(0) == pytest.approx(usual + 0.020 - ACK_DELAY)
    for _ in range(50):
        measured.held_back(0.001)
    assert measured.probe_timeout(0) == pytest.approx(usual, rel=0.1)


def test_a_receiver_that_claims_to_have_held_back_too_much_is_next_door() -> None:
    measured = after(0.010)
    measured.sample(0.012, held=5.0)
    assert measured.latest == measured.least == 0.0


def test_a_guess_does_until_a_measurement_and_the_least_guess_counts() -> None:
    guessed = RoundTrip()
    for elapsed in (0.5, 0.3, 0.7):
        guessed.guess(elapsed, 0.0)
    assert (guessed.smoothed, guessed.least) == (0.3, 0.3)
    guessed.sample(0.004, 0.0)
    guessed.guess(0.001, 0.0)
    assert (guessed.smoothed, guessed.least) == (0.004, 0.004)


def test_a_clock_that_went_back_measures_nothing() -> None:
    assert after(-1.0).smoothed == INITIAL


def test_after_a_host_slept_for_an_hour_the_other_does_not_wait_for_minutes() -> None:
    assert after(*[0.001] * 10, 3600.0).probe_timeout(0) < 1.5
    assert after(3600.0).probe_timeout(0) < 3.5
    assert after(*[0.001] * 10, 3600.0, *[0.001] * 30).probe_timeout(0) < 0.05


def test_each_wait_in_vain_doubles_the_next_up_to_a_bound() -> None:
    measured = after(*[0.002] * 50)
    waits = [measured.probe_timeout(backoff) for backoff in range(100)]
    assert waits[1] == pytest.approx(2 * waits[0])
    assert waits[2] == pytest.approx(4 * waits[0])
    assert waits[-1] == MAX_PROBE


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=50), st.integers(0, 10**9))
def test_timers_are_never_shorter_than_what_was_measured(samples: list[tuple[float, float]], backoff: int) -> None:
    measured = RoundTrip()
    for elapsed, held in samples:
        measured.sample(elapsed, held)
    assert measured.least <= measured.latest
    assert measured.variation >= 0
    timeout = measured.probe_timeout(backoff)
    assert timeout >= measured.smoothed + GRANULARITY + ACK_DELAY or timeout == MAX_PROBE
    assert timeout <= max(MAX_PROBE, measured.probe_timeout(0))
    assert measured.loss_delay() >= max(GRANULARITY, measured.smoothed)


def test_an_urgent_round_trip_is_probed_soon_and_without_doubling_at_first() -> None:
    usual, urgent = RoundTrip(), RoundTrip()
    urgent.hurry()
    for trip in (usual, urgent):
        trip.sample(0.02, 0.0)
    assert urgent.probe_timeout(0) <= 1.25 * 0.02 + ACK_DELAY < usual.probe_timeout(0)
    timeouts = [urgent.probe_timeout(backoff) / urgent.probe_timeout(0) for backoff in range(6)]
    assert timeouts == [1, 1, 1, 1, 2, 4]
    assert urgent.probe_timeout(20) == MAX_PROBE
