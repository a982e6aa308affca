"""Odd content of files, and what is done with it: each is told from what a crash leaves, and costs nothing else."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import orjson
import pytest

from glue.errors import CorruptStorageError, StorageError
from glue.simulation.disk import SimulatedDisk
from glue.storage import MemoryLog, Record
from glue.storage.framing import record as framed
from glue.storage.framing import scan
from glue.storage.journal import Journal
from glue.storage.records import RecordDecoder, RecordEncoder
from glue.storage.salvage import Salvage
from tests.storage.records import everything, messages
from tests.storage.test_files import filled, opened, sequences


def found(data: bytes) -> tuple[list[tuple[int, bytes]], list[tuple[int, int]], int, bool]:
    salvage = Salvage(data)
    records = [(at, bytes(payload)) for at, payload in salvage]
    return records, salvage.damaged, salvage.size, salvage.is_torn


A, B = framed(b"abc"), framed(b"")
BAD_HEADER = b"\x04" + A[1:]


@pytest.mark.parametrize(
    ("data", "salvaged", "scanned"),
    [
        (b"", ([], [], 0, False), 0),
        (A, ([(0, b"abc")], [], 16, False), 16),
        (A[:-1], ([], [], 0, True), 0),
        (A[:-1] + b"\xa4", ([], [(0, 16)], 16, False), None),  # another last byte is damage,
        (A[:-1] + b"\0", ([], [], 0, True), 0),  # but a zero
        (A[:-1] + b"\0" * 9, ([], [], 0, True), 0),
        (A[:-1] + b"\0\1", ([], [(0, 16)], 16, True), None),
        (A[:12] + b"\0" * 4, ([], [], 0, True), 0),
        (A[:12] + b"\0" * 3 + b"\xa5", ([], [(0, 16)], 16, False), None),
        (b"\0" * 40, ([], [], 0, True), 0),
        (A + b"\0" * 12, ([(0, b"abc")], [], 16, True), 16),
        (A + B[:11], ([(0, b"abc")], [], 16, True), 16),
        (BAD_HEADER, ([], [(0, 16)], 16, False), None),
        (BAD_HEADER[:12], ([], [], 0, True), 0),
        (BAD_HEADER[:13], ([], [(0, 13)], 13, False), None),
        (BAD_HEADER + A, ([(16, b"abc")], [(0, 16)], 32, False), None),
        (BAD_HEADER + b"junk" + B, ([], [(0, 33)], 33, False), None),  # a record follows the end of another,
        (BAD_HEADER + b"\xa5\xa5" + A + B, ([(18, b"abc"), (34, b"")], [(0, 18)], 47, False), None),  # or its last byte
        (BAD_HEADER + A[:-1], ([], [(0, 31)], 31, False), None),
        (BAD_HEADER[:-1] + b"x" * 40, ([], [(0, 55)], 55, False), None),
    ],
)  # fmt: skip
def test_damage_is_told_from_a_torn_end(data: bytes, salvaged: object, scanned: int | None) -> None:
    assert found(data) == salvaged
    if scanned is None:
        with pytest.raises(CorruptStorageError, match=f"^the record at byte 0 of {len(data)} "):
            scan(data)
    else:
        assert scan(data)[1] == scanned


def test_a_journal_appends_each_change_once() -> None:
    disk = SimulatedDisk(Random(1))
    journal = Journal(disk, "votes", lambda: [b"all"])
    journal.sync()
    assert (disk.names(), journal.is_dirty) == ([], False)
    for change in (b"1", b"2", b"3"):
        journal.add(change)
        assert journal.is_dirty
        journal.sync()
        journal.sync()
        assert not journal.is_dirty
    assert journal.load() == [b"all", b"2", b"3"], "the first is in the snapshot"
    disk.crash()
    assert journal.load() == [b"all", b"2", b"3"], "durable"


def test_a_journal_ends_at_a_length_that_damage_has_made_shorter() -> None:
    disk = SimulatedDisk(Random(1))
    disk.create("votes")
    disk.append("votes", framed(b"one") + framed(b"\0abc") + framed(b"two"))
    disk.flip("votes", 8 * len(framed(b"one")) + 2)
    journal = Journal(disk, "votes", list)
    assert (journal.load(), journal.damaged) == ([b"one"], True)


def test_records_with_and_without_properties_are_not_mixed_up() -> None:
    encoder, decoder = RecordEncoder(), RecordDecoder()
    plain, known, other = messages(), messages(properties={"a": "1"}), messages(properties={"a": "2"})
    for record in (plain, known, plain, other, known, messages(type="x"), messages(codec=3), plain):
        assert decoder.decode(encoder.encode(record)) == (0, record)


def test_a_walk_in_memory_ends_where_nothing_is_durable_yet() -> None:
    log = MemoryLog("log", syncs=False)
    log.append([messages(1, 2), messages(1, 2, "u")])
    log.sync()
    log.append([messages(3, 2)])
    reading = log.walk({"pump/speed"}, 0, 1 << 20, 100)
    assert ([at for at, _ in reading.records], reading.next) == ([0], 4)
    assert log.read(everything, 0).next == 4
    assert [log.walk({"pump/speed"}, at, 1, 100).next for at in (0, 1, 2, 4, 9)] == [2, 2, 4, 4, 4]


def test_a_walk_in_memory_goes_on_after_the_last_record_that_it_looked_at() -> None:
    log = MemoryLog("log")
    log.append([Record("o" * 16, "n", 1, "t", number, [b""]) for number in range(1, 4096)])
    log.append([Record("o" * 16, "n", 1, "t", 4096, [b""] * 5), Record("o" * 16, "n", 1, "t", 4101, [b""] * 2)])
    stops = [0]
    while stops[-1] < log.durable:
        stops.append(log.walk({"u"}, stops[-1], 1 << 20, 1 << 20).next)
    assert [stop - start for start, stop in pairwise(stops)] == [4100, 2]


GOOD = ["o", 7, "t", "n", [[1, 3]], 1.0, 0, 1]


@pytest.mark.parametrize("place", range(8))
def test_a_stream_of_wrong_parts_makes_the_whole_file_missing(place: int) -> None:
    wrong: tuple[Any, ...] = (7, "7", None, 7, [[1, 3, 5]], "x", 0.5, True)
    disk, log = filled(4, 100)
    expected = {stream: [*state.held] for stream, state in log.streams(everything)}
    for stream in (GOOD, [*GOOD[:place], wrong[place], *GOOD[place + 1 :]]):
        disk.create("streams")
        disk.append("streams", framed(orjson.dumps([1, "id", 99, [stream]])))
        held = {stream: [*state.held] for stream, state in opened(disk, 100).streams(everything)}
        assert (held == expected) == (stream is not GOOD), stream


def test_after_an_opening_only_parts_of_finished_segments_are_read() -> None:
    disk, log = filled(50, 600)
    log = opened(disk, 600)
    read: list[str] = []
    original = disk.read

    def noting(name: str) -> bytes | None:
        read.append(name)
        return original(name)

    disk.read = noting  # type: ignore[method-assign]
    assert sequences(log) == list(range(1, 51))
    assert {name.rpartition(".")[2] for name in read} == {"index"}
    assert len(read) == len(set(read)) == len(log.segments) - 1


@pytest.mark.parametrize(("base", "end", "size"), [(1, 0, 0), (0, 0, 1), (0, 0, -1), (1, 0, 1)])
def test_an_index_of_another_segment_is_built_again(base: int, end: int, size: int) -> None:
    disk, log = filled(20, 600)
    segment = log.segments[1]
    name, index = segment.name + ".index", log._files.index(segment)
    right = disk.read(name)
    assert right == index.encode(segment.base, segment.end, segment.size)
    disk.create(name)
    disk.append(name, index.encode(segment.base + base, segment.end + end, segment.size + size))
    assert sequences(opened(disk, 600)) == list(range(1, 21))
    assert disk.read(name) == right


def test_damage_that_comes_again_is_counted_and_repaired_again() -> None:
    disk, log = filled(20, 600)
    for number in (1, 2):
        name = log.segments[1].file
        disk.flip(name, 8 * 40)
        sequences(log)
        log.read(lambda topic: topic != "pump/speed", 0)
        assert log.damaged == number
        assert len(log.repair()) == 1
        assert log.damaged == number


def test_a_walk_from_before_the_first_segment_begins_there() -> None:
    _, log = filled(20, 600)
    log.trim(log.segments[0].end)
    first = log.first
    assert first > 5
    reading = log.walk({"pump/speed"}, 0, 1 << 20, 5)
    assert [at for at, _ in reading.records] == [at for at in range(first, first + 5) if at % 2 == 0]
    assert first < reading.next <= first + 6


@pytest.mark.parametrize("count", [255, 256, 257])
def test_a_walk_for_very_many_topics_finds_the_same(count: int) -> None:
    _, log = filled(20, 600)
    topics = {"pump/speed", *(f"x/{number}" for number in range(count - 1))}
    at, found = 0, list[int]()
    while at < log.durable:
        records, next = log.walk(topics, at, 1 << 20, 7)
        assert next > at
        found, at = found + [record.sequence for _, record in records], next
    assert found == list(range(1, 21))


def test_what_the_directory_itself_says_comes_out_as_it_is() -> None:
    disk, log = filled(2)

    def refused(*arguments: Any) -> bytes:
        raise StorageError("sealed with another key")

    disk.read_at = refused  # type: ignore[assignment]
    with pytest.raises(StorageError, match=r"^sealed with another key$"):
        log.read(everything, 0)
    assert log.failure == "", "it may be read later"
    disk.append = refused  # type: ignore[assignment, method-assign]
    for error in ("^sealed with another key$", "^the log has failed before: sealed with another key$"):
        with pytest.raises(StorageError, match=error):
            log.append([messages(3)])
