"""A forked child lets go of a recording: nothing of it is written twice, and no descriptor is left over."""

from __future__ import annotations

import os
from pathlib import Path

from glue.capture.pcapng import Recording

DESCRIPTORS = Path("/proc/self/fd") if os.path.isdir("/proc/self/fd") else Path("/dev/fd")


def test_an_orphan_writes_nothing_and_keeps_one_descriptor(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t.pcapng", "p")
    recording.write(1, bytes(60), 60)
    before = len(os.listdir(DESCRIPTORS))
    recording._after_fork()
    assert len(os.listdir(DESCRIPTORS)) == before
    recording.close()
    assert (tmp_path / "t.pcapng").stat().st_size == 0
