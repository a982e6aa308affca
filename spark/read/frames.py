"""Conversion of blocks of captured frames to Arrow batches of `frames`, with only the requested columns."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark.read import bodies
from spark.read.header import INTEGERS, TEXTS
from spark.read.indexes import Indexes
from spark.read.link import Datagrams, split_trains, unwrap
from spark.read.records import Booleans, Fault, Integers, Records
from spark.read.templates import Columns, Decoder
from spark.schema import Column, arrow_schema, arrow_type

BATCH = 32 * 1024
"""Rows of an Arrow batch."""

DIRECTIONS = (None, "in", "out", None)
_ACKNOWLEDGEMENT = ("ack_channel", "ack_next", "ack_held_us", "ack_window")


@dataclass
class Tally:
    """Counts of what was read, and faults."""

    records: int = 0
    datagrams: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    fault: Fault | None = None
    """The first fault."""
    faults: int = 0
    unread: int = 0
    """Bytes skipped between faults and the places where reading continued."""
    stopped: int | None = None
    """Byte of the file where reading ended, None if it continued after the last fault."""
    dropped: int | None = None

    def progress(self, offset: int, consumed: int, fault: Fault | None) -> None:
        """Count bytes read from a byte of the file on, up to a fault, if any."""
        if self.stopped is not None:
            self.unread += offset - self.stopped
        self.stopped = None if fault is None else fault.offset
        self.bytes += consumed
        self.fault = self.fault or fault
        self.faults += fault is not None

    def count(self, records: Records, datagrams: int) -> None:
        """Count a block."""
        self.records += len(records.offset)
        self.datagrams += datagrams
        if len(records.offset):
            first, last = int(records.time_ns.min()), int(records.time_ns.max())
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self.last_ns = last if self.last_ns is None else max(last, self.last_ns)


class FrameReader:
    """Converts the blocks of one file into rows. `tally` counts them."""

    def __init__(self, columns: Sequence[Column], path: str, point: str) -> None:
        """`point` names the capture point of a file that does not name one."""
        self.tally = Tally()
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._path = path
        self._point = point
        self._decoder = Decoder()
        self._indexes = Indexes()

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block."""
        block = self.block(records)
        arrays = [self._array(block, column.name) for column in self._columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        for start in range(0, whole.num_rows, BATCH):
            yield whole.slice(start, BATCH)

    def block(self, records: Records) -> Block:
        """Return the datagrams of a block, and count them."""
        skipped: Counter[str] = Counter()
        datagrams = unwrap(records, skipped)
        datagrams = split_trains(records.buffer, datagrams)
        heads = self._decoder.decode(records.buffer, datagrams.begin, datagrams.captured, skipped)
        block = Block(records, datagrams, heads, self._indexes)
        self.tally.count(records, len(block.rows))
        self.tally.skipped += skipped
        return block

    def _array(self, block: Block, name: str) -> pa.Array:
        if name == "capture_point":
            names = [point or self._point for point in block.records.points]
            return chosen(names, block.records.point[block.record])
        if name == "file":
            return pa.repeat(pa.scalar(self._path), len(block.rows))
        return block.array(name)


class Block:
    """Frames of one block, and the conversion to each column."""

    def __init__(self, records: Records, datagrams: Datagrams, heads: Columns, indexes: Indexes) -> None:
        self.records = records
        self._indexes = indexes
        self.rows = np.flatnonzero(heads.good)
        self.datagrams = datagrams.take(self.rows)
        self.record = self.datagrams.record
        self._heads = heads
        self._head = heads.size[self.rows]
        self._senders = [*heads.texts["sender"]]
        self._kinds: list[str | None] = [*heads.texts["kind"], None]  # the last one is for code -1
        self._bodies: bodies.Bodies | None = None

    def array(self, name: str) -> pa.Array:
        """Return a column."""
        if name in INTEGERS:
            return self._integers(name)
        if name in TEXTS:
            return chosen([*self._heads.texts[name], None], self._heads.codes[name][self.rows])
        if name in bodies.COLUMNS:
            return self._from_bodies(name)
        return getattr(self, f"_{name}")()

    def _integers(self, name: str) -> pa.Array:
        values = self._heads.integers[name][self.rows]
        missing = values < 0
        if name in _ACKNOWLEDGEMENT:  # data without an acknowledgement has channel 0
            missing |= self._heads.integers["ack_channel"][self.rows] <= 0
        return pa.array(values, pa.int32() if name == "network" else pa.int64(), mask=missing)

    def _from_bodies(self, name: str) -> pa.Array:
        if self._bodies is None:
            held = (self.datagrams.captured - self._head).clip(0)
            self._bodies = bodies.Bodies(self.records.buffer, self.datagrams.begin + self._head, held)
        codes = [code for code, kind in enumerate(self._kinds) if kind in bodies.KINDS[name]]
        codes = [-1 if code == len(self._kinds) - 1 else code for code in codes]
        rows: Booleans = np.isin(self._heads.codes["kind"][self.rows], codes)
        # a message in fragments has its index in the first fragment, or starts it there
        if name in ("topics", "consensus"):
            first: Booleans = self._heads.integers["fragment_index"][self.rows] <= 0
            late = self._late_indexes(self._bodies, rows) if name == "topics" else {}
            rows = rows & first
            if name == "topics":
                return self._bodies.topics(np.flatnonzero(rows).tolist(), len(self.rows), late)
        acknowledged = self._heads.integers["ack_next"][self.rows]
        return self._bodies.column(name, np.flatnonzero(rows).tolist(), len(self.rows), acknowledged)

    def _late_indexes(self, held: bodies.Bodies, carrying: Booleans) -> dict[int, bytes]:
        """Return indexes of bundles that become complete in later fragments, by row."""
        place = self._heads.integers["fragment_index"][self.rows]
        first = self._heads.integers["sequence"][self.rows] - place
        whole = self.datagrams.captured == self.datagrams.size
        heads = np.flatnonzero(carrying & whole & (place == 0)).tolist()
        begins = np.array([row for row in heads if not held.has_line(row)], np.int64)
        if not begins.size and not self._indexes:
            return {}
        awaited = np.union1d(first[begins], self._indexes.firsts())
        following = np.flatnonzero(carrying & whole & (place > 0) & np.isin(first, awaited))
        found: dict[int, bytes] = {}
        for row in np.union1d(begins, following).tolist():
            bundle = (int(first[row]), *self._stream(row))
            if place[row] == 0 or bundle in self._indexes:
                line = self._indexes.add(bundle, int(place[row]), held.raw(row))
                if line is not None:
                    found[row] = line
        return found

    def _stream(self, row: int) -> tuple[int, int, str]:
        """Return the stream of a frame: channel (-1: none), incarnation and sender."""
        at = self.rows[row]
        channel, incarnation = (int(self._heads.integers[name][at]) for name in ("channel", "incarnation"))
        return channel, incarnation, self._senders[int(self._heads.codes["sender"][at])]

    def _offset(self) -> pa.Array:
        return pa.array(self.records.offset[self.record])

    def _part(self) -> pa.Array:
        return pa.array(self.datagrams.part, pa.int32())

    def _time_ns(self) -> pa.Array:
        return pa.array(self.records.time_ns[self.record])

    def _direction(self) -> pa.Array:
        return chosen(DIRECTIONS, self.records.direction[self.record])

    def _source(self) -> pa.Array:
        return chosen(*self._addresses(12, 8))

    def _destination(self) -> pa.Array:
        return chosen(*self._addresses(16, 24))

    def _multicast(self) -> pa.Array:
        names, codes = self._addresses(16, 24)
        told = [None if name is None else ipaddress.ip_address(name).is_multicast for name in names]
        return pa.array(told, pa.bool_()).take(pa.array(codes))

    def _addresses(self, ipv4_at: int, ipv6_at: int) -> tuple[list[str | None], Integers]:
        """Return the addresses at these offsets of the IP headers, and the index of each row's address."""
        names: list[str | None] = []
        codes = np.zeros(len(self.rows), np.int64)
        for version, at, size in ((4, ipv4_at, 4), (6, ipv6_at, 16)):
            mine = np.flatnonzero(self.datagrams.version == version)
            if mine.size:
                windows = np.lib.stride_tricks.sliding_window_view(self.records.buffer, size)
                raw = windows[self.datagrams.network[mine] + at]
                packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(raw), [None, pa.py_buffer(raw)])
                known = packed.dictionary_encode()
                codes[mine] = known.indices.to_numpy() + len(names)
                names += map(_address, known.dictionary.to_pylist())
        return names, codes

    def _source_port(self) -> pa.Array:
        return pa.array(self.datagrams.source_port, pa.int32())

    def _destination_port(self) -> pa.Array:
        return pa.array(self.datagrams.destination_port, pa.int32())

    def _size(self) -> pa.Array:
        return pa.array(self.datagrams.size, pa.int32())

    def _header_size(self) -> pa.Array:
        return pa.array(self._head, pa.int32())

    def _body_size(self) -> pa.Array:
        return pa.array(self.datagrams.size - self._head, pa.int32())

    def _overhead(self) -> pa.Array:
        return pa.array(self.datagrams.overhead, pa.int32())

    def _truncated(self) -> pa.Array:
        return pa.array(self.datagrams.captured < self.datagrams.size)

    def _datagram(self) -> pa.Array:
        data = self.records.buffer.data
        spans = zip(self.datagrams.begin.tolist(), self.datagrams.captured.tolist(), strict=True)
        return pa.array([data[begin : begin + size].tobytes() for begin, size in spans], pa.binary())


def _address(packed: bytes) -> str | None:
    """Return an IP address as text, None for the unspecified address, as in a tap's recordings."""
    address = ipaddress.ip_address(packed)
    return None if address.is_unspecified else str(address)


def chosen(names: Sequence[Any], codes: Integers) -> pa.Array:
    """Return the text at each code's place; -1 is the last place."""
    places = np.where(codes < 0, len(names) - 1, codes) if len(names) else codes
    return pa.array(names, arrow_type("string")).take(pa.array(places))
