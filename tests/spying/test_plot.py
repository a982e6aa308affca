"""Numbers as characters: sparklines, plots, fields of payloads."""

from __future__ import annotations

from typing import Any

import pytest

from glue.spying.fields import LINES, numbers, value_lines
from glue.spying.plot import POINTS, Series, number_text, plot, sparkline


def test_a_sparkline_goes_from_the_least_to_the_greatest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == "▁▂▃▄▅▆▇█"
    assert sparkline([9, 0, 7], 2) == "▁█"
    assert sparkline([5, 5, 5], 9) == "▄▄▄"
    assert sparkline([], 9) == sparkline([1], 0) == ""


def test_a_plot_draws_a_line_with_its_bounds() -> None:
    lines = plot([(0.0, 0.0), (1.0, 10.0)], 12, 2)
    assert lines == ["10 ┤⠀⠀⠀⠀⣀⠤⠒⠉", " 0 ┤⣀⠤⠒⠉⠀⠀⠀⠀"]
    assert plot([(0.0, 5.0)], 10, 1) != []
    assert plot([], 10, 2) == plot([(0.0, 1.0)], 3, 2) == plot([(0.0, 1.0)], 10, 0) == []


def test_a_series_keeps_the_latest_points() -> None:
    series = Series()
    for number in range(POINTS + 5):
        series.add(float(number), float(number))
    series.add(float(POINTS + 4), -1.0)
    assert len(series.values) == POINTS
    assert series.values[-1] == -1.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (21.456, "21.5"), (1234, "1234"), (12345, "12.3k"), (1234567, "1.23M"), (-5e9, "-5G")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (21.5, {"": 21.5}),
        ({"celsius": 21, "motors": [{"speed": 3}, {"speed": True}], "name": "x"},
         {"celsius": 21.0, "motors[0].speed": 3.0, "motors[1].speed": 1.0}),
        (b" 12.5 ", {"": 12.5}),
        ("on", {}),
        (float("nan"), {}),
        (10**400, {}),
        (None, {}),
    ],
)  # fmt: skip
def test_the_numbers_of_a_value(value: Any, found: dict[str, float]) -> None:
    assert numbers(value) == found


def test_a_value_has_bounded_numbers_and_lines() -> None:
    assert len(numbers({str(place): place for place in range(1000)})) == 64
    assert len(value_lines(list(range(10_000)))) == LINES + 1
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert numbers(deep) == {}
    assert value_lines(deep)


def test_values_as_lines() -> None:
    assert value_lines({"a": 1}) == ["{", '  "a": 1', "}"]
    assert value_lines(b"two\nlines") == ["two", "lines"]
    assert value_lines(b"\x00\xffab") == ["000000  00 ff 61 62                                      ..ab"]
    assert value_lines("") == value_lines(b"") == [""]
