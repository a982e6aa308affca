"""The properties of MQTT 5 (section 2.2.2): one table, from which reading and writing follow.

Properties are a dictionary by name. `user_property` is a list of pairs and `subscription_identifier` a list of
numbers, because these two may stand several times; any other may stand once.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, pack
from typing import Any

from glue.gateway.mqtt.codes import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    MALFORMED_PACKET,
    NAMES,
    PROTOCOL_ERROR,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
    ProtocolError,
)

Properties = dict[str, Any]

BYTE, TWO, FOUR, VARIABLE, TEXT, BINARY, PAIR = range(7)
"""Kinds of values: integers of one, two, four and one to four bytes, UTF-8, bytes, and two strings."""

MOST_USER_PROPERTIES = 256
"""User properties in a packet: a message of glue carries 64; beyond this a packet is refused, not read."""

REPEATED = frozenset({"user_property", "subscription_identifier"})

_EVERYWHERE = (
    CONNECT, CONNACK, PUBLISH, WILL, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK,
    DISCONNECT, AUTH,
)  # fmt: skip
_ANSWERS = (CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH)

TABLE: dict[int, tuple[str, int, tuple[int, ...]]] = {
    1: ("payload_format_indicator", BYTE, (PUBLISH, WILL)),
    2: ("message_expiry_interval", FOUR, (PUBLISH, WILL)),
    3: ("content_type", TEXT, (PUBLISH, WILL)),
    8: ("response_topic", TEXT, (PUBLISH, WILL)),
    9: ("correlation_data", BINARY, (PUBLISH, WILL)),
    11: ("subscription_identifier", VARIABLE, (PUBLISH, SUBSCRIBE)),
    17: ("session_expiry_interval", FOUR, (CONNECT, CONNACK, DISCONNECT)),
    18: ("assigned_client_identifier", TEXT, (CONNACK,)),
    19: ("server_keep_alive", TWO, (CONNACK,)),
    21: ("authentication_method", TEXT, (CONNECT, CONNACK, AUTH)),
    22: ("authentication_data", BINARY, (CONNECT, CONNACK, AUTH)),
    23: ("request_problem_information", BYTE, (CONNECT,)),
    24: ("will_delay_interval", FOUR, (WILL,)),
    25: ("request_response_information", BYTE, (CONNECT,)),
    26: ("response_information", TEXT, (CONNACK,)),
    28: ("server_reference", TEXT, (CONNACK, DISCONNECT)),
    31: ("reason_string", TEXT, _ANSWERS),
    33: ("receive_maximum", TWO, (CONNECT, CONNACK)),
    34: ("topic_alias_maximum", TWO, (CONNECT, CONNACK)),
    35: ("topic_alias", TWO, (PUBLISH,)),
    36: ("maximum_qos", BYTE, (CONNACK,)),
    37: ("retain_available", BYTE, (CONNACK,)),
    38: ("user_property", PAIR, _EVERYWHERE),
    39: ("maximum_packet_size", FOUR, (CONNECT, CONNACK)),
    40: ("wildcard_subscription_available", BYTE, (CONNACK,)),
    41: ("subscription_identifier_available", BYTE, (CONNACK,)),
    42: ("shared_subscription_available", BYTE, (CONNACK,)),
}
"""Identifier → name, kind, and the packets in which it may stand (table 2-4)."""

_BY_NAME = {name: (identifier, kind) for identifier, (name, kind, _) in TABLE.items()}
_FLAGS = frozenset(name for name, kind, _ in TABLE.values() if kind == BYTE)
_NOT_ZERO = frozenset({"receive_maximum", "maximum_packet_size", "topic_alias", "subscription_identifier"})

_TWO, _FOUR = Struct(">H"), Struct(">I")


def read_integer(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a variable byte integer (section 1.5.5); returns it and where it ends. Raises ProtocolError."""
    value = shift = 0
    for place in range(at, min(at + 4, end)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte:
                raise ProtocolError(MALFORMED_PACKET, "a variable byte integer is longer than it must be")
            return value, place + 1
        shift += 7
    raise ProtocolError(MALFORMED_PACKET, "a variable byte integer does not end")


def write_integer(value: int) -> bytes:
    """Write a variable byte integer, 0 to 268,435,455."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Read bytes with a length of two bytes in front; returns them and where they end. Raises ProtocolError."""
    start = at + 2
    stop = start + int.from_bytes(data[at:start], "big")
    if start > end or stop > end:
        raise ProtocolError(MALFORMED_PACKET, "a field is longer than its packet")
    return data[start:stop], stop


def read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    """Read a string (section 1.5.4); returns it and where it ends. Raises ProtocolError."""
    raw, stop = read_binary(data, at, end)
    return as_text(raw), stop


def as_text(raw: bytes) -> str:
    """Decode a string. Raises ProtocolError for what is not UTF-8, for surrogates and for U+0000."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError(MALFORMED_PACKET, "a string is not UTF-8") from None
    if "\0" in text:
        raise ProtocolError(MALFORMED_PACKET, "a string has U+0000")
    return text


def write_binary(data: bytes) -> bytes:
    """Write bytes with their length in front: 65,535 at most."""
    return _TWO.pack(len(data)) + data


def write_text(text: str) -> bytes:
    """Write a string: 65,535 bytes of UTF-8 at most."""
    return write_binary(text.encode())


def read_properties(data: bytes, at: int, end: int, packet: int) -> tuple[Properties, int]:
    """Read the properties of a packet; returns them and where they end. Raises ProtocolError."""
    length, at = read_integer(data, at, end)
    stop = at + length
    if stop > end:
        raise ProtocolError(MALFORMED_PACKET, f"the properties of a {NAMES[packet]} are longer than it")
    found: Properties = {}
    while at < stop:
        identifier, at = read_integer(data, at, stop)
        name, kind, packets = TABLE.get(identifier, ("", 0, ()))
        if packet not in packets:
            raise ProtocolError(
                MALFORMED_PACKET if not name else PROTOCOL_ERROR,
                f"property {name or identifier} in a {NAMES[packet]}",
            )
        value, at = _read_value(data, at, stop, kind)
        if name in REPEATED:
            values = found.setdefault(name, [])
            values.append(value)
            if len(values) > MOST_USER_PROPERTIES:
                raise ProtocolError(PROTOCOL_ERROR, f"more than {MOST_USER_PROPERTIES} times property {name}")
        elif name in found:
            raise ProtocolError(PROTOCOL_ERROR, f"property {name} twice")
        else:
            found[name] = value
        if (name in _NOT_ZERO and value == 0) or (name in _FLAGS and value not in (0, 1)):
            raise ProtocolError(PROTOCOL_ERROR, f"property {name} of {value}")
    if len(found.get("subscription_identifier", ())) > 1 and packet == SUBSCRIBE:
        raise ProtocolError(PROTOCOL_ERROR, "property subscription_identifier twice")
    if "authentication_data" in found and "authentication_method" not in found:
        raise ProtocolError(PROTOCOL_ERROR, "authentication data without a method")
    return found, stop


def _read_value(data: bytes, at: int, end: int, kind: int) -> tuple[Any, int]:
    if kind == TEXT:
        return read_text(data, at, end)
    if kind == BINARY:
        return read_binary(data, at, end)
    if kind == PAIR:
        name, at = read_text(data, at, end)
        value, at = read_text(data, at, end)
        return (name, value), at
    if kind == VARIABLE:
        return read_integer(data, at, end)
    size = (1, 2, 4)[kind]
    if at + size > end:
        raise ProtocolError(MALFORMED_PACKET, "a property ends early")
    return int.from_bytes(data[at : at + size], "big"), at + size


def write_properties(properties: Mapping[str, Any] | None) -> bytes:
    """Write properties with their length in front; nothing else is checked."""
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for name, value in properties.items():
        identifier, kind = _BY_NAME[name]
        values = value if name in REPEATED else (value,)
        parts.extend(bytes((identifier,)) + _write_value(one, kind) for one in values)
    body = b"".join(parts)
    return write_integer(len(body)) + body


def _write_value(value: Any, kind: int) -> bytes:
    if kind == TEXT:
        return write_text(value)
    if kind == BINARY:
        return write_binary(value)
    if kind == PAIR:
        return write_text(value[0]) + write_text(value[1])
    if kind == VARIABLE:
        return write_integer(value)
    return pack((">B", ">H", ">I")[kind], value)
