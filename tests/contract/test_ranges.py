"""A set of ranges is a set: everything it says is compared with what a plain Python set says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from glue.contract.ranges import RangeSet

INTERVALS = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def members(pairs: list[tuple[int, int]]) -> set[int]:
    return {value for start, stop in pairs for value in range(start, stop)}


def agree(ranges: RangeSet, plain: set[int]) -> None:
    """The set of ranges holds exactly these, in ascending ranges that do not touch."""
    pairs = list(ranges)
    assert members(pairs) == plain
    assert all(before < after for (_, before), (after, _) in pairwise(pairs))
    assert all(start < stop for start, stop in pairs)
    assert ranges.size == len(plain)
    assert len(ranges) == len(pairs)
    assert bool(ranges) == bool(plain)
    assert ranges.stop == max(plain, default=-1) + 1
    assert {value for value in range(90) if value in ranges} == plain


@given(st.lists(st.tuples(INTERVALS, st.booleans()), max_size=20))
def test_adding_and_dropping_are_those_of_a_set(steps: list[tuple[tuple[int, int], bool]]) -> None:
    ranges, plain = RangeSet(), set[int]()
    for (start, stop), drop in steps:
        if drop:
            ranges.drop_below(start)
            plain = {value for value in plain if value >= start}
        else:
            fresh = ranges.add(start, stop)
            assert fresh == sorted(fresh)
            assert members(fresh) == members([(start, stop)]) - plain
            plain |= members([(start, stop)])
        agree(ranges, plain)


@given(st.lists(INTERVALS, max_size=10), st.integers(0, 80), st.integers(0, 80))
def test_gaps_are_what_is_missing(intervals: list[tuple[int, int]], start: int, stop: int) -> None:
    ranges = RangeSet()
    for interval in intervals:
        ranges.add(*interval)
    gaps = list(ranges.gaps(start, stop))
    assert members(gaps) == set(range(start, stop)) - members(intervals)
    assert all(before < after for (_, before), (after, _) in pairwise(gaps))


@given(st.lists(INTERVALS, max_size=10), INTERVALS)
def test_removing_leaves_what_is_outside_and_what_is_common_is_in_the_set(
    intervals: list[tuple[int, int]], removed: tuple[int, int]
) -> None:
    ranges = RangeSet()
    for interval in intervals:
        ranges.add(*interval)
    plain = members(intervals)
    assert ranges.common(range(90)) == sorted(plain)
    ranges.remove(*removed)
    agree(ranges, plain - members([removed]))


def test_a_huge_range_costs_no_more_than_a_small_one() -> None:
    ranges = RangeSet()
    assert ranges.add(0, 1 << 52) == [(0, 1 << 52)]
    assert ranges.add(10, 1 << 53) == [(1 << 52, 1 << 53)]
    assert (len(ranges), ranges.size) == (1, 1 << 53)
    assert list(ranges.gaps(0, 1 << 60)) == [(1 << 53, 1 << 60)]
