"""The data sources as Spark uses them on driver and executors, without Spark: options, tasks, rows, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from glue.recording import McapReader, McapWriter, RecordedMessage
from spark import source
from spark.mcap import SCHEMA, McapSource
from spark.read import PARTITION_BYTES, CaptureError
from spark.schema import FILES, FRAMES, SEALED, Column, ddl
from spark.source import PcapReader, PcapSource, local
from tests.golden.seal import FOLDER
from tests.spark.captures import GOLDEN, frame, pcap

FRAMES_OF_ALL = [frame(datagram) for datagram in GOLDEN.values()]
DATA = pcap(FRAMES_OF_ALL)
COUNTER = Column("counter", "bigint", "")


def reader(
    path: Path | None, columns: tuple[Column, ...] = (COUNTER,), table: str = "frames", **more: Any
) -> PcapReader:
    return PcapReader(table, columns, {**({} if path is None else {"path": str(path)}), **more})


def rows(made: Any) -> list[Any]:
    return [row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()]


def ranges(made: PcapReader) -> list[list[tuple[str, int, str]]]:
    """What each task reads: the file's name, the byte at which a part starts, and its capture point."""
    return [[(Path(one.path).name, one.start, one.point) for one in part.parts] for part in made.partitions()]  # type: ignore[attr-defined]


def test_a_source_has_the_columns_of_its_table() -> None:
    for table, columns in (("frames", FRAMES), ("files", FILES), ("sealed", SEALED)):
        assert PcapSource({"table": table}).schema() == ddl(columns)
    assert PcapSource({}).schema() == ddl(FRAMES)
    assert (PcapSource.name(), McapSource.name()) == ("pcap", "mcap")
    with pytest.raises(CaptureError, match="option table: 'pairs' is none of frames, files, sealed"):
        PcapSource({"table": "pairs"})


def test_columns_are_asked_for_by_name_and_type(tmp_path: Path) -> None:
    def asked(table: str, *fields: tuple[str, Any]) -> list[Any]:
        wanted = StructType([StructField(name, type_) for name, type_ in fields])
        return rows(PcapSource({"table": table, "path": str(tmp_path / "a.pcap")}).reader(wanted))

    (tmp_path / "a.pcap").write_bytes(pcap([frame(GOLDEN["data"]), frame((FOLDER / "data.sealed").read_bytes())]))
    assert asked("frames", ("kind", StringType()), ("counter", LongType())) == [{"kind": "data", "counter": 7}]
    assert asked("files", ("datagrams", LongType()), ("records", LongType())) == [{"datagrams": 1, "records": 2}]
    assert asked("sealed", ("kind", StringType()), ("number", LongType())) == [{"kind": "unicast", "number": 7}]
    for table, field, told in (
        ("frames", ("colour", StringType()), "schema: colour string: no such column; see spark/schema.py"),
        ("frames", ("kind", LongType()), "schema: kind bigint: that is string; see spark/schema.py"),
        ("files", ("datagram", StringType()), "schema: datagram string: no such column; see spark/schema.py"),
        ("sealed", ("epoch", LongType()), "schema: epoch bigint: that is int; see spark/schema.py"),
    ):
        with pytest.raises(CaptureError) as refused:
            asked(table, field)
        assert str(refused.value) == told
    assert asked("sealed", ("epoch", IntegerType()))[0].keys() == {"epoch"}


