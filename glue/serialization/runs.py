"""Headers of a whole run at the price of one.

The frames of a run have headers that differ only in the integers that count up by one (see
`glue.contract.Inbound`). In text, such an integer is what stands directly before a `]`. So the first header is
cut there once into constant pieces and counters. The headers of the frames are then this one repeated, over
which the digits that change are laid as columns, by one strided assignment each, ready-made in a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import eq
from struct import Struct

from glue.contract import Address, Train
from glue.cutting import cut

PLACES = 4  # decimal places of a counter that are laid as columns; what stands before them changes rarely
PERIOD = 10_000  # 10**PLACES: numbers after which the columns start again; 80 kB of tables

FIRST_BLOCK = 16  # headers compared at once while it is unknown where a run ends; twice as many in each next block

Counter = tuple[int, int]
"""A counter in a header: its value and the width of its field in bytes, padding included."""


def _digits(place: int) -> bytes:
    """The digit that the numbers 0 to PERIOD - 1 have in a decimal place."""
    unit: int = 10**place
    period = b"".join(b"%d" % digit * unit for digit in range(10))
    return period * (PERIOD // len(period))


_DIGITS = [_digits(place) for place in range(PLACES)]
_PADDED = [_DIGITS[0], *(b" " * 10**place + _DIGITS[place][10**place :] for place in range(1, PLACES))]
"""The same for numbers that nothing stands before: spaces where digits would be leading zeros."""


class Pattern:
    """A header cut into what stays and what counts."""

    __slots__ = ("_fields", "_template", "counters", "size")

    def __init__(self, pieces: list[bytes], counters: list[Counter]) -> None:
        """`pieces` are one more than `counters`, which stand between them."""
        self.counters = counters
        self._template = b"%*d".join([piece.replace(b"%", b"%%") for piece in pieces])
        self._fields: list[tuple[int, int, int]] = []  # value, numbers after which others digits change too, end
        end = 0
        for piece, (value, width) in zip(pieces, counters, strict=False):
            end += len(piece) + width
            self._fields.append((value, 10**width if width < PLACES else PERIOD, end))
        self.size = end + len(pieces[-1])  # of each header, as long as the counters stay in their fields

    @classmethod
    def of(cls, head: bytes, count: int = 1) -> Pattern:
        """Cut a header at each integer that ends a list; the fields are made wide enough for `count` headers."""
        pieces: list[bytes] = []
        counters: list[Counter] = []
        constant = b""
        *lists, tail = head.split(b"]")
        for text in lists:
            begin = max(text.rfind(b","), text.rfind(b"[")) + 1
            number = text[begin:]
            if number.strip(b" ").isdigit():
                value = int(number)
                pieces.append(constant + text[:begin])
                counters.append((value, max(len(number), len(str(value + count - 1)))))
                constant = b"]"
            else:  # a list that ends in something that does not count
                constant += text + b"]"
        pieces.append(constant + tail)
        return cls(pieces, counters)

    def head(self, index: int) -> bytes:
        """The header of the frame `index` frames after this."""
        return self._template % tuple([part for value, width in self.counters for part in (width, value + index)])

    def heads(self, count: int, first: int = 0) -> bytearray:
        """The headers of `count` frames, from the `first` after this on, one after the other.

        They have different lengths if a counter grows out of its field.
        """
        heads = bytearray()
        for start, part in self._blocks(first, count):
            head = self.head(start)
            if len(head) == self.size:
                block = bytearray(head * part)
                self._count(block, self.size, start, part)
            else:
                block = bytearray().join([self.head(start + i) for i in range(part)])
            heads += block
        return heads

    def train(self, bodies: Sequence[bytes]) -> bytearray:
        """These bodies, of one size but the last, each behind its header; the fields must be wide enough for all."""
        stride = self.size + len(bodies[0])
        train = bytearray()
        for start, count in self._blocks(0, len(bodies)):
            block = bytearray(self.head(start)).join([b"", *bodies[start : start + count]])
            self._count(block, stride, start, count)
            train = train + block if train else block
        return train

    def _blocks(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Parts of a run, as first frame and count, within which the counters change in the last PLACES digits only."""
        stop = first + count
        while first < stop:
            count = stop - first
            for value, period, _ in self._fields:
                left = period - (value + first) % period
                if left < count:
                    count = left
            yield first, count
            first += count

    def _count(self, data: bytearray, stride: int, first: int, count: int) -> None:
        """Lay the counters of such a part over `data`, in which the same header stands at every `stride` bytes."""
        for value, _, end in self._fields:
            value += first
            last = value + count - 1
            low = value % PERIOD
            part = slice(low, low + count)
            for column in _PADDED if value < PERIOD else _DIGITS:
                if value == last:
                    break
                end -= 1
                data[end::stride] = column[part]
                value //= 10
                last //= 10

    def length(self, heads: list[bytes], start: int) -> int:
        """How many of `heads` from `start` on are of the run; the first of them is, however its writer padded it."""
        rest = len(heads) - start
        if rest > 1 and self.head(rest - 1) == heads[-1] and self.heads(rest - 1, 1) == b"".join(heads[start + 1 :]):
            return rest
        at, block = 1, FIRST_BLOCK
        while at < rest:
            block = min(block, rest - at)
            found = heads[start + at : start + at + block]
            expected = self.heads(block, at)
            together = b"".join(found)
            if expected != together:
                grown = len(expected) != len(together)
                single = [self.head(at + place) for place in range(block)] if grown else cut(expected, self.size)
                return at + sum(1 for _ in takewhile(bool, map(eq, found, single)))
            at += block
            block *= 2
        return rest


