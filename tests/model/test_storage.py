"""What a storage holds after crashes, flipped bits and errors of the disk; rows 34, 43 and 44 of the checklist."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from glue.drivers.directory import FileDirectory
from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.model.consensus import DurableWrite, LogEntry, Snapshot, Stored, Vital
from glue.model.storage import FileStorage
from glue.simulation.consensus import PowerCut, SimulatedDisk
from tests.model.member import configuration, entries

SNAPSHOT = Snapshot(4, 2, configuration(), b"state")


def script(life: str) -> list[DurableWrite]:
    """Writes as a replica makes them: terms and votes, entries, a conflict, a snapshot, more entries."""
    vital = Vital(life, "1/x/1", 1, "", (1, "a"), (1, "a"), b"[{},{}]")
    return [
        DurableWrite(1, vital, entries([1], first=1)),
        DurableWrite(2, None, entries([1, 1, 1])),
        DurableWrite(3, vital._replace(term=2, vote="b")),
        DurableWrite(4, None, entries([2, 2, 2], first=3)),
        DurableWrite(5, None, entries([2], first=5), SNAPSHOT, (4, 2)),
        DurableWrite(6, vital._replace(term=3), entries([3, 3], first=6)),
    ]


def after(writes: list[DurableWrite], life: str) -> Stored:
    """What these writes add up to."""
    vital, snapshot, base = Vital(life), None, (0, 0)
    log: list[LogEntry] = []
    for write in writes:
        vital = write.vital or vital
        if write.snapshot is not None:
            snapshot, base, log = write.snapshot, write.base, []
        if write.entries:
            log = [entry for entry in log if entry.index < write.entries[0].index] + list(write.entries)
    return Stored(vital, snapshot, log, base)


def equal(one: Stored, other: Stored) -> bool:
    return (one.vital, one.snapshot, list(one.entries), one.base) == (
        other.vital, other.snapshot, list(other.entries), other.base
    )  # fmt: skip


def filled(disk: SimulatedDisk) -> str:
    """A disk with all of the script on it; the life."""
    storage = FileStorage(disk, Random(1))
    life = storage.load().vital.life
    write_all(storage, life)
    return life


def write_all(storage: FileStorage, life: str) -> None:
    for write in script(life):
        storage.write(write)
        storage.sync()


def attempt(disk: SimulatedDisk) -> tuple[str, int]:
    """Run the script until the power is cut; the life, and how many writes were durable by then."""
    storage, durable, life = FileStorage(disk, Random(1)), 0, ""
    try:
        life = storage.load().vital.life
        for write in script(life):
            storage.write(write)
            storage.sync()
            durable = write.number
    except PowerCut:
        pass
    return life, durable


@pytest.mark.parametrize("rng", range(20))
def test_row_34_a_power_cut_at_any_call_loses_nothing_that_was_durable(rng: int) -> None:
    whole = SimulatedDisk(Random(rng))
    filled(whole)
    for calls in range(whole.calls + 1):
        disk = SimulatedDisk(Random(rng))
        disk.power_cut_after = calls
        life, durable = attempt(disk)
        disk.crash()
        found = FileStorage(disk, Random(2)).load()
        if not durable and found.vital.life != life:
            continue  # cut off before there was anything
        written = script(life)
        assert any(equal(found, after(written[:count], life)) for count in range(durable, len(written) + 1)) or (
            durable == 4 and equal(found, _between(written, life))
        )


def _between(written: list[DurableWrite], life: str) -> Stored:
    """The new snapshot beside the old log."""
    return after(written[:4], life)._replace(snapshot=SNAPSHOT)


def test_row_43_an_error_of_the_disk_is_the_end() -> None:
    def fail_sync(disk: SimulatedDisk) -> None:
        disk.fails_to_sync = True

    disk = SimulatedDisk(Random(1))
    storage = FileStorage(disk, Random(1))
    life = storage.load().vital.life
    fail_sync(disk)
    with pytest.raises(StorageError):
        write_all(storage, life)
    with pytest.raises(StorageError, match="failed before"):
        storage.sync()
    with pytest.raises(StorageError, match="failed before"):
        storage.write(DurableWrite(9, None, entries([1], first=9)))


@pytest.mark.parametrize("rng", range(10))
def test_a_full_disk_keeps_nothing_of_a_write_which_may_come_again_when_there_is_room(rng: int) -> None:
    disk = SimulatedDisk(Random(rng))
    storage = FileStorage(disk, Random(1))
    life = storage.load().vital.life
    for write in script(life):
        disk.is_full = True
        for _ in range(2):
            with pytest.raises(StorageFullError, match="no room on the disk"):
                storage.write(write)
        disk.is_full = False
        storage.write(write)
        storage.sync()
    disk.crash()
    assert equal(FileStorage(disk, Random(2)).load(), after(script(life), life))


@pytest.mark.parametrize("rng", range(10))
def test_a_power_cut_while_the_disk_is_full_loses_nothing_that_was_durable(rng: int) -> None:
    disk = SimulatedDisk(Random(rng))
    storage = FileStorage(disk, Random(1))
    life = storage.load().vital.life
    for count, write in enumerate(script(life), 1):
        if count == rng % 6 + 1:
            disk.is_full = True
            with pytest.raises(StorageFullError):
                storage.write(write)
            break
        storage.write(write)
        storage.sync()
    disk.crash()
    assert equal(FileStorage(disk, Random(2)).load(), after(script(life)[: rng % 6], life))


def test_row_44_a_torn_end_is_cut_off_wherever_it_is_torn() -> None:
    disk = SimulatedDisk(Random(1))
    life = filled(disk)
    size = disk.size("log")
    storage = FileStorage(disk, Random(1))
    storage.load()
    storage.write(DurableWrite(7, None, entries([3, 3], first=8)))
    whole = disk.read("log")
    assert whole is not None
    for end in range(size, len(whole)):
        for zeros in (0, 1, 40, 400):
            torn = SimulatedDisk(Random(1))
            filled(torn)
            torn.append("log", whole[size:end] + bytes(zeros))
            found = FileStorage(torn, Random(1)).load()
            assert equal(found, after(script(life), life))
            assert torn.size("log") == size


@pytest.mark.parametrize("name", ["log", "snapshot"])
def test_row_44_any_flipped_bit_is_found_and_nothing_is_cut_off(name: str) -> None:
    disk = SimulatedDisk(Random(1))
    life = filled(disk)
    for bit in range(8 * disk.size(name)):
        disk.flip(name, bit)
        with pytest.raises(CorruptStorageError):
            FileStorage(disk, Random(1)).load()
        disk.flip(name, bit)
    assert equal(FileStorage(disk, Random(1)).load(), after(script(life), life))


def test_after_damage_a_storage_begins_anew_with_another_life() -> None:
    disk = SimulatedDisk(Random(1))
    life = filled(disk)
    disk.flip("log", 100)
    storage = FileStorage(disk, Random(2))
    with pytest.raises(CorruptStorageError):
        storage.load()
    found = storage.begin_anew()
    assert found.vital.life != life
    assert equal(found, Stored(Vital(found.vital.life)))
    assert disk.size("log.damaged") > 0


@pytest.mark.parametrize("lost", ["log", "snapshot"])
def test_a_file_that_is_missing_is_damage_too(lost: str) -> None:
    disk = SimulatedDisk(Random(1))
    filled(disk)
    disk.rename(lost, "elsewhere")
    with pytest.raises(CorruptStorageError):
        FileStorage(disk, Random(1)).load()


def test_what_was_written_to_real_files_is_found_again(tmp_path: Path) -> None:
    directory = FileDirectory(tmp_path / "state")
    storage = FileStorage(directory, Random(1))
    life = storage.load().vital.life
    for write in script(life):
        storage.write(write)
    storage.sync()
    with pytest.raises(StorageError, match="another process uses it"):
        FileDirectory(tmp_path / "state")
    storage.close()
    storage = FileStorage(FileDirectory(tmp_path / "state"), Random(2))
    assert equal(storage.load(), after(script(life), life))
    storage.write(DurableWrite(7, None, entries([3], first=8)))
    storage.sync()
    storage.close()
    storage = FileStorage(FileDirectory(tmp_path / "state"), Random(2))
    assert [entry.index for entry in storage.load().entries] == [5, 6, 7, 8]
    storage.close()


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_directory_that_cannot_be_made_says_so_by_a_storage_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"data_dir=.*give a directory that can be written"):
        FileDirectory(tmp_path / "file" / below)


def test_a_directory_whose_parents_are_missing_is_made(tmp_path: Path) -> None:
    FileDirectory(tmp_path / "not" / "yet").close()
    assert (tmp_path / "not" / "yet").is_dir()


def test_a_directory_without_room_for_the_first_file_says_so() -> None:
    disk = SimulatedDisk(Random(1))
    disk.is_full = True
    with pytest.raises(StorageFullError, match="no room on the disk"):
        FileStorage(disk, Random(1)).load()


def test_a_directory_that_is_closed_twice_leaves_alone_what_has_been_opened_since(tmp_path: Path) -> None:
    directory = FileDirectory(tmp_path / "state")
    directory.close()
    numbers = [os.open(tmp_path, os.O_RDONLY) for _ in range(8)]  # one of them has the number of the lock
    directory.close()
    for number in numbers:
        os.close(number)  # raises if it was closed before


def test_a_disk_that_is_full_after_a_restart_loses_nothing_of_what_was_there() -> None:
    disk = SimulatedDisk(Random(1))
    life = filled(disk)
    storage = FileStorage(disk, Random(2))
    storage.load()
    disk.is_full = True
    with pytest.raises(StorageFullError):
        storage.write(DurableWrite(7, None, entries([3], first=8)))
    disk.is_full = False
    assert equal(FileStorage(disk, Random(3)).load(), after(script(life), life))
    storage.write(DurableWrite(7, None, entries([3], first=8)))
    storage.sync()
    assert [entry.index for entry in FileStorage(disk, Random(3)).load().entries] == [5, 6, 7, 8]


def test_a_term_that_only_the_snapshot_tells_is_known_after_a_crash_between_the_two_files() -> None:
    """An old vote in a term that is over would be given again in the term of the snapshot."""
    found: set[tuple[int, int, str]] = set()
    for calls in range(12):
        disk = SimulatedDisk(Random(1))
        storage = FileStorage(disk, Random(1))
        life = storage.load().vital.life
        storage.write(DurableWrite(1, Vital(life, "1/x/1", 2, "b"), entries([1, 2], first=1)))
        storage.sync()
        disk.power_cut_after = disk.calls + calls
        with suppress(PowerCut):
            snapshot = Snapshot(9, 5, configuration(), b"state")
            storage.write(DurableWrite(2, Vital(life, "1/x/1", 5), [], snapshot, (9, 5)))
        disk.crash()
        stored = FileStorage(disk, Random(2)).load()
        found.add((0 if stored.snapshot is None else stored.snapshot.index, stored.vital.term, stored.vital.vote))
    assert found == {(0, 2, "b"), (9, 5, "")}
