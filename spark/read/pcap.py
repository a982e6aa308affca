"""Reader of pcap, the classic capture format: a header of 24 bytes, then records of 16 bytes and the frame.

Both byte orders, and microseconds or nanoseconds, are read (draft-ietf-opsawg-pcap). Only the length of each record is
read separately, because it leads to the next record. NumPy reads all other fields. Records have no mark, so after a
fault reading continues at the next chain of plausible records (see `resync`).
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from spark.read.records import MAXIMUM_SNAPSHOT, Booleans, Bytes, Fault, Integers, Records, Scan, fields_at
from spark.read.resync import NEAR, next_record

HEADER = 24
RECORD = 16
LATEST = 9
"""Number of latest records whose times are kept. Their median is right even if some times before a fault are wrong."""
MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First four bytes of a file: byte order, and nanoseconds per unit of a record's fraction of a second."""


class Pcap:
    """A pcap file, described by its header."""

    def __init__(self, header: bytes) -> None:
        """`header`: the first 24 bytes. Raises ValueError for any other bytes."""
        if header[:4] not in MAGIC or len(header) < HEADER:
            raise ValueError("not a pcap file")
        self.first = HEADER
        self.resumes = True
        self.dropped: int | None = None
        self.order, self.unit_ns = MAGIC[header[:4]]
        snapshot, link = Struct(self.order + "II").unpack_from(header, 16)
        self.snapshot = snapshot if 0 < snapshot < MAXIMUM_SNAPSHOT else MAXIMUM_SNAPSHOT
        self.link = link & 0xFFFF  # the upper bits describe frame check sequences
        self._seconds: list[int] = []  # of the latest records
        self._is_first = True  # whether a search after a fault starts, or continues with more bytes

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """Return the whole records among the first `size` bytes of a buffer that starts at byte `base` of the file."""
        starts, position, too_large = self._walk(buffer, size)
        fields = fields_at(buffer, starts, 0, 4, self.order).astype(np.int64)
        fault = Fault(f"a record of {too_large:,} bytes", base + position) if too_large else None
        for cause, bad in (
            ("a time of more than a second's fraction", fields[:, 1] * self.unit_ns >= 1_000_000_000),
            ("a time far from those before and behind", self._are_far(fields[:, 0])),
        ):
            places = np.flatnonzero(bad[: len(starts)])
            if places.size:
                position = int(starts[places[0]])
                fault = Fault(cause, base + position)
                starts, fields = starts[: places[0]], fields[: places[0]]
        self._seconds = [*self._seconds, *fields[-LATEST:, 0].tolist()][-LATEST:]
        self._is_first = True
        return Scan(self._records(buffer, starts, fields, base), position, fault)

    def _are_far(self, seconds: Integers) -> Booleans:
        """Return which times are far from both neighbours. After a clock was set, later times are near each other."""
        before = seconds[:1] if not self._seconds else np.array(self._seconds[-1:])
        is_far = np.abs(np.diff(seconds, prepend=before)) > NEAR
        both: Booleans = is_far & np.append(is_far[1:], False)
        return both

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """Find the next record after a fault; see `Format.resume`."""
        at = self.link if self._is_first else None
        near = sorted(self._seconds)[len(self._seconds) // 2] if self._seconds else None
        found = next_record(buffer, size, self.order, 1_000_000_000 // self.unit_ns, near, over, at)
        self._is_first = False
        return found

    def _walk(self, buffer: Bytes, size: int) -> tuple[Integers, int, int]:
        """Return the starts of records, the end of the last whole record, and the length of a record that is too large,
        else 0.
        """
        length_at = Struct(self.order + "I").unpack_from
        data = buffer.data
        starts: list[int] = []
        position = 0
        last = size - RECORD
        while position <= last:
            (length,) = length_at(data, position + 8)
            if length > MAXIMUM_SNAPSHOT:
                return np.array(starts, np.int64), position, length
            following = position + RECORD + length
            if following > size:
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
