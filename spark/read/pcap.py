"""The classic capture format: a header of 24 bytes, then records of 16 bytes and the frame.

Both byte orders, in microseconds and nanoseconds (draft-ietf-opsawg-pcap). Only the length of a record is read one by
one, for that leads to the next; all other fields are taken by NumPy.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from spark.read.records import LARGEST_RECORD, MAXIMUM_SNAPSHOT, Bytes, Fault, Integers, Records, Scan, fields_at

HEADER = 24
RECORD = 16
MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""The first four bytes: byte order, and nanoseconds in a unit of the records' fractions."""


class Pcap:
    """A pcap file by its header."""

    def __init__(self, header: bytes) -> None:
        """`header`: the first 24 bytes. Raises ValueError if they are not a pcap header."""
        if header[:4] not in MAGIC or len(header) < HEADER:
            raise ValueError("not a pcap file")
        self.first = HEADER
        self.resumes = False
        self.dropped: int | None = None
        self.order, self.unit_ns = MAGIC[header[:4]]
        snapshot, link = Struct(self.order + "II").unpack_from(header, 16)
        self.snapshot = snapshot if 0 < snapshot < MAXIMUM_SNAPSHOT else MAXIMUM_SNAPSHOT
        self.link = link & 0xFFFF  # the upper bits tell of frame check sequences

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """The whole records among the first `size` bytes of the buffer, which is at `base` in the file."""
        starts, position, too_large = self._walk(buffer, size)
        fields = fields_at(buffer, starts, 0, 4, self.order).astype(np.int64)
        fault = Fault(f"a record of {too_large:,} bytes", base + position) if too_large else None
        bad = np.flatnonzero(fields[:, 1] * self.unit_ns >= 1_000_000_000)
        if bad.size:
            position = int(starts[bad[0]])
            fault = Fault("a time of more than a second's fraction", base + position)
            starts, fields = starts[: bad[0]], fields[: bad[0]]
        return Scan(self._records(buffer, starts, fields, base), position, fault)

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """Nothing marks a record in a pcap."""
        return size, False

    def _walk(self, buffer: Bytes, size: int) -> tuple[Integers, int, int]:
        """Where records start, where the first one begins that is not whole, and its length if no record has that."""
        length_at = Struct(self.order + "I").unpack_from
        data = buffer.data
        starts: list[int] = []
        position = 0
        last = size - RECORD
        while position <= last:
            (length,) = length_at(data, position + 8)
            following = position + RECORD + length
            if following > size:
                if length > LARGEST_RECORD:
                    return np.array(starts, np.int64), position, length
                break
            starts.append(position)
            position = following
        return np.array(starts, np.int64), position, 0

    def _records(self, buffer: Bytes, starts: Integers, fields: Integers, base: int) -> Records:
        nothing = np.zeros(len(starts), np.int64)
        return Records(
            buffer=buffer,
            offset=starts + base,
            begin=starts + RECORD,
            captured=fields[:, 2],
            time_ns=fields[:, 0] * 1_000_000_000 + fields[:, 1] * self.unit_ns,
            link=np.full(len(starts), self.link),
            point=nothing,
            direction=nothing,
            points=[None],
        )
