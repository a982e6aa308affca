"""Headers of a whole run, written and compared together.

The headers of a run differ only in counters, integers that grow by one from frame to frame (see
`glue.contract.Inbound`). In the text, a counter stands directly before a `]`. The first header is repeated for all
frames. Then each changing digit is written as a column, with one strided assignment from a prepared table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from operator import eq

from glue.contract import Address, Train
from glue.contract.pattern import LazyPattern
from glue.contract.pieces import Pieces, cut

PLACES = 4  # decimal places with prepared columns; higher places change rarely
PERIOD = 10_000  # 10**PLACES: numbers after which those columns start again
_STEADY = PERIOD // 10  # numbers in which the last of these places most often stays as it is in the first header
_TENS: list[int] = [10**place for place in range(200)]  # the unit of a place; the least number with so many before it

FIRST_BLOCK = 16  # headers compared at once while it is unknown where a run ends; twice as many in each next block

_COUNTER = LazyPattern(rb"(?<=[\[,])( *[0-9]+)(?=\])")


def _digits(place: int) -> bytes:
    """The digit that the numbers 0 to PERIOD - 1 have in a decimal place."""
    unit: int = 10**place
    period = b"".join(b"%d" % digit * unit for digit in range(10))
    return period * (PERIOD // len(period))


_DIGITS = [_digits(place) for place in range(PLACES)]
_PADDED = [_DIGITS[0], *(b" " * 10**place + _DIGITS[place][10**place :] for place in range(1, PLACES))]
"""The digits of numbers below PERIOD, with spaces in place of leading zeros."""
_COLUMNS = [one + other for one, other in zip(_PADDED, _DIGITS, strict=True)], [digits * 2 for digits in _DIGITS]
"""The ready-made columns, 160 kB, the last digit first: of numbers that begin below PERIOD, and of others."""


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


def train_of(head: bytes, spans: Sequence[Span], bodies: Sequence[bytes | memoryview]) -> bytearray:
    """Join bodies with their headers; `head` is the first header, with counters at `spans`.

    Only the last body may differ in size. The fields of `head` must be wide enough for all counters (see `widened`).
    """
    train = bytearray(head).join([b"", *bodies])
    _count(train, len(head) + len(bodies[0]), head, spans, len(bodies))
    return train


def are_run(heads: bytes, head: bytes, spans: Sequence[Span]) -> bool:
    """Whether the concatenated `heads` are exactly the run that begins with `head`."""
    count = len(heads) // len(head)
    expected = bytearray(head) * count
    return _count(expected, len(head), head, spans, count) and expected == heads


def counts_on(train: Train, head: bytes, spans: Sequence[Span]) -> bool:
    """Whether a train's last header continues the run of `head`, and the first counter does in all headers between.

    Each datagram must have at least the size of a header. Headers are read in place. Of the headers between first and
    last, only the first counter and the byte behind it are read.
    """
    last = (len(train.data) - 1) // train.segment
    ending = bytes(train.data[last * train.segment :][: len(head)])
    found = _columns(head, spans[:1], last + 1)
    if found is None or ending != after(head, spans, last):
        return False
    places, expected = found
    start, stop = spans[0]
    steady = [*{*range(start, stop + 1)}.difference(places)]  # what all have in common
    expected += [head[place : place + 1] * (last + 1) for place in steady]
    return train.columns([*places, *steady]) == expected


def run_length(heads: bytes, at: int, head: bytes, spans: Sequence[Span]) -> int:
    """The number of headers in the run that begins with `head` at byte `at` of `heads`.

    All headers have the size of `head`, and counters are padded with spaces. `spans` must not be empty.
    """
    size = len(head)
    left = min((len(heads) - at) // size, _room(head, spans))
    if not at and heads.startswith(_heads(head, spans, left)):  # as nearly always
        return left
    length, block = 1, FIRST_BLOCK
    while length < left:
        block = min(block, left - length)
        found = heads[at + length * size : at + (length + block) * size]
        expected = _heads(after(head, spans, length), spans, block)
        if expected != found:
            return length + sum(1 for _ in takewhile(bool, map(eq, cut(found, size), cut(expected, size))))
        length += block
        block *= 2
    return length


def _room(head: bytes, spans: Sequence[Span]) -> int:
    """The number of headers, this one included, until a counter outgrows its field."""
    return min([_TENS[stop - start] - int(head[start:stop]) for start, stop in spans])


def after(head: bytes, spans: Sequence[Span], index: int) -> bytes:
    """The header `index` frames after `head`; the fields of `head` must be wide enough."""
    found = bytearray(head)
    for start, stop in spans:
        found[start:stop] = b"%*d" % (stop - start, int(head[start:stop]) + index)
    return bytes(found)


def _heads(head: bytes, spans: Sequence[Span], count: int) -> bytearray:
    """The headers of `count` frames from that of `head` on, one after the other."""
    heads = bytearray(head) * count
    _count(heads, len(head), head, spans, count)
    return heads


def _count(data: bytearray, stride: int, head: bytes, spans: Sequence[Span], count: int) -> bool:
    """Let the headers in `data`, `head` at every `stride` bytes, `count` times, count from one to the next.

    False if a field is not wide enough; they are of no use then.
    """
    found = _columns(head, spans, count)
    if found is None:
        return False
    for place, column in zip(*found, strict=True):
        data[place::stride] = column
    return True


def _columns(head: bytes, spans: Sequence[Span], count: int) -> tuple[list[int], list[bytes]] | None:
    """The byte positions that change within a run of `count` headers, and the column of bytes at each.

    None if a field is not wide enough.
    """
    places: list[int] = []
    found: list[bytes] = []
    for start, stop in spans:
        value, width = int(head[start:stop]), stop - start
        end = value + count
        if end > _TENS[width]:
            return None
        low = value % PERIOD
        laid = 0
        if count <= PERIOD:
            part = slice(low, low + count)
            laid = width if width < PLACES or value // _STEADY != (end - 1) // _STEADY else PLACES - 1
            ready = _COLUMNS[value >= PERIOD][:laid]
            laid = len(ready)
            places += range(stop - 1, stop - 1 - laid, -1)
            found += [column[part] for column in ready]
        if low + count > PERIOD:  # what stands before these places changes, too
            for place in range(laid, width):
                places.append(stop - 1 - place)
                found.append(_column(place, value, count))
    return places, found


def _column(place: int, value: int, count: int) -> bytes:
    """The digits of `count` numbers from `value` on in one decimal place; a space for each shorter number."""
    if place < PLACES:
        column = _COLUMNS[value >= PERIOD][place][value % PERIOD :][:count]
        return column + (_DIGITS[place] * (count // PERIOD))[: count - len(column)]
    unit, end = _TENS[place], value + count
    parts = []
    while value < end:
        part = min(end - value, unit - value % unit)
        parts.append((b"%d" % (value // unit % 10) if value >= unit else b" ") * part)
        value += part
    return b"".join(parts)


class Rows:
    """Datagrams from one address in order of arrival, each cut at the size of the first header.

    Several trains with fragments of one message are read together in this way.
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
        """Whether a train may continue these datagrams, by address and segment; headers are compared later."""
        return self.full and train.segment == self.segment and train.address == self.address

    def fits(self, train: Train, size: int) -> bool:
        """Whether a train with a first header of `size` bytes can be added."""
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

    def split(self) -> tuple[bytes, Pieces]:
        """All headers, one after the other, and all bodies."""
        heads = self._heads[0] if len(self._heads) == 1 else b"".join(self._heads)
        return heads, Pieces(self._bodies, self.segment - self.size, self.count)
