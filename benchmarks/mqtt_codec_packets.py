"""Makes MQTT packets of clients, of every type and with every property, and damages them.

They are written from the specifications, without the door's encoder. Only the names and kinds of properties come from
the door's table; the codecs that the door is compared with have tables of their own.
"""

from __future__ import annotations

from random import Random

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.properties import BINARY, PAIR, TABLE, TEXT, VARIABLE
from tests.support.mqtt import length, packet, text

LETTERS = "abcXYZ019/ -_ü€𝄞"
BY_PACKET = {
    kind: [(identifier, name, how) for identifier, (name, how, kinds) in TABLE.items() if kind in kinds]
    for kind in range(codes.CONNECT, codes.WILL + 1)
}
KINDS = (codes.CONNECT, *range(codes.PUBLISH, codes.SUBACK), codes.UNSUBSCRIBE, codes.PINGREQ, codes.DISCONNECT)
NOT_OF_CLIENTS = {"server_reference"}
"""Properties that only a server sends, beside those of packets that only a server sends."""
CODES = {
    codes.PUBACK: (0, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    codes.PUBREC: (0, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    codes.PUBREL: (0, 0x92),
    codes.PUBCOMP: (0, 0x92),
    codes.DISCONNECT: (0, 4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99),
    codes.AUTH: (0x18, 0x19),
}
"""Reason codes that a client may send (MQTT 5, sections 3.4 to 3.15)."""
ODD = 0.02
"""Share of properties and reason codes that are drawn from all there are, whatever the packet."""


class Maker:
    """Makes packets from a seed."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def text(self, least: int = 0) -> str:
        """A string, of a few characters as a rule."""
        most = 300 if self.random.random() < 0.02 else 9
        return "".join(self.random.choices(LETTERS, k=self.random.randint(least, most)))

    def raw(self) -> bytes:
        """Bytes, a few as a rule."""
        return self.random.randbytes(self.random.randint(0, 300 if self.random.random() < 0.02 else 9))

    def filter(self) -> str:
        """A topic filter."""
        levels = [self.random.choice(("+", "a", "", "b c", "ü")) for _ in range(self.random.randint(1, 3))]
        tail = self.random.choice(("/#", "/a", "/+"))
        return self.random.choice(("", "$share/g/")) + "/".join(levels) + tail

    def id(self) -> bytes:
        """A packet id."""
        return self.random.choice((1, 255, 256, 65_535, self.random.randint(1, 65_535))).to_bytes(2, "big")

    def value(self, name: str, how: int) -> object:
        """A value of a property."""
        if how == TEXT:
            return self.text(1)
        if how == BINARY:
            return self.raw()
        if how == PAIR:
            return [(self.random.choice(("a", "b", "", self.text())), self.text()) for _ in range(1 << self._few())]
        if how == VARIABLE:
            return [self.random.choice((1, 127, 128, 16_384, codes.LARGEST_PACKET))]
        return self.random.randint(0, 1) if how == 0 else self.random.randint(1, (1 << 8 * (1, 2, 4)[how]) - 1)

    def _few(self) -> int:
        return self.random.choice((0, 0, 0, 1, 2))

    def chosen(self, kind: int, share: float = 0.25) -> dict[str, object]:
        """Some properties of a packet, by name."""
        found = {name: self.value(name, how) for _, name, how in BY_PACKET[kind] if self.random.random() < share}
        if "authentication_data" in found or kind == codes.AUTH:
            found["authentication_method"] = self.text(1)
        return found

    def properties(self, kind: int) -> bytes:
        """Properties as bytes, in any order."""
        found = self.chosen(kind)
        refused = NOT_OF_CLIENTS | ({"subscription_identifier"} if kind == codes.PUBLISH else set())
        for name in refused & found.keys():
            del found[name]
        parts = [_property(identifier, how, found[name]) for identifier, name, how in BY_PACKET[kind] if name in found]
        if self.random.random() < ODD:
            identifier, (name, how, _) = self.random.choice(list(TABLE.items()))
            parts.append(_property(identifier, how, self.value(name, how)))
        self.random.shuffle(parts)
        raw = b"".join(parts)
        return length(len(raw)) + raw

    def packet(self, version: int) -> bytes:
        """A packet of a client, valid but for a few properties and reason codes."""
        kinds = (*KINDS, codes.AUTH) if version == codes.V5 else KINDS
        kind = self.random.choice(kinds)
        if kind == codes.CONNECT:
            return self._connect(version)
        if kind == codes.PUBLISH:
            return self._publish(version)
        if kind == codes.PINGREQ:
            return packet(kind << 4)
        properties = self.properties(kind) if version == codes.V5 else b""
        if kind in (codes.SUBSCRIBE, codes.UNSUBSCRIBE):
            filters = [self.filter() for _ in range(1 << self._few())]
            options = [self._options(version, name) if kind == codes.SUBSCRIBE else b"" for name in filters]
            tail = b"".join(text(name) + option for name, option in zip(filters, options, strict=True))
            return packet(kind << 4 | 2, self.id(), properties, tail)
        head = b"" if kind in (codes.DISCONNECT, codes.AUTH) else self.id()
        code = self.random.randrange(256) if self.random.random() < ODD else self.random.choice(CODES[kind])
        rest = b"" if version != codes.V5 else bytes((code,)) + properties
        if kind != codes.AUTH:
            rest = self.random.choice((rest, rest, rest[:1], b""))
        return packet(kind << 4 | (2 if kind == codes.PUBREL else 0), head, rest)

    def _options(self, version: int, name: str) -> bytes:
        qos, flags = self.random.randrange(3), self.random.choice((0, 4, 8, 12)) | self.random.randrange(3) << 4
        if version != codes.V5:
            flags = 0
        return bytes((qos | (flags & ~4 if name.startswith("$share") else flags),))

    def _publish(self, version: int) -> bytes:
        qos, retain = self.random.randrange(3), self.random.randrange(2)
        dup = self.random.randrange(2) if qos else 0
        properties = self.properties(codes.PUBLISH) if version == codes.V5 else b""
        number = self.id() if qos else b""
        return packet(0x30 | dup << 3 | qos << 1 | retain, text(self.text(1)), number, properties, self.raw())

    def _connect(self, version: int) -> bytes:
        random = self.random
        has_will, has_name = random.randrange(2), random.randrange(2)
        has_word = random.randrange(2) if has_name or version == codes.V5 else 0
        flags = has_name << 7 | has_word << 6 | has_will << 2 | random.randrange(2) << 1
        parts = [self.properties(codes.CONNECT)] if version == codes.V5 else []
        parts.append(text(self.text()))
        if has_will:
            flags |= random.randrange(2) << 5 | random.randrange(3) << 3
            parts += [self.properties(codes.WILL)] if version == codes.V5 else []
            parts += [text(self.text(1)), text(self.raw())]
        parts += [text(self.text())] * has_name + [text(self.raw())] * has_word
        return packet(0x10, text("MQTT"), bytes((version, flags)), random.randbytes(2), *parts)

    def damage(self, data: bytes) -> bytes:
        """Bytes with one to three of them changed, cut or added, or with another length; at least one is left."""
        random, found = self.random, bytearray(data)
        kind = random.choice(("flip", "cut", "insert", "length"))
        place = random.randrange(len(found))
        if kind == "flip":
            for _ in range(random.randint(1, 3)):
                found[random.randrange(len(found))] ^= random.choice((1 << random.randrange(8), random.randint(1, 255)))
        elif kind == "cut":
            del found[place : place + random.randint(1, 4)]
        elif kind == "insert":
            found[place:place] = random.randbytes(random.randint(1, 4))
        else:
            start = 2 + sum(byte > 127 for byte in data[1:3])
            size = max(0, len(data) - start + random.randint(-3, 3))
            found[1:start] = random.choice((length(size), bytes((size & 127 | 128, size >> 7 | 128, 0))))
        start = 2
        if kind in ("cut", "insert") and place >= start and random.random() < 0.7 and len(data) < 128:
            found[1] = len(found) - start
        return bytes(found) or b"\0"


def _property(identifier: int, how: int, value: object) -> bytes:
    head = bytes((identifier,))
    if isinstance(value, str | bytes):
        return head + text(value)
    if isinstance(value, list):
        return b"".join(head + (length(one) if how == VARIABLE else text(one[0]) + text(one[1])) for one in value)
    assert isinstance(value, int)
    return head + value.to_bytes((1, 2, 4)[how], "big")
