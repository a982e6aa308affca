"""Contents of bodies: acknowledged ranges, members, announcements, and the index of a bundle of messages.

Only requested columns are read, and only in frames of the kinds that have them. A malformed or truncated body gives
nulls, and the frame still counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from spark.read.entries import LIMIT
from spark.read.parse import loads
from spark.read.records import Bytes, Integers
from spark.schema import CONSENSUS, TOPIC_GROUP, arrow_type

ANNOUNCEMENTS = ("announce", "answer", "probe")
BUNDLES = ("data", "group", "best", None)
"""Kinds of frames that carry messages. None is a frame without a transport entry."""
COLUMNS = (
    "ack_ranges", "members", "name", "interval_ms", "interest_epoch", "interest_version", "operations", "topics",
    "consensus",
)  # fmt: skip
"""Columns read from bodies."""
KINDS = {
    "ack_ranges": ("ack", "mended"),
    "members": ("open",),
    "name": ANNOUNCEMENTS,
    "interval_ms": ANNOUNCEMENTS,
    "interest_epoch": (*ANNOUNCEMENTS, "operations"),
    "interest_version": ANNOUNCEMENTS,
    "operations": (*ANNOUNCEMENTS, "operations"),
    "topics": BUNDLES,
    "consensus": BUNDLES,
}
"""Kinds of frames that have each column."""

_KEYS = {
    "name": "name",
    "interval_ms": "interval_ms",
    "interest_epoch": "epoch",
    "interest_version": "version",
    "operations": "operations",
}
_EMPTY = b"[]"


class Bodies:
    """Bodies of a block's frames."""

    def __init__(self, buffer: Bytes, begin: Integers, size: Integers) -> None:
        """`size`: the captured bytes of each body."""
        self._data = buffer.data
        self._begin = begin.tolist()
        self._size = size.tolist()
        self._parsed: dict[int, Any] = {}

    def raw(self, row: int) -> bytes:
        """Return the body of a frame."""
        begin = self._begin[row]
        return bytes(self._data[begin : begin + self._size[row]])

    def has_line(self, row: int) -> bool:
        """Return whether the body of a frame has a newline."""
        return b"\n" in self.raw(row)

    def json(self, row: int) -> Any:
        """Return the body parsed as JSON, None if malformed. Cached, because several columns use one body."""
        if row not in self._parsed:
            self._parsed[row] = _parsed(self.raw(row))
        return self._parsed[row]

    def column(self, name: str, rows: Iterable[int], count: int, ack_next: Integers) -> pa.Array:
        """Return one of COLUMNS for a block of `count` frames, read from these rows."""
        if name == "consensus":
            return _structs_array(CONSENSUS, {row: _consensus(self.raw(row)) for row in rows}, count)
        if name == "ack_ranges":
            values = {row: self._ranges(row, int(ack_next[row])) for row in rows}
        else:
            read: Callable[[int], Any] = self._members if name == "members" else self._keyed(name)
            values = {row: read(row) for row in rows}
        type_ = {"name": "string", "members": "array<string>", "operations": "array<string>"}.get(name, "bigint")
        return pa.array(map(values.get, range(count)), arrow_type("array<bigint>" if name == "ack_ranges" else type_))

    def topics(self, rows: Iterable[int], count: int, late: dict[int, bytes]) -> pa.Array:
        """Return the column `topics`, from bundles that start in `rows` and from completed indexes in `late`."""
        found = {row: _groups(self.raw(row)) for row in rows}
        return _structs_array(TOPIC_GROUP, {**found, **{row: _groups(line) for row, line in late.items()}}, count)

    def _ranges(self, row: int, origin: int) -> list[int] | None:
        body = self.raw(row)
        ranges = [] if body == _EMPTY else _parsed(body)
        if not isinstance(ranges, list) or len(ranges) % 2 or not all(_is_count(value) for value in ranges):
            return None
        return [origin + value for value in ranges]

    def _members(self, row: int) -> list[str] | None:
        return _strings(self.json(row))

    def _keyed(self, name: str) -> Callable[[int], Any]:
        key = _KEYS[name]

        def read(row: int) -> Any:
            body = self.json(row)
            value = body.get(key) if isinstance(body, dict) else None
            if name == "operations":
                return _strings(value)
            return value if (isinstance(value, str) if name == "name" else _is_count(value)) else None

        return read


def _parsed(body: bytes) -> Any:
    try:
        return loads(body)
    except ValueError:
        return None


def _is_count(value: Any) -> bool:
    return value.__class__ is int and 0 <= value < LIMIT


