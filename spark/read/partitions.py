"""Partitions of captures, which can be read independently on one machine or many.

A partition is a file, or a part of a large file between two records. The planner chooses the cuts (see `cuts`). After
damage, reading continues at the next certain record or block (see `resync`), and the gap is reported. A reader that
does not end exactly at the next partition's start reports a fault. Therefore no frame is lost or misread silently.
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
"""Approximate bytes of a partition: a second of work, compared with which the start of a task is cheap."""


class NoCapture:
    """Format of a file that is no capture, so that the table `files` reports the file."""

    def __init__(self, cause: str) -> None:
        self.first = 0
        self.dropped: int | None = None
        self.resumes = False
        self._cause = cause

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """Return no records, and the cause as a fault."""
        nothing = np.zeros(0, np.int64)
        records = Records(buffer, nothing, nothing, nothing, nothing, nothing, nothing, nothing, [None])
        return Scan(records, 0, Fault(self._cause, base))

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """Skip everything: reading cannot continue."""
        return size, False


@dataclass(frozen=True)
class Partition:
    """Input of one reader: the records of a file from `start` up to `stop`. None is the end of the file."""

    path: str
    start: int
    stop: int | None
    format: Format
    point: str
    """Capture point of a file that does not name one."""

    def batches(
        self,
        columns: Sequence[Column] = FRAMES,
        tally: Tally | None = None,
        reader_of: type[FrameReader] = FrameReader,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `frames` as far as the file is readable. `tally` is updated with every block.

        With `reader_of=SealedReader`, these are the rows of `sealed`, which are not counted.
        """
        reader = reader_of(columns, self.path, self.point)
        if tally is not None:
            reader.tally = tally
        format = copy.deepcopy(self.format)
        for offset, scan in CaptureFile(self.path).scans(format, self.start, self.stop):
            reader.tally.progress(offset, scan.consumed, scan.fault)
            reader.tally.dropped = format.dropped
            yield from reader.batches(scan.records)

    def files_row(self, tally: Tally) -> pa.RecordBatch:
        """Return a row of the table `files`: what was read, and faults."""
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
    """Return the partitions of all captures that the paths name (see `files.captures`).

    - `partition_bytes`: approximate bytes of a partition; 0 keeps every file whole.
    - `point`: capture point of files that name none, by default the file's name.

    A file found in a directory or by a pattern may be no capture. Its partition has the format `NoCapture`. Raises
    CaptureError for a path without captures, or a named file that is no capture.
    """
    named = [*paths]
    return [part for path in captures(named) for part in file_partitions(path, partition_bytes, point, path in named)]


def check(paths: Iterable[str]) -> None:
    """Open each named file, and raise the CaptureError that `partitions` would raise."""
    named = [*paths]
    for path in captures(named):
        if path in named:
            CaptureFile(path).new_format()


def file_partitions(
    path: str, partition_bytes: int = PARTITION_BYTES, point: str | None = None, is_named: bool = False
) -> Iterator[Partition]:
    """Yield the partitions of one file. `is_named`: the file must be a capture (see `partitions`)."""
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
    """Return the cuts of a pcapng file, each with the knowledge of all blocks before the cut."""
    starts = [(format.first, copy.deepcopy(format))]
    for offset, scan in file.scans(format, format.first, None):
        after = offset + scan.consumed
        if scan.fault is None and after - starts[-1][0] >= partition_bytes and file.size - after > partition_bytes // 2:
            starts.append((after, copy.deepcopy(format)))
    return starts
