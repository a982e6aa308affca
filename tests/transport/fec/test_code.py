"""The FEC code: any `count` source and repair symbols of a block give back the missing frames, byte by byte."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from glue.transport.fec import REPAIR_SYMBOLS, SOURCE_SYMBOLS
from glue.transport.fec.code import (
    HEAD,
    coefficient,
    decode,
    encode,
    frame_of,
    inverse,
    multiply,
    symbol_of,
)

CHANCE = Random(1)


def source_block(count: int, longest: int = 40) -> list[bytes]:
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
def test_every_pattern_of_losses_in_a_small_block_is_decoded(count: int, rows: int) -> None:
    symbols = source_block(count)
    repair = encode(symbols, rows)
    size = len(repair[0])
    for missing in range(1, min(count, rows) + 1):
        for lost in combinations(range(count), missing):
            for arrived in combinations(range(rows), missing):
                found = decode(without(symbols, lost), {row: repair[row] for row in arrived})
                assert found == padded([symbols[place] for place in lost], size)


def test_random_losses_in_the_largest_block_are_decoded() -> None:
    symbols = source_block(SOURCE_SYMBOLS, 1300)
    repair = encode(symbols, REPAIR_SYMBOLS)
    for _ in range(20):
        missing = CHANCE.randrange(1, REPAIR_SYMBOLS + 1)
        lost = tuple(sorted(CHANCE.sample(range(SOURCE_SYMBOLS), missing)))
        arrived = CHANCE.sample(range(REPAIR_SYMBOLS), CHANCE.randrange(missing, REPAIR_SYMBOLS + 1))
        found = decode(without(symbols, lost), {row: repair[row] for row in arrived})
        assert found == padded([symbols[place] for place in lost], len(repair[0]))


def test_a_repair_symbol_is_the_sum_of_symbols_times_coefficients_and_the_first_their_xor() -> None:
    symbols = source_block(9)
    repair = encode(symbols, 4)
    size = max(map(len, symbols))
    for row, block in enumerate(repair):
        total = [0] * size
        for column, symbol in enumerate(symbols):
            for place, byte in enumerate(symbol):
                total[place] ^= naively_multiplied(coefficient(row, column), byte)
        assert block == bytes(total)
    assert {coefficient(0, column) for column in range(SOURCE_SYMBOLS)} == {1}
    documented = (1, 0), (1, 1), (1, 2), (31, 63)  # in docs/wire-format.md
    assert [coefficient(row, column) for row, column in documented] == [127, 252, 126, 200]


def test_a_decoded_frame_has_the_header_of_the_layers_above() -> None:
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
def test_a_symbol_that_holds_no_frame_is_refused(symbol: bytes) -> None:
    assert frame_of(symbol) is None
