"""Captures of a growing directory as a stream of frames: each file once, when it is no longer written to.

A recorder with rotation finishes one file after the other. A file counts as finished once nothing was written to it
for `settle` seconds; the stream's offset is the time of the last change of the newest file taken. So an offset is one
number however many files there were, and a restart finds the same files for the same offsets. A file that appears
later with an older time of change (a copy that keeps it) is not seen. A recorder deletes and packs files while they are
listed and read: a file that is gone by then is told as a fault in its row of `files`, and the stream goes on.

The stream has the columns of `frames` and one more, `tally`: behind the frames of each part of a file comes a row with
nothing but that, its row of the table `files`. So both are of one reading, and come again together after a crash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from spark.read import CaptureError, Partition, Tally, captures, file_partitions
from spark.schema import FILES, FRAMES, arrow_schema, ddl
from spark.source import Part, packed

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SETTLE = 5.0  # seconds: twice the longest that a quiet network keeps a recorder from writing (an announcement a second)
NEWEST = "changed_ns"
TALLY = "tally"

FRAMES_ROWS = arrow_schema(FRAMES)
TALLY_TYPE = pa.struct(list(arrow_schema(FILES)))
ROWS = pa.schema([*FRAMES_ROWS, pa.field(TALLY, TALLY_TYPE)])


class LiveCaptures(DataSource):
    """The data source `pcap-live`; options `path` (a directory), `settle` (seconds)."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "pcap-live"

    def schema(self) -> str:
        """That of `frames`, and `tally`."""
        fields = ",".join(f"{column.name}:{column.type}" for column in FILES)
        return f"{ddl(FRAMES)}, {TALLY} struct<{fields}>"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """A reader of all columns."""
        return LiveReader(self.options["path"], float(self.options.get("settle", SETTLE)))


class LiveReader(DataSourceStreamReader):
    """Looks for finished files on the driver, reads them on the executors."""

    def __init__(self, path: str, settle: float) -> None:
        self._path = path
        self._settle = settle
        self._newest = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before all files."""
        return {NEWEST: 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 (as Spark 4.0 has it)
        """Up to the newest finished file; never back, though it may have been deleted."""
        until = time.time_ns() - int(self._settle * 1e9)
        finished = [changed for changed in self._changes().values() if changed <= until]
        self._newest = max([self._newest, *finished])
        return {NEWEST: self._newest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Those of the files finished since `start`."""
        self._newest = max(self._newest, start[NEWEST])  # in a job that was started again
        new = [path for path, changed in self._changes().items() if start[NEWEST] < changed <= end[NEWEST]]
        return [*packed(part for path in new for part in _partitions(path))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition, as Arrow batches."""
        assert isinstance(partition, Part)
        for part in partition.parts:
            tally = Tally()
            try:
                for batch in part.batches(FRAMES, tally):
                    yield pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(len(batch), TALLY_TYPE)], schema=ROWS)
                told = part.files_row(tally)
            except FileNotFoundError:
                told = _gone(part, tally)
            row = pa.StructArray.from_arrays(told.columns, fields=list(told.schema))
            yield pa.RecordBatch.from_arrays([*(pa.nulls(1, field.type) for field in FRAMES_ROWS), row], schema=ROWS)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is deleted: the captures are the user's."""

    def _changes(self) -> dict[str, int]:
        """When each capture in the directory was last written to (nanoseconds since 1970)."""
        try:
            paths = captures([self._path])
        except CaptureError:  # there is none yet, or none any more
            return {}
        changes = {}
        for path in paths:
            with suppress(FileNotFoundError):
                changes[path] = os.stat(path).st_mtime_ns
        return changes


def _partitions(path: str) -> list[Partition]:
    """Those of a file; none if it is gone."""
    try:
        return [*file_partitions(path)]
    except FileNotFoundError:
        return []


def _gone(part: Partition, tally: Tally) -> pa.RecordBatch:
    """The row of the table `files` of a partition whose file was deleted before it was read."""
    row = dict.fromkeys((column.name for column in FILES), None) | {
        "file": part.path, "start": part.start, "records": tally.records, "datagrams": tally.datagrams, "skipped": [],
        "bytes": tally.bytes, "faults": 1, "fault": "it was deleted before it was read", "fault_offset": part.start,
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(FILES))
