"""Logs in memory and in files: offsets, positions, duplicates and what is durable."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from glue.simulation.consensus import SimulatedDisk
from glue.storage import FileLog, Log, MemoryLog, Record, Stream
from tests.storage.records import LIFE, ORIGIN, everything, messages


def offsets(log: Log, offset: int = 0, **more: object) -> list[tuple[int, int]]:
    """Offset and count of the records read."""
    return [(at, len(record.payloads)) for at, record in log.read(everything, offset, **more).records]  # type: ignore[arg-type]


class SyncedFileLog(FileLog):
    """A log in files that syncs after each append."""

    def append(self, records: Sequence[Record]) -> int:
        super().append(records)
        self.sync()
        return self.end


@pytest.fixture(params=["memory", "files", "small files"])
def log(request: pytest.FixtureRequest) -> MemoryLog | SyncedFileLog:
    if request.param == "memory":
        return MemoryLog("0" * 16)
    return SyncedFileLog(SimulatedDisk(Random(1)), Random(1), 100 if request.param == "small files" else 1 << 20)


def test_messages_are_read_from_an_offset_on_and_the_first_record_is_cut(log: MemoryLog | FileLog) -> None:
    assert log.append([messages(1, 10), messages(1, 5, topic="b")]) == 15
    assert log.read(everything, 0).next == 15
    found = log.read(everything, 7)
    assert found.records == [(7, messages(8, 3)), (10, messages(1, 5, topic="b"))]
    assert offsets(log, 3, until=12) == [(3, 7), (10, 2)]
    assert offsets(log, 99) == []
    assert log.read(everything, 99).next == 15


def test_a_reader_of_one_topic_passes_over_the_others(log: MemoryLog | FileLog) -> None:
    log.append([messages(1, 3), messages(1, 1, topic="b"), messages(4, 2)])
    found = log.read("b".__eq__, 0)
    assert (found.records, found.next) == ([(3, messages(1, 1, topic="b"))], 6)


def test_a_read_ends_at_its_size_and_goes_on_from_there(log: MemoryLog | FileLog) -> None:
    for first in range(1, 11):
        log.append([messages(first, size=100)])
    at, seen = 0, 0
    while at < log.end:
        found = log.read(everything, at, size=300)
        assert len(found.records) <= 3
        seen += len(found.records)
        at = found.next
    assert seen == 10


def test_a_message_is_stored_once_whatever_comes_again(log: MemoryLog | FileLog) -> None:
    log.append([messages(5, 5)])
    assert log.append([messages(1, 12)]) == 12
    assert log.append([messages(1, 12)]) == 12
    numbers = [
        number for _, record in log.read(everything, 0).records for number in range(record.sequence, record.stop)
    ]
    assert sorted(numbers) == list(range(1, 13))


def test_the_states_of_streams_tell_what_is_held_and_durable() -> None:
    log = MemoryLog("0" * 16, syncs=False)
    log.append([messages(1, 3), messages(7, 1)])
    state = log.state(Stream(ORIGIN, LIFE, "pump/speed"))
    assert state is not None
    assert (list(state.held), list(state.durable), log.durable) == ([(1, 4), (7, 8)], [], 0)
    log.sync()
    assert (list(state.durable), log.durable) == ([(1, 4), (7, 8)], 4)
    assert [stream.topic for stream, _ in log.streams(everything)] == ["pump/speed"]
    assert list(log.streams("b".__eq__)) == []
    assert log.state(Stream(ORIGIN, LIFE + 1, "pump/speed")) is None


def test_offsets_are_found_by_time_and_reading_ends_before_a_time(log: MemoryLog | FileLog) -> None:
    for number in range(1, 6):
        log.append([messages(number, at=1000.0 + number)])
    assert [log.offset_at(time) for time in (0, 1001, 1003, 1003.5, 9999)] == [0, 0, 2, 3, 5]
    assert log.read(everything, 0, before=1003.0).next == 3


def test_a_message_is_located_by_its_identity_or_the_next_one_of_its_stream(log: MemoryLog | FileLog) -> None:
    log.append([messages(10, 3)])
    log.append([messages(1, 2, topic="b"), messages(20, 2)])
    log.append([messages(1, 4)])
    stream = messages().stream
    assert [log.locate(stream, number) for number in (1, 4, 5, 9, 11, 13, 21, 22)] == [7, 10, 0, 0, 1, 5, 6, None]


def test_the_first_message_that_is_not_known_of_many_streams_is_found(log: MemoryLog | FileLog) -> None:
    log.append([messages(10, 3)])
    log.append([messages(1, 2, topic="b"), messages(20, 2)])
    log.append([messages(1, 4)])
    one, other = messages().stream, messages(topic="b").stream
    for numbers, offset in (
        ({one: 11}, 1),
        ({one: 13, other: 2}, 4),
        ({one: 22, other: 1}, 3),
        ({one: 13}, 5),
        ({one: 22, other: 3}, None),
        ({messages(topic="c").stream: 1}, None),
        ({}, None),
    ):
        assert log.first_of(numbers) == offset


def test_small_steps_find_all_that_one_reading_finds(log: MemoryLog | FileLog) -> None:
    luck = Random(3)
    for number in range(200):
        log.append([messages(10 * number, luck.choice((1, 3)), topic=luck.choice("abcd"))])
    for topics in ({"a"}, {"b", "c"}, set("abcd"), {"x"}):
        for steps, size in ((1, 1), (7, 100), (10_000, 1 << 20)):
            at, found = luck.randint(0, 3), list[tuple[int, Record]]()
            expected = log.read(topics.__contains__, at).records
            while at < log.durable:
                records, next = log.walk(topics, at, size, steps)
                assert next > at
                assert all(offset < at + steps for offset, _ in records)
                found, at = found + records, next
            assert found == expected
    assert getattr(log, "damaged", 0) == 0, "each step begins where a record does"


def test_the_log_tells_cheaply_before_which_offset_nothing_of_many_streams_is_new(log: MemoryLog | FileLog) -> None:
    for number in range(1, 100):
        log.append([messages(number, topic="a"), messages(1000 - number, topic="b")])
    for topic, number, first in (("a", 1, 0), ("a", 90, 178), ("b", 995, 1), ("a", 100, None), ("c", 1, None)):
        found, at = log.near({messages(topic=topic).stream: number}, log.first)
        while found is None and at < log.end:
            found, at = log.near({messages(topic=topic).stream: number}, at)
        assert (found is None) == (first is None)
        assert found is None or first is None or found <= first


def test_the_oldest_is_removed_beyond_the_limit_and_never_stored_again() -> None:
    log = MemoryLog("0" * 16, limit=1000)
    for number in range(1, 31):
        log.append([messages(number, size=100)])
    assert (log.first, log.end, log.size) == (20, 30, 1000)
    state = log.state(Stream(ORIGIN, LIFE, "pump/speed"))
    assert state is not None
    assert state.first_kept == 21
    assert log.append([messages(1, 20, size=100)]) == 30


def test_offsets_are_found_by_time_after_the_oldest_was_removed() -> None:
    log = MemoryLog("0" * 16, limit=300)
    for number in range(1, 11):
        log.append([messages(number, at=1000.0 + number, size=100)])
    assert log.first == 7
    assert [log.offset_at(time) for time in (0, 1001, 1008, 1009, 1010, 1011)] == [7, 7, 7, 8, 9, 10]


def test_streams_that_were_silent_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.storage.streams.STREAMS", 3)
    log = MemoryLog("0" * 16)
    for topic in ("a", "b", "c", "a", "d"):
        log.append([messages(1 + log.end, topic=topic)])
    assert [stream.topic for stream, _ in log.streams(everything)] == ["c", "a", "d"]
