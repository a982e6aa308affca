"""Pieces that stand in memory which soon is another's: what a socket was read into, until the next train is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glue.contract.pieces import NEAR, Pieces


class GatherCache:
    """What the latest copies of borrowed pieces were joined of, as the next may lie in the same places."""

    __slots__ = ("asked", "views")

    def __init__(self) -> None:
        self.asked = 0, 0, 0  # where they began, their size and how many there were
        self.views: list[list[bytes | memoryview]] = []  # of each the parts; none before the same is asked for again


class Borrowed(Pieces):
    """Pieces that stand in memory which soon is another's, each in a view of its own.

    What is asked for is a copy; so who keeps nothing but that need not know.
    """

    __slots__ = ("_gather_cache", "_stride")

    def __init__(self, views: Sequence[memoryview], size: int, length: int, joins: GatherCache | None = None) -> None:
        """At least one view; they are of `size` bytes, but the last, which may be of fewer; of `length` in all.

        `joins`: of all that stand in the same places of this memory.
        """
        self.parts = views
        self._shared = True
        self.size = self._stride = size
        self.length = length
        self._count = len(views)
        self._gather_cache = joins

    def __getitem__(self, place: int | slice) -> Any:
        """A piece, or some."""
        return self.to_owned()[place] if isinstance(place, slice) else super().__getitem__(place)

    def whole(self) -> Borrowed:
        """All of it as one piece."""
        one = Borrowed(self.parts, self._stride, self.length, self._gather_cache)  # type: ignore[arg-type]  # they are views
        one.size, one._count = self.length, 1
        return one

    def to_owned(self) -> Pieces:
        """The same pieces in memory that stays."""
        return Pieces([b"".join(self.parts)], self.size, self._count)

    def copies(self, start: int, size: int, count: int, together: int = 1) -> Sequence[bytes]:
        """As of any pieces; large ones are joined each by itself, once they have been in the same places before."""
        joins, asked = self._gather_cache, (start, size, count)
        if joins is None or size <= NEAR:
            return super().copies(start, size, count, together)
        if asked != joins.asked:
            joins.views, joins.asked = [], asked  # to make views of them may be in vain
            return super().copies(start, size, count, together)
        if not joins.views:
            joins.views = [self._between(at, at + size) for at in range(start, start + size * count, size)]
        return [*map(b"".join, joins.views)]

    def _between(self, start: int, stop: int, shared: bool = True) -> list[bytes | memoryview]:
        first, before = divmod(start, self._stride)
        last, behind = divmod(stop, self._stride)
        found = [*self.parts[first:last]]
        if behind:
            found.append(self.parts[last][:behind])
        if before:
            found[0] = self.parts[first][before : stop - first * self._stride]
        return found
