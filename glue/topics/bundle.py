"""The wire format of topics: many messages in one body, an index in front.

A bundle is one JSON document (the index), a newline, and the payloads, concatenated. The index has one entry per group.
A group is a run of messages that differ only in sequence number and payload:

    {"groups":[{"topic":"t/16","sequence":100,"at":1700000000000000,"length":16,"count":64}]}

`sequence` is the number of the first message. `at` is the publisher's wall clock at publication, in microseconds.
`length` is the size of each payload in bytes. `count` is the number of payloads (1 if left out). If payloads differ in
size, a list `lengths` replaces both. The other keys are present only when set.

- `type`: a string.
- `json` 1: the payloads are JSON documents.
- `retain` 1: receivers keep the last payload for late joiners; an empty payload clears it. 2: a replayed kept value.
- `lifespan`: the age in milliseconds at which the messages expire.
- `position`: the first message's number among messages of its reliability, if not equal to `sequence`.
- `unordered` 1: the messages may arrive after later messages of their topic.
- `properties`: an object of strings.
- `codec`: a number, or a name, of the codec of the payloads.

Receivers ignore unknown keys. The cost is per group, not per message: `struct` splits payloads of equal size in C.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from math import ceil
from typing import Any

import orjson

from glue.contract.metadata import MEMORY_CODECS, Metadata
from glue.contract.pieces import Pieces, cut
from glue.errors import TopicError
from glue.topics.metadata import metadata_entry, metadata_of
from glue.topics.names import TYPE_LIMIT, check_topic

BUNDLE_SIZE = 1030 * 1024
"""Bytes of payload and index at which a bundle closes: sixteen payloads of 64 KiB, with 6 KiB for their index. Only a
single message may be larger, as a bundle alone."""

COPY_LIMIT = 8000
"""Bytes of a payload, on average of a bundle, from which on it stays where it is until the bundle is cut. Smaller ones
are copied into one piece, which costs less than to look after each."""

# A best-effort bundle of more than a frame would be lost as a whole with any of its fragments. The frame of an
# Ethernet is 1,500 - 28 (IP and UDP) - 192 (header) = 1,280 bytes. With IPv6 it is 1,260.
BEST_EFFORT_BUNDLE = 1200
"""Bytes of payload and index at which a best-effort bundle closes."""

BUNDLE_MESSAGES = 16_384
"""Messages in a bundle: 256 KiB of 16-byte payloads; it also bounds what empty payloads can claim."""

GROUP_SIZE = 190
"""Bytes in the index for one group, but for topic, type, lengths, metadata and `unordered`: 176 with all keys and the
largest numbers, and 14 around all groups."""

UNORDERED_SIZE = 14
"""Bytes in the index for `,"unordered":1`."""

LENGTH_SIZE = 7
"""Bytes in the index for one of `lengths`: "262144,"."""

INDEX_LIMIT = 1536 * 1024
"""Bytes of index taken from a peer. BUNDLE_SIZE counts groups, topics, types and metadata, so an honest index is at
most 1,030 KiB, and 384 KiB for a last topic whose every byte is escaped ("\\u0001"), and 112 KiB of lengths."""

INTEGER_LIMIT = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""

SEQUENCE_LIMIT = 2**50
"""The largest sequence number: no life gets there, as at ten million messages a second it would take three years."""

LIVE, KEEP, KEPT = 0, 1, 2
"""`retain`: an ordinary message; one to be kept for late joiners; a kept one, told to a late joiner."""

PLAIN_KEYS = frozenset({"topic", "sequence", "at", "length", "count", "lengths"})
"""What an entry has when no option is set, which is worth asking first: it is the usual case."""

_LONE_TEMPLATE = b'{"groups":[{"topic":%b,"sequence":%d,"at":%d,"length":%d}]}\n%b'
_PLAIN = b'{"groups":[{"topic":%b,"sequence":%d,"at":%d,"length":%d%b%b}]}\n'
_LONE_JSON_TEMPLATE = b'{"groups":[{"topic":%b,"sequence":%d,"at":%d,"length":%d,"json":1}]}\n%b'

VIEW_FROM, ALIGNMENT = 64 << 10, 64
"""Bytes of a lone array or table from which on it stays in the memory of its bundle, at a multiple of ALIGNMENT."""

MANY = 32
"""Payloads that are cut apart by `struct`, for which a plan is made and remembered; fewer are sliced."""


class MalformedBundleError(ValueError):
    """A peer's bundle is not well-formed; the message is the cause. Never leaves the topics layer."""


