"""What a keeper removes as time passes, when nothing more is published, and what it gives back at its end."""

from __future__ import annotations

from math import inf
from pathlib import Path
from random import Random

import pytest

from glue.drivers.directory import FileDirectory
from glue.endpoint.keeper import retention_of
from glue.endpoint.keeping import Keeping, record_of
from glue.errors import StorageFullError
from glue.storage import FileLog
from tests.endpoint.test_keeper_parts import Disk, delivery, failing


def keeping_old_messages(disk: Disk) -> Keeping:
    """A keeper with a log of several segments, all of which are too old an hour after 1e9."""
    first = FileLog(disk.directory, Random(1), segment_size=100)
    for sequence in (1, 2, 3):
        first.append([record_of(delivery("t", sequence, bytes(200), at=1e9))])
    first.sync()
    return Keeping(FileLog(disk.directory, Random(1)), disk.durability, disk.statistics, disk.publish)


def test_what_is_too_old_is_removed_although_nothing_is_stored_any_more() -> None:
    again = keeping_old_messages(Disk())
    again.plan_cleaning(10.0)
    assert again.deadline == inf, "nothing says how long"
    again.retentions = [retention_of("t", "1h", None, None)]
    again.plan_cleaning(10.0)
    before = again.log.size
    for now, is_there in ((70.0, True), (3600.0, True), (3720.0, False)):
        again.commit(now, 1e9 + now)
        assert (again.log.size == before) is is_there
        assert again.deadline == (now + 60.0 if is_there else inf)


def test_what_a_full_disk_did_not_let_go_is_removed_a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    disk.keeping = keeping = keeping_old_messages(disk)
    keeping.retentions = [retention_of("t", "1h", None, None)]
    keeping.plan_cleaning(3720.0)
    before = keeping.log.size
    failing(monkeypatch, disk, "retain", StorageFullError("no room"))
    keeping.commit(3780.0, 1e9 + 3780)
    assert (keeping.failure, keeping.log.size, keeping.deadline) == ("no room", before, 3840.0)
    failing(monkeypatch, disk, "retain", None)
    keeping.commit(3840.0, 1e9 + 3840)
    assert keeping.log.size < before


def test_the_directory_of_a_failed_disk_is_free_again_once_its_keeper_has_ended(tmp_path: Path) -> None:
    disk, log = Disk(), FileLog(FileDirectory(tmp_path), Random(1))
    keeping = Keeping(log, disk.durability, disk.statistics, disk.publish)
    log.failure = "broken"
    keeping.close(10.0)
    FileDirectory(tmp_path).close()
