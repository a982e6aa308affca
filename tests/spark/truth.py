"""A trace whose truth is known: what hosts of the simulator would capture, each with a clock of its own.

A `Tap` sits at the network card of every simulated host. It sees what leaves the host, and what the network lets
arrive, and stamps both with its own clock, which is wrong by a known offset and drift. Beside what it captures, the
virtual network tells the outcome of each datagram on each link: that is the truth which the analysis has to find.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from glue.contract import Address
from glue.simulation import World
from glue.simulation.clock import Clock
from glue.simulation.host import EPOCH, Host
from glue.simulation.network import Crossing

GROUP: Address = ("239.192.137.1", 37320)
ETHERNET = 1  # the link type of pcap and pcapng


class Frame(NamedTuple):
    """A captured datagram: `time` is Unix nanoseconds by the clock of the capture point."""

    time: int
    source: Address
    destination: Address
    data: bytes


class Outcome(NamedTuple):
    """What became of one datagram on its way to one host; true times in seconds, `arrived_at` of each copy."""

    source: str
    receiver: str
    sent_at: float
    arrived_at: tuple[float, ...]
    is_multicast: bool
    data: bytes


class Taps:
    """Capture points at hosts of a world, by name; they watch from now on, and nothing else may observe.

    `clocks` gives each point its clock, of which `offset` and `drift` are the error against true time.
    """

    def __init__(self, world: World, hosts: dict[str, Host], clocks: dict[str, Clock]) -> None:
        self.captured: dict[str, list[Frame]] = {}
        self._names: dict[Address, str] = {}
        self._clocks: dict[str, Clock] = {}
        for name, host in hosts.items():
            self.add(name, host, clocks[name])
        self._leaving: set[tuple[float, bytes]] = set()
        self._crossings: dict[tuple[str, str, bytes], list[Crossing]] = {}
        world.network.observer = self._observe

    def add(self, name: str, host: Host, clock: Clock) -> None:
        """Capture at one more host."""
        self.captured[name] = []
        self._names[host.address] = name
        self._clocks[name] = clock

    def _observe(self, crossing: Crossing) -> None:
        source, receiver = self._names[crossing.source], self._names.get(crossing.receiver)
        sent = crossing.sent_at, crossing.data
        if sent not in self._leaving and crossing.outcome != "sender down":  # once, however many receive it
            self._leaving.add(sent)
            self._capture(source, crossing.sent_at, crossing)
        if receiver is None or receiver == source:
            return
        if crossing.outcome == "arrived":
            self._capture(receiver, crossing.time, crossing)
        self._crossings.setdefault((source, receiver, crossing.data), []).append(crossing)

    def _capture(self, point: str, time: float, crossing: Crossing) -> None:
        frame = Frame(self.stamp(point, time), crossing.source, crossing.destination or GROUP, crossing.data)
        self.captured[point].append(frame)

    def stamp(self, point: str, time: float) -> int:
        """What the clock of a capture point shows at this true time, in Unix nanoseconds."""
        return int(EPOCH) * 10**9 + round(self._clocks[point].read(time) * 1e9)

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of every datagram so far, for each host that it was sent to."""
        return [
            Outcome(
                source,
                receiver,
                copies[0].sent_at,
                tuple(sorted(copy.time for copy in copies if copy.outcome == "arrived")),
                copies[0].destination is None,
                data,
            )
            for (source, receiver, data), copies in self._crossings.items()
        ]

    def write(self, directory: Path, points: Iterable[str] | None = None) -> list[Path]:
        """Write a pcapng file for each of the points (default: all of them), named after it."""
        paths = []
        for point in self.captured if points is None else points:
            paths.append(directory / f"{point}.pcapng")
            paths[-1].write_bytes(pcapng(point, sorted(self.captured[point])))
        return paths


def pcapng(point: str, frames: Sequence[Frame]) -> bytes:
    """A capture file as `draft-ietf-opsawg-pcapng` has it: one interface, named `point`, with nanoseconds."""
    resolution, name = struct.pack("<HHB3x", 9, 1, 9), point.encode()
    options = struct.pack("<HH", 2, len(name)) + name.ljust(-(-len(name) // 4) * 4, b"\0") + resolution + bytes(4)
    blocks = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", ETHERNET, 0, 0) + options),
    ]
    for frame in frames:
        data = ethernet(frame)
        head = struct.pack("<IIIII", 0, frame.time >> 32, frame.time & 0xFFFFFFFF, len(data), len(data))
        blocks.append(_block(6, head + data.ljust(-(-len(data) // 4) * 4, b"\0")))
    return b"".join(blocks)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def ethernet(frame: Frame) -> bytes:
    """The datagram in UDP, IPv4 and Ethernet; the UDP checksum is left out, as RFC 768 allows."""
    (source, source_port), (destination, port) = frame.source, frame.destination
    udp = struct.pack(">HHHH", source_port, port, 8 + len(frame.data), 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    ip = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(frame.data), 0, 0x4000, 1, 17, 0) + addresses)
    total = sum(struct.unpack(">10H", ip))
    ip[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    return _hardware(destination) + _hardware(source) + b"\x08\x00" + bytes(ip) + udp + frame.data


def _hardware(address: str) -> bytes:
    """The hardware address of a host, or of a multicast group (RFC 1112, section 6.4)."""
    packed = socket.inet_aton(address)
    if packed[0] >= 224:
        return b"\x01\x00\x5e" + bytes([packed[1] & 0x7F]) + packed[2:]
    return b"\x02\x00" + packed
