"""The causal context of a replica: the set of writes that it has seen, as intervals.

The algorithm is that of delta-state CRDTs (Almeida, Shoker and Baquero, "Delta State Replicated Data Types", 2018).
Intervals keep the set small, although nothing is ever removed. A *dot* names a write: the life of the replica that made
it, and a number from 1. A life is never used twice, so a replica without its old memory cannot use a dot again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Dot = tuple[str, int]
"""Life and number of a write."""

Bounds = list[int]
"""Intervals of one life in one ascending list: first number, number after the last, and so on."""


class Context:
    """A set of dots. `bounds` is for reading only."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: dict[str, Bounds] | None = None) -> None:
        """`bounds` must be ascending and of even length, and must have no empty list."""
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
        """Whether the other context contains all of these dots."""
        return all(other._covers(life, start, stop) for life, start, stop in self.intervals())

    def _covers(self, life: str, start: int, stop: int) -> bool:
        bounds = self.bounds.get(life)
        if bounds is None:
            return False
        at = bisect_right(bounds, start)
        return at % 2 == 1 and stop <= bounds[at]

    @property
    def size(self) -> int:
        """The number of intervals, which determines the encoded size."""
        return sum(map(len, self.bounds.values())) // 2

    def intervals(self) -> Iterator[tuple[str, int, int]]:
        """Return life, first number, and the number after the last, of each interval."""
        for life, bounds in self.bounds.items():
            for at in range(0, len(bounds), 2):
                yield life, bounds[at], bounds[at + 1]

    def last(self, life: str) -> int:
        """Return the highest number of a life, 0 if there is none."""
        bounds = self.bounds.get(life)
        return bounds[-1] - 1 if bounds else 0

    def copy(self) -> Context:
        """Return an independent copy."""
        return Context({life: bounds.copy() for life, bounds in self.bounds.items()})

    def add(self, dot: Dot) -> None:
        """Add one dot."""
        self._add(dot[0], dot[1], dot[1] + 1)

    def update(self, other: Context) -> None:
        """Add all dots of another context."""
        for life, start, stop in other.intervals():
            self._add(life, start, stop)

    def _add(self, life: str, start: int, stop: int) -> None:
        """Add an interval, and join the intervals that it touches.

        A position in the list is odd if it lies inside an interval. The bound at that side is then not inserted.
        """
        bounds = self.bounds.setdefault(life, [])
        left, right = bisect_left(bounds, start), bisect_right(bounds, stop)
        bounds[left:right] = [start] * (left % 2 == 0) + [stop] * (right % 2 == 0)

    def __repr__(self) -> str:
        return f"<Context {self.bounds}>"
