"""Segments that are removed or written anew while they are read, and what the log has when a sync is under way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from glue.errors import StorageError
from glue.simulation.disk import SimulatedDisk
from glue.storage import FileLog, Reading, Record, Retention
from tests.storage.records import everything, messages
from tests.storage.test_files import filled, opened, sequences


def threes(count: int, segment_size: int = 600) -> tuple[SimulatedDisk, FileLog]:
    """A log of records of three messages each, alternately on "a" and "b"."""
    disk = SimulatedDisk(Random(1))
    log = opened(disk, segment_size)
    for number in range(count):
        log.append([messages(3 * number + 1, 3, "ab"[number % 2], at=float(number))])
    log.sync()
    return disk, log


class Topics(set[str]):
    """Topics that let something happen when one of them is asked for."""

    def __init__(self, happen: Callable[[], object], *topics: str) -> None:
        super().__init__(topics)
        self._happen: Callable[[], object] | None = happen

    def __contains__(self, topic: object) -> bool:
        happen, self._happen = self._happen, None
        if happen is not None:
            happen()
        return super().__contains__(topic)


def ways(log: FileLog, topics: Topics, offset: int) -> list[Callable[[], Reading]]:
    return [
        lambda: log.read(topics.__contains__, offset),
        lambda: log.walk(topics, offset, 1 << 20, 1 << 20),
    ]


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize(("topics", "is_found"), [("a", True), ("x", False)])
def test_a_reading_ends_after_what_it_found_in_a_segment_that_was_replaced(
    way: int, topics: str, is_found: bool
) -> None:
    _, log = threes(40)
    end, wanted = log.segments[0].end, Topics(lambda: log.retain([Retention(everything, count=1)], 0.0), "a", topics)
    if not is_found:
        wanted.discard("a")
        wanted.add("b")
    begin = 4 if is_found else end - 1  # "a" ends the first segment, or begins it; nothing on "b" is left at its end
    reading = ways(log, wanted, begin)[way]()
    assert len(log.segments) < 10
    if reading.records:
        at, record = reading.records[-1]
        assert reading.next == at + len(record.payloads) <= end
    else:
        assert reading.next == begin
    left = [number for at in (reading.next,) for number in _read_on(log, at, "a")]
    assert left[-3:] == [115, 116, 117]


def _read_on(log: FileLog, at: int, topic: str) -> list[int]:
    found = list[int]()
    while at < log.durable:
        reading = log.read(topic.__eq__, at)
        assert reading.next > at
        found += [number for _, record in reading.records for number in range(record.sequence, record.stop)]
        at = reading.next
    return found


def test_a_walk_goes_on_in_a_segment_that_was_written_anew_meanwhile() -> None:
    _, log = threes(40)
    first = log.walk({"b"}, 0, 1, 1 << 20)
    assert [record.sequence for _, record in first.records] == [4]
    log.retain([Retention("a".__eq__, count=1)], 0.0)
    found, at = list[int](), first.next
    while at < log.durable:
        reading = log.walk({"b"}, at, 1 << 20, 1 << 20)
        found += [number for _, record in reading.records for number in range(record.sequence, record.stop)]
        assert reading.next > at
        at = reading.next
    assert found == [number for begin in range(10, 121, 6) for number in range(begin, begin + 3)]
    assert log.damaged == 0


def stored_during_a_sync() -> Any:
    """A disk and its log, to which a message came while two were made durable."""
    disk, log = filled(1)
    log.append([messages(2)])
    ticket = log.begin_sync()
    log.complete(ticket)
    log.append([messages(3)])
    log.end_sync(ticket)
    return disk, log


def test_what_came_during_a_sync_needs_another_one() -> None:
    disk, log = stored_during_a_sync()
    disk.fails_to_sync = True
    with pytest.raises(StorageError):
        log.sync()


def test_what_is_stored_during_a_sync_waits_for_the_next_one() -> None:
    disk, log = stored_during_a_sync()
    assert (log.durable, log.end) == (3, 4)
    assert sequences(log) == [1, 2]
    state = log.state(messages().stream)
    assert state is not None
    assert ([*state.durable], [*state.held]) == ([(1, 3)], [(1, 4)])
    log.sync()
    assert (log.durable, [*state.durable]) == (4, [(1, 4)])
    disk.fails_to_sync = True
    log.sync()
    assert log.failure == "", "nothing was stored meanwhile, so no disk is asked"
    log.append([])
    log.append([messages(1)])
    log.sync()
    assert log.failure == "", "it is held already"
    log.append([messages(4)])
    with pytest.raises(StorageError, match="the disk refused"):
        log.sync()


def test_a_sync_under_way_calls_nothing_durable_that_is_stored_in_the_next_segment() -> None:
    _, log = threes(5)
    ticket = log.begin_sync()
    while len(log.segments) < 3:  # the segment is finished meanwhile, with a sync of its own
        log.append([messages(log.end + 1, 3, "c")])
    log.complete(ticket)
    log.end_sync(ticket)
    durable = sum(stop - start for _, state in log.streams(everything) for start, stop in state.durable)
    assert durable == log.durable < log.end


def test_segments_are_trimmed_up_to_an_offset_but_never_the_last() -> None:
    for offset, first in ((14, 0), (15, 15), (16, 15), (29, 15), (30, 30), (99, 30)):
        disk, log = threes(12)
        assert [segment.end for segment in log.segments] == [15, 30, 36]
        log.trim(offset)
        assert (log.first, log.segments[0].base) == (first, first)
        assert log.size == sum(disk.size(name) for name in disk.names() if name.endswith(".log"))
        assert opened(disk, 600).first == first


def test_a_log_without_messages_begins_at_its_end() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk)
    assert (log.first, log.end, log.size, log.durable, log.torn, log.damaged) == (0, 0, 0, 0, 0, 0)
    assert (log.offset_at(0.0), log.locate(messages().stream, 1)) == (0, None)
    assert log.read(everything, 0) == log.walk({"t"}, 0, 1, 1) == Reading([], 0)
    assert log.near({messages().stream: 1}, 0) == (None, 0)
    assert log.retain([Retention(everything, count=1)], 1e9) == 0


def test_retention_tells_the_bytes_that_it_freed_and_leaves_the_last_segment() -> None:
    disk, log = threes(12)
    before = log.size
    files = sum(disk.size(name) for name in disk.names() if name.endswith(".log"))
    assert before == files
    freed = log.retain([Retention(everything, age=1.0)], 1e9)
    assert (log.size, len(log.segments)) == (before - freed, 1)
    assert log.size == sum(disk.size(name) for name in disk.names() if name.endswith(".log")) > 0
    assert log.retain([Retention(everything, age=1.0)], 1e9) == 0


def test_places_are_found_in_whatever_segment_they_are() -> None:
    _, log = threes(12)
    one, other = messages(topic="a").stream, messages(topic="b").stream
    assert [log.offset_at(at) for at in (-1.0, 0.0, 0.5, 5.0, 10.5, 11.0, 11.5)] == [0, 0, 3, 15, 33, 33, 36]
    assert [log.locate(one, number) for number in (1, 3, 7, 32, 33, 34)] == [0, 2, 6, 31, 32, None]
    assert [log.locate(other, number) for number in (1, 4, 36, 37)] == [3, 3, 35, None]
    assert [log.first_of({one: n, other: m}) for n, m in ((1, 1), (8, 5), (40, 5), (40, 40), (33, 6))] == [
        0, 4, 4, None, 5,
    ]  # fmt: skip
    assert all([*state.held] == [*state.durable] for _, state in log.streams(everything))
    assert [(reading.next, len(reading.records)) for reading in (
        log.read(everything, 5, size=1), log.read(everything, 5, until=5), log.read(everything, 99),
        log.read(everything, 5, until=7), log.read(everything, 0, before=-1.0), log.read(everything, 7, before=2.0),
    )] == [(6, 1), (5, 0), (36, 0), (7, 2), (0, 0), (9, 1)]  # fmt: skip


def test_a_check_finds_what_is_damaged_in_a_segment_that_nobody_has_read() -> None:
    disk, log = threes(12)
    whole, damaged = log.segments[0], log.segments[1]
    assert (log.check(whole), whole.is_replaced) == ([], False)
    disk.flip(damaged.file, 8 * 40)
    ((stream, start, stop),) = log.check(damaged)
    assert stop - start == 3
    state = log.state(stream)
    assert state is not None
    assert not {*range(start, stop)} & {n for begin, end in state.held for n in range(begin, end)}
    assert not {*range(start, stop)} & {n for begin, end in state.durable for n in range(begin, end)}
    assert log.damaged == 1
    assert (log.repair(), log.damaged) == ([], 1)
    for found in (log, opened(disk, 600)):
        assert [n for n in sequences(found, stream.topic) if start <= n < stop] == []
        assert found.append([messages(start, stop - start, stream.topic)]) == 39


def test_damage_at_the_opening_is_told_once_by_the_repair() -> None:
    disk, log = threes(12)
    disk.flip(log.segments[1].file, 8 * 40)
    disk.remove(log.segments[1].name + ".index")
    found = opened(disk, 600)
    assert found.damaged == 1
    ((_, start, stop),) = found.repair()
    assert stop - start == 3
    assert (found.repair(), found.damaged) == ([], 1)


def test_a_failed_log_says_why_and_the_first_reason_stays() -> None:
    disk, log = filled(2)

    def broken(*arguments: Any) -> None:
        raise OSError(5, "broken")

    disk.append = broken  # type: ignore[assignment, method-assign]
    with pytest.raises(StorageError, match=r"^the disk refused, so nothing is stored any more: .*broken"):
        log.append([messages(3)])
    for act in (log.sync, log.roll, lambda: log.append([]), lambda: log.retain([], 0.0), lambda: log.trim(1)):
        with pytest.raises(StorageError, match=r"^the log has failed before: the disk refused"):
            act()
    assert "failed" in disk.names()
    assert (sequences(log), log.end) == ([1, 2], 4)
    state = log.state(messages().stream)
    assert state is not None
    assert [*state.held] == [(1, 3)], "what was refused is not held"

    def unreadable(*arguments: Any) -> bytes:
        raise OSError(5, "unreadable")

    disk.read_at = unreadable  # type: ignore[assignment]
    for read in (lambda: log.read(everything, 0), lambda: log.walk({"t/1"}, 0, 9, 9), lambda: log.offset_at(0.0)):
        with pytest.raises(StorageError, match=r"^the log cannot be read: .*unreadable"):
            read()


def test_a_record_of_other_topics_is_left_out_of_a_walk_by_blocks() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk, 64 << 20)
    for number in range(9):
        log.append([Record("o" * 16, "n", 1, f"t/{number % 3}", number + 1, [bytes(100_000)], float(number))])
    log.sync()
    read: list[tuple[int, int]] = []
    original = disk.read_at

    def noting(name: str, start: int, size: int) -> bytes | None:
        read.append((start, size))
        return original(name, start, size)

    disk.read_at = noting  # type: ignore[method-assign]
    at, found = 0, list[int]()
    while at < log.durable:
        reading = log.walk({"t/1"}, at, 1, 4)
        found += [offset for offset, _ in reading.records]
        assert at < reading.next <= at + 4
        at = reading.next
    assert found == [1, 4, 7]
    assert sum(size for _, size in read) < 3 * log.size
    index = log.segments[0].index
    assert index is not None
    assert all(size <= 4 * 100_100 for _, size in read), index.positions
