"""Reader of pcapng: blocks of sections, interfaces and packets (draft-ietf-opsawg-pcapng).

The meaning of a block may depend on all earlier blocks of its section: byte order, interfaces and their clocks. A
`Pcapng` holds this knowledge. The interface's description holds the name of the capture point, after `POINT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

import numpy as np

from spark.read.records import LARGEST_RECORD, Booleans, Bytes, Fault, Integers, Records, Scan, fields_at
from spark.read.resync import (
    INTERFACE,
    MARK,
    OLD_PACKET,
    ORDER_MAGIC,
    PACKET,
    SECTION,
    SIMPLE_PACKET,
    SMALLEST_BLOCK,
    STATISTICS,
    next_block,
)

OPTION_END, OPTION_FLAGS = 0, 2
INTERFACE_NAME, INTERFACE_DESCRIPTION, INTERFACE_RESOLUTION, INTERFACE_OFFSET = 2, 3, 9, 14
STATISTICS_DROPPED_BY_INTERFACE, STATISTICS_DROPPED_BY_SYSTEM = 5, 7
POINT = "glue capture point: "
"""Prefix of an interface's description in glue's recordings. The name of the capture point follows."""

PACKET_FIELDS = 28  # bytes of an enhanced packet block before the frame
PACKET_OPTIONS = 4  # most options of a packet to examine; recorders put the direction among the first


@dataclass(frozen=True)
class Interface:
    """An interface of a section: link type, clock and capture point."""

    link: int
    snapshot: int
    point: str | None
    resolution: int
    """Resolution of timestamps as in the file: 10 to the minus n, or with the highest bit set, 2 to the minus n."""
    offset_ns: int

    def nanoseconds(self, ticks: Integers) -> Integers:
        """Convert timestamps of packets to nanoseconds since 1970."""
        exponent = self.resolution & 0x7F
        if self.resolution & 0x80:
            fraction = ticks & ((1 << exponent) - 1) if exponent < 63 else ticks
            billionths = (fraction >> min(max(0, exponent - 30), 63)) * 10**9 >> min(exponent, 30)
            time = (ticks >> min(exponent, 63)) * 10**9 + billionths
        elif exponent <= 9:
            time = ticks * 10 ** (9 - exponent)
        else:
            time = ticks // 10 ** min(exponent - 9, 18)
        return time + self.offset_ns


class _Packets(NamedTuple):
    """Packet blocks of one kind in a buffer: their starts and fields."""

    starts: Integers
    frame: int
    """Bytes of the block before the frame."""
    interface: Integers
    ticks: Integers
    captured: Integers
    direction: Integers

    def take(self, rows: Booleans) -> _Packets:
        """Return the selected packets."""
        return _Packets(
            self.starts[rows],
            self.frame,
            self.interface[rows],
            self.ticks[rows],
            self.captured[rows],
            self.direction[rows],
        )


@dataclass
class _Walk:
    """Starts of blocks in a buffer: enhanced packets, packets of other kinds, and other blocks as (kind, start, end).

    `position` is the start of the first block that is incomplete or damaged.
    """

    packets: list[int] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)
    others: list[tuple[int, int, int]] = field(default_factory=list)
    position: int = 0
    fault: Fault | None = None


class Pcapng:
    """A pcapng file, with the knowledge of all blocks read so far."""

    def __init__(self, header: bytes, first: int = 0) -> None:
        """`header`: the first 12 bytes of the section. Raises ValueError for any other bytes."""
        if header[:4] != MARK or header[8:12] not in ORDER_MAGIC:
            raise ValueError("not a pcapng file")
        self.first = first
        self.order = ORDER_MAGIC[header[8:12]]
        self.interfaces: list[Interface] = []
        self.resumes = True
        self.dropped: int | None = None
        self._dropped: dict[int, int] = {}
        self._unsure = False
        """Whether this section had a fault. A later interface block may then have another number, or belong to another
        section.
        """
        self._astray = False
        """Whether interfaces of this section were lost. Then the rest of the section is unreadable."""

    # -------------------------------------------------------------------------------------------- blocks

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """Return the packets among the first `size` bytes of the buffer, which starts at byte `base` of the file."""
        walk = self._walk(buffer.data, size)
        enhanced, fault, position = self._enhanced(buffer, np.array(walk.packets, np.int64), walk.fault, walk.position)
        for kind, start, stop in walk.others:
            if start >= position:
                break
            if kind == INTERFACE and self._unsure:
                position, fault = start, Fault("an interface described behind a fault, maybe of another section", start)
                enhanced = enhanced.take(enhanced.starts < position)
                self._astray = True
                break
            self._learn(kind, buffer.data[start:stop])
        unknown = np.flatnonzero(enhanced.interface >= len(self.interfaces))
        if unknown.size:
            position = int(enhanced.starts[unknown[0]])
            fault = Fault("a packet of an interface that was not described", position)
            enhanced = enhanced.take(enhanced.starts < position)
            self._astray = True
        odd = [start for start in walk.odd if start < position]
        records = self._records(buffer, [enhanced, *self._odd(buffer.data, odd)], base)
        if fault is not None:
            fault = Fault(fault.cause, base + fault.offset)
        return Scan(records, position, fault)

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """Find the next block from which the file is readable (see `resync`)."""
        self._unsure = True
        return next_block(buffer, size, self.order, over, self._astray)

    def _walk(self, data: memoryview, size: int) -> _Walk:
        """Note the starts of blocks up to the next section, which has its own byte order and interfaces."""
        walk = _Walk()
        head = Struct(self.order + "II").unpack_from
        last = size - SMALLEST_BLOCK
        while walk.position <= last:
            position = walk.position
            kind, length = head(data, position)
            if kind == SECTION:
                if position:
                    break
                if bytes(data[8:12]) not in ORDER_MAGIC:
                    walk.fault = Fault("a section without a byte order", position)
                    break
                self.order = ORDER_MAGIC[bytes(data[8:12])]
                head = Struct(self.order + "II").unpack_from
                kind, length = head(data, position)
            following = position + length
            if length < SMALLEST_BLOCK or length % 4 or length > LARGEST_RECORD:
                walk.fault = Fault(f"a block of {length:,} bytes", position)
                break
            if following > size:
                break
            if kind == PACKET:
                walk.packets.append(position)
            elif head(data, following - 8)[1] != length:
                walk.fault = Fault("a block whose lengths contradict each other", position)
                break
            elif kind in (SIMPLE_PACKET, OLD_PACKET):
                walk.odd.append(position)
            else:
                walk.others.append((kind, position, following))
            walk.position = following
        return walk

    def _learn(self, kind: int, block: memoryview) -> None:
        if kind == SECTION:
            self.interfaces = []
            self._dropped = {}
            self._unsure = self._astray = False
        elif kind == INTERFACE and len(block) >= 20:
            self.interfaces.append(self._interface(block))
        elif kind == STATISTICS and len(block) >= 24:
            (interface,) = Struct(self.order + "I").unpack_from(block, 8)
            options = dict(self._options(block[20:-4]))
            number = Struct(self.order + "Q")
            told = [
                number.unpack(options[code])[0]
                for code in (STATISTICS_DROPPED_BY_INTERFACE, STATISTICS_DROPPED_BY_SYSTEM)
                if len(options.get(code, b"")) == number.size
            ]
            if told:
                before = self._dropped.get(interface, 0)
                self._dropped[interface] = sum(told)
                self.dropped = (self.dropped or 0) + sum(told) - before

    def _interface(self, block: memoryview) -> Interface:
        link, snapshot = Struct(self.order + "HxxI").unpack_from(block, 8)
        options = dict(self._options(block[16:-4]))
        description = options.get(INTERFACE_DESCRIPTION, b"").decode(errors="replace")
        resolution, offset = options.get(INTERFACE_RESOLUTION), options.get(INTERFACE_OFFSET, b"")
        return Interface(
            link=link,
            snapshot=snapshot,
            point=description.removeprefix(POINT) if description.startswith(POINT) else None,
            resolution=resolution[0] if resolution else 6,
            offset_ns=Struct(self.order + "q").unpack(offset)[0] * 10**9 if len(offset) == 8 else 0,
        )

    def _options(self, data: memoryview) -> Iterator[tuple[int, bytes]]:
        head = Struct(self.order + "HH").unpack_from
        position = 0
        while position + 4 <= len(data):
            code, length = head(data, position)
            if code == OPTION_END:
                return
            yield code, bytes(data[position + 4 : position + 4 + length])
            position += 4 + length + -length % 4

    # ------------------------------------------------------------------------------------------- packets

    def _enhanced(
        self, buffer: Bytes, starts: Integers, fault: Fault | None, position: int
    ) -> tuple[_Packets, Fault | None, int]:
        """Return the fields of enhanced packet blocks, up to the first with contradicting lengths."""
        fields = fields_at(buffer, starts, 4, 6, self.order).astype(np.int64)
        length, captured = fields[:, 0], fields[:, 4]
        closing = fields_at(buffer, starts + length, -4, 1, self.order)[:, 0]
        bad = np.flatnonzero((closing != length) | (PACKET_FIELDS + captured + 4 > length))
        if bad.size:
            position = int(starts[bad[0]])
            fault = Fault("a packet block whose lengths contradict each other", position)
            starts, fields = starts[: bad[0]], fields[: bad[0]]
            length, captured = length[: bad[0]], captured[: bad[0]]
        ticks = (fields[:, 2] << 32) | fields[:, 3]
        direction = self._directions(buffer, starts, length, captured)
        return _Packets(starts, PACKET_FIELDS, fields[:, 1], ticks, captured, direction), fault, position

    def _directions(self, buffer: Bytes, starts: Integers, length: Integers, captured: Integers) -> Integers:
        """Return the lowest two bits of the packets' flags, 0 without flags."""
        direction = np.zeros(len(starts), np.int64)
        position = starts + PACKET_FIELDS + captured + -captured % 4
        end = starts + length - 4
        rows = np.flatnonzero(position + 8 <= end)
        for _ in range(PACKET_OPTIONS):
            if not rows.size:
                break
            codes = np.lib.stride_tricks.sliding_window_view(buffer, 8)[position[rows]]
            code = codes[:, :4].copy().view(f"{self.order}u2").astype(np.int64)
            flags = codes[:, 4:].copy().view(f"{self.order}u4")[:, 0].astype(np.int64)
            found = (code[:, 0] == OPTION_FLAGS) & (code[:, 1] == 4)
            direction[rows[found]] = flags[found] & 3
            position[rows] += 4 + code[:, 1] + -code[:, 1] % 4
            rows = rows[~found & (code[:, 0] != OPTION_END) & (position[rows] + 8 <= end[rows])]
        return direction

    def _odd(self, data: memoryview, starts: list[int]) -> Iterator[_Packets]:
        """Yield simple and obsolete packet blocks one by one. Recorders rarely write them."""
        for start in starts:
            kind, length = Struct(self.order + "II").unpack_from(data, start)
            if kind == OLD_PACKET:
                interface, high, low, captured = Struct(self.order + "HxxIII").unpack_from(data, start + 8)
                ticks, frame = high << 32 | low, PACKET_FIELDS
            else:
                (original,) = Struct(self.order + "I").unpack_from(data, start + 8)
                interface, ticks, frame = 0, 0, 12
                captured = min(original, length - 16)
            if interface < len(self.interfaces) and frame + captured + 4 <= length:
                numbers = (np.array([number], np.int64) for number in (interface, ticks, captured, 0))
                yield _Packets(np.array([start], np.int64), frame, *numbers)

    def _records(self, buffer: Bytes, parts: list[_Packets], base: int) -> Records:
        starts = np.concatenate([part.starts for part in parts])
        begin = np.concatenate([part.starts + part.frame for part in parts])
        point = np.concatenate([part.interface for part in parts])
        ticks = np.concatenate([part.ticks for part in parts])
        time_ns, link = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
        for index in np.unique(point):
            rows = point == index
            time_ns[rows] = self.interfaces[index].nanoseconds(ticks[rows])
            link[rows] = self.interfaces[index].link
        return Records(
            buffer=buffer,
            offset=starts + base,
            begin=begin,
            captured=np.concatenate([part.captured for part in parts]),
            time_ns=time_ns,
            link=link,
            point=point,
            direction=np.concatenate([part.direction for part in parts]),
            points=[interface.point for interface in self.interfaces],
        )
