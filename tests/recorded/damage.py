"""What the MQTT decoder makes of damaged packets: each packet is cut, lengthened, and has each of its bytes changed.

For each packet of a client, the record counts the answers by their reason, and has a hash of all answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from zlib import crc32

from glue.gateway.mqtt.codes import NAMES, ProtocolError
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.packets import Acknowledgement, Packet, Publish
from tests.support import mqtt

WILL = ("w/x", b"gone", 1, True)
PROPERTIES = b"\x02\0\0\0\x05\x03\0\x01c\x08\0\x01r\x09\0\x02cd\x01\x01\x23\0\x02\x26\0\x01k\0\x01v"


def packets() -> dict[str, tuple[int, bytes]]:
    """Packets of a client by name, each with the version of the protocol, 0 for one that comes first."""
    found = {
        "CONNECT 3.1": (0, mqtt.connect("c", 3, False, 30)),
        "CONNECT 3.1.1": (0, mqtt.connect("c", 4, False, 30, WILL, "user", b"secret")),
        "CONNECT 5": (
            0,
            mqtt.connect("", 5, True, 0, None, "u", None, b"\x11\0\0\1\0\x21\0\x05\x22\0\1\x27\0\0\1\0\x19\1\x17\0"),
        ),
        "CONNECT 5 with a will": (0, mqtt.connect("c", 5, True, 9, WILL, will_raw=b"\x18\0\0\0\x03" + PROPERTIES[:5])),
        "PUBLISH 5": (5, mqtt.publish("a/b", b"x", 1, 7, True, True, 5, PROPERTIES)),
        "SUBSCRIBE 5": (5, mqtt.subscribe(9, ("a/+", 0x2E), ("$share/g/b", 1), version=5, raw=b"\x0b\x07")),
        "DISCONNECT 5": (5, mqtt.packet(0xE0, b"\x04", mqtt.properties(b"\x11\0\0\0\x09\x1f\0\x01r"))),
        "AUTH 5": (5, mqtt.packet(0xF0, b"\x18", mqtt.properties(b"\x15\0\x01m"))),
        "PUBACK 5": (5, mqtt.packet(0x40, b"\0\x05\x10", mqtt.properties(b"\x1f\0\x01r"))),
        "PINGREQ": (4, mqtt.PING),
        "DISCONNECT": (4, mqtt.DISCONNECT),
    }
    for version in (4, 5):
        found[f"PUBLISH {version} plain"] = version, mqtt.publish("a/b", b"x", version=version)
        found[f"UNSUBSCRIBE {version}"] = version, mqtt.unsubscribe(3, "a/#", "b", version=version)
        for kind in (4, 5, 6, 7):
            found[f"acknowledgement {kind} in {version}"] = version, mqtt.acknowledge(kind, 258)
    found["SUBSCRIBE 4"] = 4, mqtt.subscribe(9, ("a/+", 2), ("b", 0))
    return found


def damaged(packet: bytes) -> Iterator[bytes]:
    """A packet with each damage; its length fits, but where the length itself is changed."""
    first, body = packet[0], packet[2:]
    assert packet[1] == len(body) < 128
    for size in range(len(body)):
        yield mqtt.packet(first, body[:size])
    for more in (b"\0", b"\x01\x02", body):
        yield mqtt.packet(first, body, more)
    for place in range(len(packet)):
        for value in sorted({packet[place] ^ 1 << bit for bit in range(8)} | {0, 1, 2, 3, 127, 128, 255}):
            yield packet[:place] + bytes((value,)) + packet[place + 1 :]
    yield packet[:1] + bytes((packet[1] | 128, 0)) + body
    yield packet[:1] + b"\xff\xff\xff\xff\x01" + body


def answer(version: int, data: bytes) -> str:
    """What the decoder makes of bytes: the packets, or why not."""
    decoder = Decoder(400)
    if version:
        list(decoder.feed(mqtt.connect(version=version)))
    try:
        found = [_words(packet) for packet in decoder.feed(data)]
    except ProtocolError as error:
        return f"{error.code:#04x} {error}"
    return f"{found} {'and a part' * decoder.has_part}"


def _words(packet: Packet) -> str:
    if isinstance(packet, Publish):
        facts = packet.topic, [*packet.payloads], packet.qos, packet.retain, packet.dup, [*packet.ids]
        return f"PUBLISH {facts} {packet.properties}"
    if isinstance(packet, Acknowledgement):
        return f"{NAMES[packet.kind]} {[*packet.ids]} {packet.code} {packet.properties}"
    return repr(packet)


def mqtt_damage() -> str:
    """Return the record."""
    lines = []
    for name, (version, packet) in packets().items():
        answers = [answer(version, packet), *(answer(version, data) for data in damaged(packet))]
        codes = Counter(one[:4] if one.startswith("0x") else "accepted" for one in answers)
        told = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
        lines += [f"{name}: {told} [{crc32(repr(answers).encode()):08x}]", f"  {answers[0][:180]}"]
        seen = dict.fromkeys(one for one in answers if one.startswith("0x"))
        lines += [f"  {one[:100]}" for one in list(seen)[:6]]
    return "\n".join(lines) + "\n"
