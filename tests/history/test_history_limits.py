"""Serving, remembering and reading history: every bound at its value and one beyond, and every count."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf
from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Missed
from glue.history import Limits, PublishedMemory, Server
from glue.history.kept import KeptHistory
from glue.history.memory import Line
from glue.history.reader import Reader
from glue.history.server import merged
from glue.history.source import Keeper, Source, weight
from glue.history.wire import Page, Range, Request, decode_page
from glue.storage import MemoryLog, Record
from glue.storage.records import REPLAYED
from glue.topics.bundle import MessageGroup
from tests.history.test_healing_rules import ONE, PUBLISHER
from tests.history.test_healing_rules import Keeper as Healing


def remembered(*sizes: int, pattern: str = "#") -> PublishedMemory:
    """A memory with a message of each size on its own topic."""
    memory = PublishedMemory()
    memory.remember(Limits(pattern))
    for number, size in enumerate(sizes):
        memory.record(0.0, MessageGroup(f"t/{number}", 1, number, [bytes(size)], size), inf)
    return memory


def server(memory: PublishedMemory) -> tuple[Server, Counter[str]]:
    """A server of what is remembered."""
    counts = Counter[str]()
    return Server(memory, lambda reader, life, pattern: False, counts), counts


def answered(serving: Server, request: Request, reader: str = "r") -> Page:
    """The answer to a request."""
    serving.ask((reader, 1), request.encode())
    while True:
        if (answer := serving.answer(0.0)) is not None:
            assert answer[0] == (reader, 1)
            return decode_page(answer[1])


REFUSED = "requests for history refused: too many"


def test_16_requests_of_a_reader_and_2048_of_all_wait() -> None:
    serving, counts = server(remembered(1))
    for id in range(17):
        serving.ask(("r", 1), Request(id, "a").encode())
    assert counts[REFUSED] == 1
    serving.ask(("r", 2), Request(1, "a").encode())
    serving.ask(("r", 2), Request(1, "a").encode())
    assert counts == {REFUSED: 1, "requests for history received again": 1}
    serving._count = 2047
    for id, refused in ((3, 1), (4, 2)):
        serving.ask(("s", 1), Request(id, "a").encode())
        assert counts[REFUSED] == refused
    serving.forget("r")
    assert serving._count == 2048 - 17
    serving.forget("s")
    assert not serving
    assert (serving._count, serving._bytes) == (2048 - 18, 0)
    serving.ask(("r", 1), b"x")
    assert counts["malformed requests for history"] == 1


def test_16_megabytes_of_requests_wait() -> None:
    serving, counts = server(remembered(1))
    size = len(Request(1, "a").encode())
    serving._bytes = (16 << 20) - size
    for id, refused in ((1, 0), (2, 1)):
        serving.ask(("r", 1), Request(id, "a").encode())
        assert counts[REFUSED] == refused
    assert serving.answer(0.0) is not None
    assert serving._bytes == (16 << 20) - size


def test_who_may_not_read_a_topic_is_refused() -> None:
    serving, counts = server(remembered(1))
    ranges: list[Range] = [("a", 1, 1, 0, "", 0), ("b", 1, 1, 0, "", 0)]
    for id, request in enumerate(
        (Request(1, "a"), Request(2, "b"), Request(3, ranges=ranges), Request(4, ranges=ranges[:1]))
    ):
        serving.ask((str(id), 1), request.encode(), lambda peer, topic: topic == "a")
    assert [answer[0][0] for _ in range(2) if (answer := serving.answer(0.0))] == ["0", "3"]
    assert not serving
    assert counts["requests for history refused: rules"] == 2
    assert (counts["pages of history"], counts["messages of history served"]) == (2, 0)


def test_a_page_has_a_megabyte_or_one_message() -> None:
    for sizes, served in (
        ([524_157, 524_157, 1], 2),
        ([524_157, 524_158], 1),
        ([1_048_445, 1], 1),
        ([2 << 20, 1], 1),
        ([1, 2 << 20], 1),
    ):
        serving, counts = server(remembered(*sizes))
        page = answered(serving, Request(1, "#", room=1 << 30))
        assert sum(len(group.payloads) for group in page.groups) == counts["messages of history served"] == served
        assert (page.next, page.head, page.known) == (served, len(sizes), False)
    cost = 3 + 128 + 100  # the topic, and what a group and a message cost
    for room, served in ((2 * cost, 2), (2 * cost - 1, 1), (1, 1), (0, 1)):
        serving, _ = server(remembered(100, 100, 100))
        assert len(answered(serving, Request(1, "#", room=room)).groups) == served


def test_a_page_has_8192_messages() -> None:
    memory = PublishedMemory()
    memory.remember(Limits("a"))
    memory.record(0.0, MessageGroup("a", 1, 0, [b""] * 8193, 0), inf)
    parts, next, until = memory.scan(0.0, lambda topic: True, ("earliest", 0), 0, 0, 1 << 30)
    assert ([len(part.group.payloads) for part in parts], next, until) == ([8192], 8192, 8193)
    parts, is_all, _ = memory.range(0.0, "a", 1, 8193, 0, 1 << 30)
    assert ([len(part.group.payloads) for part in parts], is_all) == ([8192], False)
    parts, is_all, _ = memory.range(0.0, "a", 2, 8193, 0, 1 << 30)
    assert ([len(part.group.payloads) for part in parts], is_all) == ([8192], True)


def test_65536_runs_are_looked_at_for_a_page() -> None:
    memory = remembered(1, 1, 1)
    _, second, third = memory._log.items
    for looked, found in ((65_536, []), (65_535, ["t/2"])):
        memory._log.items = [second] * looked + [third]
        parts, next, _ = memory.scan(0.0, lambda topic: topic == "t/2", ("earliest", 0), 0, 0, 1 << 20)
        assert ([part.group.topic for part in parts], next) == (found, 3 if found else 2)


def test_a_pattern_remembers_64_megabytes_with_512_bytes_for_each_run() -> None:
    limits = Limits("a")
    assert (limits.size, limits.age, limits.last) == (64 << 20, inf, None)
    for spare, kept in ((0, 2), (-1, 1)):
        memory = PublishedMemory()
        memory.remember(Limits("a", size=2 * 512 + 30 + spare))
        for number in (1, 2):
            memory.record(0.0, MessageGroup("a", number, 0, [bytes(15)], 15), inf)
        assert memory.size == kept * 527
        assert memory.heads(lambda topic: True, 0, 9) == ([("a", 2)], 2)
    memory.record(0.0, MessageGroup("b", 1, 0, [b"x"], 1), inf)
    assert (memory.head, memory.size) == (2, 527), "nobody asked to remember it"
    memory.forget("a")
    assert (memory.size, memory.heads(lambda topic: True, 0, 9)) == (0, ([], 2))


def test_a_line_gives_back_what_it_lost() -> None:
    line = Line[int]()
    for number in range(130):
        line.append(number)
    for _ in range(65):
        line.drop()
    assert (len(line), line.first, line.last, line.start) == (65, 65, 129, 65)
    line.drop()
    assert (len(line), line.first, line.start, len(line.items), [*line][:2]) == (64, 66, 0, 64, [66, 67])
    assert [line.reach(value, float) for value in (0, 66, 70, 999)] == [0, 0, 4, 63]


def test_messages_of_a_thousandth_of_a_second_share_a_group_of_a_page() -> None:
    for later, grouped in ((999, 1), (1000, 2)):
        parts: list[Any] = []
        for number, at in ((1, 5), (2, 5 + later)):
            memory = PublishedMemory()
            memory.remember(Limits("a"))
            memory.record(0.0, MessageGroup("a", number, at, [b"x"], 1), inf)
            parts += memory.scan(0.0, lambda topic: True, ("earliest", 0), 0, 0, 99)[0]
        assert len(merged(parts)) == grouped


def kept_server(topics: int = 0, *records: Record) -> tuple[Server, Counter[str]]:
    """A server with a log of so many topics and these records."""
    serving, counts = server(remembered())
    log = MemoryLog("0" * 16)
    log.append([*(Record("p" * 16, "p", 1, f"t/{number:05}", 1, [b"x"]) for number in range(topics)), *records])
    serving.keep(log)
    return serving, counts


def test_four_lists_are_kept_for_readers_that_come_for_the_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    serving, _ = kept_server(1025)
    made: list[str] = []
    good = KeptHistory.heads

    def noted(self: KeptHistory, *given: Any) -> Any:
        made.append("list")
        return good(self, *given)

    monkeypatch.setattr(KeptHistory, "heads", noted)
    for reader in "abcde":
        page = answered(serving, Request(1, "#", heads=True, kept=True), reader)
        assert (len(page.heads), page.next, page.head) == (1024, 1024, 1025)
    assert len(made) == 5
    for reader, lists in (("b", 5), ("a", 6)):
        page = answered(serving, Request(2, "#", after=1024, heads=True, kept=True), reader)
        assert ([head[0] for head in page.heads], page.next) == (["t/01024"], 1025)
        assert len(made) == lists


def test_what_several_logs_have_is_listed_once_with_the_most() -> None:
    serving, _ = kept_server(0, Record("p" * 16, "p", 1, "a", 1, [b"1"]), Record("p" * 16, "p", 1, "b", 1, [b"1"] * 3))
    other = MemoryLog("1" * 16)
    other.append([Record("p" * 16, "p", 1, "a", 1, [b"1", b"2"]), Record("p" * 16, "p", 1, "b", 1, [b"1"])])
    serving.keep(other)
    serving.keep(other)
    page = answered(serving, Request(1, "#", heads=True, kept=True))
    assert [(topic, last) for topic, last, *_ in page.heads] == [("a", 2), ("b", 3)]
    ranges: list[Range] = [("a", 1, 2, 0, "p" * 16, 1), ("x", 1, 1, 0, "p" * 16, 1), ("b", 1, 3, 0, "p" * 16, 1)]
    page = answered(serving, Request(2, ranges=ranges, kept=True))
    assert page.answered == 3
    assert sorted((group.topic, len(group.payloads)) for group in page.groups) == [("a", 1), ("b", 3)]
    assert page.origins == [("p" * 16, "p", 1, 2)]


# ------------------------------------------------------------------------------------------------- the reader


def live(number: int, topic: str = "t/a", size: int = 1, publisher: str = PUBLISHER) -> Delivery:
    """A live message."""
    return Delivery(topic, [bytes(size)], None, "publisher", publisher, 7, number, 0.0, False, (), length=size)


def reader(limit: int = 1 << 30) -> tuple[Reader, Counter[str]]:
    """A reader from the beginning on."""
    counts = Counter[str]()
    return Reader("t/#", ("earliest", 0), limit, count(1).__next__, Random(1), counts, "m" * 16), counts


def test_a_message_weighs_128_bytes_more_and_a_value_512() -> None:
    assert weight(live(1, size=10)) == 138
    without = Delivery("t", [b"ab", b"c"], None, "p", PUBLISHER, 7, 1, 0.0, False, ())
    assert weight(without) == 3 + 256
    assert weight(Delivery("t", [{"a": 1}, 2], None, "p", PUBLISHER, 7, 1, 0.0, False, ())) == 1024


@pytest.mark.parametrize(("more", "left"), [(0, 0), (1, 1)])
def test_four_megabytes_are_held_while_history_is_read(more: int, left: int) -> None:
    one, counts = reader()
    one.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    one.live(0.0, live(2, size=(4 << 20) - 128 - 129))
    assert one._held == (4 << 20) - 129
    one.live(0.0, live(4, size=1 + more))
    assert counts["messages left to history"] == left
    assert one._held == (4 << 20) - 129 * left


def test_65536_streams_are_followed() -> None:
    one, counts = reader()
    one._open(("x" * 16, 1, "first"), "x")
    one._streams._known.update(dict.fromkeys(range(65_534)))  # type: ignore[arg-type]  # others
    for topic, forgotten in (("second", 0), ("third", 1)):
        one._open(("x" * 16, 1, topic), "x")
        assert len(one._streams) == 65_536
        assert counts["streams of history forgotten: too many"] == forgotten
    assert one._streams.get(("x" * 16, 1, "first")) is None


def test_the_first_messages_of_a_publisher_wait_half_a_second_for_its_offer() -> None:
    one, _ = reader()
    one.live(5.0, live(3))
    assert one.deadline == 5.5
    assert one.advance(5.49) == []
    assert not one.ready
    one.advance(5.5)
    assert [event.sequence for event in one.ready if isinstance(event, Delivery)] == [3]
    one.live(5.6, live(4))
    assert len(one.ready) == 2


def test_a_reader_that_is_full_asks_once_half_of_it_is_read() -> None:
    one, _ = reader(1000)
    one.waiting = 900
    assert [one.read(size) for size in (399, 1, 100)] == [False, True, False]
    assert one.waiting == 400


def test_a_keeper_without_anything_in_65_pages_counts_as_without_it() -> None:
    keeper = Keeper(1)
    assert not any(keeper.gives_nothing(False) for _ in range(64))
    assert keeper.gives_nothing(False)
    assert not keeper.gives_nothing(True)
    assert not any(keeper.gives_nothing(False) for _ in range(64))


def test_what_a_keeper_keeps_depends_on_its_patterns() -> None:
    keeper = Keeper(1)
    for pattern, place, replicas in (("a/#", "disk", 2), ("a/b", "disk", 3), ("+/c", "memory", 0), ("b/#", "disk", 0)):
        keeper.index.add(pattern, pattern)
        keeper.patterns[pattern] = place, replicas
    asked = [("a/b", "disk"), ("a/x", "disk"), ("a/c", "memory"), ("a/b", "memory"), ("b/x", "disk"), ("z", "disk")]
    assert [keeper.keeps(topic, place) for topic, place in asked] == [3, 2, 0, None, 0, None]
    assert keeper.is_partial
    del keeper.patterns["a/#"], keeper.patterns["a/b"]
    assert not keeper.is_partial


def test_the_wait_for_a_repeated_answer_doubles_up_to_three_seconds() -> None:
    source, waits = Source(1, "s", ("earliest", 0)), []
    for _ in range(7):
        waits.append(source.repeat)
        source.lengthen()
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


def test_a_reader_that_is_too_slow_is_told_what_it_lost() -> None:
    one, _ = reader(100)
    one.waiting = 100
    one._hand_over(live(3))
    one.waiting = 99
    one._hand_over(live(4))
    first, second = one.ready
    assert isinstance(first, Missed)
    assert (first.topic, first.publisher, first.publisher_id) == ("t/a", "publisher", PUBLISHER)
    assert (first.count, first.cause) == (1, "refused")
    assert isinstance(second, Delivery)
    assert (one.pushed, one.waiting) == (1, 99 + 129)


def test_what_a_keeper_fetched_is_marked_as_replayed() -> None:
    healing = Healing()
    healing.meet(ONE)
    healing.now += 1.0
    peer, request = healing.ask()
    assert request.digest
    healing.healer.page(healing.now, peer, 1, Page(request.id, 0, 0, True, digests=("f" * 16, "", "")))
    peer, request = healing.ask()
    heads = [("t/a", 2, PUBLISHER, 7, 1)]
    healing.healer.page(healing.now, peer, 1, Page(request.id, 1, 1, True, heads=heads))
    peer, request = healing.ask()
    assert (request.ranges, request.room, request.kept) == ([("t/a", 1, 2, 0, PUBLISHER, 7)], 1 << 17, True)
    group = MessageGroup("t/a", 1, 5_000_000, [b"{}", b"[]"], 2, "kind", True)
    page = Page(request.id, 0, 0, False, [group], [(PUBLISHER, "name", 7, 1)], 1)
    assert healing.healer.page(healing.now, peer, 1, page) == [
        Record(PUBLISHER, "name", 7, "t/a", 1, [b"{}", b"[]"], 5.0, 0, REPLAYED | 1, "kind")
    ]
    assert REPLAYED == 8
    assert healing.statistics["messages fetched by keepers"] == 2
