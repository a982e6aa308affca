"""What a publisher remembers, beside a naive list of all messages."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from glue.history import Limits, PublishedMemory
from glue.history.memory import COST, Part
from glue.history.server import matcher
from glue.history.wire import EARLIEST, FROM, LAST, LATEST, SINCE
from glue.topics.bundle import MessageGroup


def group(topic: str, sequence: int, count: int = 1, at: int = 0, size: int = 4) -> MessageGroup:
    payloads = [b"%04d" % number + bytes(size - 4) for number in range(sequence, sequence + count)]
    return MessageGroup(topic, sequence, at or sequence, payloads, size)


def numbers(parts: list[Part]) -> list[tuple[str, int]]:
    return [
        (part.group.topic, part.group.sequence + offset) for part in parts for offset in range(len(part.group.payloads))
    ]


def filled(count: int, **limits: int) -> PublishedMemory:
    memory = PublishedMemory()
    memory.remember(Limits("#", **limits))
    for number in range(1, count + 1):
        memory.record(float(number), group("a", number), inf)
    return memory


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ((EARLIEST, 0), range(1, 11)),
        ((LATEST, 0), range(0)),
        ((LAST, 3), range(8, 11)),
        ((LAST, 99), range(1, 11)),
        ((FROM, 4), range(4, 11)),
        ((FROM, 99), range(0)),
        ((SINCE, 6), range(6, 11)),
    ],
)
def test_a_scan_begins_where_it_is_told(start: tuple[str, int], expected: range) -> None:
    found, next, _ = filled(10).scan(0.0, matcher("a"), start, 0, 0, 1 << 20)
    assert numbers(found) == [("a", number) for number in expected]
    assert next == 10


def test_the_last_n_stay_the_same_while_more_is_published() -> None:
    memory = filled(10)
    found, next, until = memory.scan(0.0, matcher("a"), (LAST, 4), 0, 0, 1)
    assert numbers(found) == [("a", 7)]
    memory.record(0.0, group("a", 11, 5), inf)
    found, _, _ = memory.scan(0.0, matcher("a"), (LAST, 4), next, until, 1 << 20)
    assert numbers(found) == [("a", number) for number in range(8, 16)]


def test_what_expired_is_not_served_and_what_will_tells_what_is_left() -> None:
    memory = PublishedMemory()
    memory.remember(Limits("a"))
    memory.record(0.0, group("a", 1), 5.0)
    memory.record(0.0, group("a", 2), 9.0)
    found, _, _ = memory.scan(6.0, matcher("a"), (EARLIEST, 0), 0, 0, 1 << 20)
    assert [(part.group.sequence, part.group.lifespan_ms) for part in found] == [(2, 3000)]


def test_age_and_bytes_are_limits() -> None:
    memory = filled(100, size=(COST + 4) * 10)
    assert len(numbers(memory.scan(0.0, matcher("a"), (EARLIEST, 0), 0, 0, 1 << 20)[0])) == 10
    assert memory.size == (COST + 4) * 10
    memory = filled(100, age=5)
    memory.expire(103.0)
    assert numbers(memory.scan(0.0, matcher("a"), (EARLIEST, 0), 0, 0, 1 << 20)[0]) == [
        ("a", 98),
        ("a", 99),
        ("a", 100),
    ]
    memory.expire(1000.0)
    assert memory.size == 0


@pytest.mark.parametrize("limits", [{"last": 3}, {"age": 3}, {"size": (COST + 4) * 3}])
def test_a_pattern_that_is_remembered_again_keeps_what_it_has_under_the_new_limits(limits: dict[str, int]) -> None:
    memory = filled(10)
    memory.remember(Limits("#", **limits))
    assert memory.size == (COST + 4) * 10
    memory.record(11.0, group("a", 11), inf)
    left = numbers(memory.scan(11.0, matcher("a"), (EARLIEST, 0), 0, 0, 1 << 20)[0])
    assert left == [("a", number) for number in range(8 if "age" in limits else 9, 12)]


def test_forgetting_a_pattern_drops_its_topics() -> None:
    memory = PublishedMemory()
    memory.remember(Limits("a/#"))
    memory.remember(Limits("b/#"))
    for topic in ("a/1", "b/1"):
        memory.record(0.0, group(topic, 1), inf)
    memory.forget("a/#")
    memory.record(0.0, group("a/1", 2), inf)
    assert numbers(memory.scan(0.0, matcher("#"), (EARLIEST, 0), 0, 0, 1 << 20)[0]) == [("b/1", 1)]


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_a_naive_list(seed: int) -> None:
    rng = Random(seed)
    last = rng.choice((None, 1, 5, 20))
    memory = PublishedMemory()
    memory.remember(Limits("#", last))
    log: list[tuple[str, int, int]] = []  # topic, number, place
    counts = dict.fromkeys("abc", 0)
    head = 0
    for _ in range(300):
        topic, count = rng.choice("abc"), rng.choice((1, 1, 3, 40))
        memory.record(0.0, group(topic, counts[topic] + 1, count), inf)
        log += [(topic, counts[topic] + 1 + place, head + place) for place in range(count)]
        head += count
        counts[topic] += count
        if last is not None:
            log = [entry for entry in log if entry[0] != topic or entry[1] > counts[topic] - last]
        after, pattern = rng.randint(0, head), rng.choice(("#", "a", "+"))
        found, next, _ = memory.scan(0.0, matcher(pattern), (EARLIEST, 0), after, 0, rng.choice((1, 500, 1 << 20)))
        expected = [entry[:2] for entry in log if entry[2] >= after and pattern in ("#", "+", entry[0])]
        got = numbers(found)
        assert got == expected[: len(got)]
        assert got or not expected
        assert (
            next == head
            or [entry[:2] for entry in log if entry[2] >= next and pattern in ("#", "+", entry[0])]
            == (expected[len(got) :])
        )
        first = rng.randint(1, counts[topic])
        stop = rng.randint(first, counts[topic])
        newer = rng.choice((0, rng.randint(0, head)))
        parts, is_all, _ = memory.range(0.0, topic, first, stop, newer, rng.choice((1, 1 << 20)))
        wanted = [entry[:2] for entry in log if entry[0] == topic and first <= entry[1] <= stop and entry[2] >= newer]
        got = numbers(parts)
        assert got == wanted if is_all else got == wanted[: len(got)] and got
        heads, next = memory.heads(matcher("#"), after, 1000)
        assert dict(heads) == {entry[0]: entry[1] for entry in log if entry[2] >= after}
        assert next == head
    assert memory.head == head
