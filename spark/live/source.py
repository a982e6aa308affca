"""Captures of a growing directory as a stream of frames. Each file is read once, when it is complete.

A recorder with rotation completes one file after the other. A file counts as complete after `settle` seconds without a
write. The stream's offset is the modification time of the newest file taken. Therefore an offset is one number for any
number of files, and a restart finds the same files for the same offsets. A file that appears later with an older
modification time, such as a copy, is not read. A recorder may delete or compress a file before it is read. Then its row
of `files` tells a fault, and the stream continues.

The stream has the columns of `frames` and a column `tally`. After the frames of each part of a file, one row has only
`tally`, with the part's row of the table `files`. Both come from one reading, and both are repeated after a crash.
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

SETTLE = 5.0  # seconds: twice the longest pause of a recorder on a quiet network (one announcement per second)
NEWEST = "changed_ns"
TALLY = "tally"

FRAMES_ROWS = arrow_schema(FRAMES)
TALLY_TYPE = pa.struct(list(arrow_schema(FILES)))
ROWS = pa.schema([*FRAMES_ROWS, pa.field(TALLY, TALLY_TYPE)])


class LiveCaptures(DataSource):
    """Data source `pcap-live`. Options: `path` is a directory, and `settle` is in seconds."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "pcap-live"

    def schema(self) -> str:
        """Return the columns of `frames`, and `tally`."""
        fields = ",".join(f"{column.name}:{column.type}" for column in FILES)
        return f"{ddl(FRAMES)}, {TALLY} struct<{fields}>"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return a reader of all columns."""
        return LiveReader(self.options["path"], float(self.options.get("settle", SETTLE)))


class LiveReader(DataSourceStreamReader):
    """Finds complete files on the driver and reads them on the executors."""

    def __init__(self, path: str, settle: float) -> None:
        self._path = path
        self._settle = settle
        self._newest = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before all files."""
        return {NEWEST: 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 (as Spark 4.0 has it)
        """Return the offset of the newest complete file. The offset never decreases, even if files are deleted."""
        until = time.time_ns() - int(self._settle * 1e9)
        finished = [changed for changed in self._changes().values() if changed <= until]
        self._newest = max([self._newest, *finished])
        return {NEWEST: self._newest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the partitions of the files completed between two offsets."""
        self._newest = max(self._newest, start[NEWEST])  # after a restart of the job
        new = [path for path, changed in self._changes().items() if start[NEWEST] < changed <= end[NEWEST]]
        return [*packed(part for path in new for part in _partitions(path))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition as Arrow batches."""
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
        """Do nothing: the captures belong to the user and stay."""

    def _changes(self) -> dict[str, int]:
        """Return the modification time of each capture in the directory, in nanoseconds since 1970."""
        try:
            paths = captures([self._path])
        except CaptureError:  # the directory has no captures at present
            return {}
        changes = {}
        for path in paths:
            with suppress(FileNotFoundError):
                changes[path] = os.stat(path).st_mtime_ns
        return changes


def _partitions(path: str) -> list[Partition]:
    """Return the partitions of a file, none if the file is gone."""
    try:
        return [*file_partitions(path)]
    except FileNotFoundError:
        return []


def _gone(part: Partition, tally: Tally) -> pa.RecordBatch:
    """Return the row of `files` for a partition of a file that was deleted before it was read."""
    row = dict.fromkeys((column.name for column in FILES), None) | {
        "file": part.path, "start": part.start, "records": tally.records, "datagrams": tally.datagrams, "skipped": [],
        "bytes": tally.bytes, "faults": 1, "fault": "it was deleted before it was read", "fault_offset": part.start,
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(FILES))
