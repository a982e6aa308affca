"""The stack's sweeps: what goes down keeps its order, whoever sends it, and layers are asked again what is due."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from glue.stack import Stack


class Plain:
    """A layer that passes all on, and notes what went through it downwards; once, it has something to say itself."""

    backlog = 0

    def __init__(self, name: str, says: list[Any]) -> None:
        self.name = name
        self.says = says
        self.passed: list[Any] = []
        self.deadline = -math.inf if says else math.inf
        self.statistics: Counter[str] = Counter()

    def fit(self, size: int) -> int:
        return size

    def receive(self, now: float, items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        says, self.says, self.deadline = self.says, [], math.inf
        return [*items], says

    def send(self, now: float, items: list[Any]) -> list[Any]:
        self.passed += items
        return items


class Fast(Plain):
    """One with an express way."""

    lowered = 0

    def lower(self, now: float, item: Any) -> Any:
        self.lowered += 1
        self.passed.append(item)
        return item


@pytest.mark.parametrize("kind", [Plain, Fast])
def test_what_a_layer_says_goes_before_what_comes_from_above(kind: type[Plain]) -> None:
    bottom, middle, top = layers = [kind("bottom", ["b"]), kind("middle", ["m"]), kind("top", ["t"])]
    stack = Stack({layer.name: layer for layer in layers})
    _, out = stack.turn(0.0, (), ["request"])
    assert [*map(str, out)] == ["b", "m", "t", "request"]
    assert (top.passed, middle.passed, bottom.passed) == (["request"], ["t", "request"], ["m", "t", "request"])


def test_what_is_said_alone_goes_the_express_way_from_there() -> None:
    bottom, middle, top = layers = [Fast("bottom", []), Fast("middle", []), Fast("top", ["t"])]
    stack = Stack({layer.name: layer for layer in layers})
    assert [*map(str, stack.turn(0.0, (), [])[1])] == ["t"]
    assert (bottom.lowered, middle.lowered, top.lowered) == (1, 1, 0)
    assert (top.passed, middle.passed, bottom.passed) == ([], ["t"], ["t"])


def test_after_a_send_the_layers_are_asked_again_what_is_due() -> None:
    layer = Plain("only", [])
    stack = Stack({"only": layer})
    assert stack.deadline == math.inf
    layer.deadline = 5.0  # as a timer set by what is sent
    stack.send(0.0, ["request"])
    assert stack.deadline == 5.0
