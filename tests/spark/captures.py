"""Captures made by hand: frames of every kind of link, in files of every kind, so that what is in them is known."""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

GOLDEN = {path.stem: path.read_bytes() for path in sorted((Path(__file__).parents[1] / "golden").glob("*.datagram"))}
SOURCE, SOURCE_PORT = "10.0.0.1", 5000
GROUP, GROUP_PORT = "239.192.137.1", 37320
START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_001_000
MICROSECONDS, NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D


def numbered(datagram: bytes, counter: int) -> bytes:
    """The datagram with another number of its sender."""
    return re.sub(rb"\d+\]", b"%d]" % counter, datagram, count=1)


def udp(payload: bytes, source_port: int = SOURCE_PORT) -> bytes:
    return struct.pack(">HHHH", source_port, GROUP_PORT, 8 + len(payload), 0) + payload


def ipv4(payload: bytes, protocol: int = 17, options: bytes = b"", fragment: int = 0) -> bytes:
    words = 5 + len(options) // 4
    head = (0x40 | words, 0, words * 4 + len(payload), 1, fragment, 1, protocol, 0)
    addresses = ipaddress.IPv4Address(SOURCE).packed + ipaddress.IPv4Address(GROUP).packed
    return struct.pack(">BBHHHBBH", *head) + addresses + options + payload


def ipv6(payload: bytes, protocol: int = 17) -> bytes:
    addresses = ipaddress.IPv6Address("fe80::1").packed + ipaddress.IPv6Address("ff02::7").packed
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 1) + addresses + payload


def ethernet(packet: bytes, *tags: int) -> bytes:
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    vlan = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return bytes.fromhex("01005e408901020000000001") + vlan + struct.pack(">H", kind) + packet


def frame(datagram: bytes) -> bytes:
    """A datagram as it is on an Ethernet."""
    return ethernet(ipv4(udp(datagram)))


def pcap(
    frames: Iterable[bytes], order: str = "<", magic: int = NANOSECONDS, link: int = 1, snapshot: int = 262_144
) -> bytes:
    """A pcap file; the frames are `STEP_NS` apart, cut to the snapshot."""
    unit = 1 if magic == NANOSECONDS else 1000
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snapshot, link)]
    for index, data in enumerate(frames):
        seconds, nanoseconds = divmod(START_NS + index * STEP_NS, 10**9)
        held = data[:snapshot]
        parts += [struct.pack(order + "IIII", seconds, nanoseconds // unit, len(held), len(data)), held]
    return b"".join(parts)


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of a pcapng file."""
    length = 12 + len(body) + -len(body) % 4
    return struct.pack(order + "II", kind, length) + body.ljust(length - 12, b"\0") + struct.pack(order + "I", length)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value.ljust(len(value) + -len(value) % 4, b"\0")


def section(order: str = "<") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str = "<", link: int = 1, resolution: int | None = 9, description: str = "") -> bytes:
    options = option(order, 3, description.encode()) if description else b""
    options += b"" if resolution is None else option(order, 9, bytes([resolution]))
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def packet(data: bytes, ticks: int, order: str = "<", interface: int = 0, flags: int | None = None) -> bytes:
    body = struct.pack(order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    options = b"" if flags is None else option(order, 2, struct.pack(order + "I", flags)) + option(order, 0, b"")
    return block(order, 6, body + data.ljust(len(data) + -len(data) % 4, b"\0") + options)


def pcapng(frames: Sequence[bytes], order: str = "<") -> bytes:
    """A pcapng file of one interface, in nanoseconds."""
    packets = [packet(data, START_NS + index * STEP_NS, order) for index, data in enumerate(frames)]
    return section(order) + interface(order) + b"".join(packets)
