"""A buffer of trains: memory that is reused for each train that is received or opened, with cached views."""

from __future__ import annotations

from collections.abc import Iterable

from glue.contract.borrowed import Borrowed, GatherCache
from glue.contract.items import Address, Train
from glue.contract.pieces import Pieces, Views, fresh_memory

LARGEST = 64 << 10  # UDP's largest datagram, and the most that the kernel coalesces unless told otherwise
STREAM = LARGEST // 2  # bytes read at once from which on they are of a stream; a few datagrams may want an answer
JOINED = 1200 << 10
"""Bytes from which on a train is handed up though more of it may come: what a message of 1 MiB makes with its headers,
and more than any bundle."""
BORROWED = 32 << 10  # bytes of a train from which on only the upper layers join its bodies
LAYOUTS = 8  # pairs of datagram and header sizes with cached views: some 600 kB each at most


class TrainBuffer:
    """Where trains arrive, and views of the two parts of their datagrams there."""

    __slots__ = ("_memory", "_places", "_size", "_views", "memory")

    def __init__(self) -> None:
        self._memory = fresh_memory(JOINED + LARGEST)
        self.memory = memoryview(self._memory)
        self._views: dict[tuple[int, int], tuple[Views, Views, GatherCache]] = {}
        self._size = 0
        self._places: list[tuple[memoryview]] = []

    def places(self, size: int) -> list[tuple[memoryview]]:
        """Where reads of `size` bytes, STREAM at least, have room behind one another, for as long as a train may be.

        None unless the train before began with as many bytes, too: else they would be made in vain.
        """
        if size != self._size:
            self._size, self._places = size, []
        elif not self._places:
            self._places = [(self.memory[at:],) for at in range(0, JOINED, size)]
        return self._places

    def columns(self, size: int, segment: int, places: Iterable[int]) -> list[bytes]:
        """The bytes at these places in each datagram of the train in the first `size` bytes."""
        memory = self._memory
        return [memory[place:size:segment] for place in places]

    def heads(self, size: int, segment: int, at: int) -> bytes:
        """The first part of each, joined."""
        return b"".join(self._parts(segment, at)[0].of(size))

    def rests(self, size: int, segment: int, at: int) -> Pieces:
        """The other part of each."""
        _, views, gather_cache = self._parts(segment, at)
        rests = views.of(size)
        if size >= BORROWED and segment > at:
            whole, left = divmod(size, segment)
            return Borrowed(rests, segment - at, whole * (segment - at) + max(left - at, 0), gather_cache)
        return Pieces([b"".join(rests)], segment - at, len(rests))

    def _parts(self, segment: int, at: int) -> tuple[Views, Views, GatherCache]:
        """Views of the two parts of datagrams of this size, and what was joined of the second."""
        parts = self._views.get((segment, at))
        if parts is None:
            if len(self._views) >= LAYOUTS:
                self._views.clear()
            parts = Views(self.memory, segment, 0, at), Views(self.memory, segment, at, segment), GatherCache()
            self._views[segment, at] = parts
        return parts


class Arrived(Train):
    """A train that stands at the beginning of a buffer."""

    __slots__ = ("_buffer",)

    def __init__(self, address: Address | None, buffer: TrainBuffer, size: int, segment: int) -> None:
        super().__init__(address, buffer.memory[:size], segment)
        self._buffer = buffer

    def split(self, at: int) -> tuple[bytes, Pieces]:
        """As `Train.split`, with cached views, except for a lone datagram, which would displace other views."""
        size = len(self.data)
        if size <= self.segment:
            return super().split(at)
        return self._buffer.heads(size, self.segment, at), self._buffer.rests(size, self.segment, at)

    def rests(self, at: int) -> Pieces:
        """As `Train.rests`, with cached views, except for a lone datagram."""
        size = len(self.data)
        return self._buffer.rests(size, self.segment, at) if size > self.segment else super().rests(at)

    def columns(self, places: Iterable[int]) -> list[bytes]:
        """Return, for each place, the bytes at this place of all datagrams; every datagram must be long enough."""
        return self._buffer.columns(len(self.data), self.segment, places)
