"""The window opens while all goes well, closes once a round trip when something is lost, and stays within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.transport.window import DECREASE, INITIAL, LEAST, MOST, Window


def test_it_doubles_each_round_trip_at_the_start() -> None:
    window = Window()
    window.acknowledged(INITIAL)
    assert window.frames == 2 * INITIAL
    window.acknowledged(2 * INITIAL)
    assert window.frames == 4 * INITIAL


def test_after_a_loss_it_opens_by_a_few_frames_each_round_trip() -> None:
    window = Window()
    window.lost(0.0, 0.01)
    before = window.frames
    window.acknowledged(int(before))
    assert before < window.frames < before + 8


def test_losses_within_a_round_trip_count_once() -> None:
    window = Window()
    for now in (0.0, 0.001, 0.009):
        window.lost(now, 0.01)
    assert window.frames == pytest.approx(INITIAL * DECREASE)
    window.lost(0.011, 0.01)
    assert window.frames == pytest.approx(INITIAL * DECREASE * DECREASE)


@given(st.lists(st.one_of(st.integers(1, 5000), st.floats(0.0, 1.0)), max_size=300))
def test_it_stays_within_its_bounds(steps: list[int | float]) -> None:
    window, now = Window(), 0.0
    for step in steps:
        if isinstance(step, int):
            window.acknowledged(step)
        else:
            now += step
            window.lost(now, 0.01)
        assert LEAST <= window.frames <= MOST
