"""Fast reading of headers: headers that differ only in digits are read together.

With every digit replaced by 0, the headers of a stream are equal as long as no number grows wider. This text is a
*template*. The first header of a template is parsed as JSON, and the parser notes the position of each number. For
the other headers, the digits are columns of a matrix, and sums with powers of ten give the numbers. Headers without a
template, or with a rare template, are parsed alone. Therefore the result always equals the result of
`header.interpret`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark.read.entries import LARGEST_HEADER, LIMIT
from spark.read.header import INTEGERS, TEXTS, MalformedHeaderError, interpret
from spark.read.parse import loads
from spark.read.records import Booleans, Bytes, Integers

FEW = 12
"""Least headers of a template in a block for which columns are cheaper than parsing."""

MOST_TEMPLATES = 4096
"""Most templates kept, about 8 kB each: 32 MiB. A stream has a few dozen, as its numbers grow."""

MOST_DIGITS = 18
"""Most digits of a number that is surely below 2^63."""

SEALED = "sealed"
"""The cause of skipped datagrams that only their key opens."""

FIRST_FORMAT, LAST_FORMAT, OPEN_SIZE = 0xE1, 0xEC, 24
"""The first bytes of sealed datagrams, and the size of their open part: "Sealed datagrams" in docs/wire-format.md."""

STARTS = ord("{")
_NEWLINE, _ZERO, _NINE, _QUOTE = ord("\n"), ord("0"), ord("9"), ord('"')
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*')
_ID_AFTER = 11  # bytes of `{"glue":[1,`, after which the sender's id is the next string
_ID_WITHIN = 16  # bytes in which the id's opening quote is searched: a network id of five digits and spaces
_MULTIPLIERS = np.random.default_rng(7).integers(1, 1 << 63, LARGEST_HEADER // 8 + 2, np.uint64) | np.uint64(1)


class Number(int):
    """An integer of a parsed header with its position among the header's numbers."""

    index: int


class Columns:
    """Columns of a block's headers: integers and codes of texts, both with -1 for null."""

    def __init__(self, count: int) -> None:
        self.good: Booleans = np.zeros(count, np.bool_)
        self.size: Integers = np.zeros(count, np.int64)
        """Bytes of each header."""
        self.integers: dict[str, Integers] = {name: np.full(count, -1, np.int64) for name in INTEGERS}
        self.codes: dict[str, Integers] = {name: np.full(count, -1, np.int64) for name in TEXTS}
        self.texts: dict[str, dict[str, int]] = {name: {} for name in TEXTS}

    def code(self, name: str, text: str) -> int:
        """Return the code of a text in this column."""
        known = self.texts[name]
        return known.setdefault(text, len(known))


class Template:
    """Pattern of headers that differ only in digits; made from one header."""

    __slots__ = ("constants", "digits", "firsts", "fixed", "letters", "numbers", "size", "weights", "wide")

    def __init__(self, sample: bytes) -> None:
        """Raises MalformedHeaderError for a header without a usable template."""
        spans = [found.span() for found in _STRING_OR_NUMBER.finditer(sample) if found[0][0] != _QUOTE]
        if any(not sample[start:stop].isdigit() or stop - start > MOST_DIGITS for start, stop in spans):
            raise MalformedHeaderError("malformed header")
        columns = interpret(_parse_numbered(sample, len(spans)))
        self.size = len(sample)
        self.letters = np.frombuffer(sample, np.uint8)
        self.digits = np.concatenate([np.arange(start, stop) for start, stop in spans])
        self.weights = np.concatenate([10 ** np.arange(stop - start - 1, -1, -1) for start, stop in spans])
        self.firsts = np.cumsum([0, *(stop - start for start, stop in spans[:-1])])
        self.wide = np.array([start for start, stop in spans if stop - start > 1], np.int64)
        self.fixed = np.ones(self.size, np.bool_)
        self.fixed[self.digits] = False
        self.numbers = {name: value.index for name, value in columns.items() if isinstance(value, Number)}
        self.constants = {name: value for name, value in columns.items() if name not in self.numbers}

    def read(self, heads: Bytes, rows: Integers, columns: Columns) -> Integers:
        """Read the headers in these rows, and return the rows that do not fit."""
        mine = heads[rows, : self.size]
        places = mine[:, self.digits]
        values = np.add.reduceat((places - np.int64(_ZERO)) * self.weights, self.firsts, axis=1)
        fits = ((mine == self.letters) | ~self.fixed).all(axis=1)
        fits &= ((places >= _ZERO) & (places <= _NINE)).all(axis=1)
        fits &= (mine[:, self.wide] != _ZERO).all(axis=1)  # JSON has no leading zeros
        fits &= (values < LIMIT).all(axis=1)
        fits &= values[:, self.numbers["version"]] == 1
        fits &= values[:, self.numbers["network"]] <= 0xFFFF
        misfits: Integers = rows[~fits]
        if misfits.size:
            rows, values = rows[fits], values[fits]
        for name, index in self.numbers.items():
            if name != "version":
                columns.integers[name][rows] = values[:, index]
        for name, value in self.constants.items():
            if isinstance(value, str):
                columns.codes[name][rows] = columns.code(name, value)
            else:
                columns.integers[name][rows] = value
        columns.good[rows] = True
        return misfits


def _parse_numbered(sample: bytes, count: int) -> Any:
    """Parse a header with each integer as a `Number`, numbered in the order of the text."""
    numbers: list[Number] = []

    def number(text: str) -> Number:
        numbers.append(Number(text))
        numbers[-1].index = len(numbers) - 1
        return numbers[-1]

    try:
        loads(sample)  # stricter than `json`; a header must pass both
        header = json.loads(sample, parse_int=number)
    except (ValueError, RecursionError) as error:
        raise MalformedHeaderError("malformed header") from error
    if len(numbers) != count:
        raise MalformedHeaderError("malformed header")
    return header


