"""Serving history: bounded, and fair."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from glue.errors import StorageError
from glue.history import Limits, PublishedMemory, Server
from glue.history import server as module
from glue.history.wire import SINCE, Range, Request, decode_page
from glue.storage import MemoryLog, Record
from glue.storage.log import Reading
from glue.topics.bundle import MessageGroup


def server(count: int = 100, size: int = 100) -> tuple[Server, Counter[str]]:
    memory = PublishedMemory()
    memory.remember(Limits("#"))
    for number in range(1, count + 1):
        memory.record(0.0, MessageGroup("a", number, number, [bytes(size)], size), inf)
    statistics: Counter[str] = Counter()
    return Server(memory, lambda reader, life, pattern: reader == "known", statistics), statistics


def test_readers_are_served_in_turn() -> None:
    serving, _ = server()
    for id in range(3):
        serving.ask(("greedy", 1), Request(id, "a").encode())
    serving.ask(("modest", 1), Request(9, "a").encode())
    served = [answer[0][0] for _ in range(4) if (answer := serving.answer(0.0))]
    assert served == ["greedy", "modest", "greedy", "greedy"]
    assert serving.answer(0.0) is None
    assert not serving


def test_a_long_log_keeps_nobody_waiting() -> None:
    serving, _ = server()
    log = MemoryLog("0" * 16)
    log.append([Record("p" * 16, "p", 1, "busy", number, [b"x"]) for number in range(1, 20_001)])
    log.append([Record("p" * 16, "p", 1, topic, 1, [b"x"]) for topic in ("rare", "other")])
    serving.keep(log)
    rare: Range = ("rare", 1, 1, 0, "p" * 16, 1)
    for id in range(2 * module.BEGUN):
        serving.ask((f"greedy{id}", 1), Request(id, room=1, ranges=[rare], kept=True).encode())
    serving.ask(("modest", 1), Request(9, "a").encode())
    served = []
    while serving:
        if (answer := serving.answer(0.0)) is not None:
            served.append(answer[0][0])
            page = decode_page(answer[1])
            assert answer[0][0] == "modest" or [group.topic for group in page.groups] == ["rare"]
        assert len(serving._begun) <= module.BEGUN
    assert len(served) == 2 * module.BEGUN + 1
    assert served[0] == "modest"


def test_readers_that_leave_while_a_log_is_read_for_them_hold_up_no_other() -> None:
    serving, _ = server()
    log = MemoryLog("0" * 16)
    log.append([Record("p" * 16, "p", 1, "busy", number, [b"x"]) for number in range(1, 5_001)])
    log.append([Record("p" * 16, "p", 1, "rare", 1, [b"x"])])
    serving.keep(log)
    rare: Range = ("rare", 1, 1, 0, "p" * 16, 1)
    for id in range(module.BEGUN):
        serving.ask((f"gone{id}", 1), Request(id, ranges=[rare], kept=True).encode())
    for _ in range(module.BEGUN):
        assert serving.answer(0.0) is None, "one after the other has begun"
    for id in range(module.BEGUN):
        serving.forget(f"gone{id}")
    serving.ask(("here", 1), Request(9, ranges=[rare], kept=True).encode())
    answer = None
    while serving and answer is None:
        answer = serving.answer(0.0)
    assert answer is not None
    assert answer[0] == ("here", 1)


def test_a_long_list_of_streams_is_made_once_for_all_of_its_pages() -> None:
    serving, _ = server()
    log = MemoryLog("0" * 16)
    topics = [f"t/{number:04}" for number in range(3000)]
    log.append([Record("p" * 16, "p", 1, topic, 1, [b"x"]) for topic in reversed(topics)])
    serving.keep(log)
    listed, after, steps = [], 0, []
    while after < len(topics):
        serving.ask(("a", 1), Request(after, "t/#", after=after, heads=True, kept=True).encode())
        answer, count = None, 0
        while answer is None:
            answer, count = serving.answer(0.0), count + 1
        page = decode_page(answer[1])
        assert page.head == len(topics)
        listed += [head[0] for head in page.heads]
        after = page.next
        steps.append(count)
    assert listed == topics
    assert steps[0] > 3
    assert {*steps[1:]} == {1}
    assert not serving._listings


def test_who_asks_for_a_list_from_its_beginning_gets_it_as_it_is_now() -> None:
    serving, _ = server()
    log = MemoryLog("0" * 16)
    log.append([Record("p" * 16, "p", 1, f"t/{number:04}", 1, [b"x"]) for number in range(1, 1101)])
    serving.keep(log)
    for id in (1, 2):
        serving.ask(("a", 1), Request(id, "t/#", heads=True, kept=True).encode())
        answer = None
        while answer is None:
            answer = serving.answer(0.0)
        page = decode_page(answer[1])
        assert (page.head, page.heads[0][0]) == (1100 + id - 1, "t/0001" if id == 1 else "t/0000")
        log.append([Record("p" * 16, "p", 1, "t/0000", 1, [b"x"])])


def test_requests_are_bounded_and_a_repeated_one_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serving, statistics = server()
    for _ in range(2):
        serving.ask(("a", 1), Request(1, "a").encode())
    for id in range(2, 100):
        serving.ask(("a", 1), Request(id, "a").encode())
    assert statistics["requests for history received again"] == 1
    assert statistics["requests for history refused: too many"] == 99 - module.READER_REQUESTS
    monkeypatch.setattr(module, "REQUEST_BYTES", 0)
    serving.ask(("b", 1), Request(1, "a").encode())
    assert statistics["requests for history refused: too many"] == 100 - module.READER_REQUESTS
    serving.forget("a")
    assert not serving


def test_who_keeps_nothing_answers_a_request_for_what_keepers_have_with_nothing() -> None:
    serving, _ = server()
    serving.ask(("a", 1), Request(1, room=1000, ranges=[("a", 1, 5, 0, "e" * 16, 1)], kept=True).encode())
    answer = serving.answer(0.0)
    assert answer is not None
    page = decode_page(answer[1])
    assert (page.groups, page.answered) == ([], 1)


def test_a_list_that_cannot_be_read_has_no_answer_and_the_next_request_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(topics: object, offset: int, size: int, steps: int) -> Reading:
        raise StorageError("a sector is lost")

    serving, counts = server()
    log = MemoryLog("0" * 16)
    log.append([Record("p" * 16, "p", 1, "t", 1, [b"x"], published_at=10.0)])
    serving.keep(log)
    monkeypatch.setattr(log, "walk", broken)
    serving.ask(("a", 1), Request(1, "#", (SINCE, 5), heads=True, kept=True).encode())
    serving.ask(("a", 1), Request(2, "#", heads=True, kept=True).encode())
    answers = [serving.answer(0.0) for _ in range(20) if serving]
    (page,) = [decode_page(answer[1]) for answer in answers if answer is not None]
    assert (page.id, [head[0] for head in page.heads]) == (2, ["t"])
    assert counts["history unreadable"] == 1
    assert not serving


def test_a_page_has_a_limit_and_tells_how_to_go_on() -> None:
    serving, _ = server(count=100, size=50_000)
    after, pages, got = 0, 0, 0
    while after < 100:
        serving.ask(("known", 1), Request(pages, "a", after=after, room=1 << 30).encode())
        answer = serving.answer(0.0)
        assert answer is not None
        assert len(answer[1]) <= module.PAGE + 4096
        page = decode_page(answer[1])
        assert page.known
        got += sum(len(group.payloads) for group in page.groups)
        after, pages = page.next, pages + 1
    assert got == 100
    assert pages == 5


def test_a_place_in_the_future_is_counted_and_answered_with_the_head() -> None:
    serving, statistics = server()
    serving.ask(("a", 1), Request(1, "a", after=10**12).encode())
    answer = serving.answer(0.0)
    assert answer is not None
    assert decode_page(answer[1]).next == 100
    assert statistics["requests for history of the future"] == 1


def test_ranges_that_find_no_room_are_left_for_the_next_request() -> None:
    serving, _ = server(count=100, size=5000)
    ranges = [("a", 1, 10, 0, "", 0), ("nothing", 1, 5, 0, "", 0), ("a", 50, 60, 0, "", 0)]
    serving.ask(("a", 1), Request(1, ranges=ranges, room=70_000).encode())
    answer = serving.answer(0.0)
    assert answer is not None
    page = decode_page(answer[1])
    assert page.answered == 2
    assert (page.groups[0].sequence, len(page.groups[0].payloads)) == (1, 10)
