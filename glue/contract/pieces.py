"""Equal pieces of bytes: cut apart and put together in C, or left together as long as nobody asks for one.

Frames of a run, headers of a train and payloads of a bundle are many pieces of one size, so a layer that
takes them apart pays for a few calls rather than for each piece. Where the same buffer is cut again and again, views
of its pieces are made once: `bytes.join` then collects them without an object for each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from mmap import MAP_ANON, MAP_PRIVATE, mmap
from struct import Struct
from typing import overload

BLOCK = 64  # pieces cut by one call: enough to forget its cost, few enough for its plan to be remembered
NEAR = 4096
"""Bytes cut by one call, at most, for who is done with one piece before the next: so few stay in the nearest cache."""


def fresh_memory(size: int) -> mmap:
    """Memory of so many bytes, which, unlike that of a bytearray, takes none before it is used."""
    return mmap(-1, size, MAP_PRIVATE | MAP_ANON)


@lru_cache(maxsize=512)
def _plan(size: int, count: int) -> Struct:
    """Cuts `count` pieces of `size` bytes; some 2 kB each, 1 MB in all."""
    return Struct(f"{size}s" * count)


def _blocks(data: bytes | memoryview, size: int, count: int) -> Iterator[tuple[bytes, ...]]:
    """`data`, of whole pieces of `size` bytes, as so many pieces at a time, cut when they are asked for."""
    step = size * count
    whole = len(data) - len(data) % step
    last = _plan(size, (len(data) - whole) // size).unpack_from(data, whole)
    return chain(_plan(size, count).iter_unpack(memoryview(data)[:whole]), [last])


def cut(data: bytes | bytearray | memoryview, size: int) -> list[bytes]:
    """`data` as pieces of `size` bytes (at least 1), in order; what remains makes a last, shorter one."""
    count, rest = divmod(len(data), size)
    whole = len(data) - rest
    if count <= BLOCK:
        pieces = [*_plan(size, count).unpack_from(data)]
    else:
        pieces = [*chain.from_iterable(_blocks(memoryview(data)[:whole], size, BLOCK))]
    if rest:
        pieces.append(bytes(data[whole:]))
    return pieces


class Pieces(Sequence[bytes]):
    """Pieces of `size` bytes, the last of which may be shorter, that stand in `parts` one after the other.

    They are cut, or put together, when they are asked for. A slice shares memory with parts that are views, but copies
    what it has of those that are bytes, so that a few of many pieces that came from the network never keep the others.
    With `shared` it has views of these, too.
    """

    __slots__ = ("_count", "_ends", "_shared", "length", "parts", "size")

    def __init__(self, parts: Sequence[bytes | memoryview], size: int, count: int, shared: bool = False) -> None:
        """`count` is what `parts` and `size` make, unless pieces are empty."""
        self.parts = parts
        self._shared = shared
        self.size = size
        self.length = sum(map(len, parts))  # bytes in all
        self._count = count
        self._ends: list[int] | None = None  # where each part ends, once that was needed

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> Pieces: ...

    def __getitem__(self, place: int | slice) -> bytes | Pieces:
        """A piece; or some, but not with a step."""
        if isinstance(place, slice):
            start, stop, _ = place.indices(self._count)
            parts = self._between(start * self.size, stop * self.size, self._shared)
            return Pieces(parts, self.size, max(0, stop - start), self._shared)
        start = range(self._count)[place] * self.size
        return b"".join(self._between(start, start + self.size))

    def __iter__(self) -> Iterator[bytes]:
        if self._count == 1:
            return iter([b"".join(self.parts)])
        pieces = cut(b"".join(self.parts), self.size) if self.size else []
        return iter(pieces + [b""] * (self._count - len(pieces)))

    def copies(self, start: int, size: int, count: int, together: int = 1) -> Sequence[bytes]:
        """So many pieces of another size, at least 1, from the byte at `start` on, all of which are there.

        Where there are several parts, each is joined by itself; or so many together, at least 1, and then cut apart:
        small ones not before they are asked for.
        """
        stop, step = start + size * count, size * together
        if len(self.parts) == 1:
            return cut(memoryview(self.parts[0])[start:stop], size)
        portions = (b"".join(self._between(at, min(at + step, stop))) for at in range(start, stop, step))
        if together == 1:
            return [*portions]
        if size <= NEAR:
            return Portions([*portions], size, count)
        return [*chain.from_iterable(map(cut, portions, repeat(size)))]  # each in the memory of the one before

    def copy_to(self, memory: mmap, start: int, stop: int) -> int:
        """Copy the bytes between these two, as far as there are any, to the beginning of `memory`; how many it was."""
        memory.seek(0)
        deque(map(memory.write, self._between(start, stop)), 0)  # as a loop would, but for the interpreter's steps
        return memory.tell()

    def _between(self, start: int, stop: int, shared: bool = True) -> list[bytes | memoryview]:
        """The parts, as far as they lie between these two: views of those that are cut, or, not `shared`, copies."""
        ends = self._ends
        if ends is None:
            ends = self._ends = [*accumulate(map(len, self.parts))]
        stop = min(stop, self.length)
        if start >= stop:
            return []
        first, last = bisect_right(ends, start), bisect_left(ends, stop)
        found = [*self.parts[first : last + 1]]
        begin = ends[first] - len(found[0])
        if stop < ends[last]:
            found[-1] = (memoryview(found[-1]) if shared else found[-1])[: stop - ends[last]]
        if start > begin:
            found[0] = (memoryview(found[0]) if shared else found[0])[start - begin :]
        return found


class Portions(Pieces):
    """Pieces of at most NEAR bytes in a few parts of whole ones, cut by whoever goes through them, some at a time.

    Who is done with each before the next then has all of them in the same memory, which stays in the nearest cache.
    An iterator takes no steps of the interpreter: whatever interrupts these finds it whole.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        size = self.size
        count = min(NEAR // size, BLOCK)
        return chain.from_iterable(chain.from_iterable([_blocks(part, size, count) for part in self.parts]))


class Views:
    """Views of the same part of each piece of a buffer, made when they are first needed, and kept."""

    __slots__ = ("_buffer", "_found", "_size", "_start", "_stop", "_views", "piece")

    def __init__(self, buffer: memoryview, piece: int, start: int, stop: int) -> None:
        """Of each `piece` bytes of `buffer`, those from `start` to `stop`."""
        self.piece = piece
        self._buffer = buffer
        self._start = start
        self._stop = stop
        self._views: list[memoryview] = []
        self._size = 0
        self._found: Sequence[memoryview] = ()

    def of(self, size: int) -> Sequence[memoryview]:
        """Those of the pieces in the first `size` bytes, of which the last piece may be shorter."""
        if size != self._size:  # in a stream it mostly is as large as the time before
            self._size, self._found = size, self._find(size)
        return self._found

    def _find(self, size: int) -> list[memoryview]:
        piece, start, stop = self.piece, self._start, self._stop
        buffer, views = self._buffer, self._views
        count, rest = divmod(size, piece)
        if len(views) < count:
            views += [buffer[at + start : at + stop] for at in range(len(views) * piece, count * piece, piece)]
        found = views[:count]
        if rest:
            found.append(buffer[size - rest : size][start:stop])
        return found


def joined(data: bytes | bytearray | memoryview, piece: int, start: int, stop: int) -> bytes:
    """Of each piece the bytes from `start` to `stop`, one after the other."""
    return b"".join(Views(memoryview(data), piece, start, stop).of(len(data)))


def total(pieces: Sequence[bytes]) -> int:
    """Bytes in pieces of one size, of which only the last may be shorter; at least one piece."""
    if pieces.__class__ is not list and isinstance(pieces, Pieces):
        return pieces.length
    return (len(pieces) - 1) * len(pieces[0]) + len(pieces[-1])
