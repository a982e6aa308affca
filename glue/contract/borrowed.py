"""Pieces in borrowed memory: a buffer that a socket was read into, which the next train overwrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glue.contract.pieces import NEAR, Pieces


class GatherCache:
    """The parts of the latest copies of borrowed pieces; the next copies may have the same places."""

    __slots__ = ("asked", "views")

    def __init__(self) -> None:
        self.asked = 0, 0, 0  # start, size and count of the latest request
        self.views: list[list[bytes | memoryview]] = []  # parts of each copy; empty until a request repeats


class Borrowed(Pieces):
    """Pieces in borrowed memory, each in a view of its own.

    Every piece that is read from here is a copy. A reader that keeps only these copies need not know that the memory is
    borrowed.
    """

    __slots__ = ("_gather_cache", "_stride")

    def __init__(self, views: Sequence[memoryview], size: int, length: int, joins: GatherCache | None = None) -> None:
        """`views` has at least one view. Each has `size` bytes, but the last may have fewer; all have `length` bytes.

        `joins` is shared by all pieces at the same places of this memory.
        """
        self.parts = views
        self._shared = True
        self.size = self._stride = size
        self.length = length
        self._count = len(views)
        self._gather_cache = joins

    def __getitem__(self, place: int | slice) -> Any:
        """Return a piece, or a slice of pieces."""
        return self.to_owned()[place] if isinstance(place, slice) else super().__getitem__(place)

    def whole(self) -> Borrowed:
        """Return all bytes as one piece."""
        one = Borrowed(self.parts, self._stride, self.length, self._gather_cache)  # type: ignore[arg-type]  # they are views
        one.size, one._count = self.length, 1
        return one

    def to_owned(self) -> Pieces:
        """Return the same pieces in memory that stays."""
        return Pieces([b"".join(self.parts)], self.size, self._count)

    def copies(self, start: int, size: int, count: int, together: int = 1) -> Sequence[bytes]:
        """Return copies as `Pieces.copies` does.

        Large copies are joined one by one if the last request had the same places.
        """
        joins, asked = self._gather_cache, (start, size, count)
        if joins is None or size <= NEAR:
            return super().copies(start, size, count, together)
        if asked != joins.asked:
            joins.views, joins.asked = [], asked  # views may never be used
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
