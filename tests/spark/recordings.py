"""Recorded traces, and what is written down of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark import captures
from tests.spark.captures import GOLDEN, block, ethernet, frame, interface, ipv4, ipv6, packet, section, udp

RECORDED = Path(__file__).parent / "recorded"


DATAGRAMS = [GOLDEN[name] for name in sorted(GOLDEN)]


FRAMES = [frame(data) for data in DATAGRAMS]


def damaged(data: bytes, at: int, by: bytes) -> bytes:
    return data[:at] + by + data[at + len(by) :]


def cooked(packet: bytes) -> bytes:
    """Linux cooked capture, version 1."""
    return struct.pack(">HHHQH", 0, 1, 6, 0, 0x0800) + packet


CAPTURES: dict[str, Callable[[], bytes]] = {
    "pcap-nanoseconds": lambda: captures.pcap(FRAMES),
    "pcap-microseconds-big-endian": lambda: captures.pcap(FRAMES, ">", captures.MICROSECONDS),
    "pcap-cut-to-a-snapshot": lambda: captures.pcap(FRAMES, snapshot=200),
    "pcap-raw-ip": lambda: captures.pcap([ipv4(udp(d)) for d in DATAGRAMS] + [ipv6(udp(DATAGRAMS[0]))], link=101),
    "pcap-linux-cooked": lambda: captures.pcap([cooked(ipv4(udp(d))) for d in DATAGRAMS], link=113),
    "pcap-tags-options-and-others": lambda: captures.pcap(
        [
            *(ethernet(ipv4(udp(d), options=bytes(8)), 0x8100) for d in DATAGRAMS[:4]),
            *(ethernet(ipv6(udp(d)), 0x88A8, 0x8100) for d in DATAGRAMS[:4]),
            ethernet(ipv4(b"tcp" * 9, protocol=6)),
            ethernet(ipv4(udp(b"not glue's"))),
            ethernet(ipv4(udp(DATAGRAMS[0]), fragment=0x2000)),
            ethernet(ipv4(b"the rest of it", fragment=0x0010)),
            b"short",
            *FRAMES,
        ]
    ),
    "pcap-with-damage": lambda: damaged(captures.pcap(FRAMES), 900, b"\xff" * 40),
    "pcap-that-ends-early": lambda: captures.pcap(FRAMES)[:-37],
    "pcapng": lambda: captures.pcapng(FRAMES),
    "pcapng-big-endian": lambda: captures.pcapng(FRAMES, ">"),
    "pcapng-with-damage": lambda: damaged(captures.pcapng(FRAMES), 1200, b"\xff" * 60),
    "pcapng-that-ends-early": lambda: captures.pcapng(FRAMES)[:-50],
    "pcapng-of-several-interfaces": lambda: (
        section()
        + interface(resolution=6, description="first")
        + interface(link=101, resolution=None)
        + b"".join(packet(d, 1_700_000_000_000_000 + n * 7, flags=n % 3) for n, d in enumerate(FRAMES[:6]))
        + b"".join(packet(ipv4(udp(d)), 1_700_000_000_500_000 + n, interface=1) for n, d in enumerate(DATAGRAMS[:6]))
        + packet(FRAMES[0], 5, interface=7)
        + block("<", 5, struct.pack("<III", 0, 0, 0))
        + block("<", 0xBAD, b"unknown")
        + section(">")
        + interface(">", resolution=0x94)
        + b"".join(packet(d, 1 << 34 | n, ">") for n, d in enumerate(FRAMES[6:9]))
    ),
}


def compare(lines: list[str], name: str, pytestconfig: pytest.Config) -> None:
    path = RECORDED / f"{name}.txt"
    if pytestconfig.getoption("--rewrite"):
        path.write_text("".join(f"{line}\n" for line in lines))
    assert lines == path.read_text().splitlines()
