"""What is durable survives SIGKILL, and a small disk that fills up loses nothing of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from glue.drivers.directory import FileDirectory
from glue.errors import StorageFullError
from glue.storage import FileLog
from tests.storage.killed import check, found
from tests.storage.records import messages


def test_what_is_durable_survives_kills(tmp_path: Path) -> None:
    for seconds in (0.0, 0.05):
        assert check(str(tmp_path / "log"), seconds) > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=False)
    if done.returncode:
        pytest.skip("needs root to mount a small disk")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def fill(log: FileLog) -> int:
    """Store messages until the disk is full; returns how many were stored."""
    stored = 0
    try:
        while True:
            log.append([messages(stored + 1, 10, size=1000)])
            log.sync()
            stored += 10
    except StorageFullError:
        return stored


@pytest.mark.namespaces
def test_a_real_disk_that_fills_up_refuses_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(300_000))
    with closing(FileLog(FileDirectory(small_disk / "log"), Random(1), 100_000)) as log:
        stored = fill(log)
        assert log.durable == stored > 100
        with pytest.raises(StorageFullError):
            log.append([messages(stored + 1, 10, size=1000)])
        (small_disk / "other").unlink()
        log.append([messages(stored + 1, 10, size=1000)])
        log.sync()
    assert found(str(small_disk / "log")) == list(range(1, stored + 11))
