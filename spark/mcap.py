"""`spark.read.format("mcap")`: recordings of topics as a data source of PySpark.

    session.read.format("mcap").load("day.mcap")        a row for each message
    session.read.format("mcap").load("recordings/")     all `.mcap` files of a directory

Executors need the package `mcap` and glue. Each file is one partition. A file with a missing end or a damaged part is
read up to there; option `strict` "true" makes that an error.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from glue.codecs import name_of_tag
from glue.recording import McapReader
from spark.read import CaptureError
from spark.source import local

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA = (
    "time_ns bigint, published_ns bigint, topic string, sequence bigint, publisher string, publisher_id string, "
    "incarnation bigint, type string, json boolean, codec string, retained boolean, properties map<string,string>, "
    "payload binary, file string"
)
ENDING = ".mcap"


class McapSource(DataSource):
    """Data source `mcap`, registered by `spark.session`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._path = options.get("path")
        self._strict = options.get("strict", "false").lower() == "true"

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "mcap"

    def schema(self) -> str:
        """Return the columns. Times are nanoseconds since 1970; `json` tells that `payload` is a JSON document."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all columns. Raises CaptureError if there is nothing to read."""
        if self._path is None:
            raise CaptureError("nothing to read: give load() the path of an MCAP file or of a directory")
        place = Path(local(self._path))
        paths = sorted(place.glob("*" + ENDING)) if place.is_dir() else [place]
        missing = [path for path in paths if not path.is_file()]
        if missing or not paths:
            raise CaptureError(f"{missing[0] if missing else place}: there is no MCAP file")
        return _Reader([str(path) for path in paths], self._strict)


class _File(InputPartition):
    def __init__(self, path: str) -> None:
        super().__init__(None)
        self.path = path


class _Reader(DataSourceReader):
    def __init__(self, paths: list[str], strict: bool) -> None:
        self._paths = paths
        self._strict = strict

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each file."""
        return [_File(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one file. Raises CaptureError for a fault of the file if the option says so."""
        assert isinstance(partition, _File)
        reader = McapReader(partition.path)
        try:
            for one in reader.messages():
                yield (
                    one.time_ns, one.published_ns, one.topic, one.sequence, one.publisher, one.publisher_id,
                    one.incarnation, one.type, one.json, None if one.codec is None else name_of_tag(one.codec),
                    one.retained, dict(one.properties), one.payload, partition.path,
                )  # fmt: skip
        finally:
            reader.close()
        if self._strict and reader.fault is not None:
            raise CaptureError(f"{partition.path}: {reader.fault}")