def test_paths_are_those_of_load_one_or_several(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.pcap").write_bytes(DATA)
    both: dict[str, Any] = {"paths": json.dumps([f"file:{tmp_path}/a.pcap", f"file://{tmp_path}/b.pcap"])}
    assert ranges(reader(None, **both)) == [[("a.pcap", 24, "a"), ("b.pcap", 24, "b")]]
    assert ranges(reader(tmp_path / "c.pcap", **both)) == [
        [("a.pcap", 24, "a"), ("b.pcap", 24, "b"), ("c.pcap", 24, "c")]
    ]
    assert ranges(reader(tmp_path / "c.pcap", capturePoint="pi")) == [[("c.pcap", 24, "pi")]]
    with pytest.raises(CaptureError, match=r"^nothing to read: give load\(\) the path of a capture, a directory"):
        reader(None).partitions()
    assert len(rows(reader(tmp_path))) == 3 * len(GOLDEN)
    assert (local("file:/a"), local("file:///a"), local("/file:a"), local("s3://b")) == (
        "/a",
        "/a",
        "/file:a",
        "s3://b",
    )


def test_parts_of_files_are_packed_up_to_the_size_of_a_part_or_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(DATA)
    (tmp_path / "c.pcap").write_bytes(pcap(FRAMES_OF_ALL * 8))
    assert [len(task) for task in ranges(reader(tmp_path))] == [3]
    cut = ranges(reader(tmp_path, partitionBytes=str(3 * len(DATA))))
    assert [one[0] for task in cut for one in task] == ["a.pcap", "b.pcap", *["c.pcap"] * 3]
    assert len(cut) == 4
    monkeypatch.setattr(source, "TASK_BYTES", 2 * len(DATA))
    several: list[dict[str, Any]] = [{}, {"partitionBytes": "0"}, {"PARTITIONBYTES": str(PARTITION_BYTES)}]
    for options in several:
        assert [[one[0] for one in task] for task in ranges(reader(tmp_path, **options))] == [
            ["a.pcap", "b.pcap"], ["c.pcap"],
        ]  # fmt: skip


# ------------------------------------------------------------------------------------------------- recordings

MESSAGE = RecordedMessage(3, 2, "home/door", 4, b"\x81", False, 1, "state", True, {"unit": "text"}, "hall", "b" * 16, 7)


def recorded(path: Path, count: int = 1) -> Path:
    writer = McapWriter(path)
    writer.write([MESSAGE._replace(sequence=number) for number in range(count)])
    writer.close()
    return path


def messages(**options: str) -> list[tuple[Any, ...]]:
    made: Any = McapSource(options).reader(StructType())
    return [row for part in made.partitions() for row in made.read(part)]


def test_every_message_has_all_columns_and_each_file_is_a_part(tmp_path: Path) -> None:
    first, second = recorded(tmp_path / "a.mcap"), recorded(tmp_path / "b.mcap", 2)
    (tmp_path / "notes.txt").touch()
    found = messages(path=f"file:{tmp_path}")
    assert [(row[3], row[-1]) for row in found] == [(0, str(first)), (0, str(second)), (1, str(second))]
    assert dict(zip([column.split()[0] for column in SCHEMA.split(", ")], found[2], strict=True)) == {
        "time_ns": 3, "published_ns": 2, "topic": "home/door", "sequence": 1, "publisher": "hall",
        "publisher_id": "b" * 16, "incarnation": 7, "type": "state", "json": False, "codec": "msgpack",
        "retained": True, "properties": {"unit": "text"}, "payload": b"\x81", "file": str(second),
    }  # fmt: skip
    assert messages(path=str(first)) == found[:1]
    assert McapSource({}).schema() == SCHEMA
    assert len(McapSource({"path": str(tmp_path)}).reader(StructType()).partitions()) == 2


def test_a_recording_is_closed_when_no_more_of_its_rows_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = McapReader.close
    monkeypatch.setattr(McapReader, "close", lambda reader: closed.append(reader.path) or close(reader))  # type: ignore[func-returns-value]
    path = str(recorded(tmp_path / "a.mcap", 3))
    made: Any = McapSource({"path": path}).reader(StructType())
    rows = made.read(made.partitions()[0])
    next(rows)
    assert closed == []
    rows.close()
    assert closed == [path]


def test_recordings_that_are_missing_or_damaged_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        CaptureError, match=r"nothing to read: give load\(\) the path of an MCAP file or of a directory"
    ):
        messages()
    with pytest.raises(CaptureError, match=f"^{tmp_path}: there is no MCAP file$"):
        messages(path=str(tmp_path))
    with pytest.raises(CaptureError, match=f"^{tmp_path}/x.mcap: there is no MCAP file$"):
        messages(path=f"{tmp_path}/x.mcap")
    path = recorded(tmp_path / "a.mcap", 3)
    assert len(messages(path=str(path), strict="true")) == 3
    path.write_bytes(path.read_bytes()[:-30])
    assert messages(path=str(path)) == messages(path=str(path), strict="false")
    for word in ("true", "True"):
        with pytest.raises(CaptureError, match=f"^{path}: "):
            messages(path=str(path), strict=word)