class MessageGroup:
    """Messages of one topic that differ only in sequence number and payload.

    The `length` is None when payload lengths differ. The time `at` is in microseconds since 1970. A `lifespan_ms` of
    None means that the messages never expire. The `position` is the first message's number among messages of the same
    reliability on the topic. It differs from `sequence` only on topics with both kinds. Reliable messages without
    `ordered` may arrive after later messages.
    """

    __slots__ = (
        "at", "json", "length", "lifespan_ms", "metadata", "ordered", "payloads", "position", "retain", "sequence",
        "topic", "type",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        sequence: int,
        at: int,
        payloads: list[bytes],
        length: int | None,
        type: str | None = None,
        json: bool = False,
        retain: int = LIVE,
        lifespan_ms: int | None = None,
        position: int = 0,
        ordered: bool = True,
        metadata: Metadata | None = None,
    ) -> None:
        """A `position` of 0 means: equal to `sequence`."""
        self.position = position or sequence
        self.ordered = ordered
        self.topic = topic
        self.sequence = sequence
        self.at = at
        self.payloads = payloads
        self.length = length
        self.type = type
        self.json = json
        self.retain = retain
        self.lifespan_ms = lifespan_ms
        self.metadata = metadata

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(map(len, self.payloads)) if self.length is None else self.length * len(self.payloads)

    def part(self, start: int, stop: int) -> MessageGroup:
        """The messages from `start` to before `stop` as a group of their own."""
        payloads = self.payloads[start:stop]
        return MessageGroup(
            self.topic,
            self.sequence + start,
            self.at,
            payloads,
            common_length(payloads) if self.length is None else self.length,
            self.type,
            self.json,
            self.retain,
            self.lifespan_ms,
            self.position + start,
            self.ordered,
            self.metadata,
        )

    def drop(self, count: int) -> int:
        """Drop the first messages; returns how many are left."""
        self.sequence += count
        self.position += count
        self.payloads = self.payloads[count:]
        return len(self.payloads)

    def is_continued_by(self, other: MessageGroup) -> bool:
        """Whether `other` can be appended: the same topic and options, and the next sequence number."""
        return (
            other.topic == self.topic
            and other.sequence == self.sequence + len(self.payloads)
            and other.position - self.position == other.sequence - self.sequence
            and other.type == self.type
            and other.json == self.json
            and other.retain == self.retain
            and other.lifespan_ms == self.lifespan_ms
            and other.ordered == self.ordered
            and other.metadata == self.metadata
        )

    def merge(self, other: MessageGroup) -> None:
        """Append a group that continues this one."""
        self.payloads += other.payloads
        if self.length != other.length:
            self.length = None

    def entry(self) -> dict[str, Any]:
        """Return the group's entry in the index."""
        entry: dict[str, Any] = {"topic": self.topic, "sequence": self.sequence, "at": self.at}
        if self.length is None:
            entry["lengths"] = list(map(len, self.payloads))
        else:
            entry["length"] = self.length
            if len(self.payloads) > 1:
                entry["count"] = len(self.payloads)
        if self.type is not None:
            entry["type"] = self.type
        if self.json:
            entry["json"] = 1
        if self.retain:
            entry["retain"] = self.retain
        if self.lifespan_ms is not None:
            entry["lifespan"] = self.lifespan_ms
        if self.position != self.sequence:
            entry["position"] = self.position
        if not self.ordered:
            entry["unordered"] = 1
        if self.metadata is not None:
            entry |= metadata_entry(self.metadata)
        return entry


def common_length(payloads: list[bytes]) -> int | None:
    """The length that all payloads have, or None if they differ."""
    lengths = set(map(len, payloads))
    return lengths.pop() if len(lengths) == 1 else None


def encode(groups: Sequence[MessageGroup]) -> bytes:
    """One bundle of these groups."""
    return b"".join(parts(groups))


