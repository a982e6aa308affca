"""A keeper reads its log for requests for many streams at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from random import Random
from typing import TypeVar

import pytest

from glue.contract.ranges import RangeSet
from glue.history.kept import KeptHistory
from glue.history.wire import Range
from glue.simulation.disk import SimulatedDisk
from glue.storage import FileLog, Log, Record
from glue.storage.memory import MemoryLog
from glue.storage.records import RecordDecoder

Result = TypeVar("Result")

Number = tuple[str, int]
"""A topic and a number."""


def made(kind: str) -> Log:
    return FileLog(SimulatedDisk(Random(1)), Random(1), 20_000) if kind == "files" else MemoryLog("0" * 16)


def record(topic: str, first: int, count: int) -> Record:
    return Record("p" * 16, "p", 1, topic, first, [b"%d" % number for number in range(first, first + count)], 1.0, 0)


def whole(steps: Generator[None, None, Result]) -> Result:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Result = end.value
            return found


def pages(history: KeptHistory, asked: list[Range], room: int, groups: int = 64) -> tuple[list[Number], int]:
    """All that is found for ranges, as a keeper asks for it; and how many pages it takes."""
    found: list[Number] = []
    count = 0
    while asked:
        count += 1
        assert count < 500
        page, over = whole(history.ranges(asked, room, groups))
        came: dict[str, RangeSet] = defaultdict(RangeSet)
        for _, group in page:
            numbers = range(group.sequence, group.sequence + len(group.payloads))
            assert [*map(bytes, group.payloads)] == [b"%d" % number for number in numbers]
            found += [(group.topic, number) for number in numbers]
            came[group.topic].add(numbers.start, numbers.stop)
        left = [one for place, one in enumerate(asked) if place not in over]
        left = left[1:] + left[:1]
        asked = [
            (topic, start, stop - 1, newer, origin, life)
            for topic, first, last, newer, origin, life in left
            for start, stop in came[topic].gaps(first, last + 1)
        ]
    assert len(found) == len({*found})
    return found, count


@pytest.mark.parametrize("kind", ["files", "memory"])
@pytest.mark.parametrize("seed", range(6))
def test_each_stored_message_that_is_asked_for_comes(kind: str, seed: int) -> None:
    luck, log = Random(seed), made(kind)
    stored: set[Number] = set()
    for _ in range(luck.choice((5, 150))):
        topic, first, count = f"t{luck.randint(1, 6)}", luck.randint(1, 80), luck.choice((1, 1, 9))
        log.append([record(topic, first, count)])
        stored.update((topic, number) for number in range(first, first + count))
    if isinstance(log, FileLog):
        log.sync()
    asked: list[Range] = []
    for number in range(1, 8):
        first = luck.randint(1, 40)
        asked.append((f"t{number}", first, luck.randint(first, 100), 0, "p" * 16, 1))
    found, _ = pages(KeptHistory(log), asked, luck.choice((1, 500, 1 << 20)))
    assert {*found} == {(one[0], n) for one in asked for n in range(one[1], one[2] + 1)} & stored


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_the_log_is_read_once_for_many_streams(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = made(kind)
    for number in range(1, 41):
        log.append([record(f"t{topic}", number, 1) for topic in range(100)])
    if isinstance(log, FileLog):
        log.sync()
    good, looked = log.walk, 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal looked
        reading = good(*arguments, **options)  # type: ignore[arg-type]
        looked += len(reading.records)
        return reading

    monkeypatch.setattr(log, "walk", counted)
    asked: list[Range] = [(f"t{topic}", 1, 40, 0, "p" * 16, 1) for topic in range(100)]
    found, count = pages(KeptHistory(log), asked, 1 << 20, 1000)
    assert (len(found), count) == (4000, 4)
    assert looked < 3 * 4000


@pytest.mark.parametrize("kind", ["files", "memory"])
@pytest.mark.parametrize("asked", [("rare", 3, 3), ("busy/3", 3993, 3993)])
def test_a_long_log_is_read_in_small_steps(
    kind: str, asked: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = made(kind)
    numbers = [1, 2, 4, 5, 3]  # the third one comes from another keeper, late
    for number in range(1, 5001):
        log.append([record(f"busy/{number % 7}", number, 1)])
        if number % 1000 == 0:
            log.append([record("rare", numbers[number // 1000 - 1], 1)])
    if isinstance(log, FileLog):
        log.sync()
    looked, most, good = 0, 0, RecordDecoder.topic

    def counted(self: RecordDecoder, data: bytes) -> str:
        nonlocal looked
        looked += 1
        return good(self, data)

    monkeypatch.setattr(RecordDecoder, "topic", counted)
    monkeypatch.setattr("glue.storage.memory.LOOKED", 500)
    steps, count, found = KeptHistory(log).ranges([(*asked, 0, "p" * 16, 1)], 1 << 20, 1000), 0, []
    for _ in range(1000):
        looked = 0
        try:
            next(steps)
        except StopIteration as end:
            found, _ = end.value
            break
        count, most = count + 1, max(most, looked)
    assert [(group.topic, group.sequence) for _, group in found] == [asked[:2]]
    assert count >= 3
    assert most < 600
