"""The measures against their definitions, worked out by hand or by the slowest code that can be right."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from spark.analyze.rhythm import _measure
from spark.measures.clocks import Hull, lower_hull, relate
from spark.measures.order import departures, jitter, loss_pattern, reordering
from spark.measures.sketch import ACCURACY, bucket_of, quantile, value_of
from tests.spark.pairs import SECOND, two_ways


def flags(pattern: str) -> np.ndarray:
    """One flag for each letter: X for a loss."""
    return np.array([letter == "X" for letter in pattern], bool)


def test_losses_in_a_row_are_one_period() -> None:
    assert loss_pattern(flags("..XX..X.XXX.")) == (3, 3, 1)
    assert loss_pattern(flags("X...X..X")) == (3, 1, 3)


def test_without_losses_there_is_no_pattern() -> None:
    assert loss_pattern(flags("....")) == (0, 0, None)
    assert loss_pattern(flags(".X..")) == (1, 1, None)


def test_what_was_overtaken_is_reordered_and_what_overtook_is_not() -> None:
    # Sent 0 1 2 3 4, arrived 0 2 3 1 4 (RFC 4737's example 7.1 in small): only 1 is late, behind 2 and 3.
    assert reordering(np.arange(5), np.array([10, 40, 20, 30, 50])) == (1, 2, 20)
    assert reordering(np.arange(5), np.arange(5)) == (0, 0, 0)


def test_what_waited_at_its_sender_left_later_and_is_not_reordered() -> None:
    # Of 0 1 2 3 4, the answer 1 waited for ARP and left behind 3; nobody captured when 2 left.
    sent = np.array([10, 45, 0, 40, 50])
    order = departures(sent, sent > 0)
    assert order.tolist() == [0, 3, 1, 2, 4]
    arrived = sent + 5
    arrived[2] = 51
    assert reordering(np.arange(5), arrived[order]) == (0, 0, 0)
    assert reordering(np.arange(5), arrived).reordered == 2  # by their counters
    assert departures(np.array([0, 7, 6]), np.array([False, True, True])).tolist() == [0, 2, 1]


def test_a_group_is_measured_in_the_order_in_which_it_left() -> None:
    key = {"sender": ["a"] * 4, "incarnation": [1] * 4, "receiver": [0] * 4, "interval": [0] * 4}
    times = {"counter": [1, 2, 3, 4], "sent_ns": [10, 35, 30, 40], "arrived_ns": [12, 37, 32, None]}
    (row,) = _measure(iter([pa.record_batch({**key, **times, "lost": [False, False, False, True]})]))
    found = row.to_pylist()[0]
    assert (found["reordered"], found["loss_periods"], found["jitter_count"]) == (0, 1, 2)


def test_reordering_agrees_with_counting_one_by_one() -> None:
    rng = random.Random(4)
    arrived = np.array([number * 10 + rng.randrange(60) for number in range(300)])
    came = sorted(range(300), key=lambda number: (arrived[number], number))
    late = [place for place, number in enumerate(came) if any(other > number for other in came[:place])]
    extents = [place - next(i for i, other in enumerate(came) if other > came[place]) for place in late]
    assert reordering(np.arange(300), arrived)[:2] == (len(late), max(extents))


def test_jitter_is_that_of_rtp() -> None:
    rng = random.Random(5)
    sent = np.arange(2000) * 1000
    arrived = sent + 7_000_000 + np.array([rng.randrange(400) for _ in sent])
    estimate = 0.0
    transit = arrived - sent
    for difference in np.abs(np.diff(transit)):
        estimate += (difference - estimate) / 16
    found = jitter(sent, arrived)
    assert found.latest == pytest.approx(estimate)
    assert (found.total, found.differences) == (np.abs(np.diff(transit)).sum(), 1999)


def test_a_percentile_is_within_the_stated_accuracy_however_the_parts_are_merged() -> None:
    rng = random.Random(6)
    values = [int(rng.lognormvariate(13, 2)) + 1 for _ in range(5000)]
    counts: dict[int, int] = {}
    for bucket in bucket_of(values):
        counts[int(bucket)] = counts.get(int(bucket), 0) + 1
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        exact = sorted(values)[max(0, int(np.ceil(share * 5000)) - 1)]
        assert quantile(counts, share) == pytest.approx(exact, rel=ACCURACY)
    assert quantile({}, 0.5) is None
    assert value_of(int(bucket_of([1000])[0])) == pytest.approx(1000, rel=ACCURACY)


def test_a_hull_of_hulls_is_the_hull() -> None:
    rng = random.Random(7)
    times = np.array([rng.randrange(SECOND) for _ in range(3000)])
    delays = np.array([rng.randrange(10**6) for _ in range(3000)])
    whole = lower_hull(times, delays)
    for x, y in zip(times, delays, strict=True):  # nothing lies below it
        assert y >= np.interp(x, whole.times, whole.delays) - 1e-3
    parts = [lower_hull(times[i::3], delays[i::3]) for i in range(3)]
    merged = lower_hull(np.concatenate([p.times for p in parts]), np.concatenate([p.delays for p in parts]))
    assert merged.times.tolist() == whole.times.tolist()
    assert merged.delays.tolist() == whole.delays.tolist()


@pytest.mark.parametrize(("offset", "drift"), [(0.0, 0.0), (0.25, 40e-6), (-3.5, -80e-6), (1e9, 100e-6)])
def test_offset_and_drift_are_found_within_the_stated_bound(offset: float, drift: float) -> None:
    def clock(times: np.ndarray) -> np.ndarray:
        return offset * SECOND + drift * (times - 1_700_000_000 * SECOND)

    (relation,) = relate(*two_ways(1, clock, (200_000, 350_000)))
    times = np.linspace(relation.start, relation.stop, 50).astype(np.int64)
    assert relation.bound is not None
    assert np.abs(relation.at(times) - clock(times)).max() <= relation.bound
    assert relation.bound < 400_000  # half the least round trip is 275,000 ns
    assert relation.drift_bound is not None
    assert abs(relation.drift - drift) <= relation.drift_bound < 2e-5


def test_a_clock_that_was_set_gets_a_line_for_each_part() -> None:
    step = 1_700_000_030 * SECOND

    def clock(times: np.ndarray) -> np.ndarray:
        return np.where(times < step, 0.1 * SECOND, 0.2 * SECOND)

    relations = relate(*two_ways(2, clock, (200_000, 200_000)))
    assert sum(relation.bound is not None for relation in relations) > 1
    for relation in relations:
        if relation.bound is not None:
            times = np.linspace(relation.start, relation.stop, 20).astype(np.int64)
            assert np.abs(relation.at(times) - clock(times)).max() <= relation.bound


def test_one_way_traffic_tells_nothing_of_the_clocks() -> None:
    nothing = lower_hull(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert relate(Hull(np.array([1]), np.array([2])), nothing) == []