def parts(groups: Sequence[MessageGroup]) -> list[bytes]:
    """The index and the payloads of a bundle, not joined."""
    index = orjson.dumps({"groups": [group.entry() for group in groups]}, option=orjson.OPT_APPEND_NEWLINE)
    first = groups[0]
    if len(groups) == 1 and first.size >= VIEW_FROM and first.metadata and _stays(first.metadata.codec):
        index = index[:-1] + b" " * (-len(index) % ALIGNMENT) + b"\n"
    return [index, *chain.from_iterable([group.payloads for group in groups])]


def _stays(codec: Any) -> bool:
    """Whether a payload may stay in the memory of its bundle: the decoders of other codecs may expect bytes."""
    return codec.__class__ is int and codec in MEMORY_CODECS


def body_of(groups: Sequence[MessageGroup]) -> Sequence[bytes]:
    """The bundle of these groups as the one body of a message."""
    found = parts(groups)
    return _body(found, sum(map(len, found)))


def _body(found: list[bytes], size: int) -> Sequence[bytes]:
    """Join small parts; keep large parts as `Pieces`, without a copy."""
    return Pieces(found, size, 1) if size >= COPY_LIMIT * len(found) else [b"".join(found)]


def encode_plain(topic: bytes, sequence: int, at: int, payloads: list[bytes], json: bool) -> Sequence[bytes]:
    """Encode a plain group of payloads of equal length; faster than `body_of`. `topic` is a JSON string."""
    length, count = len(payloads[0]), len(payloads)
    many = b',"count":%d' % count if count > 1 else b""
    index = _PLAIN % (topic, sequence, at, length, many, b',"json":1' if json else b"")
    size = len(index) + length * count
    return _body([index, *payloads], size)


def encode_lone(topic: bytes, sequence: int, at: int, payload: bytes, json: bool) -> bytes:
    """Encode a single plain message; faster than `encode`. `topic` is a JSON string."""
    return (_LONE_JSON_TEMPLATE if json else _LONE_TEMPLATE) % (topic, sequence, at, len(payload), payload)


def decode(body: bytes) -> list[MessageGroup]:
    """The groups of a bundle, strictly checked; raises MalformedBundleError, at a cost bounded by len(body)."""
    end = body.find(b"\n", 0, INDEX_LIMIT)
    if end < 0:
        raise MalformedBundleError("no index")
    try:
        index = orjson.loads(body[:end])
    except orjson.JSONDecodeError:
        raise MalformedBundleError("index is not JSON") from None
    entries = index.get("groups") if type(index) is dict else None
    if type(entries) is not list or not 1 <= len(entries) <= BUNDLE_MESSAGES:
        raise MalformedBundleError("no groups")
    start = end + 1
    if len(entries) == 1 and type(entries[0]) is dict and (lone := _lone(entries[0], body, start)):
        return [lone]
    groups = []
    room = BUNDLE_MESSAGES
    for entry in entries:
        if type(entry) is not dict:
            raise MalformedBundleError("group is not an object")
        payloads, length, start = _cut(body, start, entry, room)
        room -= len(payloads)
        groups.append(_group(entry, payloads, length))
        if not entry.keys() <= PLAIN_KEYS:
            _take_options(groups[-1], entry)
    if start != len(body):
        raise MalformedBundleError("lengths do not add up")
    return groups


def _lone(entry: dict[str, Any], body: bytes, start: int) -> MessageGroup | None:
    """The group of a lone plain message with its payload from `start` on; None for any other entry."""
    length = entry.get("length")
    if len(entry) != 4 or length.__class__ is not int or length != len(body) - start:
        return None
    return _group(entry, [body[start:]], length)  # requires the other three keys


def _cut(body: bytes, start: int, entry: dict[str, Any], room: int) -> tuple[list[bytes], int | None, int]:
    """Cut a group's payloads, at most `room`, from `start` on; return payloads, common length and end position."""
    lengths, length, count = entry.get("lengths"), entry.get("length"), entry.get("count", 1)
    if lengths is not None:
        if type(lengths) is not list or not 1 <= len(lengths) <= room or set(map(type, lengths)) != {int}:
            raise MalformedBundleError("malformed lengths")
        if min(lengths) < 0 or start + sum(lengths) > len(body):
            raise MalformedBundleError("lengths do not add up")
        ends = list(accumulate(lengths, initial=start))
        return [body[first:last] for first, last in pairwise(ends)], None, ends[-1]
    if type(length) is not int or type(count) is not int or length < 0 or not 1 <= count <= room:
        raise MalformedBundleError("malformed lengths")
    end = start + length * count
    if end > len(body):
        raise MalformedBundleError("lengths do not add up")
    is_alone = length >= VIEW_FROM and count == 1 and room == BUNDLE_MESSAGES and end == len(body)
    if is_alone and not start % ALIGNMENT and _stays(entry.get("codec")):
        return [memoryview(body)[start:end]], length, end  # type: ignore[list-item]  # a view serves as bytes
    return [body[start:end]] if count == 1 else equal_parts(body, start, length, count), length, end