class Rows:
    """Datagrams from one address, in the order they came, cut at the end of the first header.

    Cut the same, the trains that one message arrives in are looked at as one.
    """

    __slots__ = ("address", "bodies", "full", "heads", "segment", "size")

    def __init__(self, address: Address | None, size: int, segment: int) -> None:
        self.address = address
        self.size = size  # of a header
        self.segment = segment
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.full = True  # whether the last one is as long as the others, so that more can follow

    def continues(self, train: Train) -> bool:
        """Whether a train seems to go on with these; what does not is found when the headers are read."""
        return self.full and train.segment == self.segment and train.address == self.address

    def fits(self, train: Train, size: int) -> bool:
        """Whether a train, whose first header has this size, can be added."""
        alike = train.segment == self.segment or len(train.data) <= min(train.segment, self.segment)
        return alike and self.full and size == self.size and train.address == self.address

    def add(self, data: bytes | bytearray | memoryview, cutters: Cutters) -> None:
        """Add a train's datagrams; a last one too short to hold the same header counts as header as a whole."""
        size, segment = self.size, self.segment
        count, rest = divmod(len(data), segment)
        self.full = not rest
        if size <= len(data) <= segment:
            self.heads.append(bytes(data[:size]))
            self.bodies.append(bytes(data[size:]))
            return
        short = 0 < rest < size
        last = segment
        if rest and not short:
            count, last = count + 1, rest
        if count:
            cutter = cutters.get(size, segment, count, last)
            self.heads += cutter.heads.unpack_from(data)
            self.bodies += cutter.bodies.unpack_from(data)
        if short:
            self.heads.append(bytes(data[count * segment :]))
            self.bodies.append(b"")


class Cutter:
    """Lifts all headers, or all bodies, out of a train in one call each."""

    __slots__ = ("bodies", "heads")

    def __init__(self, head: int, segment: int, count: int, last: int) -> None:
        body, tail = segment - head, last - head
        self.heads = Struct(f"{head}s{body}x" * (count - 1) + f"{head}s{tail}x")
        self.bodies = Struct(f"{head}x{body}s" * (count - 1) + f"{head}x{tail}s")


class Cutters:
    """Remembers the cutters in use; cleared when full, so that odd sizes from a peer cost no memory."""

    __slots__ = ("_known",)
    LIMIT = 256  # each holds 2 Structs of at most 64 + 64 codes, some 10 kB: 2.5 MB in all

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, int], Cutter] = {}

    def get(self, head: int, segment: int, count: int, last: int) -> Cutter:
        """For `count` datagrams of `segment` bytes, the last of `last` bytes, each with a header of `head`."""
        key = (head, segment, count, last)
        cutter = self._known.get(key)
        if cutter is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            cutter = self._known[key] = Cutter(*key)
        return cutter
