"""A set of integers as sorted, disjoint, half-open ranges: frames that arrived, messages that a log holds.

After the range set of QUIC implementations. Few ranges are alive at a time (holes are repaired within a few
round trips), so a plain list with bisection beats anything cleverer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class RangeSet:
    """Ranges [start, stop), ascending, never touching each other."""

    __slots__ = ("_starts", "_stops", "size")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.size = 0
        """How many integers the set holds."""

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, value: int) -> bool:
        index = bisect_right(self._starts, value) - 1
        return index >= 0 and value < self._stops[index]

    def common(self, values: Iterable[int]) -> list[int]:
        """Which of these are in the set."""
        starts, stops = self._starts, self._stops
        return [value for value in values if (index := bisect_right(starts, value)) and value < stops[index - 1]]

    @property
    def stop(self) -> int:
        """One more than the largest member; 0 when empty."""
        return self._stops[-1] if self._stops else 0

    def add(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Add [start, stop); return the parts of it that were not in the set before."""
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        fresh = []
        at = start
        for index in range(first, last):
            if at < self._starts[index]:
                fresh.append((at, min(stop, self._starts[index])))
            at = max(at, self._stops[index])
        if at < stop:
            fresh.append((at, stop))
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]
        self.size += sum(b - a for a, b in fresh)
        return fresh

    def remove(self, start: int, stop: int) -> None:
        """Remove [start, stop)."""
        self.replace([
            piece
            for begin, end in self
            for piece in ((begin, min(end, start)), (max(begin, stop), end))
            if piece[0] < piece[1]
        ])  # fmt: skip

    def replace(self, ranges: list[tuple[int, int]]) -> None:
        """Hold these instead: sorted, disjoint and not touching."""
        self._starts = [start for start, _ in ranges]
        self._stops = [stop for _, stop in ranges]
        self.size = sum(self._stops) - sum(self._starts)

    def drop_below(self, bound: int) -> None:
        """Remove every member below `bound`."""
        keep = bisect_right(self._stops, bound)
        self.size -= sum(self._stops[:keep]) - sum(self._starts[:keep])
        del self._starts[:keep], self._stops[:keep]
        if self._starts and self._starts[0] < bound:
            self.size -= bound - self._starts[0]
            self._starts[0] = bound

    def gaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The ranges of [start, stop) that are not in the set, ascending."""
        for begin, end in self:
            if begin >= stop:
                break
            if start < begin:
                yield start, begin
            start = max(start, end)
        if start < stop:
            yield start, stop
