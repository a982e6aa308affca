"""Long runs made into datagrams as they leave, a chunk at a time, so that what is copied twice stays in a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from mmap import mmap

from glue.contract import Address, Train
from glue.contract.pieces import Pieces, Views, fresh_memory
from glue.serialization.runs import Span, after, train_of

CALL = 65_507  # bytes of datagrams that leave in one system call at most: a few less over IPv6
CALLS = 4
"""System calls' worth of large datagrams that are made at once: so few that all of it is in a near cache until it has
left, and so many that it does not matter what a chunk costs beside its bytes."""


class ChunkBuffer:
    """A reusable buffer for bodies, with a view of each body.

    A copy into this buffer and a join of the views cost less than cutting the bodies apart.
    """

    __slots__ = ("_memory", "_views")

    def __init__(self) -> None:
        self._memory: mmap | None = None
        self._views: Views | None = None

    def chunks(self, head: bytes, spans: Sequence[Span], bodies: Pieces, extra: int) -> Iterator[bytearray]:
        """The datagrams of a run, the first with this header, of these spans, a chunk at a time.

        Each chunk but the last fills system calls, once each datagram is longer by `extra` bytes.
        """
        size = bodies.size
        count = max(CALLS * (CALL // (len(head) + size + extra)), 1)
        step = count * size
        memory, views = self._prepared(size, step)
        for start in range(0, bodies.length, step):
            laid = bodies.copy_to(memory, start, start + step)
            yield train_of(after(head, spans, start // size) if start else head, spans, views.of(laid))

    def _prepared(self, size: int, step: int) -> tuple[mmap, Views]:
        """Where so many bytes can be laid out, and views there of bodies of this size: valid until the next are."""
        memory, views = self._memory, self._views
        if memory is None or len(memory) < step:
            memory = self._memory = fresh_memory(max(CALLS * CALL, step))
            views = None
        if views is None or views.piece != size:
            views = self._views = Views(memoryview(memory), size, 0, size)
        return memory, views


class LazyTrain(Train):
    """The datagrams of a run, put together as they leave."""

    __slots__ = ("_bodies", "_buffer", "_data", "_head", "_spans")

    def __init__(
        self, address: Address | None, buffer: ChunkBuffer, head: bytes, spans: Sequence[Span], bodies: Pieces
    ) -> None:
        """Take the first header `head`, with counters at `spans` and fields wide enough for the run."""
        self.address = address
        self.segment = len(head) + bodies.size
        self._buffer = buffer
        self._head = head
        self._spans = spans
        self._bodies = bodies
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:  # type: ignore[override]  # it is never set
        """All datagrams in one piece, for callers other than the sending network."""
        if self._data is None:
            self._data = b"".join(self.chunks())
        return self._data

    def chunks(self, extra: int = 0) -> Iterator[bytearray]:
        """The data, a chunk at a time; see `Train.chunks`."""
        return self._buffer.chunks(self._head, self._spans, self._bodies, extra)
