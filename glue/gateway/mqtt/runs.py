"""Runs of like packets, one behind the other, found by comparing bytes in C instead of reading fields.

The packets of a stream begin with the same bytes, up to the packet id or the payload. The first packet is read. The
number of bytes at hand bounds the number of further packets of this length, and one strided comparison finds how many
begin alike. All other packets are left to `decoder.py`.
"""

from __future__ import annotations

from struct import Struct
from sys import byteorder

from glue.gateway.mqtt.codes import PUBACK, V5
from glue.gateway.mqtt.packets import Acknowledgement, Publish

MANY = 4_096
"""Packets in a run: what a receiver's in-flight window and the packet ids of one packet more than hold."""


def read_publications(data: bytes, at: int, end: int, version: int, limit: int) -> tuple[Publish | None, int]:
    """Read a run of publications of one topic at `at`; return the run and its end position.

    Returns None and `at` if the first packet is incomplete or must be read by `decoder.py`: with properties, marked as
    a duplicate, longer than `limit`, or malformed.
    """
    first = data[at]
    if first & 8 or first & 6 == 6 or end - at < 4:
        return None, at
    length, place = data[at + 1], at + 2
    if length > 127:
        if not 0 < data[place] < 128:
            return None, at  # 16 KiB and more: a run gains nothing; or a length of more bytes than it needs
        length, place = length & 127 | data[place] << 7, place + 1
    stop = place + length
    topic_start = place + 2
    topic_stop = topic_start + (data[place] << 8 | data[place + 1]) if topic_start <= end else end + 1
    qos = first >> 1 & 3
    body = topic_stop + (2 if qos else 0)
    if stop > end or length > limit or body + (version == V5) > stop:
        return None, at
    if version == V5 and data[body]:
        return None, at  # properties
    name = data[topic_start:topic_stop]
    topic = _topic(name)
    if topic is None:
        return None, at
    size, prefix = stop - at, topic_stop - at
    count = _alike(data, at, end, size, prefix)
    if version == V5 and qos == 0:
        prefix += 1  # the length of no properties
        count = _alike(data, at, min(end, at + count * size), size, prefix)
    raw = data[at : at + count * size]
    ids: tuple[int, ...] = ()
    if qos:
        ids = _ids(raw, size, prefix, count)
        if 0 in ids:
            return None, at
        if version == V5:
            return _with_lengths(topic, raw, size, prefix, first, ids, at)
    retain = bool(first & 1)
    return Publish(topic, None, qos, retain, None, False, ids, version, raw, size, prefix, count), at + len(raw)


def _with_lengths(
    topic: str, raw: bytes, size: int, prefix: int, first: int, ids: tuple[int, ...], at: int
) -> tuple[Publish, int]:
    """A run of MQTT 5 with packet ids: the leading packets without properties, as the length after the id tells."""
    lengths = raw[prefix + 2 :: size]
    count = len(lengths) - len(lengths.lstrip(b"\0"))
    cut = Struct(f"{prefix + 3}x{size - prefix - 3}s")
    payloads = [payload for (payload,) in cut.iter_unpack(raw[: count * size])]
    found = Publish(topic, payloads, first >> 1 & 3, bool(first & 1), None, False, ids[:count], V5)
    return found, at + count * size


def _topic(name: bytes) -> str | None:
    """The topic; None if the topic is malformed, which `decoder.py` reports."""
    if not name or b"+" in name or b"#" in name or b"\0" in name:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _alike(data: bytes, at: int, end: int, size: int, prefix: int) -> int:
    """How many packets of `size` bytes, at least one, begin with the same `prefix` bytes; MANY at most."""
    most = min((end - at) // size, MANY)
    if most == 1 or data[at + size : at + size + prefix] != data[at : at + prefix]:
        return 1
    head = data[at : at + prefix]
    heads = [found for (found,) in Struct(f"{prefix}s{size - prefix}x").iter_unpack(data[at : at + most * size])]
    if heads.count(head) == most:
        return most
    return next(number for number, found in enumerate(heads) if found != head)


def _ids(raw: bytes, size: int, prefix: int, count: int) -> tuple[int, ...]:
    """The packet ids of a run."""
    if count == 1:
        return (raw[prefix] << 8 | raw[prefix + 1],)
    return numbers(raw[prefix::size], raw[prefix + 1 :: size])


def numbers(high: bytes, low: bytes) -> tuple[int, ...]:
    """The numbers of two bytes that have these upper and lower bytes."""
    joined = bytearray(2 * len(high))
    joined[_HIGH::2], joined[1 - _HIGH :: 2] = high, low
    return tuple(memoryview(joined).cast("H"))


_HIGH = 1 if byteorder == "little" else 0
"""Where the upper byte of a number stands in memory."""


def read_acknowledgements(data: bytes, at: int, end: int) -> tuple[Acknowledgement | None, int]:
    """Read a run of PUBACK without reason codes at `at`; returns it and where it ends; (None, at) if there is none."""
    if end - at < 4 or data[at + 1] != 2:
        return None, at
    most = (end - at) // 4
    if most > 1:
        alike = memoryview(data)[at : at + 4 * most]
        kinds, lengths = bytes(alike[::4]), bytes(alike[1::4])
        most = min(most - len(kinds.lstrip(b"\x40")), most - len(lengths.lstrip(b"\x02")))
    stop = at + 4 * most
    ids = numbers(data[at + 2 : stop : 4], data[at + 3 : stop : 4])
    if 0 in ids:
        return None, at
    return Acknowledgement(PUBACK, ids), stop
