"""The log in files: damage and torn ends at each byte, indexes that are lost, retention, and full or failed disks."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from glue.drivers.directory import FileDirectory
from glue.errors import StorageError, StorageFullError
from glue.simulation.consensus import SimulatedDisk
from glue.storage import FileLog, Retention
from glue.storage.group_commit import INTERVAL, SIZE, GroupCommit
from glue.storage.records import Record
from tests.storage.records import everything, messages


def opened(disk: SimulatedDisk, segment_size: int = 1 << 20) -> FileLog:
    return FileLog(disk, Random(5), segment_size)


def filled(count: int = 4, segment_size: int = 1 << 20) -> tuple[SimulatedDisk, FileLog]:
    disk = SimulatedDisk(Random(1))
    log = opened(disk, segment_size)
    for number in range(1, count + 1):
        log.append([messages(number, at=1000.0 + number), messages(number, topic=f"t/{number % 3}")])
    log.sync()
    return disk, log


def sequences(log: FileLog, topic: str = "pump/speed") -> list[int]:
    at, found = 0, list[int]()
    while at < log.durable:
        reading = log.read(topic.__eq__, at)
        found += [number for _, record in reading.records for number in range(record.sequence, record.stop)]
        at = reading.next
    return found


def test_a_torn_end_is_cut_off_wherever_it_is_torn() -> None:
    disk, log = filled()
    name = log.segments[-1].file
    size = disk.size(name)
    log.append([messages(5)])
    whole = disk.read(name)
    assert whole is not None
    for end in range(size, len(whole)):
        for zeros in (0, 1, 40):
            torn, _ = filled()
            torn.append(name, whole[size:end] + bytes(zeros))
            found = opened(torn)
            assert (sequences(found), found.damaged, torn.size(name)) == ([1, 2, 3, 4], 0, size)
            found.append([messages(5)])
            found.sync()
            assert sequences(opened(torn)) == [1, 2, 3, 4, 5]


def test_any_flipped_bit_costs_one_record_is_told_and_its_messages_may_come_again() -> None:
    disk, log = filled()
    name = log.segments[-1].file
    for bit in range(0, 8 * disk.size(name), 13):
        flipped, _ = filled()
        flipped.flip(name, bit)
        found = opened(flipped)
        assert found.damaged == 1
        assert len(sequences(found)) >= 3
        for number in range(1, 5):
            found.append([messages(number), messages(number, topic=f"t/{number % 3}")])
        found.sync()
        again = opened(flipped)
        assert sorted(sequences(again)) == [1, 2, 3, 4]
        assert again.damaged == 0


def test_damage_in_a_finished_segment_is_found_by_reading_and_repaired() -> None:
    disk, log = filled(20, segment_size=600)
    assert len(log.segments) > 3
    disk.flip(log.segments[1].file, 500)
    assert len(sequences(log)) + len(log.read(lambda topic: topic != "pump/speed", 0).records) < 40
    assert log.damaged == 1
    ((stream, start, stop),) = log.repair()
    state = log.state(stream)
    assert state is not None
    assert start not in state.held
    lost = messages(start, stop - start, stream.topic)
    log.append([lost])
    log.sync()
    assert start in sequences(log, stream.topic)
    assert log.repair() == []


@pytest.mark.parametrize("lost", [".index", "streams", "log.id"])
def test_an_index_that_is_lost_or_damaged_is_built_again(lost: str) -> None:
    for damages in (False, True):
        disk, log = filled(20, segment_size=600)
        for name in [name for name in disk.names() if name.endswith(lost)]:
            if damages:
                disk.flip(name, 130)
            else:
                disk.remove(name)
        found = opened(disk)
        assert sequences(found) == list(range(1, 21))
        assert [found.locate(messages().stream, number) for number in (1, 20)] == [0, 38]
        assert found.append([messages(20)]) == log.end
        assert found.damaged == 0


def test_opening_reads_summaries_and_the_last_segment_alone() -> None:
    disk, log = filled(50, segment_size=600)
    read: list[str] = []
    original = disk.read

    def noting(name: str) -> bytes | None:
        read.append(name)
        return original(name)

    disk.read = noting  # type: ignore[method-assign]
    found = opened(disk)
    assert sorted(set(read)) == sorted({log.segments[-1].file, "log.id", "streams", "failed"})
    assert (found.end, found.durable, found.id) == (log.end, log.end, log.id)
    assert sequences(found) == list(range(1, 51))


def test_a_full_disk_keeps_nothing_of_what_it_refused_and_goes_on_when_there_is_room() -> None:
    disk, log = filled()
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(StorageFullError, match="no room"):
            log.append([messages(5, 100)])
    assert sequences(log) == [1, 2, 3, 4]
    disk.is_full = False
    log.append([messages(5, 100)])
    log.sync()
    assert sequences(opened(disk)) == list(range(1, 105))


def test_after_a_failed_sync_nothing_is_stored_and_what_was_durable_can_be_read() -> None:
    disk, log = filled()
    log.append([messages(5)])
    disk.fails_to_sync = True
    with pytest.raises(StorageError, match="the disk refused"):
        log.sync()
    with pytest.raises(StorageError, match="failed before"):
        log.append([messages(6)])
    with pytest.raises(StorageError, match="failed before"):
        log.sync()
    assert sequences(log) == [1, 2, 3, 4]
    assert "failed to sync" in log.failure
    assert sequences(opened(disk)) == [1, 2, 3, 4]


def stored(log: FileLog, count: int, topic: str, at: float = 0.0) -> None:
    for number in range(1, count + 1):
        log.append([messages(number, topic=topic, at=at or float(number))])
    log.sync()


def test_retention_by_age_count_and_size_removes_old_segments() -> None:
    for retention, least, most in (
        (Retention(everything, age=50.0), 50, 60),
        (Retention(everything, count=10), 10, 20),
        (Retention(everything, size=2000), 15, 40),
        (Retention("other".__eq__, count=1), 100, 100),
    ):
        log = opened(SimulatedDisk(Random(1)), 600)
        stored(log, 100, "a")
        log.retain([retention], 100.0)
        kept = sequences(log, "a")
        assert kept == list(range(101 - len(kept), 101))
        assert least <= len(kept) <= most, retention
        assert log.append([messages(1, 100, "a")]) == 100, "what was removed is not stored again"


def test_compaction_keeps_the_last_value_of_each_topic_and_the_offsets() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk, 600)
    for number in range(1, 41):
        log.append([messages(number, topic="often")])
        if number % 10 == 1:
            log.append([messages(1, topic=f"once/{number}")])
    log.sync()
    places = {record.topic: at for at, record in log.read(lambda topic: topic != "often", 0).records}
    log.retain([Retention(everything, count=1)], 0.0)
    for found in (log, opened(disk, 600)):
        left = found.read(everything, 0).records
        assert {record.topic: at for at, record in left if record.topic != "often"} == places
        assert len(left) < 20
        assert left[-1][1].topic == "often"
        assert left[-1][1].sequence == 40


def test_a_reader_goes_on_while_its_segment_is_written_anew() -> None:
    log = opened(SimulatedDisk(Random(1)), 600)
    stored(log, 40, "a")
    seen = list[Record]()

    def topics(topic: str) -> bool:
        if not seen:
            seen.append(messages())
            log.retain([Retention(everything, count=5)], 0.0)
        return True

    at, found = 0, list[int]()
    while at < log.durable:
        reading = log.read(topics, at)
        found += [record.sequence for _, record in reading.records]
        at = reading.next
    assert found == sorted(set(found))
    assert found[-5:] == list(range(36, 41))
    assert log.damaged == 0


def test_a_log_in_real_files_is_found_again(tmp_path: Path) -> None:
    log = FileLog(FileDirectory(tmp_path / "log"), Random(1), 600)
    stored(log, 50, "a")
    log.retain([Retention(everything, count=10)], 0.0)
    kept, id = sequences(log, "a"), log.id
    log.close()
    log = FileLog(FileDirectory(tmp_path / "log"), Random(2), 600)
    assert (sequences(log, "a"), log.id, log.end) == (kept, id, 50)
    log.append([messages(51, topic="a")])
    log.sync()
    assert sequences(log, "a") == [*kept, 51]
    log.close()


def test_a_group_commit_waits_unless_somebody_does() -> None:
    commit = GroupCommit()
    assert commit.deadline == float("inf")
    commit.stored(1.0, 100, is_awaited=False)
    commit.stored(1.003, 100, is_awaited=False)
    assert commit.deadline == 1.0 + INTERVAL
    commit.stored(1.004, 100, is_awaited=True)
    assert commit.deadline < 0
    commit.synced()
    assert commit.deadline == float("inf")
    commit.stored(2.0, SIZE, is_awaited=False)
    assert commit.deadline < 0


def test_nothing_is_durable_in_a_directory_that_was_removed(tmp_path: Path) -> None:
    log = FileLog(FileDirectory(tmp_path / "log"), Random(1))
    log.append([messages(1)])
    log.sync()
    shutil.rmtree(tmp_path / "log")
    log.append([messages(2)])
    with pytest.raises(StorageError, match="removed"):
        log.sync()
    assert log.durable == 1
    assert "removed" in log.failure
    log.close()
