"""Frames that were converted are not taken for captures, and a life seen in several files is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.analyze.__main__ import converted
from spark.analyze.places import find_lives
from spark.read.files import CaptureError
from tests.spark.captures import frame, pcap


def test_frames_beside_captures_are_not_taken_for_converted(tmp_path: Path) -> None:
    frames, capture = tmp_path / "frames", tmp_path / "a.pcap"
    frames.mkdir()
    (frames / "_SUCCESS").touch()
    capture.write_bytes(pcap([frame(b"x")]))
    assert converted([str(frames)])
    assert converted([str(frames), str(frames)])
    assert not converted([str(capture)])
    with pytest.raises(CaptureError, match="frames: no capture there"):
        converted([str(frames), str(capture)])


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no capture")
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        converted([str(tmp_path / "notes.txt")])


def test_a_life_is_seen_from_its_first_datagram_to_its_last_in_all_files_of_a_point(spark: SparkSession) -> None:
    columns = "point string, file string, sender string, incarnation bigint, source string, source_port int, "
    columns += "first bigint, last bigint, leaving bigint, least bigint, most bigint"
    rows = [("p", f"{first}", "aa", 1, "10.0.0.1", 5000, first, last, 2, 0, 9) for first, last in ((5, 40), (7, 20))]
    seen = spark.createDataFrame(rows, columns)
    frames = spark.createDataFrame([("aa", 1, "name")], "sender string, incarnation bigint, name string")
    (life,), _ = find_lives(frames, seen)
    assert (life.name, life.seen, life.leaving) == ("name", {"p": (5, 40)}, {"p": 4})
