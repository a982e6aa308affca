"""What a keeper removes as time passes, when nothing more is published."""

from __future__ import annotations

from math import inf
from random import Random

from glue.endpoint.keeper import retention_of
from glue.endpoint.keeping import Keeping, record_of
from glue.storage import FileLog
from tests.endpoint.test_keeper_parts import Disk, delivery


def test_what_is_too_old_is_removed_although_nothing_is_stored_any_more() -> None:
    disk = Disk()
    first = FileLog(disk.directory, Random(1), segment_size=100)
    for sequence in (1, 2, 3):
        first.append([record_of(delivery("t", sequence, bytes(200), at=1e9))])
    first.sync()
    again = Keeping(FileLog(disk.directory, Random(1)), disk.durability, disk.statistics, disk.publish)
    again.plan_cleaning(10.0)
    assert again.deadline == inf, "nothing says how long"
    again.retentions = [retention_of("t", "1h", None, None)]
    again.plan_cleaning(10.0)
    before = again.log.size
    for now, is_there in ((70.0, True), (3600.0, True), (3720.0, False)):
        again.commit(now, 1e9 + now)
        assert (again.log.size == before) is is_there
        assert again.deadline == (now + 60.0 if is_there else inf)
