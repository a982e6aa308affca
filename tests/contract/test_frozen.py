"""Frozen values behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from glue.contract.frozen import Frozen


class Point(Frozen):
    """Two numbers and a name."""

    x: int
    y: int = 2
    name: str = ""


class Checked(Frozen):
    """A number that is not negative."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(self.number)


def test_fields_are_given_by_place_and_by_name_and_have_defaults() -> None:
    assert Point(1) == Point(1, 2, "") == Point(x=1, y=2) == Point(1, name="")
    assert Point(1) != Point(3)
    assert Point(1) != (1, 2, "")
    assert {Point(1): "a"}[Point(1, 2)] == "a"
    assert repr(Point(1, name="n")) == "Point(x=1, y=2, name='n')"
    assert Point(1, 5).replaced(x=4) == Point(4, 5)


def test_values_are_matched_copied_and_pickled() -> None:
    match Point(1, 5):
        case Point(x, y=5, name=""):
            assert x == 1
        case _:
            pytest.fail("no match")
    point = Point(1, 5, "n")
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_a_value_does_not_change() -> None:
    point: Any = Point(1)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2
    with pytest.raises(AttributeError, match="immutable"):
        del point.x
    assert point == Point(1)


@pytest.mark.parametrize(
    ("values", "named", "expected"),
    [
        ((), {}, "'x' is missing"),
        ((), {"y": 1}, "'x' is missing"),
        ((1,), {"z": 1}, "no field 'z'"),
        ((1,), {"x": 1}, "too many values"),
        ((1, 2, "", 4), {}, "too many values"),
        ((), {"X": 1}, "'x' is missing; there is no field 'X'"),
    ],
)
def test_wrong_fields_are_told(values: tuple[Any, ...], named: dict[str, Any], expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        Point(*values, **named)


def test_a_class_may_check_its_values() -> None:
    assert Checked(1).number == 1
    with pytest.raises(ValueError, match="-1"):
        Checked(-1)
