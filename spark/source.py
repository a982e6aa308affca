"""`spark.read.format("pcap")`: captures as a data source of PySpark, through Arrow batches.

    session.read.format("pcap").load("captures/")                              the table frames
    session.read.format("pcap").schema("time_ns bigint, kind string").load(…)  only these columns: less work
    session.read.format("pcap").option("table", "files").load(…)               what was read, and faults
    session.read.format("pcap").option("table", "sealed").load(…)              the open part of sealed datagrams

Options: `table` is frames, files or sealed. `partitionBytes` is the approximate bytes of a file in each partition; 0
means whole files. `capturePoint` names the capture point of files that name none, by default the file's name. The
driver finds and cuts the files. Executors need only this package, NumPy and pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark.read import PARTITION_BYTES, CaptureError, Partition, Tally, partitions
from spark.read.files import PACKED_ENDINGS, captures, filesystem_of
from spark.read.sealed import SealedReader
from spark.schema import DATAGRAM, FILES, FRAMES, SEALED, Column, ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TABLES = {"frames": FRAMES, "files": FILES, "sealed": SEALED}


class PcapSource(DataSource):
    """Data source `pcap`, registered by `spark.session`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises CaptureError for an unknown table."""
        super().__init__(options)
        self._table = options.get("table", "frames")
        if self._table not in TABLES:
            raise CaptureError(f"option table: {self._table!r} is none of {', '.join(TABLES)}")

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "pcap"

    def schema(self) -> str:
        """Return all columns except the datagram itself."""
        return ddl(TABLES[self._table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the requested columns. Raises CaptureError for an unknown column or a wrong type."""
        extra = (DATAGRAM,) if self._table == "frames" else ()
        known = {column.name: column for column in (*TABLES[self._table], *extra)}
        columns = []
        for field in schema.fields:
            column = known.get(field.name)
            if column is None or field.dataType.simpleString() != column.type:
                told = "no such column" if column is None else f"that is {column.type}"
                raise CaptureError(f"schema: {field.name} {field.dataType.simpleString()}: {told}; see spark/schema.py")
            columns.append(column)
        return PcapReader(self._table, tuple(columns), dict(self.options))


TASK_BYTES = 16 << 20
"""Bytes of small files that one task reads, in a few tenths of a second. A task for each file would double the cost."""

PACKED = 8
"""Assumed ratio of decompressed to compressed size."""


class Part(InputPartition):
    """Input of one task: one or more partitions of captures."""

    def __init__(self, parts: Sequence[Partition]) -> None:
        super().__init__(None)
        self.parts = tuple(parts)


def packed(parts: Iterable[Partition], most: int = TASK_BYTES) -> list[Part]:
    """Pack partitions into parts of up to `most` bytes, in order."""
    found: list[list[Partition]] = []
    room = 0
    for part in parts:
        size = _size(part)
        if not found or size > room:
            found.append([])
            room = most
        found[-1].append(part)
        room -= size
    return [Part(some) for some in found]


def _size(part: Partition) -> int:
    """Estimate the bytes of a partition. A deleted file has none."""
    return (size_of(part.path) if part.stop is None else part.stop) - part.start


def total_size(paths: Iterable[str]) -> int:
    """Estimate the decompressed bytes of all captures that the paths name. Raises CaptureError."""
    return sum(map(size_of, captures(map(local, paths))))


def size_of(path: str) -> int:
    """Estimate the decompressed bytes of a file."""
    filesystem, place = filesystem_of(path)
    size: int = filesystem.get_file_info(place).size or 0
    return size * PACKED if place.endswith(PACKED_ENDINGS[1:]) else size


class PcapReader(DataSourceReader):
    """Plans on the driver and reads on the executors."""

    def __init__(self, table: str, columns: tuple[Column, ...], options: dict[str, str]) -> None:
        self._table = table
        self._columns = columns
        self._options = {name.lower(): value for name, value in options.items()}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions of all files. Raises CaptureError if there is no capture."""
        paths = json.loads(self._options.get("paths", "[]"))
        paths += [path for path in [self._options.get("path")] if path is not None]
        if not paths:
            raise CaptureError("nothing to read: give load() the path of a capture, a directory or a pattern")
        size = int(self._options.get("partitionbytes", PARTITION_BYTES))
        parts = partitions(map(local, paths), size, self._options.get("capturepoint"))
        return [*packed(parts, min(size or TASK_BYTES, TASK_BYTES))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one partition as Arrow batches."""
        assert isinstance(partition, Part)
        for part in partition.parts:
            if self._table == "frames":
                yield from part.batches(self._columns)
            elif self._table == "sealed":
                yield from part.batches(self._columns, reader_of=SealedReader)
            else:
                yield files_row(part, self._columns)


def files_row(part: Partition, columns: Sequence[Column] = FILES) -> pa.RecordBatch:
    """Read a partition and return its row of the table `files`."""
    tally = Tally()
    for _ in part.batches((), tally):
        pass
    return part.files_row(tally).select([column.name for column in columns])


def local(path: str) -> str:
    """Remove the prefix `file:` that Spark adds to paths."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return path
