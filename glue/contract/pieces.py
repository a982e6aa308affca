"""Equal pieces of bytes: cut and joined in C, or left together until a piece is read.

The frames of a run, the headers of a train and the payloads of a bundle are many pieces of one size. A layer that
separates them pays for a few calls, not for each piece. Where one buffer is cut again and again, views of its pieces
are made only once. The C code of `bytes.join` then collects them without a new object for each.
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

BLOCK = 64  # pieces cut by one call: the call's cost hardly counts, and its plan is small enough to be kept
NEAR = 4096
"""Bytes cut by one call if each piece is used before the next one: so few stay in the nearest cache."""


def fresh_memory(size: int) -> mmap:
    """Allocate `size` bytes. Unlike a bytearray, the mapping takes no memory before it is used."""
    return mmap(-1, size, MAP_PRIVATE | MAP_ANON)


@lru_cache(maxsize=512)
def _plan(size: int, count: int) -> Struct:
    """Return a plan that cuts `count` pieces of `size` bytes. Each takes some 2 kB; all kept plans take 1 MB."""
    return Struct(f"{size}s" * count)


def _blocks(data: bytes | memoryview, size: int, count: int) -> Iterator[tuple[bytes, ...]]:
    """Cut `data`, which holds whole pieces of `size` bytes, into pieces: `count` at a time, only when they are read."""
    step = size * count
    whole = len(data) - len(data) % step
    last = _plan(size, (len(data) - whole) // size).unpack_from(data, whole)
    return chain(_plan(size, count).iter_unpack(memoryview(data)[:whole]), [last])


def cut(data: bytes | bytearray | memoryview, size: int) -> list[bytes]:
    """Cut `data` into pieces of `size` bytes (at least 1), in order; a last piece may be shorter."""
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
    """Pieces of `size` bytes that stand in `parts` one after the other. The last may be shorter.

    Pieces are cut or joined when they are read. A slice shares memory with views among the parts, and copies from bytes
    objects: a few pieces from the network then never keep all others. With `shared`, a slice has views of bytes, too.
    """

    __slots__ = ("_count", "_ends", "_shared", "length", "parts", "size")

    def __init__(self, parts: Sequence[bytes | memoryview], size: int, count: int, shared: bool = False) -> None:
        """`count` follows from `parts` and `size`, unless pieces are empty."""
        self.parts = parts
        self._shared = shared
        self.size = size
        self.length = sum(map(len, parts))  # bytes in all
        self._count = count
        self._ends: list[int] | None = None  # where each part ends, computed when needed

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> Pieces: ...

    def __getitem__(self, place: int | slice) -> bytes | Pieces:
        """Return a piece, or a slice without a step."""
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
        """Return copies of `count` pieces of another `size` (at least 1) from byte `start` on. All bytes must be there.

        If there are several parts, each copy is joined by itself. With `together` above 1, that many copies are joined
        at a time and then cut. Small ones are cut only when they are read.
        """
        stop, step = start + size * count, size * together
        if len(self.parts) == 1:
            return cut(memoryview(self.parts[0])[start:stop], size)
        chunks = (b"".join(self._between(at, min(at + step, stop))) for at in range(start, stop, step))
        if together == 1:
            return [*chunks]
        if size <= NEAR:
            return Chunks([*chunks], size, count)
        return [*chain.from_iterable(map(cut, chunks, repeat(size)))]  # each in the memory of the one before

    def joined(self, start: int, stop: int) -> bytes:
        """Return a copy of the bytes from `start` to `stop`, as far as they exist."""
        return b"".join(self._between(start, min(stop, self.length)))

    def copy_to(self, memory: mmap, start: int, stop: int) -> int:
        """Copy the bytes from `start` to `stop`, as far as they exist, into `memory`; returns their number."""
        memory.seek(0)
        deque(map(memory.write, self._between(start, stop)), 0)  # like a loop, without the interpreter's steps
        return memory.tell()

    def _between(self, start: int, stop: int, shared: bool = True) -> list[bytes | memoryview]:
        """Return the parts between `start` and `stop`, cut at both ends: as views, or as copies if not `shared`."""
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


class Chunks(Pieces):
    """Pieces of at most NEAR bytes, cut while they are read, a few at a time.

    Each part holds whole pieces. A reader that finishes each piece before the next has all pieces in the same memory,
    in the nearest cache. The iterator runs no Python code, so an interrupt (a signal) cannot leave it half done.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        size = self.size
        count = min(NEAR // size, BLOCK)
        return chain.from_iterable(chain.from_iterable([_blocks(part, size, count) for part in self.parts]))


class Views:
    """Views of the same part of each piece of a buffer, made when first needed and then kept."""

    __slots__ = ("_buffer", "_found", "_size", "_start", "_stop", "_views", "piece")

    def __init__(self, buffer: memoryview, piece: int, start: int, stop: int) -> None:
        """The views show the bytes from `start` to `stop` of each `piece` bytes of `buffer`."""
        self.piece = piece
        self._buffer = buffer
        self._start = start
        self._stop = stop
        self._views: list[memoryview] = []
        self._size = 0
        self._found: Sequence[memoryview] = ()

    def of(self, size: int) -> Sequence[memoryview]:
        """Return the views of the pieces in the first `size` bytes. The last piece may be shorter."""
        if size != self._size:  # in a stream mostly the same size
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
    """Return the bytes from `start` to `stop` of each piece, joined."""
    return b"".join(Views(memoryview(data), piece, start, stop).of(len(data)))


def total(pieces: Sequence[bytes]) -> int:
    """Return the bytes of all pieces. Pieces have one size, but the last may be shorter; there must be a piece."""
    if pieces.__class__ is not list and isinstance(pieces, Pieces):
        return pieces.length
    return (len(pieces) - 1) * len(pieces[0]) + len(pieces[-1])
