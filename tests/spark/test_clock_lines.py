"""The lines of clocks that fit the delays both ways, and the table made of them."""

from __future__ import annotations

import numpy as np
from pyspark.sql import SparkSession

from spark.analyze.delays import offsets_table
from spark.measures.clocks import Hull, Relation, relate

SECOND = 1_000_000_000


def hull(times: list[int], delays: list[int]) -> Hull:
    return Hull(np.array(times, np.int64), np.array(delays, np.int64))


def test_a_drift_shows_between_the_measured_points() -> None:
    """The second clock runs 10 ppm fast and is 1 ms ahead; each way takes 0.1 ms."""
    times = [number * SECOND for number in range(5)]
    ahead = [1_000_000 + round(time * 10e-6) for time in times]
    [relation] = relate(hull(times, [a + 100_000 for a in ahead]), hull(times, [100_000 - a for a in ahead]))
    assert abs(relation.drift - 10e-6) < 1e-9
    assert relation.bound is not None
    assert abs(relation.offset - 1_000_000) < relation.bound < 160_000
    assert relation.drift_bound is not None
    assert 0 < relation.drift_bound < 60e-6  # two points 4 s apart, each known to 0.1 ms


def test_a_time_that_is_converted_to_another_clock_and_back_is_the_same(spark: SparkSession) -> None:
    piece = Relation(10 * SECOND, 20 * SECOND, 5e8, 400e-6, 1e5, 1e-6)
    there, back = sorted(offsets_table(spark, {(1, 2): [piece]}).collect(), key=lambda row: row["from"])
    for time in (10 * SECOND, 15 * SECOND, 20 * SECOND):
        other = time + there["offset_ns"] + (time - there["zero"]) * there["drift"]
        again = other + back["offset_ns"] + (other - back["zero"]) * back["drift"]
        assert abs(again - time) < 2