class Decoder:
    """Reads the headers of consecutive blocks, and keeps the templates."""

    def __init__(self) -> None:
        self._templates: dict[int, Template | None] = {}

    def decode(self, buffer: Bytes, begin: Integers, captured: Integers, skipped: Counter[str]) -> Columns:
        """Return the columns of the datagrams at `begin`. Others than glue's are counted in `skipped`."""
        columns = Columns(len(begin))
        braced = np.flatnonzero((buffer[begin] == STARTS) & (captured > 0))
        sealed = int(np.count_nonzero(sealed_at(buffer, begin, captured)))
        skipped[SEALED] += sealed
        skipped["other UDP"] += len(begin) - len(braced) - sealed
        heads = np.lib.stride_tricks.sliding_window_view(buffer, LARGEST_HEADER)[begin[braced]]
        newline = heads == _NEWLINE
        size = newline.argmax(axis=1)
        ended = newline[np.arange(len(heads)), size] & (size < captured[braced])
        cut = ~ended & (captured[braced] < LARGEST_HEADER)
        skipped["cut short in the header"] += int(np.count_nonzero(cut))
        skipped["other UDP"] += int(np.count_nonzero(~ended & ~cut))
        rows, heads = braced[ended], heads[ended]
        columns.size[rows] = size[ended] + 1
        self._decode(heads, size[ended], rows, columns, skipped)
        return columns

    def _decode(self, heads: Bytes, size: Integers, target: Integers, columns: Columns, skipped: Counter[str]) -> None:
        """Read headers of these sizes (without newline) into the rows `target` of the columns."""
        local = Columns(len(heads))
        single: list[Integers] = []
        for key, rows in _alike(heads, size):
            template = self._template(key, heads, rows, size)
            single.append(rows if template is None else template.read(heads, rows, local))
        for row in np.concatenate(single).tolist() if single else ():
            try:
                _read_one(heads[row, : size[row]].tobytes(), row, local)
            except MalformedHeaderError as error:
                skipped[str(error)] += 1
        columns.texts = local.texts
        columns.good[target] = local.good
        for name, values in (*local.integers.items(), *local.codes.items()):
            (columns.integers if name in columns.integers else columns.codes)[name][target] = values

    def _template(self, key: int, heads: Bytes, rows: Integers, size: Integers) -> Template | None:
        """Return the template of these headers, None if it is impossible or not worth the cost."""
        if key not in self._templates:
            if len(rows) < FEW:
                return None
            if len(self._templates) >= MOST_TEMPLATES:
                self._templates.clear()
            try:
                self._templates[key] = Template(heads[rows[0], : size[rows[0]]].tobytes())
            except MalformedHeaderError:
                self._templates[key] = None
        template = self._templates[key]
        return template if template is not None and (size[rows] == template.size).all() else None


def sealed_at(buffer: Bytes, begin: Integers, captured: Integers) -> Booleans:
    """Return which of the datagrams at `begin` are sealed, with their open part captured."""
    first = buffer[begin]
    found: Booleans = (first >= FIRST_FORMAT) & (first <= LAST_FORMAT) & (captured >= OPEN_SIZE)
    return found


def _alike(heads: Bytes, size: Integers) -> list[tuple[int, Integers]]:
    """Group the rows by their headers with digits ignored. Each group has a hash.

    The digits of the sender's id count. Rows with one hash need not be alike, so a caller must compare them.
    """
    if not len(heads):
        return []
    width = -(-max(int(size.max()), _ID_AFTER + _ID_WITHIN) // 8) * 8
    heads = np.ascontiguousarray(heads[:, :width])
    plain = np.where((heads >= _ZERO) & (heads <= _NINE), np.uint8(_ZERO), heads)
    plain[np.arange(width) >= size[:, None]] = 0
    quote = _ID_AFTER + (heads[:, _ID_AFTER : _ID_AFTER + _ID_WITHIN] == _QUOTE).argmax(axis=1)
    sender = heads[np.arange(len(heads))[:, None], np.minimum(quote[:, None] + 1 + np.arange(16), width - 1)]
    words = np.concatenate([plain.view(np.uint64), sender.view(np.uint64)], axis=1)
    hashes: NDArray[np.uint64] = (words * _MULTIPLIERS[: words.shape[1]]).sum(axis=1, dtype=np.uint64)
    encoded = pa.array(hashes).dictionary_encode()
    codes = encoded.indices.to_numpy()
    if len(encoded.dictionary) <= 1 << 16:
        codes = codes.astype(np.uint16)  # which NumPy sorts by radix
    order = np.argsort(codes, kind="stable")
    bounds = np.cumsum(np.bincount(codes))[:-1]
    return list(zip(encoded.dictionary.to_pylist(), np.split(order, bounds), strict=True))


def _read_one(text: bytes, row: int, columns: Columns) -> None:
    """Read one header into its row. Raises MalformedHeaderError."""
    try:
        header = loads(text)
    except ValueError as error:
        cause = "malformed header" if text.startswith(b'{"glue":') else "other UDP"
        raise MalformedHeaderError(cause) from error
    for name, value in interpret(header).items():
        if name in columns.codes:
            columns.codes[name][row] = columns.code(name, value)
        elif name in columns.integers:
            columns.integers[name][row] = value
    columns.good[row] = True
