"""Headers of a whole run at the price of one.

The frames of a run have headers that differ only in the integers that count up by one (see
`glue.contract.Inbound`). In text, such an integer is what stands directly before a `]`. So the first header is
cut there once into constant pieces and counters. The headers of the frames are then this one repeated, over
which the digits that change are laid as columns, by one strided assignment each, ready-made in a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from mmap import mmap
from operator import eq

from glue.contract import Address, Train
from glue.cutting import Pieces, Views, cut, fresh_memory

PLACES = 4  # decimal places of a counter that are laid as columns; what stands before them changes rarely
PERIOD = 10_000  # 10**PLACES: numbers after which the columns start again; 80 kB of tables
_UNIT = PERIOD // 10  # numbers after which the highest of these places changes
_TENS = [10**width for width in range(200)]  # the least number that does not fit in a field so wide

STAGE = 1040 << 10  # bytes of bodies that are made into a train at once: a message of 1 MiB, or any bundle

FIRST_BLOCK = 16  # headers compared at once while it is unknown where a run ends; twice as many in each next block

Counter = tuple[int, int]
"""A counter in a header: its value and the width of its field in bytes, padding included."""


_COUNTER = re.compile(rb"(?<=[\[,])( *[0-9]+)(?=\])")


def _digits(place: int) -> bytes:
    """The digit that the numbers 0 to PERIOD - 1 have in a decimal place."""
    unit: int = 10**place
    period = b"".join(b"%d" % digit * unit for digit in range(10))
    return period * (PERIOD // len(period))


_DIGITS = [_digits(place) for place in range(PLACES)]
_PADDED = [_DIGITS[0], *(b" " * 10**place + _DIGITS[place][10**place :] for place in range(1, PLACES))]
"""The same for numbers that nothing stands before: spaces where digits would be leading zeros."""
_COLUMNS = (_PADDED[:-1], _PADDED), (_DIGITS[:-1], _DIGITS)
"""The columns to lay, the last digit first: by whether any digit stands before these places, and whether the highest
of them changes."""


Span = tuple[int, int]
"""Where a counter stands in a header, padding included: from, and to before."""


def spans_of(head: bytes) -> list[Span]:
    """Where a header, and so any other of its form, has integers that end a list."""
    return [found.span(1) for found in _COUNTER.finditer(head)]


def widened(head: bytes, spans: Sequence[Span], count: int) -> tuple[bytes, list[Span]]:
    """The header with fields that are wide enough for `count` frames, and where they then stand."""
    grown = 0
    found = []
    for start, stop in spans:
        start += grown
        stop += grown
        last = int(head[start:stop]) + count - 1
        if last >= _TENS[stop - start]:
            more = len(b"%d" % last) - (stop - start)
            head = b"%b%b%b" % (head[:start], b" " * more, head[start:])
            grown += more
            stop += more
        found.append((start, stop))
    return head, found


class Pattern:
    """A header cut into what stays and what counts: for whatever may happen to a run. See `are_run` and `train_of`."""

    __slots__ = ("_counters", "_fields", "_template", "size")

    def __init__(self, head: bytes, spans: Sequence[Span]) -> None:
        """`spans` are those of `head`."""
        self.size = len(head)  # of each header, as long as the counters stay in their fields
        self._counters: list[Counter] = []
        self._fields: list[tuple[int, int, int, int]] = []  # value, start, numbers until other digits change too, end
        pieces = []
        after = 0
        for start, stop in spans:
            pieces.append(head[after:start])
            after = stop
            value, width = int(head[start:stop]), stop - start
            self._counters.append((value, width))
            self._fields.append((value, start, _TENS[width] if width < PLACES else PERIOD, stop))
        pieces.append(head[after:])
        self._template = b"%*d".join([piece.replace(b"%", b"%%") for piece in pieces])

    def head(self, index: int) -> bytes:
        """The header of the frame `index` frames after this."""
        return self._template % tuple([part for value, width in self._counters for part in (width, value + index)])

    def heads(self, count: int, first: int = 0) -> bytearray:
        """The headers of `count` frames, from the `first` after this on, one after the other.

        They have different lengths if a counter grows out of its field.
        """
        blocks = []
        for start, part in self._blocks(first, count):
            head = self.head(start)
            if len(head) == self.size:
                block = bytearray(head * part)
                self._count(block, self.size, start, part)
            else:
                block = bytearray().join([self.head(start + i) for i in range(part)])
            blocks.append(block)
        return blocks[0] if len(blocks) == 1 else bytearray().join(blocks)

    def train(self, bodies: Sequence[bytes | memoryview], first: int = 0) -> bytearray:
        """These bodies, of one size but the last, each behind its header, from that of the `first` frame on.

        The fields must be wide enough for all.
        """
        stride = self.size + len(bodies[0])
        blocks = []
        for start, count in self._blocks(first, len(bodies)):
            part = bodies if count == len(bodies) else bodies[start - first : start - first + count]
            block = bytearray(self.head(start)).join([b"", *part])
            self._count(block, stride, start, count)
            blocks.append(block)
        return blocks[0] if len(blocks) == 1 else bytearray().join(blocks)

    def _blocks(self, first: int, count: int) -> list[tuple[int, int]]:
        """Parts of a run, as first frame and count, within which the counters change in the last PLACES digits only."""
        blocks = []
        while count:
            part = count
            for value, _, period, _ in self._fields:
                left = period - (value + first) % period
                if left < part:
                    part = left
            blocks.append((first, part))
            first += part
            count -= part
        return blocks

    def _count(self, data: bytearray, stride: int, first: int, count: int) -> None:
        """Lay the counters of such a part over `data`, in which the same header stands at every `stride` bytes."""
        for value, start, _, end in self._fields:
            _lay(data, stride, start, end, value + first, count)

    def length(self, heads: bytes, start: int) -> int:
        """How many of `heads`, all of one size, from the one at `start` on are of the run.

        The first of them is, however its writer padded it.
        """
        size = self.size
        rest = len(heads) // size - start
        if rest > 1 and heads.startswith(self.head(rest - 1), (start + rest - 1) * size):
            expected = self.heads(rest - 1, 1)
            if len(expected) == (rest - 1) * size and heads.startswith(expected, (start + 1) * size):
                return rest
        at, block = 1, FIRST_BLOCK
        while at < rest:
            block = min(block, rest - at)
            found = heads[(start + at) * size : (start + at + block) * size]
            expected = self.heads(block, at)
            if expected != found:
                grown = len(expected) != len(found)
                single = [self.head(at + place) for place in range(block)] if grown else cut(expected, size)
                return at + sum(1 for _ in takewhile(bool, map(eq, cut(found, size), single)))
            at += block
            block *= 2
        return rest


def _lay(data: bytearray, stride: int, start: int, end: int, value: int, count: int) -> None:
    """Write the last digits of `count` numbers from `value` on over `data`, where the first stands at `start` to `end`.

    What is written over may be any digits; those before the last PLACES are left, and have to be the same for all.
    """
    low = value % PERIOD
    part = slice(low, low + count)
    for column in _COLUMNS[value >= PERIOD][low % _UNIT + count > _UNIT]:
        end -= 1
        data[end::stride] = column[part]
        if end == start:
            break


def are_run(heads: bytes, head: bytes, spans: Sequence[Span]) -> bool:
    """Whether all of `heads`, of one size, are the run that begins with `head`, the first of them, of these spans."""
    size = len(head)
    count = len(heads) // size
    expected = bytearray(head * count)
    for start, stop in spans:
        value, width = int(head[start:stop]), stop - start
        if value % PERIOD + count > PERIOD or (width < PLACES and value + count > _TENS[width]):
            return Pattern(head, spans).length(heads, 0) == count
        _lay(expected, size, start, stop, value, count)
    return expected == heads


def train_of(head: bytes, spans: Sequence[Span], bodies: Sequence[bytes | memoryview]) -> bytearray:
    """These bodies, of one size but the last, each behind its header, the first being `head`, of these spans.

    Its fields must be wide enough.
    """
    count = len(bodies)
    stride = len(head) + len(bodies[0])
    values = [int(head[start:stop]) for start, stop in spans]
    for value in values:
        if value % PERIOD + count > PERIOD:
            return Pattern(head, spans).train(bodies)
    train = bytearray(head).join([b"", *bodies])
    for value, (start, end) in zip(values, spans, strict=True):
        _lay(train, stride, start, end, value, count)
    return train


class Rows:
    """Datagrams from one address, in the order they came, cut at the end of the first header.

    Cut the same, the trains that one message arrives in are looked at as one.
    """

    __slots__ = ("_bodies", "_heads", "address", "count", "full", "segment", "size")

    def __init__(self, address: Address | None, size: int, segment: int) -> None:
        self.address = address
        self.size = size  # of a header
        self.segment = segment
        self.count = 0
        self.full = True  # whether the last one is as long as the others, so that more can follow
        self._heads: list[bytes] = []
        self._bodies: list[bytes] = []

    def continues(self, train: Train) -> bool:
        """Whether a train seems to go on with these; what does not is found when the headers are read."""
        return self.full and train.segment == self.segment and train.address == self.address

    def fits(self, train: Train, size: int) -> bool:
        """Whether a train, whose first header has this size, can be added."""
        alike = train.segment == self.segment or len(train.data) <= min(train.segment, self.segment)
        return alike and self.full and size == self.size and train.address == self.address

    def add(self, train: Train) -> None:
        """Add a train's datagrams; of a last one too short to hold the same header all counts as header."""
        heads, bodies = train.split(self.size)
        self._heads.append(heads)
        self._bodies.append(b"".join(bodies.parts))
        count, rest = divmod(len(train.data), self.segment)
        self.count += count + (rest > 0)
        self.full = not rest

    def lifted(self) -> tuple[bytes, Pieces]:
        """All headers, one after the other, and all bodies."""
        heads = self._heads[0] if len(self._heads) == 1 else b"".join(self._heads)
        return heads, Pieces(self._bodies, self.segment - self.size, self.count)


class Stage:
    """Where bodies are laid out to be joined with their headers, with views that are made once.

    Copying them here in one piece and joining the views costs less than cutting them apart.
    """

    __slots__ = ("_memory", "_views")

    def __init__(self) -> None:
        self._memory: mmap | None = None
        self._views: Views | None = None

    def trains(self, pattern: Pattern, bodies: Pieces) -> Iterator[bytearray]:
        """The datagrams of a run in portions of STAGE bytes."""
        count = STAGE // bodies.size
        for first in range(0, len(bodies), count):
            part = bodies if count >= len(bodies) else bodies[first : first + count]
            yield pattern.train(self.views(part), first)

    def views(self, bodies: Pieces) -> Sequence[memoryview]:
        """The bodies, at most STAGE bytes, laid out here: valid until the next are."""
        size, views = bodies.size, self._views
        memory = self._memory
        if memory is None:
            memory = self._memory = fresh_memory(STAGE)
        if views is None or views.piece != size:
            views = self._views = Views(memoryview(memory), size, 0, size)
        bodies.copy_to(memory)
        return views.of(bodies.length)
