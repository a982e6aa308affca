"""Indexes of bundles that are longer than a frame: their pieces are kept until the newline at their end is there.

A bundle of many topics has an index of some kilobytes, of which the first fragment holds only the beginning. One reader
puts it together from that fragment and those that it reads after it. What never becomes whole, as fragments were lost
or lie in another part of the capture, is forgotten when there is no more room.
"""

from __future__ import annotations

from collections import OrderedDict

Bundle = tuple[int, int, int, str]
"""The name of a bundle: the sequence of its first fragment, its channel (-1: none), the sender's incarnation and id."""

MOST_OPEN = 1024
"""Bundles whose index is awaited: with a stream to each of so many peers, one each."""

MOST_BYTES = 16 << 20
"""Bytes of pieces kept: ten indexes of the largest size, 1.5 MiB (docs/wire-format.md), or thousands of usual ones."""


class Indexes:
    """The awaited indexes of one reader, by the names of their bundles."""

    def __init__(self) -> None:
        self._open: OrderedDict[Bundle, _Index] = OrderedDict()
        self._bytes = 0

    def __contains__(self, bundle: Bundle) -> bool:
        return bundle in self._open

    def __len__(self) -> int:
        return len(self._open)

    def firsts(self) -> list[int]:
        """The sequences of the first fragments of what is awaited."""
        return [bundle[0] for bundle in self._open]

    def add(self, bundle: Bundle, place: int, body: bytes) -> bytes | None:
        """Add the fragment at this place of the bundle; returns the index with its newline once it is whole."""
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
    """The pieces of one index; `size` is their bytes."""

    __slots__ = ("_end", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self._end: int | None = None  # the first place with a newline, as far as is known
        self.size = 0

    def add(self, place: int, body: bytes) -> int:
        """Add a piece; returns by how many bytes there are more."""
        if place in self._pieces:
            return 0
        self._pieces[place] = body
        if b"\n" in body and (self._end is None or place < self._end):
            self._end = place
        self.size += len(body)
        return len(body)

    def line(self) -> bytes | None:
        """The index if it is whole."""
        if self._end is None or not all(place in self._pieces for place in range(self._end)):
            return None
        pieces = b"".join(self._pieces[place] for place in range(self._end + 1))
        return pieces[: pieces.index(b"\n") + 1]
