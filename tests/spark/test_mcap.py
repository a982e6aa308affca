"""`spark.read.format("mcap")`: a row for each recorded message."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from glue.recording import McapWriter, RecordedMessage
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
