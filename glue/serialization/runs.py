"""Headers of a whole run at the price of one.

The frames of a run have headers that differ only in the integers that count up by one (see
`glue.contract.Inbound`). In text, such an integer is what stands directly before a `]`. So the first header is
cut there once into constant pieces and counters; the headers of the following frames are then put together,
or checked, column by column with slices of ready-made digits, never one by one.
"""

from __future__ import annotations

from struct import Struct

from glue.contract import Inbound

_BLOCK = 1000  # counters advance within a table of their last three digits
_DIGITS = [b"%03d" % number for number in range(_BLOCK)]
_PADDED = [[b"%*d" % (width, number) for number in range(_BLOCK)] for width in range(4)]

Counter = tuple[int, int]
"""A counter in a header: its value and the width of its field in bytes, padding included."""


class Pattern:
    """A header cut into what stays and what counts."""

    __slots__ = ("counters", "pieces")

    def __init__(self, pieces: list[bytes], counters: list[Counter]) -> None:
        self.pieces = pieces  # one more than counters, which stand between them
        self.counters = counters

    @classmethod
    def of(cls, head: bytes) -> Pattern:
        """Cut a header at each integer that ends a list."""
        pieces: list[bytes] = []
        counters: list[Counter] = []
        constant = b""
        *lists, tail = head.split(b"]")
        for text in lists:
            begin = max(text.rfind(b","), text.rfind(b"[")) + 1
            number = text[begin:]
            if number.strip(b" ").isdigit():
                pieces.append(constant + text[:begin])
                counters.append((int(number), len(number)))
                constant = b"]"
            else:  # a list that ends in something that does not count
                constant += text + b"]"
        pieces.append(constant + tail)
        return cls(pieces, counters)

    def widened(self, count: int) -> Pattern:
        """The same with its counters padded, so that all `count` headers of the run have the same length."""
        counters = [(value, max(width, len(str(value + count - 1)))) for value, width in self.counters]
        return Pattern(self.pieces, counters)

    @property
    def size(self) -> int:
        """Bytes of each header."""
        return sum(map(len, self.pieces)) + sum(width for _, width in self.counters)

    def columns(self, count: int, first: int = 0) -> list[list[bytes]]:
        """The headers of `count` frames, from the `first` after this on, as columns to be joined row by row."""
        out: list[list[bytes]] = []
        constant = self.pieces[0]
        for piece, (value, width) in zip(self.pieces[1:], self.counters, strict=True):
            prefix, column = _column(value + first, width, count)
            out.append([constant + prefix] * count)
            out.append(column)
            constant = piece
        out.append([constant] * count)
        return out


class Run:
    """A run of frames that the next train may go on with, while it is `open`: while its last frame was full."""

    __slots__ = ("frames", "head_size", "open", "pattern", "segment")

    def __init__(self, frames: Inbound, pattern: Pattern, head_size: int, segment: int, open: bool) -> None:
        self.frames = frames
        self.pattern = pattern
        self.head_size = head_size
        self.segment = segment
        self.open = open


def _column(value: int, width: int, count: int) -> tuple[bytes, list[bytes]]:
    """`count` consecutive numbers in fields of `width`: what they share, and what remains of each."""
    high, low = divmod(value, _BLOCK)
    if low + count > _BLOCK or value < 0:
        return b"", [b"%*d" % (width, value + i) for i in range(count)]
    if high:
        return b"%*d" % (width - 3, high), _DIGITS[low : low + count]
    return b" " * (width - 3), _PADDED[min(width, 3)][low : low + count]


def interleaved(parts: list[list[bytes]]) -> bytes:
    """Join columns row by row."""
    width = len(parts)
    row_major: list[bytes] = [b""] * (width * len(parts[0]))
    for index, column in enumerate(parts):
        row_major[index::width] = column
    return b"".join(row_major)


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