def _strings(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None


# ------------------------------------------------------------------------------------------------- topics

Group = tuple[str, int, int, int, int, str | None, bool, int, int | None]
"""One row of `topics`, in the order of its fields."""


def _groups(body: bytes) -> list[Group] | None:
    """Return the index of the bundle that starts with this body, None if incomplete or malformed."""
    line, newline, _ = body.partition(b"\n")
    index = _parsed(line) if newline else None
    groups = index.get("groups") if isinstance(index, dict) else None
    if not isinstance(groups, list):
        return None
    rows = [_group(entry) for entry in groups]
    return None if None in rows else rows  # type: ignore[return-value]


def _group(entry: Any) -> Group | None:
    try:
        if "lengths" in entry:
            count, size = len(entry["lengths"]), sum(entry["lengths"])
        else:
            count = entry.get("count", 1)
            size = count * entry["length"]
        topic, type_, at = entry["topic"], entry.get("type"), entry["at"]
        numbers = (entry["sequence"], count, size, entry.get("retain", 0), entry.get("lifespan", 0))
        if not isinstance(topic, str) or not (type_ is None or isinstance(type_, str)):
            return None
        if not all(_is_count(number) for number in numbers) or at.__class__ is not int or not -LIMIT < at < LIMIT:
            return None
    except (AttributeError, KeyError, TypeError):
        return None
    return (topic, numbers[0], count, size, at, type_, entry.get("json") == 1, numbers[3], entry.get("lifespan"))


# ---------------------------------------------------------------------------------------------- consensus

MODEL = b"$glue/model/"
"""Prefix of topics of models. The name follows, then /all or /to/… (glue/model/group.py)."""
VOTE, APPEND = "vote?", "append"
Consensus = tuple[str, str, str, int, bool | None, int | None, int | None, int | None]
"""One row of `consensus`, in the order of its fields."""


def _consensus(body: bytes) -> list[Consensus] | None:
    """Return the appends and vote requests at the beginning of a bundle, None without any.

    A message is left out if the frame does not hold its whole array.
    """
    line, newline, _ = body.partition(b"\n")
    if not newline or MODEL not in line:
        return None
    index = _parsed(line)
    groups = index.get("groups") if isinstance(index, dict) else None
    found: list[Consensus] = []
    position = len(line) + 1
    for entry in groups if isinstance(groups, list) else ():
        if _group(entry) is None:
            return None
        is_model = entry["topic"].startswith(MODEL.decode())
        for length in _lengths(entry, len(body) - position):
            if is_model:
                said = _said(entry["topic"], _parsed(body[position : position + length].partition(b"\n")[0]))
                found += [] if said is None else [said]
            position += length
    return found or None


def _lengths(entry: dict[str, Any], room: int) -> list[int]:
    """Return the lengths of a group's messages, as many as are in `room` bytes. Any number may be claimed."""
    if "lengths" in entry:
        return entry["lengths"]  # type: ignore[no-any-return]
    length = entry["length"]
    return [length] * min(entry.get("count", 1), max(0, room) // length + 1) if length else []


def _said(topic: str, array: Any) -> Consensus | None:
    """Return a message of consensus from the array at its beginning (glue/model/consensus/wire.py), None for other
    kinds.
    """
    model = topic[len(MODEL) :].partition("/")[0]
    match array:
        case [str(kind), str(group), str(), int(term), bool(pre), bool(), int(), int()] if kind == VOTE:
            return (model, group, kind, term, pre, None, None, None) if _is_count(term) else None
        case [str(kind), str(group), str(), int(term), int(), int(previous), int(), int(commit), list(columns)] if (
            kind == APPEND and all(map(_is_count, (term, previous, commit)))
        ):
            entries = len(columns[2]) if len(columns) == 3 and isinstance(columns[2], list) else 0
            return model, group, kind, term, None, previous, entries, commit
    return None


# ------------------------------------------------------------------------------------------------- arrays


def _structs_array(type: str, found: dict[int, list[Any] | None], count: int) -> pa.Array:
    """Return a column of arrays of structs for a block of `count` frames. `found` has tuples by frame."""
    lengths = np.zeros(count, np.int64)
    missing = np.ones(count, np.bool_)
    items: list[tuple[Any, ...]] = []
    for row in sorted(found):
        rows = found[row]
        if rows is not None:
            lengths[row], missing[row] = len(rows), False
            items += rows
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    fields = list(arrow_type(f"array<{type}>").value_type)
    columns = zip(*items, strict=True) if items else ([] for _ in fields)
    arrays = [pa.array(column, field.type) for field, column in zip(fields, columns, strict=True)]
    values = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(missing))