def equal_parts(body: bytes, start: int, length: int, count: int) -> list[bytes]:
    """Cut `count` payloads of `length` bytes each from `start` on; the body must hold all of them."""
    if not length:
        return [b""] * count
    stop = start + length * count
    if count >= MANY:
        return cut(memoryview(body)[start:stop], length)
    return [body[first : first + length] for first in range(start, stop, length)]


def _group(entry: dict[str, Any], payloads: list[bytes], length: int | None) -> MessageGroup:
    """The group of an entry, without the optional keys."""
    topic, sequence, at = entry.get("topic"), entry.get("sequence"), entry.get("at")
    try:
        check_topic(topic)  # type: ignore[arg-type]  # refuses what is not a string, too
    except TopicError:
        raise MalformedBundleError("malformed topic") from None
    if type(sequence) is not int or not 1 <= sequence <= SEQUENCE_LIMIT + 1 - len(payloads):
        raise MalformedBundleError("malformed sequence")
    if type(at) is not int or not -INTEGER_LIMIT <= at <= INTEGER_LIMIT:
        raise MalformedBundleError("malformed time")
    return MessageGroup(topic, sequence, at, payloads, length)  # type: ignore[arg-type]


def _take_options(group: MessageGroup, entry: dict[str, Any]) -> None:
    """Check the optional keys of an entry and set them in the group."""
    tag, json = entry.get("type"), entry.get("json", 0)
    retain, lifespan = entry.get("retain", LIVE), entry.get("lifespan")
    if tag is not None and (type(tag) is not str or not 1 <= len(tag.encode()) <= TYPE_LIMIT):
        raise MalformedBundleError("malformed type")
    if type(json) is not int or not 0 <= json <= 1:
        raise MalformedBundleError("malformed json")
    if type(retain) is not int or not LIVE <= retain <= (KEPT if len(group.payloads) == 1 else KEEP):
        raise MalformedBundleError("malformed retain")
    if lifespan is not None and (type(lifespan) is not int or not 0 <= lifespan <= INTEGER_LIMIT):
        raise MalformedBundleError("malformed lifespan")
    position = entry.get("position", group.sequence)
    if type(position) is not int or not 1 <= position <= group.sequence:
        raise MalformedBundleError("malformed position")
    group.position = position
    if "unordered" in entry:
        unordered = entry["unordered"]
        if type(unordered) is not int or not 0 <= unordered <= 1:
            raise MalformedBundleError("malformed unordered")
        group.ordered = not unordered
    group.type, group.json, group.retain, group.lifespan_ms = tag, json == 1, retain, lifespan
    if "properties" in entry or "codec" in entry:
        try:
            group.metadata = metadata_of(entry)
        except ValueError as error:
            raise MalformedBundleError(f"malformed {error}") from None


def decoded(payloads: list[bytes], sequence: int) -> list[tuple[int, Sequence[Any]]]:
    """JSON documents to values, as runs (number of the first, values) around those that are malformed."""
    try:
        return [(sequence, [orjson.loads(payload) for payload in payloads])]
    except orjson.JSONDecodeError:
        pass
    runs: list[tuple[int, Sequence[Any]]] = []
    values: list[Any] = []
    for number, payload in enumerate(payloads, sequence):
        try:
            values.append(orjson.loads(payload))
        except orjson.JSONDecodeError:
            values = []
            continue
        if len(values) == 1:
            runs.append((number, values))
    return runs


def milliseconds(seconds: float) -> int:
    """A lifespan for the index: rounded up, and no more than it can say (285,000 years)."""
    return ceil(min(seconds * 1000, INTEGER_LIMIT))
