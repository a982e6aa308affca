"""Records of a log: messages of topics, with the identity that outlives their path.

A message's identity is (publisher's endpoint id, life, topic, sequence). A record holds consecutive messages of a
stream, alike except for payloads, as a delivery brings them. Therefore a record of many messages costs little more than
a record of one. The encoded form is the same on disk and on the network:

    offset (8 bytes), first sequence (8), clock (8), published at (8, a double), count (4), length of each payload or
    0xFFFFFFFF (4), flags (4), bytes of the description (4); description; lengths (4 each, unless equal); payloads

Numbers are little-endian. The description is a JSON array: publisher's id, name, life, topic, type, codec, properties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import isfinite
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple

import orjson

from glue.errors import CorruptStorageError

JSON: Final = 1
"""Flag: the payloads are JSON documents."""
RETAINED: Final = 2
"""Flag: the publisher keeps the message as the last value of its topic; an empty payload clears it."""
BEST_EFFORT: Final = 4
"""Flag: the publisher sent it without acknowledgements, so missing neighbours may never have arrived anywhere."""
REPLAYED: Final = 8
"""Flag: fetched from another keeper or sent as history, so its place in the log is not that of its publication."""

HEAD = Struct("<QQqdIIII")
DIFFERENT: Final = 0xFFFF_FFFF
"""The length of each payload, if they differ."""
MESSAGES: Final = 1 << 20
"""Messages of a record at most: a delivery has fewer. Empty payloads cost memory although they have no bytes."""
NUMBER_LIMIT: Final = 1 << 62
"""Offsets and sequence numbers are below this: a larger one is damage, and would leave no number for what follows."""
KNOWN_DESCRIPTIONS = 4096
"""Descriptions remembered by an encoder or a decoder; cleared when full: at most some 2 MB of usual ones."""


class Stream(NamedTuple):
    """The messages of a topic from one life of one publisher, numbered from 1."""

    origin: str
    """The publisher's endpoint id, 16 hex digits."""
    life: int
    """The publisher's incarnation."""
    topic: str


@dataclass(slots=True)
class Record:
    """Consecutive messages of one stream. Treat it as immutable.

    * `sequence`: the number of the first message; the others count up.
    * `published_at`: the publisher's wall clock at the first message, Unix seconds.
    * `clock`: a hybrid logical clock for orders across publishers; its owner defines the unit. 0: unknown.
    * `codec`: glue's own number, or a program's own text; None: bytes, or JSON with the flag.
    * `properties`: what the publisher attached, text by text.
    """

    origin: str
    name: str
    life: int
    topic: str
    sequence: int
    payloads: list[bytes]
    published_at: float = 0.0
    clock: int = 0
    flags: int = 0
    type: str | None = None
    codec: int | str | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def stream(self) -> Stream:
        """The stream that the messages belong to."""
        return Stream(self.origin, self.life, self.topic)

    @property
    def stop(self) -> int:
        """The sequence number after the last message."""
        return self.sequence + len(self.payloads)

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(map(len, self.payloads))

    def part(self, start: int, stop: int) -> Record:
        """The messages with sequence numbers from `start` to `stop` - 1 of this record."""
        if start <= self.sequence and stop >= self.stop:
            return self
        begin, end = max(start - self.sequence, 0), max(stop - self.sequence, 0)
        return Record(
            self.origin, self.name, self.life, self.topic, self.sequence + begin, self.payloads[begin:end],
            self.published_at, self.clock, self.flags, self.type, self.codec, self.properties,
        )  # fmt: skip


_Described = tuple[str, str, int, str, str | None, int | str | None, dict[str, str]]


