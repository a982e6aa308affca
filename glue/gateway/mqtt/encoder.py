"""Writes what a broker sends. Runs of publications and acknowledgements are written in C, not one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.codes import OLD_CONNACK, SUCCESS, V5
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.properties import Properties, write_integer, write_properties, write_text

PINGRESP = bytes((codes.PINGRESP << 4, 0))

_ACKNOWLEDGEMENTS = {
    kind: bytes((kind << 4 | (2 if kind == codes.PUBREL else 0), 2))
    for kind in (codes.PUBACK, codes.PUBREC, codes.PUBREL, codes.PUBCOMP)
}


def packet(first: int, body: bytes) -> bytes:
    """A packet of this first byte and what follows the fixed header."""
    return bytes((first,)) + write_integer(len(body)) + body


def connack(version: int, code: int, session_present: bool = False, properties: Properties | None = None) -> bytes:
    """A CONNACK; empty where this version of MQTT has no return code for the reason. In MQTT 3.1 its flags are 0."""
    if version != V5:
        if code not in OLD_CONNACK:
            return b""
        return packet(codes.CONNACK << 4, bytes((session_present and version != codes.V31, OLD_CONNACK[code])))
    code = codes.listed(codes.CONNACK, code)
    return packet(codes.CONNACK << 4, bytes((session_present, code)) + write_properties(properties))


def disconnect(code: int, properties: Properties | None = None) -> bytes:
    """A DISCONNECT, which only MQTT 5 sends to a client."""
    code = codes.listed(codes.DISCONNECT, code)
    return packet(codes.DISCONNECT << 4, bytes((code,)) + write_properties(properties))


def acknowledgement(
    version: int, kind: int, number: int, code: int = SUCCESS, properties: Properties | None = None
) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP of one message."""
    head = _ACKNOWLEDGEMENTS[kind]
    if version != V5 or (code == SUCCESS and not properties):
        return head + number.to_bytes(2, "big")
    tail = write_properties(properties) if properties else b""
    return packet(head[0], number.to_bytes(2, "big") + bytes((codes.listed(kind, code),)) + tail)


def acknowledgements(kind: int, ids: Sequence[int]) -> bytes:
    """Acknowledgements of many messages, all of them successes."""
    head = _ACKNOWLEDGEMENTS[kind]
    if len(ids) == 1:
        return head + ids[0].to_bytes(2, "big")
    out = bytearray((head + b"\0\0") * len(ids))
    out[2::4], out[3::4] = _halves(ids)
    return bytes(out)


def _halves(ids: Sequence[int]) -> tuple[bytes, bytes]:
    """The upper and the lower bytes of packet ids."""
    if isinstance(ids, range):
        return _HIGH[ids.start : ids.stop], _LOW[ids.start : ids.stop]
    return bytes([number >> 8 for number in ids]), bytes([number & 255 for number in ids])


_HIGH = bytes(number >> 8 for number in range(65_536))
_LOW = bytes(range(256)) * 256
"""The bytes of all packet ids, in order: ids are given out in ranges, whose bytes are slices of these."""


def suback(version: int, number: int, answers: Iterable[int], properties: Properties | None = None) -> bytes:
    """A SUBACK. MQTT 3 knows one refusal only, 0x80."""
    if version == V5:
        tail = write_properties(properties) + bytes([codes.listed(codes.SUBACK, code) for code in answers])
        return packet(codes.SUBACK << 4, number.to_bytes(2, "big") + tail)
    old = bytes(code if code < 0x80 else 0x80 for code in answers)
    return packet(codes.SUBACK << 4, number.to_bytes(2, "big") + old)


def unsuback(version: int, number: int, answers: Iterable[int]) -> bytes:
    """An UNSUBACK; in MQTT 3 it says nothing."""
    tail = write_properties(None) + bytes(answers) if version == V5 else b""
    return packet(codes.UNSUBACK << 4, number.to_bytes(2, "big") + tail)


def publish(
    version: int,
    run: Publish,
    qos: int,
    retain: bool,
    ids: Sequence[int] = (),
    dup: bool = False,
    properties: dict[str, Any] | None = None,
    name: str | None = None,
) -> bytes:
    """The publications of a run, for a client of this version, with another topic name if one is given.

    `ids` has the packet ids if `qos` is not 0. `properties` are for a client of MQTT 5.
    """
    if run.raw and version == run.version and not (dup or retain or run.retain or properties) and qos == run.qos:
        if not qos:
            return run.raw
        if version != V5:
            return _numbered(bytearray(run.raw), run.length, run.prefix, ids)
    first = codes.PUBLISH << 4 | dup << 3 | qos << 1 | retain
    topic = write_text(run.topic if name is None else name)
    tail = write_properties(properties) if version == V5 else b""
    rest = len(topic) + len(tail) + (2 if qos else 0)
    payloads = run.payloads
    if len(payloads) == 1:
        middle = ids[0].to_bytes(2, "big") if qos else b""
        return b"".join((bytes((first,)), write_integer(rest + len(payloads[0])), topic, middle, tail, payloads[0]))
    if len(set(map(len, payloads))) == 1:
        length = rest + len(payloads[0])
        start = bytes((first,)) + write_integer(length) + topic
        head = start + (b"\0\0" if qos else b"") + tail
        out = head + head.join(payloads)
        return _numbered(bytearray(out), len(out) // len(payloads), len(start), ids) if qos else out
    parts: list[bytes] = []
    for place, payload in enumerate(payloads):
        middle = ids[place].to_bytes(2, "big") if qos else b""
        parts += (bytes((first,)), write_integer(rest + len(payload)), topic, middle, tail, payload)
    return b"".join(parts)


def _numbered(out: bytearray, length: int, prefix: int, ids: Sequence[int]) -> bytes:
    """Write packet ids into packets of one length, `prefix` bytes after the start of each."""
    out[prefix::length], out[prefix + 1 :: length] = _halves(ids)
    return bytes(out)
