"""Percentiles of few samples, and clocks that are hours apart."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from spark.measures.clocks import Hull, lower_hull, relate
from spark.measures.sketch import ACCURACY, bucket_of, quantile
from tests.spark.pairs import SECOND, two_ways


def of(*values: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for bucket in bucket_of(values).tolist():
        counts[bucket] = counts.get(bucket, 0) + 1
    return counts


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 10, 11, 99, 100, 101])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.07, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])
def test_a_percentile_of_few_is_the_least_that_so_many_reach(count: int, share: float) -> None:
    values = [1000 * 2**number for number in range(min(count, 30))] + [10**15 + n for n in range(count - 30)]
    values = sorted(values)[:count]
    rank = max(1, math.ceil(round(share * count, 9)))
    assert quantile(of(*values), share) == pytest.approx(values[rank - 1], rel=ACCURACY)


def test_of_two_samples_the_median_is_the_smaller_and_all_above_is_the_larger() -> None:
    counts = of(1000, 9000)
    assert [quantile(counts, share) for share in (0.5, 0.51, 0.99, 1.0)] == [
        pytest.approx(value, rel=ACCURACY) for value in (1000, 9000, 9000, 9000)
    ]
    assert quantile(of(7), 0.99) == pytest.approx(7, rel=ACCURACY)


def test_what_takes_no_time_is_told_as_the_least_that_clocks_know() -> None:
    assert quantile(of(0, 0, 1), 0.5) == pytest.approx(1, rel=ACCURACY)


@pytest.mark.parametrize("hours", [-50_000, -2, 1, 3, 9_000])
@pytest.mark.parametrize("drift", [0.0, 60e-6])
def test_clocks_that_are_hours_apart_are_brought_together_to_the_microsecond(hours: int, drift: float) -> None:
    begin = 1_700_000_000 * SECOND

    def clock(times: np.ndarray) -> np.ndarray:
        return hours * 3600 * SECOND + (drift * (times - begin)).astype(np.int64)

    (relation,) = relate(*two_ways(3, clock, (200_000, 200_000)))
    times = np.linspace(relation.start, relation.stop, 50).astype(np.int64)
    assert relation.bound is not None
    assert np.abs(relation.at(times) - clock(times)).max() <= relation.bound < 300_000


def test_a_clock_that_cannot_be_related_is_guessed_from_the_middle_of_both_ways() -> None:
    """So few datagrams, and a step between them: no line fits, and there is nothing to cut further."""
    hour = 3600 * SECOND
    forth = Hull(np.array([0, SECOND]), np.array([hour + 1000, 3 * hour + 1000]))
    back = Hull(np.array([1, SECOND + 1]), np.array([-hour + 1000, -3 * hour + 1000]))
    (relation,) = relate(forth, back)
    assert (relation.bound, relation.drift) == (None, 0.0)
    assert relation.offset == pytest.approx(2 * hour)


def test_a_clock_that_is_set_again_and_again_gets_64_pieces_without_a_gap() -> None:
    times = np.arange(1024) * SECOND
    set_by = np.arange(1024) % 2 * SECOND
    relations = relate(Hull(times, set_by + 1000), Hull(times, 1000 - set_by))
    assert len(relations) == 64
    assert {(piece.offset, piece.drift, piece.bound) for piece in relations} == {(SECOND / 2, 0.0, None)}
    assert (relations[0].start, relations[-1].stop) == (0, 1023 * SECOND)
    assert all(later.start == piece.stop + 1 for piece, later in itertools.pairwise(relations))


def test_a_hull_is_exact_to_the_nanosecond_between_clocks_that_are_years_apart() -> None:
    places = np.arange(200)
    times, delays = 1_700_000_000 * SECOND + 100 * places, (places - 100) ** 2 - 1_600_000_000 * SECOND
    hull = lower_hull(times, delays)
    assert hull.times.tolist() == times.tolist()
    assert hull.delays.tolist() == delays.tolist()
