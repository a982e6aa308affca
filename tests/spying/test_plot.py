"""Numbers as characters: sparklines, plots, fields of payloads."""

from __future__ import annotations

from typing import Any

import pytest

from glue.spying.fields import LINES, brief, numbers, value_lines
from glue.spying.plot import POINTS, Series, number_text, plot, sparkline


def test_a_sparkline_goes_from_the_least_to_the_greatest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == "▁▂▃▄▅▆▇█"
    assert sparkline([9, 0, 7], 2) == "▁█"
    assert sparkline([5, 5, 5], 9) == "▄▄▄"
    assert sparkline([], 9) == sparkline([1], 0) == ""


def test_a_sparkline_of_any_range_begins_at_its_least_value() -> None:
    assert sparkline([10, 11, 12, 13, 14, 15, 16, 17], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([-70, -35, 0], 8) == "▁▅█"
    assert sparkline([1e6, 1e6 + 1], 1) == "▄"


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


def test_a_series_takes_one_value_of_a_time() -> None:
    assert POINTS == 600
    series = Series()
    for at, value in ((1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (1.5, 4.0), (3.0, 5.0)):
        series.add(at, value)
    assert [*series.points] == [(1.0, 1.0), (1.5, 4.0), (3.0, 5.0)]


def test_plots_of_other_shapes() -> None:
    assert plot([(0.0, 5.0), (2.0, 5.0)], 6, 2) == ["5 ┤⠀⠀⠀", "5 ┤⠉⠉⠉"]
    assert plot([(0.0, 0.0), (1.0, 4.0), (2.0, 0.0)], 7, 3) == ["4 ┤⠀⢠⢣⠀", "  ┤⢀⠎⠘⡄", "0 ┤⡜⠀⠀⢣"]
    assert plot([(0.0, 1000.0), (4.0, 2000.0)], 9, 1) == plot([(8.0, 1000.0), (12.0, 2000.0)], 9, 1) == ["2000 ┤⡠⠔⠊"]
    assert plot([(3.0, 7.0)], 5, 1) == ["7 ┤⠄⠀"]
    assert len(plot([(0.0, 1.0)], 4, 1)) == 1
    assert plot([(0.0, 1.0)], 3, 1) == []


@pytest.mark.parametrize(("value", "text"), [
    (999.4, "999"), (999.9, "1e+03"), (1000, "1000"), (9999, "9999"), (10_000, "10k"), (999_999, "1e+03k"),
    (1e6, "1M"), (1e9, "1G"), (-1e4, "-10k"), (0.00123456, "0.00123"),
])  # fmt: skip
def test_units_begin_at_their_limits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_numbers_are_found_to_some_depth_and_width() -> None:
    def nested(depth: int, inner: Any) -> Any:
        return inner if depth == 0 else {"a": nested(depth - 1, inner)}

    assert numbers(nested(8, 1)) == {".".join("a" * 8): 1.0}
    assert numbers(nested(9, 1)) == {}
    assert numbers(nested(7, [1])) == {".".join("a" * 7) + "[0]": 1.0}
    assert numbers(nested(8, [1])) == {}
    assert numbers([[[[[[[[1]]]]]]]]) == {"[0]" * 8: 1.0}
    assert len(numbers([0] * 17)) == 16
    assert (numbers("1" * 32), numbers("1" * 33), numbers({"a": "1"})) == ({"": float("1" * 32)}, {}, {})
    assert numbers((1, 2)) == {"[0]": 1.0, "[1]": 2.0}
    assert numbers("nan") == {}
    assert numbers(b"x") == {}


def test_what_is_no_text_is_shown_in_rows_of_hexadecimal() -> None:
    assert value_lines(bytes(range(30, 48)))[:2] == [
        "000000  1e 1f 20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d  .. !\"#$%&'()*+,-",
        "000010  2e 2f                                            ./",
    ]
    assert value_lines(b"~\x7f") == ["000000  7e 7f" + " " * 44 + "~."]
    assert value_lines(b"a\tb\r\nc") == ["a\tb", "c"]
    assert value_lines(b"a\x1b") == ["000000  61 1b" + " " * 44 + "a."]
    assert value_lines("x\n" * 500) == ["x"] * 500
    assert value_lines("x\n" * 502)[-2:] == ["x", "... and 2 more lines"]
    assert value_lines(["ü"]) == ["[", '  "ü"', "]"]
    assert value_lines({1, 2}) == ["{1, 2}"]


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_value_without_a_representation_is_named_by_its_class() -> None:
    assert brief(Odd()).startswith("<Odd instance at 0x")
