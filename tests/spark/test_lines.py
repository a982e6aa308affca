"""Values over time stand at the middle of their intervals, however short the trace is."""

from __future__ import annotations

import pytest

from spark.report.charts import _line


@pytest.mark.parametrize(
    ("start", "end", "points"),
    [
        (20, 20, [(20, 7.0)]),
        (20, 21, [(21, 7.0)]),
        (20, 30, [(25, 7.0)]),
        (23, 31, [(25, 7.0), (31, None)]),
    ],
)
def test_each_interval_of_a_trace_has_a_point(start: int, end: int, points: list[tuple[float, float | None]]) -> None:
    assert _line({"trace": {"start_ns": start, "end_ns": end, "interval_ns": 10}}, {20: 7.0}) == points
