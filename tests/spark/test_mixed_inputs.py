"""Frames that were converted are not taken for captures, and what is neither is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.analyze.__main__ import converted
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
