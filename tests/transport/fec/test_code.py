"""The code: any `count` of a group's frames and parity blocks together give back the missing frames, byte by byte."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from glue.transport.fec.code import (
    FRAMES,
    HEAD,
    ROWS,
    coefficient,
    frame_of,
    inverse,
    mend,
    multiply,
    protect,
    symbol_of,
)

CHANCE = Random(1)


def group(count: int, longest: int = 40) -> list[bytes]:
    """Symbols of different lengths."""
    return [CHANCE.randbytes(CHANCE.randrange(1, longest)) for _ in range(count)]


def without(symbols: list[bytes], lost: tuple[int, ...]) -> list[bytes | None]:
    return [None if place in lost else symbol for place, symbol in enumerate(symbols)]


def padded(symbols: list[bytes], size: int) -> list[bytes]:
    return [symbol.ljust(size, b"\0") for symbol in symbols]


def naively_multiplied(a: int, b: int) -> int:
    product = 0
    for bit in range(8):
        if b >> bit & 1:
            product ^= a << bit
    for bit in range(14, 7, -1):
        if product >> bit & 1:
            product ^= 0x11D << bit - 8
    return product


def test_products_are_those_of_polynomials() -> None:
    for a in range(256):
        for b in (0, 1, 2, 3, 29, 128, 255, a):
            assert multiply(a, b) == naively_multiplied(a, b)
        assert not a or multiply(a, inverse(a)) == 1


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (1, 3), (2, 2), (3, 2), (5, 3), (7, 4)])
def test_every_pattern_of_losses_of_a_small_group_is_mended(count: int, rows: int) -> None:
    symbols = group(count)
    blocks = protect(symbols, rows)
    size = len(blocks[0])
    for missing in range(1, min(count, rows) + 1):
        for lost in combinations(range(count), missing):
            for arrived in combinations(range(rows), missing):
                found = mend(without(symbols, lost), {row: blocks[row] for row in arrived})
                assert found == padded([symbols[place] for place in lost], size)


def test_losses_at_random_of_the_largest_group_are_mended() -> None:
    symbols = group(FRAMES, 1300)
    blocks = protect(symbols, ROWS)
    for _ in range(20):
        missing = CHANCE.randrange(1, ROWS + 1)
        lost = tuple(sorted(CHANCE.sample(range(FRAMES), missing)))
        arrived = CHANCE.sample(range(ROWS), CHANCE.randrange(missing, ROWS + 1))
        found = mend(without(symbols, lost), {row: blocks[row] for row in arrived})
        assert found == padded([symbols[place] for place in lost], len(blocks[0]))


def test_a_block_is_the_sum_of_the_symbols_times_their_coefficients_and_the_first_one_their_xor() -> None:
    symbols = group(9)
    blocks = protect(symbols, 4)
    size = max(map(len, symbols))
    for row, block in enumerate(blocks):
        total = [0] * size
        for column, symbol in enumerate(symbols):
            for place, byte in enumerate(symbol):
                total[place] ^= naively_multiplied(coefficient(row, column), byte)
        assert block == bytes(total)
    assert {coefficient(0, column) for column in range(FRAMES)} == {1}
    documented = (1, 0), (1, 1), (1, 2), (31, 63)  # in docs/wire-format.md
    assert [coefficient(row, column) for row, column in documented] == [127, 252, 126, 200]


def test_what_is_mended_is_the_frame_with_the_header_that_the_layers_above_gave_it() -> None:
    header = {"fragment": [0, 1280, 65536, 7]}
    symbol = symbol_of(header, b"\0body\n\0")
    assert symbol is not None
    assert frame_of(symbol) == (header, b"\0body\n\0")
    assert frame_of(symbol + bytes(100)) == (header, b"\0body\n\0")
    assert symbol_of({"a": ["b" * HEAD]}, b"") is None


@pytest.mark.parametrize(
    "symbol",
    [
        b"", b"\1", b"\0\0", b"\5\0{}\n", b"\3\0{}\n!", b"\2\0{}", b"\3\0[]\n", b"\4\0nil\n", b"\x08\0{\"a\":1}\n",
        b"\x04\0{}}\n", b"\xff\xff{}\n",
    ],
)  # fmt: skip
def test_what_is_no_frame_is_told_apart(symbol: bytes) -> None:
    assert frame_of(symbol) is None
