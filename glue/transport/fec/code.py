"""The FEC code: any `count` of the source and repair symbols of a block give back all its `count` source symbols.

The code is a systematic Reed-Solomon code over GF(256) with a Cauchy matrix (Blömer et al. 1995, "An XOR-based
erasure-resilient coding scheme"; the field of RFC 5510). The columns are scaled so that the first repair symbol is the
plain XOR. A *source symbol* is a frame: its length, the header of the layers above, its body, and zeros up to the size
of the longest symbol. A repair symbol is called parity on the wire, its number in the block `row`.

Plain Python is fast with long integers. Therefore no product is formed byte by byte. Each coefficient is split into
its 8 bits, the symbols under each bit are added (XOR), and the 8 sums are joined by doubling. The sums take four
symbols at a time out of a table of their 16 combinations, shared by all rows (the method of the four Russians). 12
repair symbols for 52 frames of 1,280 bytes take some 0.4 ms on the machine of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import orjson

from glue.contract import Header
from glue.transport.fec import LENGTH, REPAIR_SYMBOLS, SOURCE_SYMBOLS

HEAD = 50 - LENGTH  # bytes of header in a symbol: the wire format leaves no more to the layers above
POLYNOMIAL = 0x11D  # x^8 + x^4 + x^3 + x^2 + 1, of which 2 is a generator (RFC 5510, section 8.1)

_POWERS = [1] * 510  # of the generator, twice over, so that a sum of two logarithms needs no modulo
for _index in range(1, 510):
    _power = _POWERS[_index - 1] << 1
    _POWERS[_index] = _power ^ POLYNOMIAL if _power > 255 else _power
_LOGARITHMS = {power: index for index, power in enumerate(_POWERS[:255])}

Planes = list[list[int] | None]
"""Coefficients of a row by bit, the highest first: for each four columns a number of 4 bits; None if all are 0."""


def multiply(a: int, b: int) -> int:
    """Return the product in GF(256)."""
    return _POWERS[_LOGARITHMS[a] + _LOGARITHMS[b]] if a and b else 0


def inverse(a: int) -> int:
    """Return 1 / a in GF(256); a is not 0."""
    return _POWERS[255 - _LOGARITHMS[a]]


def coefficient(row: int, column: int) -> int:
    """Return the coefficient of a source symbol: (x0 + y) / (x + y) with x = 255 - row and y = column."""
    return multiply(255 ^ column, inverse((255 - row) ^ column))


def _planes(coefficients: Sequence[int]) -> Planes:
    planes: Planes = []
    for bit in range(7, -1, -1):
        bits = [value >> bit & 1 for value in coefficients] + [0, 0, 0]
        plane = [
            a | b << 1 | c << 2 | d << 3
            for a, b, c, d in zip(bits[::4], bits[1::4], bits[2::4], bits[3::4], strict=False)
        ]
        planes.append(plane if any(plane) else None)
    return planes


@lru_cache(maxsize=REPAIR_SYMBOLS)
def _row(row: int) -> Planes:
    """Return a row's coefficients for the most columns; fewer columns use the first of them. Some 5 kB each."""
    return _planes([coefficient(row, column) for column in range(SOURCE_SYMBOLS)])


@lru_cache(maxsize=4)
def _low_bits(size: int) -> int:
    """Return a mask of the lowest bit of each byte."""
    return int.from_bytes(b"\1" * size)


def _combinations(symbols: Sequence[int]) -> list[list[int]]:
    """Return, for each four symbols, the sums of their 16 subsets."""
    tables = []
    padded = [*symbols, *[0] * (-len(symbols) % 4)]
    for start in range(0, len(padded), 4):
        table = [0]
        for symbol in padded[start : start + 4]:
            table += [symbol ^ other for other in table]
        tables.append(table)
    return tables


