"""Reads the packets of one client from the bytes of its connection, without sockets (sans I/O).

Packets are read in two ways. `runs.py` reads runs of like packets at once: publications of one topic and one length,
and acknowledgements. This file reads all other packets, one at a time, with all checks of the specifications. The tests
compare both ways, because they must give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.codes import (
    LISTED,
    MALFORMED_PACKET,
    NAMES,
    OF_CLIENTS,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    TOPIC_FILTER_INVALID,
    TOPIC_NAME_INVALID,
    UNSUPPORTED_VERSION,
    V5,
    V31,
    V311,
    ProtocolError,
)
from glue.gateway.mqtt.packets import (
    Acknowledgement,
    Auth,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    Wanted,
    Will,
)
from glue.gateway.mqtt.properties import Properties, as_text, read_binary, read_properties, read_text
from glue.gateway.mqtt.runs import read_acknowledgements, read_publications

CONNECT_LIMIT = 1 << 20
"""Bytes of a CONNECT: a will of 65,535 bytes, its topic, the client id, name and password take 320 kB at most, and the
rest is left to user properties."""

FILTERS_LIMIT = 4_096
"""Topic filters in one SUBSCRIBE or UNSUBSCRIBE; more are a protocol error."""

_FLAGS = {codes.PUBREL: 2, codes.SUBSCRIBE: 2, codes.UNSUBSCRIBE: 2}
"""The lower four bits of the first byte of each packet (3.1.1, table 2.2) where they are not 0."""

_LONG_LENGTH = "the length of a packet has more bytes than it needs"
"""Malformed in MQTT 5 (1.5.5-1); MQTT 3.1.1 has no such rule."""

PROTOCOLS = {("MQIsdp", V31), ("MQTT", V311), ("MQTT", V5)}

BRIDGE = 0x80
"""Added to the version 3.1 or 3.1.1 by a broker that connects as a bridge: mosquitto's `try_private`."""


class Decoder:
    """Turns bytes of a client into packets. After a ProtocolError nothing more may be fed."""

    __slots__ = ("_need", "_pending", "limit", "version")

    def __init__(self, limit: int = codes.LARGEST_PACKET) -> None:
        """`limit` is the largest packet in bytes, without its fixed header. `version` is 0 before the CONNECT."""
        self.version = 0
        self.limit = limit
        self._pending = bytearray()
        self._need = 0  # bytes that must be pending before the next packet is whole

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Return the packets that are whole with these bytes. Raises ProtocolError at the first wrong one.

        Read it to its end before the next call.
        """
        if self._pending:
            self._pending += data
            if len(self._pending) < self._need:
                return
            data = bytes(self._pending)
            self._pending.clear()
        at, end = 0, len(data)
        while at < end:
            first = data[at]
            if first & 0xF0 == 0x30 and self.version:
                publications, at = read_publications(data, at, end, self.version, self.limit)
                if publications is not None:
                    yield publications
                    continue
            elif first == 0x40 and self.version:
                acknowledgements, at = read_acknowledgements(data, at, end)
                if acknowledgements is not None:
                    yield acknowledgements
                    continue
            start, stop = self._frame(data, at, end)
            if stop > end or start == 0:
                break
            yield self._packet(first, data, start, stop)
            at = stop
        if at < end:
            self._pending += data[at:]
            self._need = self._whole(data, at, end)

    @property
    def has_part(self) -> bool:
        """Whether a packet has begun and is not whole."""
        return bool(self._pending)

    def _whole(self, data: bytes, at: int, end: int) -> int:
        """Bytes of the packet that begins at `at`; 0 if that is not known yet."""
        start, stop = self._frame(data, at, end)
        return stop - at if start else 0

    def _frame(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Read a fixed header: where the rest of the packet starts and stops; (0, 0) if the header is not whole."""
        length = shift = 0
        for place in range(at + 1, min(at + 5, end)):
            byte = data[place]
            length |= (byte & 127) << shift
            if byte < 128:
                self._check_frame(data[at], length)
                if shift and not byte and self.version == V5:
                    raise ProtocolError(MALFORMED_PACKET, _LONG_LENGTH)
                return place + 1, place + 1 + length
            shift += 7
        if end - at >= 5:
            raise ProtocolError(MALFORMED_PACKET, "the length of a packet does not end")
        if not self.version:
            self._check_frame(data[at], 0)
        return 0, 0

    def _check_frame(self, first: int, length: int) -> None:
        kind = first >> 4
        if not self.version:
            if first != codes.CONNECT << 4:
                raise ProtocolError(PROTOCOL_ERROR, f"a {NAMES[kind]} before the CONNECT")
            if length > CONNECT_LIMIT:
                raise ProtocolError(PACKET_TOO_LARGE, f"a CONNECT of {length:,} bytes; {CONNECT_LIMIT:,} are allowed")
        elif length > self.limit:
            raise ProtocolError(PACKET_TOO_LARGE, f"a {NAMES[kind]} of {length:,} bytes; {self.limit:,} are allowed")
        if kind != codes.PUBLISH and first & 15 != _FLAGS.get(kind, 0):
            raise ProtocolError(MALFORMED_PACKET, f"flags {first & 15:04b} in a {NAMES[kind]}")

    def _packet(self, first: int, data: bytes, at: int, end: int) -> Packet:
        kind = first >> 4
        if kind == codes.PUBLISH:
            return self._publish(first, data, at, end)
        if kind == codes.CONNECT:
            if self.version:
                raise ProtocolError(PROTOCOL_ERROR, "a second CONNECT")
            packet = read_connect(data, at, end)
            if packet.version == V5 and not data[at - 1] and data[at - 2] > 127:
                raise ProtocolError(MALFORMED_PACKET, _LONG_LENGTH)
            self.version = packet.version
            return packet
        reader = _READERS.get(kind)
        if reader is None or (kind == codes.AUTH and self.version != V5):
            raise ProtocolError(PROTOCOL_ERROR, f"a {NAMES[kind]} from a client")
        return reader(data, at, end, kind, self.version == V5)

    def _publish(self, first: int, data: bytes, at: int, end: int) -> Publish:
        qos, dup, retain = first >> 1 & 3, bool(first & 8), bool(first & 1)
        if qos == 3:
            raise ProtocolError(MALFORMED_PACKET, "a PUBLISH with both bits of QoS set")
        if dup and not qos:
            raise ProtocolError(MALFORMED_PACKET, "a PUBLISH of QoS 0 that says it is a duplicate")
        topic, at = read_text(data, at, end)
        ids: tuple[int, ...] = ()
        if qos:
            number, at = read_id(data, at, end)
            ids = (number,)
        properties: Properties | None = None
        if self.version == V5:
            properties, at = read_properties(data, at, end, codes.PUBLISH)
            if "subscription_identifier" in properties:
                raise ProtocolError(PROTOCOL_ERROR, "a PUBLISH of a client with a subscription identifier")
            if "response_topic" in properties:
                check_topic_name(properties["response_topic"])
        if topic or not properties or "topic_alias" not in properties:
            check_topic_name(topic)
        return Publish(topic, (data[at:end],), qos, retain, properties or None, dup, ids, self.version)