class RecordEncoder:
    """Encodes records; remembers recent descriptions, since most records share them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, str, str | None, int | str | None], bytes] = {}

    def encode(self, record: Record, offset: int = 0) -> bytes:
        """Return the bytes of a record."""
        description = self._describe(record)
        payloads = record.payloads
        count, body = len(payloads), b"".join(payloads)
        length, lengths = len(payloads[0]) if count else 0, b""
        if count > 1 and (length * count != len(body) or {*map(len, payloads)} != {length}):
            length, lengths = DIFFERENT, pack(f"<{count}I", *map(len, payloads))
        head = HEAD.pack(
            offset, record.sequence, record.clock, record.published_at, count, length, record.flags, len(description)
        )
        return b"".join((head, description, lengths, body))

    def _describe(self, record: Record) -> bytes:
        if record.properties:
            return _description(record)
        key = (record.origin, record.name, record.life, record.topic, record.type, record.codec)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN_DESCRIPTIONS:
                self._known.clear()
            found = self._known[key] = _description(record)
        return found


def _description(record: Record) -> bytes:
    return orjson.dumps([
        record.origin, record.name, record.life, record.topic, record.type, record.codec, record.properties,
    ])  # fmt: skip


class RecordDecoder:
    """Decodes records; remembers recent descriptions."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Described] = {}

    def topic(self, data: bytes | memoryview) -> str:
        """Return the topic of an encoded record, without looking at the rest. Raises CorruptStorageError."""
        return self._described(data)[3]

    def decode(self, data: bytes | memoryview) -> tuple[int, Record]:
        """Return the offset of the first message, and the record. Raises CorruptStorageError for wrong bytes."""
        described = self._described(data)
        offset, sequence, clock, published_at, count, length, flags, size = HEAD.unpack_from(data)
        body = HEAD.size + size
        if count > MESSAGES:
            raise CorruptStorageError(f"a record has {count} messages")
        if max(offset, sequence) >= NUMBER_LIMIT or not isfinite(published_at):
            raise CorruptStorageError(f"a record at {offset} has sequence {sequence} and the time {published_at}")
        if length == DIFFERENT:
            payloads = _different(data, body, count)
        elif body + length * count != len(data):
            raise CorruptStorageError(f"a record of {len(data)} bytes cannot have {count} payloads of {length}")
        elif count == 1:
            payloads = [bytes(data[body:])]
        else:
            whole = bytes(data[body:])
            payloads = [whole[at : at + length] for at in range(0, len(whole), length)] if length else [b""] * count
        origin, name, life, topic, type_, codec, properties = described
        return offset, Record(
            origin, name, life, topic, sequence, payloads, published_at, clock, flags, type_, codec, properties
        )

    def _described(self, data: bytes | memoryview) -> _Described:
        if len(data) < HEAD.size:
            raise CorruptStorageError(f"a record of {len(data)} bytes is too short")
        size = HEAD.unpack_from(data)[-1]
        key = bytes(data[HEAD.size : HEAD.size + size])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN_DESCRIPTIONS:
                self._known.clear()
            found = self._known[key] = _read_description(key)
        return found


def _read_description(data: bytes) -> _Described:
    try:
        origin, name, life, topic, type_, codec, properties = orjson.loads(data)
    except (ValueError, TypeError) as error:
        raise CorruptStorageError(f"the description of a record is malformed: {error}") from None
    is_well_formed = (
        isinstance(origin, str) and isinstance(name, str) and isinstance(topic, str)
        and type(life) is int and life >= 0
        and isinstance(type_, str | None)
        and (isinstance(codec, str | None) or type(codec) is int)
        and isinstance(properties, dict) and all(isinstance(value, str) for value in properties.values())
    )  # fmt: skip
    if not is_well_formed:
        raise CorruptStorageError(f"the description of a record is malformed: {data!r:.200}")
    return origin, name, life, topic, type_, codec, properties


def _different(data: bytes | memoryview, start: int, count: int) -> list[bytes]:
    body = start + 4 * count
    if body > len(data):
        raise CorruptStorageError(f"a record of {len(data)} bytes cannot have {count} payloads")
    try:
        lengths = unpack_from(f"<{count}I", data, start)
    except StructError as error:
        raise CorruptStorageError(f"the lengths of a record are malformed: {error}") from None
    if body + sum(lengths) != len(data):
        raise CorruptStorageError(f"a record of {len(data)} bytes has payloads of {sum(lengths)}")
    whole = bytes(data[body:])
    return [whole[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))]