def _combined(rows: Sequence[Planes], symbols: Sequence[int], size: int) -> list[int]:
    """Return, for each row, the sum of the symbols times the row's coefficients."""
    tables, low = _combinations(symbols), _low_bits(size)
    sums = []
    for planes in rows:
        total = 0
        for plane in planes:
            if total:  # times 2, in each byte
                carry = total >> 7 & low
                total = (total ^ carry << 7) << 1 ^ carry * (POLYNOMIAL & 255)
            if plane is not None:
                for table, index in zip(tables, plane, strict=False):
                    total ^= table[index]
        sums.append(total)
    return sums


def encode(symbols: Sequence[bytes], rows: int) -> list[bytes]:
    """Return the first `rows` repair symbols of a block, each as long as the longest source symbol.

    At most SOURCE_SYMBOLS symbols and REPAIR_SYMBOLS rows.
    """
    size = max(map(len, symbols))
    numbers = [int.from_bytes(symbol, "little") for symbol in symbols]
    return [total.to_bytes(size, "little") for total in _combined([*map(_row, range(rows))], numbers, size)]


def decode(symbols: Sequence[bytes | None], repair: dict[int, bytes]) -> list[bytes]:
    """Return the missing source symbols (None) of a block, in order, from at least as many repair symbols by row.

    No symbol is longer than the first repair symbol; the returned symbols are as long as that.
    """
    missing = [column for column, symbol in enumerate(symbols) if symbol is None]
    rows = sorted(repair)[: len(missing)]
    size = len(repair[rows[0]])
    numbers = [int.from_bytes(symbol, "little") if symbol else 0 for symbol in symbols]
    known = _combined([_row(row) for row in rows], numbers, size)
    rest = [number ^ int.from_bytes(repair[row], "little") for number, row in zip(known, rows, strict=True)]
    solution = map(_planes, _inverted(rows, missing))
    return [total.to_bytes(size, "little") for total in _combined([*solution], rest, size)]


def _inverted(rows: Sequence[int], columns: Sequence[int]) -> list[list[int]]:
    """Return the inverse of a square part of the matrix, in closed form: but for factors it is a Cauchy matrix, too.

    Each entry is a product of sums x + y, x + x' and y + y' (Knuth, The Art of Computer Programming, volume 1, section
    1.2.3, exercise 41), computed with logarithms. The work grows with the square of the number of missing symbols,
    whatever rows the peer chose to send.
    """
    log, xs, ys = _LOGARITHMS, [255 - row for row in rows], columns
    by_row = [sum([log[x ^ y] for y in ys]) - sum([log[x ^ other] for other in xs if other != x]) for x in xs]
    by_column = [
        sum([log[x ^ y] for x in xs]) - sum([log[y ^ other] for other in ys if other != y]) - log[255 ^ y] for y in ys
    ]
    return [
        [_POWERS[(factor + part - log[x ^ y]) % 255] for x, part in zip(xs, by_row, strict=True)]
        for y, factor in zip(ys, by_column, strict=True)
    ]


# ------------------------------------------------------------------------------------------------------- symbols


def symbol_of(header: Header, body: bytes) -> bytes | None:
    """Return a frame as a source symbol, with the `header` of the layers above; None if the header is too long."""
    head = orjson.dumps(header)
    if len(head) >= HEAD:
        return None
    return (len(head) + 1 + len(body)).to_bytes(LENGTH, "little") + head + b"\n" + body


def frame_of(symbol: bytes) -> tuple[Header, bytes] | None:
    """Return the header and body of a source symbol, followed by zeros or not; None if it is malformed."""
    length = int.from_bytes(symbol[:LENGTH], "little")
    head, newline, body = symbol[LENGTH : LENGTH + length].partition(b"\n")
    if LENGTH + length > len(symbol) or symbol[LENGTH + length :].strip(b"\0") or not newline:
        return None
    try:
        header = orjson.loads(head)
    except ValueError:
        return None
    if header.__class__ is not dict or not all(entry.__class__ is list for entry in header.values()):
        return None
    return header, body
