"""The hybrid clock: stamps grow, whatever stamps of others are followed and whatever the wall clock shows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.model.mergeable.clock import DRIFT_MS, LOGICAL_LIMIT, HybridClock


def test_an_older_stamp_that_is_followed_does_not_set_the_clock_back() -> None:
    clock = HybridClock()
    assert clock.stamp(1000) == (1000, 0)
    for older in ((900, 5), (1000, 0), (0, 0), (999, LOGICAL_LIMIT - 1)):
        assert clock.follow(older, 1000)
        assert clock.follow(older, 1000)
    assert clock.stamp(1000) == (1000, 1)
    assert clock.follow((1000, 0), 1000)
    assert clock.stamp(990) == (1000, 2)


def test_a_newer_stamp_is_followed_as_far_ahead_as_clocks_may_be() -> None:
    clock = HybridClock()
    clock.stamp(1000)
    assert not clock.follow((1001 + DRIFT_MS, 0), 1000)
    assert clock.stamp(1000) == (1000, 1)
    assert clock.follow((1000 + DRIFT_MS, 7), 1000)
    assert clock.stamp(1000) == (1000 + DRIFT_MS, 8)


def test_a_full_millisecond_is_followed_by_the_next() -> None:
    clock = HybridClock()
    assert clock.follow((1000, LOGICAL_LIMIT - 2), 1000)
    assert [clock.stamp(1000) for _ in range(3)] == [(1000, LOGICAL_LIMIT - 1), (1001, 0), (1001, 1)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50), st.integers(0, 3), st.integers(0, 50))))
def test_each_stamp_is_above_all_that_were_given_or_followed(steps: list[tuple[bool, int, int, int]]) -> None:
    clock = HybridClock()
    top = (-1, 0)
    for follows, ms, number, wall in steps:
        if follows:
            if clock.follow((ms, number), wall):
                top = max(top, (ms, number))
        else:
            stamp = clock.stamp(wall)
            assert stamp > top
            top = stamp


@pytest.mark.parametrize("walls", [(5, 5, 5), (9, 3, 1), (1, 2, 3)])
def test_stamps_grow(walls: tuple[int, ...]) -> None:
    clock = HybridClock()
    assert all(one < other for one, other in pairwise(clock.stamp(wall) for wall in walls))
