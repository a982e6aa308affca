"""Headers of a whole run at the price of one.

The frames of a run have headers that differ only in the integers that count up by one (see
`glue.contract.Inbound`). In text, such an integer is what stands directly before a `]`. So the first header is
cut there once into constant pieces and counters; the headers of the following frames are then put together,
or checked, column by column with slices of ready-made digits, never one by one.
"""

from __future__ import annotations

from struct import Struct

_BLOCK = 1000  # counters advance within a table of their last three digits
_DIGITS = [b"%03d" % number for number in range(_BLOCK)]
_PADDED = [[b"%*d" % (width, number) for number in range(_BLOCK)] for width in range(4)]

Counter = tuple[int, int]
"""A counter in a header: its value and the width of its field in bytes, padding included."""


def split(head: bytes) -> tuple[list[bytes], list[Counter]]:
    """Cut a header into its constant pieces and the counters between them (one piece more than counters)."""
    pieces: list[bytes] = []
    counters: list[Counter] = []
    start = 0
    end = head.find(b"]")
    while end >= 0:
        begin = max(head.rfind(b",", start, end), head.rfind(b"[", start, end)) + 1
        try:
            value = int(head[begin:end])
        except ValueError:
            pass  # a list that ends in something that does not count
        else:
            pieces.append(head[start:begin])
            counters.append((value, end - begin))
            start = end
        end = head.find(b"]", end + 1)
    pieces.append(head[start:])
    return pieces, counters


def widened(head: bytes, count: int) -> bytes:
    """The header with its counters padded, so that all `count` headers of the run have the same length."""
    pieces, counters = split(head)
    out = [pieces[0]]
    for piece, (value, width) in zip(pieces[1:], counters, strict=True):
        out.append(b"%*d" % (max(width, len(b"%d" % (value + count - 1))), value))
        out.append(piece)
    return b"".join(out)


def columns(head: bytes, first: int, count: int) -> list[list[bytes]]:
    """The headers of `count` frames, from the `first`-th after `head` on, as columns to be joined row by row."""
    pieces, counters = split(head)
    out: list[list[bytes]] = []
    pending = pieces[0]
    for piece, (value, width) in zip(pieces[1:], counters, strict=True):
        prefix, column = _column(value + first, width, count)
        out.append([pending + prefix] * count)
        out.append(column)
        pending = piece
    out.append([pending] * count)
    return out


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
