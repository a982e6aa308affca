"""What a keeper tells of the streams in its log, and what fits into one page: on both sides of each bound."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from glue.history import kept as module
from glue.history.kept import KeptHistory, Part, Sweep, group_of
from glue.history.wire import EARLIEST, FROM, LAST, LATEST, SINCE
from glue.storage import JSON, MemoryLog, Record, Stream

Result = TypeVar("Result")
P = "p" * 16
EVERY: Any = lambda topic: True  # noqa: E731


def record(topic: str, first: int, count: int = 1, at: float = 1.0, size: int = 1, **fields: Any) -> Record:
    return Record(P, "p", 1, topic, first, [bytes(size)] * count, at, **fields)


def log_of(*records: Record) -> MemoryLog:
    log = MemoryLog("0" * 16)
    for one in records:
        log.append([one])
    log.sync()
    return log


def whole(steps: Generator[None, None, Result]) -> tuple[Result, int]:
    """The result of all steps, and how many there were."""
    count = 1
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            found: Result = end.value
            return found, count


def heads(log: MemoryLog, *arguments: Any) -> list[tuple[str, int, int]]:
    """Topic, last number and where a reader begins, of each stream."""
    found, _ = whole(KeptHistory(log).heads(EVERY, *arguments))
    assert all((one.origin, one.life) == (P, 1) for one in found)
    return sorted((one.topic, one.last, one.first) for one in found)


def test_where_a_reader_begins_depends_on_its_start() -> None:
    log = log_of(
        record("a", 3, 2, 10.0), record("b", 1, 1, 20.0), record("a", 5, 1, 30.0), record("a", 6, 2, 40.0)
    )  # fmt: skip
    assert heads(log, (EARLIEST, 0)) == [("a", 7, 1), ("b", 1, 1)]
    assert heads(log, (LATEST, 0)) == [("a", 7, 1), ("b", 1, 1)]
    table: dict[tuple[str, int], tuple[int, int]] = {
        (LAST, 1): (7, 1), (LAST, 3): (5, 1), (LAST, 7): (1, 1), (LAST, 100): (1, 1),
        (FROM, 0): (1, 1), (FROM, 4): (4, 2), (FROM, 8): (8, 2), (FROM, 50): (8, 2),
        (SINCE, 30_000_000): (5, 2), (SINCE, 30_000_001): (6, 2), (SINCE, 15_000_000): (5, 1),
        (SINCE, 5_000_000): (3, 1), (SINCE, 40_000_001): (8, 2),
    }  # fmt: skip
    assert {start: tuple(first for _, _, first in heads(log, start)) for start in table} == table


def test_streams_of_an_era_are_those_whose_last_message_is_of_it() -> None:
    log = log_of(record("hot", 1, at=100.0), record("warm", 1, at=50.0), record("cold", 1, at=49.0))
    borders = 100_000_000, 50_000_000
    found = [[topic for topic, _, _ in heads(log, (EARLIEST, 0), borders, era)] for era in (0, 1, 2, -1)]
    assert found == [["hot"], ["warm"], ["cold"], ["cold", "hot", "warm"]]
    assert len(heads(log, (EARLIEST, 0), None, 0)) == 3
    assert KeptHistory(log).has(("hot", 1, 1, 0, P, 1))
    assert not any(KeptHistory(log).has(one) for one in (("hot", 1, 1, 0, P, 2), ("x", 1, 1, 0, P, 1)))


def test_streams_that_are_not_seen_soon_are_told_from_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.SINCE_RECORDS == 8000
    log = log_of(*(record("a", number, at=float(number)) for number in range(1, 9)), record("b", 1, at=20.0))
    assert heads(log, (SINCE, 1_000_000)) == [("a", 8, 1), ("b", 1, 1)]
    monkeypatch.setattr(module, "SINCE_RECORDS", 2)
    monkeypatch.setattr(module, "STEP", 1)
    found = heads(log, (SINCE, 5_000_000))
    assert found == [("a", 8, 5), ("b", 1, 1)]
    old = log_of(record("b", 1, at=1.0), *(record("a", number, at=9.0) for number in range(1, 9)))
    assert heads(old, (SINCE, 5_000_000)) == [("a", 8, 1), ("b", 1, 2)]  # nothing of b is new enough


def test_a_page_has_so_many_bytes_groups_and_messages() -> None:
    weight = 100 + 8 + 1 + 128
    parts = [Part(0, ("a", 1, 10, 0, P, 1))]
    for room, groups, taken in ((3 * weight, 9, 3), (3 * weight - 1, 9, 2), (1, 9, 1), (9999, 2, 2), (9999, 9, 4)):
        sweep = Sweep([Part(0, ("a", 1, 10, 0, P, 1))], room, groups)
        stopped = sweep.take([(place * 10, record("a", place, size=100)) for place in (1, 2, 3, 4)])
        assert (len(sweep.found), stopped) == (taken, None if taken == 4 else 10 * (taken + 1))
    sweep = Sweep(parts, 1 << 30, 99)
    sweep._messages = 3
    assert sweep.take([(5, record("a", 1, 2)), (6, record("a", 3, 2))]) == 6
    assert [len(group.payloads) for _, group in sweep.found] == [2]
    sweep = Sweep([Part(0, ("a", 1, 10, 0, P, 1))], 1 << 30, 99)
    sweep._messages = 3
    assert sweep.take([(5, record("a", 1, 8))]) == 5
    assert [(group.sequence, len(group.payloads)) for _, group in sweep.found] == [(1, 3)]


def test_a_sweep_takes_what_was_asked_for_once_and_leaves_streams_that_are_over() -> None:
    first, second = Part(0, ("a", 2, 4, 0, P, 1)), Part(1, ("b", 1, 9, 0, P, 1))
    sweep = Sweep([first, second], 1 << 20, 99)
    records = [record("a", 1, 3), record("c", 1), record("b", 1, 2), record("a", 2, 9), record("b", 2, 2)]
    assert sweep.take(list(enumerate(records))) is None
    found = [(group.topic, group.sequence, len(group.payloads)) for _, group in sweep.found]
    assert found == [("a", 2, 2), ("b", 1, 2), ("a", 4, 1), ("b", 3, 1)]
    assert (first.is_over, second.is_over, sweep.topics) == (True, False, {"b"})
    assert (second.next, second.is_passed_in_order) == (4, True)
    second.pass_by(record("b", 7))
    assert not second.is_passed_in_order


def test_ranges_that_a_log_lacks_are_over_at_once() -> None:
    log = log_of(record("a", 2, 2), record("a", 6))
    for first, last, is_over, next in (
        (1, 1, True, 2),
        (1, 3, False, 2),
        (4, 5, True, 6),
        (4, 9, False, 6),
        (7, 9, True, 10),
    ):
        part = Part(0, ("a", first, last, 0, P, 1))
        part.leave_out(log.state(Stream(P, 1, "a")))
        assert (part.is_over, part.next) == (is_over, next)
    part = Part(0, ("x", 1, 1, 0, P, 1))
    part.leave_out(log.state(Stream(P, 1, "x")))
    assert part.is_over
    history = KeptHistory(log)
    asked = [("a", 1, 9, 0, P, 1), ("x", 1, 1, 0, P, 1), ("a", 4, 5, 0, P, 1)]
    (found, over), _ = whole(history.ranges(asked, 1 << 20, 99))
    assert [(origin, group.sequence, len(group.payloads)) for origin, group in found] == [
        ((P, "p", 1), 2, 2), ((P, "p", 1), 6, 1),
    ]  # fmt: skip
    assert over == {0, 1, 2}


def test_where_a_reader_will_go_on_is_remembered_for_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HINTS", 2)
    log = log_of(*(record(topic, number) for number in range(1, 5) for topic in "abc"))
    history = KeptHistory(log)
    for topic in "abc":
        (found, over), _ = whole(history.ranges([(topic, 1, 4, 0, P, 1)], 1, 99))
        assert (len(found), over) == (1, set())
    assert [(stream.topic, next) for stream, next in history._hints] == [("b", 2), ("c", 2)]
    hint = history._hints[Stream(P, 1, "c"), 2]
    assert hint.last == float("inf")
    (found, over), _ = whole(history.ranges([("c", 2, 4, 0, P, 1)], 1 << 20, 99))
    assert ([group.sequence for _, group in found], over) == ([2, 3, 4], {0})


def test_what_was_stored_out_of_order_is_found_when_more_is_asked_for_than_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("STEP", "LONGEST_STEP", "READS"):
        monkeypatch.setattr(module, name, 1)
    log = log_of(record("s", 3), record("x", 1), *(record("busy", number) for number in range(1, 9)),
                 record("s", 1, 2))  # fmt: skip
    history = KeptHistory(log)
    (found, over), _ = whole(history.ranges([("x", 1, 1, 0, P, 1), ("s", 1, 2, 0, P, 1)], 1 << 20, 99))
    assert ([(group.topic, group.sequence) for _, group in found], over) == ([("x", 1)], {0})
    (found, over), _ = whole(history.ranges([("s", 1, 3, 0, P, 1)], 1 << 20, 99))
    assert [group.sequence for _, group in found][:1] == [3]


def test_what_is_not_durable_yet_is_neither_listed_nor_waited_for() -> None:
    log = MemoryLog("0" * 16, syncs=False)
    log.append([record("a", 1)])
    log.sync()
    log.append([record("a", 2), record("b", 1)])
    assert heads(log, (EARLIEST, 0)) == [("a", 1, 1)]
    steps = KeptHistory(log).ranges([("a", 1, 2, 0, P, 1), ("b", 1, 1, 0, P, 1)], 1 << 20, 99)
    for _ in range(20):
        try:
            next(steps)
        except StopIteration as end:
            found, over = end.value
            break
    assert ([(group.topic, group.sequence) for _, group in found], over) == ([("a", 1)], {0, 1})


def test_a_group_has_all_that_its_record_has() -> None:
    made = group_of(record("a", 5, 2, 1.5, 3, flags=JSON, type="t", codec="zstd", properties={"k": "v"}))
    assert (made.topic, made.sequence, made.at, made.length, made.type, made.json) == ("a", 5, 1_500_000, 3, "t", True)
    assert made.metadata is not None
    assert (made.metadata.properties, made.metadata.codec) == ({"k": "v"}, "zstd")
    for fields in ({"codec": "zstd"}, {"properties": {"k": "v"}}):
        assert group_of(record("a", 5, **fields)).metadata is not None
    plain = group_of(record("a", 5))
    assert (plain.metadata, plain.json, plain.type) == (None, False, None)