def read_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a packet id; return the id and its end position. Raises ProtocolError if the id is 0 or missing."""
    stop = at + 2
    number = int.from_bytes(data[at:stop], "big")
    if stop > end or not number:
        raise ProtocolError(MALFORMED_PACKET, "a packet id is 0 or missing")
    return number, stop


def check_topic_name(topic: str) -> None:
    """Raise ProtocolError unless messages can be published to the topic (4.7)."""
    if not topic or "+" in topic or "#" in topic:
        raise ProtocolError(TOPIC_NAME_INVALID, f"topic {topic[:80]!r} is empty or has a wildcard")


def check_filter(name: str) -> None:
    """Raise ProtocolError unless the topic filter is well-formed (4.7, and 4.8.2 for `$share`)."""
    levels = name.split("/")
    if levels[0] == "$share":
        if len(levels) < 3 or not levels[1] or "+" in levels[1] or "#" in levels[1]:
            raise ProtocolError(TOPIC_FILTER_INVALID, f"shared subscription {name[:80]!r}: $share/NAME/FILTER expected")
        levels = levels[2:]
    for number, level in enumerate(levels):
        if len(level) > 1 and ("+" in level or "#" in level):
            raise ProtocolError(TOPIC_FILTER_INVALID, f"filter {name[:80]!r}: a wildcard must be a whole level")
        if level == "#" and number < len(levels) - 1:
            raise ProtocolError(TOPIC_FILTER_INVALID, f"filter {name[:80]!r}: '#' must be the last level")
    if levels == [""]:
        raise ProtocolError(TOPIC_FILTER_INVALID, "an empty topic filter")


def read_connect(data: bytes, at: int, end: int) -> Connect:
    """Read the rest of a CONNECT (3.1.1, section 3.1). Raises ProtocolError."""
    protocol, at = read_text(data, at, end)
    if at + 4 > end:
        raise ProtocolError(MALFORMED_PACKET, "a CONNECT ends early")
    version, flags, keep_alive = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
    at += 4
    is_bridge = version in (V31 | BRIDGE, V311 | BRIDGE)
    if is_bridge:
        version -= BRIDGE
    if (protocol, version) not in PROTOCOLS:
        raise ProtocolError(UNSUPPORTED_VERSION, f"protocol {protocol[:20]!r}, version {version}")
    has_will, will_qos, will_retain = flags & 4, flags >> 3 & 3, bool(flags & 32)
    if flags & 1 or will_qos == 3 or (not has_will and flags & 0x38):
        raise ProtocolError(MALFORMED_PACKET, f"flags {flags:08b} in a CONNECT")
    if version != V5 and flags & 0xC0 == 0x40:
        raise ProtocolError(MALFORMED_PACKET, "a password without a user name")
    properties: Properties = {}
    if version == V5:
        properties, at = read_properties(data, at, end, codes.CONNECT)
    client_id, at = read_text(data, at, end)
    will = None
    if has_will:
        will_properties: Properties = {}
        if version == V5:
            will_properties, at = read_properties(data, at, end, codes.WILL)
        topic, at = read_text(data, at, end)
        payload, at = read_binary(data, at, end)
        check_topic_name(topic)
        if "response_topic" in will_properties:
            check_topic_name(will_properties["response_topic"])
        will = Will(topic, payload, will_qos, will_retain, will_properties)
    username = password = None
    if flags & 0x80:
        username, at = read_text(data, at, end)
    if flags & 0x40:
        password, at = read_binary(data, at, end)
    _check_end(at, end, codes.CONNECT)
    return Connect(version, client_id, bool(flags & 2), keep_alive, username, password, will, properties, is_bridge)


def _acknowledgement(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Acknowledgement:
    number, at = read_id(data, at, end)
    code, properties = _reason(data, at, end, kind, is_v5)
    return Acknowledgement(kind, (number,), code, properties or None)


def _reason(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> tuple[int, Properties]:
    """Read the reason code and the properties at the end of a packet; both may be left out."""
    code, properties = codes.SUCCESS, Properties()
    if is_v5 and at < end:
        code, at = data[at], at + 1
        if at < end:
            properties, at = read_properties(data, at, end, kind)
    _check_end(at, end, kind)
    if code not in OF_CLIENTS[kind]:
        source = " from a client" if code in LISTED[kind] else ""
        raise ProtocolError(PROTOCOL_ERROR, f"reason code 0x{code:02x} in a {NAMES[kind]}{source}")
    if "server_reference" in properties:
        raise ProtocolError(PROTOCOL_ERROR, "a server reference from a client")
    return code, properties


def _subscribe(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Subscribe:
    number, at = read_id(data, at, end)
    properties: Properties = {}
    if is_v5:
        properties, at = read_properties(data, at, end, kind)
    wanted = []
    while at < end:
        name, at = read_text(data, at, end)
        check_filter(name)
        if at >= end:
            raise ProtocolError(MALFORMED_PACKET, "a SUBSCRIBE ends early")
        options, at = data[at], at + 1
        if options & 3 == 3 or options & (0xC0 if is_v5 else 0xFC) or options & 0x30 == 0x30:
            raise ProtocolError(MALFORMED_PACKET, f"options {options:08b} in a SUBSCRIBE")
        if options & 4 and name.startswith("$share/"):
            raise ProtocolError(PROTOCOL_ERROR, "a shared subscription that wants no own messages")
        wanted.append(Wanted(name, options & 3, bool(options & 4), bool(options & 8), options >> 4))
        _check_count(wanted)
    if not wanted:
        raise ProtocolError(PROTOCOL_ERROR, "a SUBSCRIBE without a topic filter")
    return Subscribe(number, wanted, properties)


def _unsubscribe(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Unsubscribe:
    number, at = read_id(data, at, end)
    properties: Properties = {}
    if is_v5:
        properties, at = read_properties(data, at, end, kind)
    filters = []
    while at < end:
        raw, at = read_binary(data, at, end)
        name = as_text(raw)
        check_filter(name)
        filters.append(name)
        _check_count(filters)
    if not filters:
        raise ProtocolError(PROTOCOL_ERROR, "an UNSUBSCRIBE without a topic filter")
    return Unsubscribe(number, filters, properties)


def _check_count(found: list[Wanted] | list[str]) -> None:
    if len(found) > FILTERS_LIMIT:
        raise ProtocolError(PROTOCOL_ERROR, f"more than {FILTERS_LIMIT} topic filters in a packet")


def _ping(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Ping:
    _check_end(at, end, kind)
    return Ping()


def _disconnect(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Disconnect:
    return Disconnect(*_reason(data, at, end, kind, is_v5))


def _auth(data: bytes, at: int, end: int, kind: int, is_v5: bool) -> Auth:
    code, properties = _reason(data, at, end, kind, is_v5)
    if at < end and "authentication_method" not in properties:
        raise ProtocolError(PROTOCOL_ERROR, "an AUTH without an authentication method")
    return Auth(code, properties)


def _check_end(at: int, end: int, kind: int) -> None:
    if at != end:
        raise ProtocolError(MALFORMED_PACKET, f"{end - at} bytes after a {NAMES[kind]}")


_READERS: dict[int, Callable[[bytes, int, int, int, bool], Packet]] = {
    codes.PUBACK: _acknowledgement,
    codes.PUBREC: _acknowledgement,
    codes.PUBREL: _acknowledgement,
    codes.PUBCOMP: _acknowledgement,
    codes.SUBSCRIBE: _subscribe,
    codes.UNSUBSCRIBE: _unsubscribe,
    codes.PINGREQ: _ping,
    codes.DISCONNECT: _disconnect,
    codes.AUTH: _auth,
}
