"""Which segments of a log are worth to be written anew, and which of their records go: exact, without a file."""

from __future__ import annotations

from typing import Any

import pytest

from glue.storage import Record
from glue.storage.retention import Retention, outdated_segments
from glue.storage.segment import SegmentIndex

SIZE = 100
"""Bytes of a record of one message."""


class Log:
    """A log of segments; each is a list of (topic, second), of which messages are numbered by topic."""

    def __init__(self, *segments: list[tuple[str, float]]) -> None:
        self.records: list[list[tuple[int, Record]]] = []
        self.indexes = []
        offset, numbers = 0, dict[str, int]()
        for segment in segments:
            index, records = SegmentIndex(), list[tuple[int, Record]]()
            for topic, at in segment:
                numbers[topic] = numbers.get(topic, 0) + 1
                record = Record("p" * 16, "hall", 1, topic, numbers[topic], [b"x"], at)
                index.add(record, offset, len(records) * SIZE, SIZE)
                records.append((offset, record))
                offset += 1
            self.records.append(records)
            self.indexes.append(index)

    def removed(self, *retentions: Retention, now: float = 100.0) -> dict[int, list[int]]:
        """The offsets that may go, by segment, in the order in which segments are looked at."""
        segments: Any = range(len(self.records))
        index_of: Any = self.indexes.__getitem__
        found: Any = outdated_segments(segments, index_of, retentions, now)
        return {
            segment: [at for at, record in self.records[segment] if is_outdated(record, at)]
            for segment, is_outdated in found
        }


def of(*names: str) -> Any:
    return names.__contains__ if names else lambda topic: True


def filled(*topics: str, at: float = 0.0) -> list[tuple[str, float]]:
    return [(topic, at) for topic in topics]


LOG = Log(filled(*"aabb", at=10.0), filled(*"abcc", at=20.0), filled(*"aaaa", at=30.0), filled("a", "b", at=40.0))
ALL = {0: [0, 1, 2, 3], 1: [4, 5, 6, 7], 2: [8, 9, 10, 11]}


@pytest.mark.parametrize(
    ("rules", "removed"),
    [
        ([], []),
        ([Retention(of())], []),
        ([Retention(of(), age=69.9)], [2, 1, 0]),  # the newest of the third is 70 s old
        ([Retention(of(), age=70.0)], [1, 0]),
        ([Retention(of(), age=80.0)], [0]),
        ([Retention(of(), age=90.0)], []),
        ([Retention(of(), size=200)], [2, 1, 0]),  # so many bytes are in the last segment
        ([Retention(of(), size=201)], [1, 0]),
        ([Retention(of(), size=600)], [1, 0]),
        ([Retention(of(), size=601)], [0]),
        ([Retention(of(), size=1001)], []),
        ([Retention(of("other"), age=1.0)], []),
        ([Retention(of("a"), age=1.0), Retention(of("b"), age=1.0)], [2, 1, 0]),
        ([Retention(of(), age=1.0), Retention(of("a", "b"), age=500.0)], [1]),  # only c is outdated: half of it
        ([Retention(of(), age=1.0), Retention(of("a", "b", "c"))], []),
    ],
)
def test_segments_go_whose_topics_no_rule_keeps(rules: list[Retention], removed: list[int]) -> None:
    assert [*LOG.removed(*rules)] == removed


def test_of_a_segment_half_outdated_the_outdated_records_go() -> None:
    assert LOG.removed(Retention(of(), age=1.0), Retention(of("b"), age=500.0)) == {2: ALL[2], 1: [4, 6, 7], 0: [0, 1]}
    assert LOG.removed(Retention(of("c"), age=1.0)) == {1: [6, 7]}
    assert LOG.removed(Retention(of("b"), age=1.0)) == {0: [2, 3]}, "a quarter of the second: not worth it"


@pytest.mark.parametrize(
    ("counts", "removed"),
    [
        ({"": 1}, {2: ALL[2], 1: [4, 5, 6], 0: ALL[0]}),
        ({"": 2}, {2: [8, 9, 10], 0: ALL[0]}),
        ({"": 5}, {0: [0, 1]}),
        ({"": 6}, {0: [0, 1]}),
        ({"": 7}, {}),
        ({"a": 3}, {2: [8, 9], 0: [0, 1]}),
        ({"c": 1}, {}),  # a quarter of the second segment
        ({"a": 1, "": 7}, {}),  # the most generous rule counts
    ],
)
def test_of_each_topic_the_newest_messages_stay(counts: dict[str, int], removed: dict[int, list[int]]) -> None:
    rules = [Retention(of(topic) if topic else of(), count=count) for topic, count in counts.items()]
    assert LOG.removed(*rules) == removed


def test_a_rule_without_a_count_keeps_all_of_a_topic() -> None:
    assert LOG.removed(Retention(of(), count=1), Retention(of("a"), age=500.0)) == {1: [5, 6], 0: [2, 3]}


def test_a_record_of_several_messages_goes_as_a_whole_or_stays() -> None:
    log = Log([], filled("t"))
    record = Record("p" * 16, "hall", 1, "t", 1, [b"x"] * 4, 1.0)
    log.indexes[0].add(record, 0, 0, SIZE)
    log.records[0] = [(0, record)]
    assert log.removed(Retention(of(), count=1)) == {0: [0]}
    assert log.removed(Retention(of(), count=2)) == {0: []}
    assert log.removed(Retention(of(), count=3)) == {0: []}
    assert log.removed(Retention(of(), count=4)) == {}


def test_a_topic_is_as_old_as_its_newest_message_of_any_publisher() -> None:
    log = Log([], filled("b", at=99.0))
    for place, (publisher, at) in enumerate((("p", 10.0), ("q", 90.0), ("r", 20.0))):
        log.indexes[0].add(Record(publisher * 16, "hall", 1, "a", 1, [b"x"], at), place, place * SIZE, SIZE)
    assert [log.removed(Retention(of(), age=age)) for age in (10.0, 9.9)] == [{}, {0: []}]
