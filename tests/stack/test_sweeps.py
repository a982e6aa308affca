"""The stack's sweeps: what goes down keeps its order, whoever sends it, and layers are asked again what is due."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from glue.fastpath.stack import FAST_PATHS, FastStack
from glue.stack import Stack


class Plain:
    """A layer that passes all on, and notes what went through it downwards; once, it has something to say itself."""

    backlog = unfinished = 0

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
    """One with a fast path."""

    sent_alone = 0


class FastWay:
    """That fast path, which is one down."""

    def __init__(self, layer: Fast) -> None:
        self.layer = layer

    def receive_one(self, now: float, item: Any) -> None:
        return None

    def send_one(self, now: float, item: Any) -> Any:
        self.layer.sent_alone += 1
        self.layer.passed.append(item)
        return item

    def session_part(self) -> None:
        return None


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stacks know that fast path."""
    monkeypatch.setitem(FAST_PATHS, Fast, FastWay)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("kind", "made"), [(Plain, Stack), (Plain, FastStack), (Fast, FastStack)])
def test_what_a_layer_says_goes_before_what_comes_from_above(kind: type[Plain], made: type[Stack]) -> None:
    bottom, middle, top = layers = [kind("bottom", ["b"]), kind("middle", ["m"]), kind("top", ["t"])]
    stack = made({layer.name: layer for layer in layers})
    _, out = stack.turn(0.0, (), ["request"])
    assert [*map(str, out)] == ["b", "m", "t", "request"]
    assert (top.passed, middle.passed, bottom.passed) == (["request"], ["t", "request"], ["m", "t", "request"])


@pytest.mark.usefixtures("fast")
def test_what_is_sent_alone_takes_the_fast_path_from_there() -> None:
    bottom, middle, top = layers = [Fast("bottom", []), Fast("middle", []), Fast("top", ["t"])]
    stack = FastStack({layer.name: layer for layer in layers})
    assert [*map(str, stack.turn(0.0, (), [])[1])] == ["t"]
    assert (bottom.sent_alone, middle.sent_alone, top.sent_alone) == (1, 1, 0)
    assert (top.passed, middle.passed, bottom.passed) == ([], ["t"], ["t"])


def test_after_a_send_the_layers_are_asked_again_what_is_due() -> None:
    layer = Plain("only", [])
    stack = Stack({"only": layer})
    stack.commit()
    assert stack.deadline == math.inf
    layer.deadline = 5.0  # as a timer set by what is sent
    stack.send(0.0, ["request"])
    assert stack.deadline == -math.inf
    stack.commit()
    assert stack.deadline == 5.0


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("requests", [["request"], []])
def test_after_a_turn_too(requests: list[str]) -> None:
    layer = Fast("only", [])
    stack = FastStack({"only": layer})
    stack.commit()
    stack.turn(0.0, (), requests)
    stack.commit()
    assert stack.deadline == math.inf
    stack.turn(1.0, (), requests)
    assert stack.deadline == (-math.inf if requests else math.inf)
