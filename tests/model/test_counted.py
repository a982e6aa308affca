"""What a replica and its files do exactly once, or not at all."""

from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from random import Random

import pytest

from glue.errors import StorageFullError
from glue.model.storage import DeltaFile
from glue.simulation.consensus import SimulatedDisk
from tests.model.member import SETTINGS, Member


def test_each_question_beyond_the_limit_is_refused_and_counted() -> None:
    member = Member(settings=replace(SETTINGS, ticket_limit=2))
    for _ in range(5):
        member.replica.propose(member.now, b"x")
    assert member.replica.statistics["questions refused, too many"] == 3


def test_a_file_of_deltas_is_synced_only_after_something_was_appended() -> None:
    disk = SimulatedDisk(Random(1))
    file = DeltaFile(disk)
    assert not file.is_dirty
    file.load()
    calls = disk.calls
    file.sync()
    assert disk.calls == calls
    file.append(b"delta")
    file.sync()
    file.sync()
    assert disk.calls == calls + 2


def test_deltas_that_a_full_disk_may_have_lost_in_a_sync_are_to_be_written_again() -> None:
    class Disk(SimulatedDisk):
        def sync(self, name: str) -> None:
            if self.is_full:
                raise OSError(ENOSPC, "no space left, as it turns out late")
            super().sync(name)

    disk = Disk(Random(1))
    file = DeltaFile(disk)
    file.load()
    file.append(b"delta")
    disk.is_full = True
    with pytest.raises(StorageFullError):
        file.sync()
    assert not file.is_whole
    disk.is_full = False
    file.replace([b"whole"])
    assert file.is_whole


def test_a_file_of_deltas_that_was_written_anew_is_outdated_once_as_much_was_appended_again() -> None:
    file = DeltaFile(SimulatedDisk(Random(1)))
    file.load()
    rounds: list[int] = []
    for _ in range(2):
        appended = 0
        while not file.is_outdated:
            file.append(bytes(200_000))
            appended += 1
        rounds.append(appended)
        file.replace([b"whole"])
    assert rounds == [6, 6]
