"""Indexes of bundles longer than a frame: their pieces are kept until the final newline.

The index of a bundle with many topics has some kilobytes, and the first fragment holds only its beginning. A reader
joins this fragment with later ones. Some indexes never become complete, because fragments were lost or are in another
part of the capture. They are dropped when space is needed.
"""

from __future__ import annotations

from collections import OrderedDict

Bundle = tuple[int, int, int, str]
"""Identity of a bundle: sequence of the first fragment, channel (-1: none), incarnation and id of the sender."""

MOST_OPEN = 1024
"""Most bundles with an incomplete index: one for each of as many peers."""

MOST_BYTES = 16 << 20
"""Most bytes of pieces: ten largest indexes of 1.5 MiB (docs/wire-format.md), or thousands of usual ones."""


class Indexes:
    """Incomplete indexes of one reader, by the identity of their bundles."""

    def __init__(self) -> None:
        self._open: OrderedDict[Bundle, _Index] = OrderedDict()
        self._bytes = 0

    def __contains__(self, bundle: Bundle) -> bool:
        return bundle in self._open

    def __len__(self) -> int:
        return len(self._open)

    def firsts(self) -> list[int]:
        """Return the sequences of the first fragments of incomplete indexes."""
        return [bundle[0] for bundle in self._open]

    def add(self, bundle: Bundle, place: int, body: bytes) -> bytes | None:
        """Add a fragment at its place in the bundle. Return the index with its newline if it is complete."""
        index = self._open.setdefault(bundle, _Index())
        self._open.move_to_end(bundle)
        self._bytes += index.add(place, body)
        line = index.line()
        if line is not None:
            self._forget(bundle)
        while len(self._open) > MOST_OPEN or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._open)))
        return line

    def _forget(self, bundle: Bundle) -> None:
        self._bytes -= self._open.pop(bundle).size


class _Index:
    """Pieces of one index; `size` is their bytes."""

    __slots__ = ("_end", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self._end: int | None = None  # the first known place with a newline
        self.size = 0

    def add(self, place: int, body: bytes) -> int:
        """Add a piece, and return the number of added bytes."""
        if place in self._pieces:
            return 0
        self._pieces[place] = body
        if b"\n" in body and (self._end is None or place < self._end):
            self._end = place
        self.size += len(body)
        return len(body)

    def line(self) -> bytes | None:
        """Return the index if it is complete."""
        if self._end is None or not all(place in self._pieces for place in range(self._end)):
            return None
        pieces = b"".join(self._pieces[place] for place in range(self._end + 1))
        return pieces[: pieces.index(b"\n") + 1]
