"""The payloads of a replica's records: writes, the base of a log, and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from struct import Struct, calcsize, error, pack, unpack_from

import orjson

from glue.errors import CorruptStorageError
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.items import Kind, LogEntry, Snapshot, Vital

WRITE, BASE, SNAPSHOT = b"W", b"B", b"S"
"""The first byte of a payload."""

WRITE_HEAD = Struct("<IQI")
BASE_FORM = Struct("<QQ")
SNAPSHOT_HEAD = Struct("<QQI")


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Turn what malformed bytes raise into CorruptStorageError: their checksum is right, but not their content."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, error) as cause:
        raise CorruptStorageError(f"{what} is malformed: {cause}") from None


def write_payload(vital: Vital | None, entries: Sequence[LogEntry]) -> bytes:
    """Encode a write: the vital facts as JSON if they have changed, then entries in columns, then their data.

    The columns are terms, lengths and kinds.
    """
    facts = b"" if vital is None else orjson.dumps([*vital[:-1], vital.value.decode()])
    count = len(entries)
    columns = pack(
        f"<{count}Q{count}I{count}B",
        *[entry.term for entry in entries],
        *[len(entry.data) for entry in entries],
        *[entry.kind for entry in entries],
    )
    head = WRITE_HEAD.pack(len(facts), entries[0].index if entries else 0, count)
    return b"".join([WRITE, head, facts, columns, *[entry.data for entry in entries]])


def read_write(payload: memoryview) -> tuple[Vital | None, list[LogEntry]]:
    """Decode the result of `write_payload`. Raises CorruptStorageError."""
    with _reading("a write"):
        return _write(payload)


def _write(payload: memoryview) -> tuple[Vital | None, list[LogEntry]]:
    if payload[:1] != WRITE:
        raise ValueError("another kind of record")
    size, first, count = WRITE_HEAD.unpack_from(payload, 1)
    start = 1 + WRITE_HEAD.size
    vital = _vital(payload[start : start + size]) if size else None
    form, start = f"<{count}Q{count}I{count}B", start + size
    columns = unpack_from(form, payload, start)
    terms, lengths, kinds = columns[:count], columns[count : 2 * count], columns[2 * count :]
    data = bytes(payload[start + calcsize(form) :])
    if sum(lengths) != len(data):
        raise ValueError(f"entries of {sum(lengths)} bytes in {len(data)}")
    bounds = pairwise(accumulate(lengths, initial=0))
    return vital, [
        LogEntry(index, term, Kind(kind), data[begin:end])
        for index, term, kind, (begin, end) in zip(range(first, first + count), terms, kinds, bounds, strict=True)
    ]


def _vital(facts: memoryview) -> Vital:
    """Decode the vital facts. Raises ValueError, TypeError, AttributeError."""
    life, group, term, vote, promised, accepted, value = orjson.loads(facts)
    (promised_round, promised_to), (accepted_round, accepted_from) = promised, accepted
    numbers, names = (term, promised_round, accepted_round), (life, group, vote, promised_to, accepted_from)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"the term and the rounds are {numbers}")
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"the life, the group and the votes are {names}")
    return Vital(life, group, term, vote, tuple(promised), tuple(accepted), value.encode())


def base_payload(base: tuple[int, int]) -> bytes:
    """Encode index and term of the entry before the first one."""
    return BASE + BASE_FORM.pack(*base)


def read_base(payload: memoryview) -> tuple[int, int]:
    """Decode the result of `base_payload`. Raises CorruptStorageError."""
    with _reading("the base of a log"):
        index, term = BASE_FORM.unpack_from(payload, 1)
    return index, term


def snapshot_payload(snapshot: Snapshot) -> bytes:
    """Encode a snapshot with its configuration."""
    configuration = snapshot.configuration.encode()
    head = SNAPSHOT_HEAD.pack(snapshot.index, snapshot.term, len(configuration))
    return b"".join([SNAPSHOT, head, configuration, snapshot.data])


def read_snapshot(payload: memoryview) -> Snapshot:
    """Decode the result of `snapshot_payload`. Raises CorruptStorageError."""
    with _reading("a snapshot"):
        index, term, length = SNAPSHOT_HEAD.unpack_from(payload, 1)
        start = 1 + SNAPSHOT_HEAD.size
        configuration = Configuration.decode(payload[start : start + length])
    return Snapshot(index, term, configuration, bytes(payload[start + length :]))
