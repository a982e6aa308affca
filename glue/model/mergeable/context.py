"""Which writes somebody has seen: the causal context of delta-state CRDTs (Almeida, Shoker and Baquero, "Delta State
Replicated Data Types", 2018), as intervals, so that it stays small although it never forgets.

A write is named by its *dot*: the life of the replica that made it, and its number there, from 1. Lives are never used
twice, so a replica that lost its memory cannot name two writes alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Dot = tuple[str, int]
"""Life and number of a write."""

Bounds = list[int]
"""Intervals of one life, each from its first number to the one after its last, in one ascending list."""


class Context:
    """A set of dots. `bounds` is for reading only."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: dict[str, Bounds] | None = None) -> None:
        """`bounds` must be ascending, of even length, and not empty for any life."""
        self.bounds: dict[str, Bounds] = {} if bounds is None else bounds

    def __contains__(self, dot: Dot) -> bool:
        bounds = self.bounds.get(dot[0])
        return bounds is not None and bisect_right(bounds, dot[1]) % 2 == 1

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.bounds == other.bounds

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: Context) -> bool:
        """Whether the other one has all of these dots."""
        return all(other._covers(life, start, stop) for life, start, stop in self.intervals())

    def _covers(self, life: str, start: int, stop: int) -> bool:
        bounds = self.bounds.get(life)
        if bounds is None:
            return False
        at = bisect_right(bounds, start)
        return at % 2 == 1 and stop <= bounds[at]

    @property
    def size(self) -> int:
        """Intervals, which is what it weighs."""
        return sum(map(len, self.bounds.values())) // 2

    def intervals(self) -> Iterator[tuple[str, int, int]]:
        """Life, first number, and the number after the last, of each interval."""
        for life, bounds in self.bounds.items():
            for at in range(0, len(bounds), 2):
                yield life, bounds[at], bounds[at + 1]

    def last(self, life: str) -> int:
        """The highest number of a life, 0 if there is none."""
        bounds = self.bounds.get(life)
        return bounds[-1] - 1 if bounds else 0

    def copy(self) -> Context:
        """As it is now."""
        return Context({life: bounds.copy() for life, bounds in self.bounds.items()})

    def add(self, dot: Dot) -> None:
        """Put one dot in."""
        self._add(dot[0], dot[1], dot[1] + 1)

    def update(self, other: Context) -> None:
        """Put all dots of another one in."""
        for life, start, stop in other.intervals():
            self._add(life, start, stop)

    def _add(self, life: str, start: int, stop: int) -> None:
        """An odd position in the list is inside an interval, whose bound then stays or goes as a whole."""
        bounds = self.bounds.setdefault(life, [])
        left, right = bisect_left(bounds, start), bisect_right(bounds, stop)
        bounds[left:right] = [start] * (left % 2 == 0) + [stop] * (right % 2 == 0)

    def __repr__(self) -> str:
        return f"<Context {self.bounds}>"
