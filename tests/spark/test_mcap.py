"""`spark.read.format("mcap")`: a row for each recorded message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from glue.recording import McapWriter, RecordedMessage
from spark.mcap import SCHEMA, McapSource
from spark.read import CaptureError

MESSAGES = [
    RecordedMessage(2, 1, "home/lamp", 1, b'{"on":true}', True, publisher="kitchen", publisher_id="a" * 16),
    RecordedMessage(3, 2, "home/door", 1, b"\x81", False, 1, "state", True, {"unit": "text"}, "hall", "b" * 16, 7),
]


def test_each_message_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    writer = McapWriter(path)
    writer.write(MESSAGES)
    writer.close()
    rows = [row.asDict() for row in spark.read.format("mcap").load(str(tmp_path)).orderBy("time_ns").collect()]
    assert [(row["topic"], bytes(row["payload"]), row["json"], row["codec"]) for row in rows] == [
        ("home/lamp", b'{"on":true}', True, None),
        ("home/door", b"\x81", False, "msgpack"),
    ]
    assert (rows[1]["properties"], rows[1]["retained"], rows[1]["incarnation"]) == ({"unit": "text"}, True, 7)
    assert (rows[0]["published_ns"], rows[0]["publisher"], rows[0]["file"]) == (1, "kitchen", str(path))


def test_nothing_to_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises((CaptureError, PySparkException), match="there is no MCAP file"):
        spark.read.format("mcap").load(str(tmp_path)).collect()
    with pytest.raises((CaptureError, PySparkException), match="give load\\(\\) the path"):
        spark.read.format("mcap").load().collect()


NO_SCHEMA: Any = None


def recorded(path: Path) -> bytes:
    writer = McapWriter(path)
    writer.write(MESSAGES)
    writer.close()
    return path.read_bytes()


def rows(**options: str) -> list[dict[str, Any]]:
    """The rows of all files, by the names of the schema."""
    reader = McapSource(options).reader(NO_SCHEMA)
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    return [dict(zip(names, row, strict=True)) for part in reader.partitions() for row in reader.read(part)]


def test_every_column_is_what_was_recorded_and_each_file_is_a_part(tmp_path: Path) -> None:
    for name in ("b.mcap", "a.mcap", "notes.txt"):
        recorded(tmp_path / name)
    found = rows(path=str(tmp_path))
    assert [row["file"] for row in found] == [str(tmp_path / name) for name in ("a.mcap", "a.mcap", "b.mcap", "b.mcap")]
    assert found[0] == {
        "time_ns": 2, "published_ns": 1, "topic": "home/lamp", "sequence": 1, "publisher": "kitchen",
        "publisher_id": "a" * 16, "incarnation": 0, "type": None, "json": True, "codec": None, "retained": False,
        "properties": {}, "payload": b'{"on":true}', "file": str(tmp_path / "a.mcap"),
    }  # fmt: skip
    assert [found[1][name] for name in ("type", "codec", "properties")] == ["state", "msgpack", {"unit": "text"}]
    assert rows(path=f"file://{tmp_path}/notes.txt")[0]["topic"] == "home/lamp", "a file that is named has any name"
    assert (McapSource({}).schema(), McapSource.name()) == (SCHEMA, "mcap")


def test_a_damaged_file_is_read_as_far_as_it_goes_and_refused_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    whole = recorded(path)
    assert len(rows(path=str(path), strict="TRUE")) == 2
    path.write_bytes(whole[:-9])
    for strict in ("false", "no"):
        assert len(rows(path=str(path), strict=strict)) == 2
    assert len(rows(path=str(path))) == 2
    for strict in ("true", "True"):
        reader = McapSource({"path": str(path), "strict": strict}).reader(NO_SCHEMA)
        found = reader.read(reader.partitions()[0])
        assert [next(found)[0], next(found)[0]] == [2, 3]
        with pytest.raises(CaptureError, match=f"^{path}: "):
            next(found)


def test_what_leads_to_no_file_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.mcap", tmp_path / "none"):
        with pytest.raises(CaptureError) as refused:
            rows(path=str(path))
        assert str(refused.value) == f"{path}: there is no MCAP file"
    (tmp_path / "a.mcap").mkdir()
    with pytest.raises(CaptureError, match=r"a\.mcap: there is no MCAP file$"):
        rows(path=str(tmp_path))
    with pytest.raises(CaptureError, match=r"^nothing to read: give load\(\) the path of an MCAP file"):
        rows()
