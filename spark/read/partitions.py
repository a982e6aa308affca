"""Captures as partitions that can be read apart from each other, on one machine or many.

A partition is a file, or a part of a large one between two records. The planner decides where to cut (see `cuts`).
A damaged file is read on at the next record or block that is surely one (see `resync`), and what lies between is told.
A reader that does not end exactly where the next partition begins tells that as a fault, too: no frame is missing or
misread in silence.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark.read.cuts import cuts
from spark.read.files import CaptureError, CaptureFile, captures, point_name
from spark.read.frames import FrameReader, Tally
from spark.read.pcap import Pcap
from spark.read.records import Bytes, Fault, Format, Records, Scan
from spark.schema import FILES, FRAMES, Column, arrow_schema

PARTITION_BYTES = 64 << 20
"""Bytes of a partition, about: a second's work, next to which what starting it costs is little."""


class NoCapture:
    """What a file is read as that is none, so that it is told beside the captures it was found with."""

    def __init__(self, cause: str) -> None:
        self.first = 0
        self.dropped: int | None = None
        self.resumes = False
        self._cause = cause

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """No records, and why."""
        nothing = np.zeros(0, np.int64)
        records = Records(buffer, nothing, nothing, nothing, nothing, nothing, nothing, nothing, [None])
        return Scan(records, 0, Fault(self._cause, base))

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """Not at all."""
        return size, False


@dataclass(frozen=True)
class Partition:
    """What one reader reads: the records of a file from `start` up to `stop`, which is None at the end of the file."""

    path: str
    start: int
    stop: int | None
    format: Format
    point: str
    """The capture point, where the file does not name it."""

    def batches(self, columns: Sequence[Column] = FRAMES, tally: Tally | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of `frames`, as far as the file can be read; `tally` is brought up to date with every block."""
        reader = FrameReader(columns, self.path, self.point)
        if tally is not None:
            reader.tally = tally
        format = copy.deepcopy(self.format)
        for offset, scan in CaptureFile(self.path).scans(format, self.start, self.stop):
            reader.tally.progress(offset, scan.consumed, scan.fault)
            reader.tally.dropped = format.dropped
            yield from reader.batches(scan.records)

    def files_row(self, tally: Tally) -> pa.RecordBatch:
        """What was read and what not, as a row of the table `files`."""
        file = CaptureFile(self.path)
        end = file.size if self.stop is None else self.stop
        fault, unread = tally.fault, tally.unread if tally.fault else None
        if tally.stopped is not None:
            unread = None if file.compression else tally.unread + end - tally.stopped
        row = {
            "file": self.path,
            "start": self.start,
            "records": tally.records,
            "datagrams": tally.datagrams,
            "skipped": [(cause, count) for cause, count in sorted(tally.skipped.items()) if count],
            "bytes": tally.bytes,
            "unread": unread,
            "faults": tally.faults,
            "fault": fault and fault.cause,
            "fault_offset": fault and fault.offset,
            "dropped": tally.dropped,
            "first_ns": tally.first_ns,
            "last_ns": tally.last_ns,
        }
        return pa.RecordBatch.from_pylist([row], schema=arrow_schema(FILES))


def partitions(
    paths: Iterable[str], partition_bytes: int = PARTITION_BYTES, point: str | None = None
) -> list[Partition]:
    """The partitions of all captures that the paths name (see `files.captures`).

    `partition_bytes` 0 leaves every file in one. `point` names the capture point of all that do not name it themselves;
    by default that is the file's name. Raises CaptureError for a path without captures, or one that is none; but a file
    that was only found in a directory, or by a pattern, is read as `NoCapture` then.
    """
    named = [*paths]
    return [part for path in captures(named) for part in file_partitions(path, partition_bytes, point, path in named)]


def check(paths: Iterable[str]) -> None:
    """Raise the CaptureError that `partitions` would raise, before much is begun; each named file is opened."""
    named = [*paths]
    for path in captures(named):
        if path in named:
            CaptureFile(path).new_format()


def file_partitions(
    path: str, partition_bytes: int = PARTITION_BYTES, point: str | None = None, is_named: bool = False
) -> Iterator[Partition]:
    """The partitions of one file; `is_named` tells whether it must be a capture (see `partitions`)."""
    file = CaptureFile(path)
    point = point or point_name(path)
    try:
        format: Format = file.new_format()
    except CaptureError as error:
        if is_named:
            raise
        format, partition_bytes = NoCapture(str(error).removeprefix(f"{path}: ")), 0
    starts: list[tuple[int, Format]] = [(format.first, format)]
    if partition_bytes and not file.compression and file.size > 1.5 * partition_bytes:
        if isinstance(format, Pcap):
            starts = [(start, format) for start in cuts(file, format, partition_bytes)]
        else:
            starts = _walked(file, format, partition_bytes)
    for index, (start, known) in enumerate(starts):
        stop = starts[index + 1][0] if index + 1 < len(starts) else None
        yield Partition(file.path, start, stop, known, point)


def _walked(file: CaptureFile, format: Format, partition_bytes: int) -> list[tuple[int, Format]]:
    """Where to cut a pcapng, and what is known of it there: that depends on all that comes before."""
    starts = [(format.first, copy.deepcopy(format))]
    for offset, scan in file.scans(format, format.first, None):
        after = offset + scan.consumed
        if scan.fault is None and after - starts[-1][0] >= partition_bytes and file.size - after > partition_bytes // 2:
            starts.append((after, copy.deepcopy(format)))
    return starts
