"""Limits of the exam, each at its value and one beyond: questions, answers that wait, parts, datagrams and rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract.counters import Counters
from glue.discovery import inquiry as inquiry_module
from glue.discovery.exam import INQUIRIES, PARTS_AT_ONCE, PROMPT, ROUND_SPACING, SPACING, WAITING, Exam
from glue.discovery.exam_round import Links
from glue.discovery.exam_wire import (
    HEAD_ROOM,
    MOST_PARTS,
    MULTICAST,
    UNICAST,
    Ask,
    Part,
    Ping,
    Pong,
    Round,
    is_large,
)
from glue.discovery.inquiry import Inquiry


class Chance:
    """Draws the most of each range, and counts the numbers of questions."""

    def __init__(self) -> None:
        self.number = 0
        self.asked: list[tuple[float, float]] = []

    def uniform(self, least: float, most: float) -> float:
        self.asked.append((least, most))
        return most

    def randrange(self, least: int, beyond: int) -> int:
        self.number += 1
        return self.number

    def shuffle(self, peers: list[str]) -> None:
        peers.reverse()


class Desk:
    """An exam whose peers are given, and what it sends."""

    def __init__(self, peers: int, remote: Sequence[str] = ()) -> None:
        names = [f"p{number}" for number in range(peers)]
        self.table: dict[str, Any] = {
            name: SimpleNamespace(
                id=name, name=name.upper(), is_verified=True, is_proven=True, overheard=-math.inf, received_at=0.0,
                address=("10.0.0.1", 7),
            )
            for name in names
        }  # fmt: skip
        self.sent: list[tuple[Any, ...]] = []
        self.chance: Any = Chance()
        self.statistics = Counters()
        self.members: Any = SimpleNamespace(
            table=self.table, remote={name: self.table[name] for name in remote},
            known=lambda now, item, echo: self.table.get(item),
        )  # fmt: skip
        sender: Any = SimpleNamespace(
            send_all=lambda kind, body: self.sent.append(("all", body)),
            send=lambda now, peer, kind, body: self.sent.append((peer.id, body)),
            receive=lambda now, peer, item, envelope: None,
            ask_proof=lambda now, peer: self.sent.append((peer.id, "proof")),
        )
        members: Any = self.members
        chance: Any = self.chance
        self.exam = Exam(members, sender, self.statistics, chance)
        self.exam.size = 1000
        self.exam.sections = lambda section: {"a": section}

    def receive(self, now: float, peer: str, body: bytes) -> None:
        item: Any = peer
        envelope: Any = SimpleNamespace(echo=0)
        self.exam.receive(now, item, envelope, body)

    def took(self) -> list[tuple[Any, ...]]:
        taken, self.sent[:] = [*self.sent], []
        return taken


def test_a_question_is_asked_again_of_those_who_have_not_answered_and_ends_with_its_time() -> None:
    desk = Desk(2, remote=["p1"])
    question = desk.exam.ask(["report"], 1.0)
    assert desk.exam.is_due(-math.inf)
    desk.exam.advance(10.0)
    body = question.ask.body
    assert desk.took() == [("all", body), ("p1", body)]
    dues = []
    desk.receive(10.1, "p0", Part(question.number, "report", 0, 1, b"7").body)
    for _ in range(3):
        dues.append(round(desk.exam.due, 6))
        assert not desk.exam.is_due(desk.exam.due - 1e-9)
        desk.exam.advance(desk.exam.due)
        assert desk.took() == [("p1", body)]
    assert dues == [10.15, 10.45, 10.85]
    assert desk.exam.due == 11.0
    desk.exam.advance(10.99)
    assert not question.is_over
    desk.exam.advance(11.0)
    assert (question.is_over, desk.exam.due, desk.took()) == (True, math.inf, [])
    assert question.answers == {"p0": {"report": 7}}
    assert question.names == {"p0": "P0"}
    desk.receive(11.1, "p1", Part(question.number, "report", 0, 1, b"7").body)
    assert desk.statistics == {"answer to no question": 1}


def test_without_multicast_only_those_far_away_are_asked_and_without_peers_nobody() -> None:
    desk = Desk(2, remote=["p1"])
    desk.exam.is_multicast = False
    question = desk.exam.ask(["report"], 1.0)
    desk.exam.advance(10.0)
    assert desk.took() == [("p1", question.ask.body)]
    alone = Desk(0)
    question = alone.exam.ask(["report"], 1.0)
    alone.exam.advance(10.0)
    assert question.is_over


def test_of_too_many_questions_the_oldest_end_early() -> None:
    desk = Desk(1)
    questions = [desk.exam.ask(["report"], 1.0) for _ in range(INQUIRIES)]
    desk.exam.advance(10.0)
    assert not any(question.is_over for question in questions)
    more = desk.exam.ask(["report"], 1.0)
    desk.exam.advance(10.0)
    assert [question.is_over for question in (*questions[:2], more)] == [True, False, False]


def test_answers_wait_for_a_turn_among_many_peers_and_only_so_many_do() -> None:
    for peers, delay in ((PROMPT, 0.0), (PROMPT + 1, (PROMPT + 1) * SPACING)):
        desk = Desk(peers)
        desk.receive(10.0, "p0", Ask(1, ("x",)).body)
        desk.receive(10.0, "p0", Ask(1, ("x",)).body)  # once more
        assert desk.exam.due == pytest.approx(10.0 + delay)
        assert desk.chance.asked == ([(0, pytest.approx(delay))] if delay else [])
        desk.exam.advance(10.0 + delay / 2)
        assert len(desk.sent) == (delay == 0)
        desk.exam.advance(10.0 + delay)
        assert desk.took() == [("p0", Part(1, "x", 0, 1, b'{"a":"x"}').body)]
        assert desk.exam.due == math.inf
    for number in range(WAITING + 2):
        desk.receive(11.0, "p1", Ask(number + 5, ("x",)).body)
    assert desk.statistics == {"reply withheld": 2}
    desk.exam.advance(12.0)
    assert len(desk.took()) == WAITING == PARTS_AT_ONCE


def test_datagrams_of_answers_are_limited_and_grow_again_with_time() -> None:
    desk, number = Desk(1), 0
    piece = desk.exam.size - HEAD_ROOM
    desk.exam.sections = lambda parts: "x" * (piece * int(parts) - 2)

    def answered(now: float, parts: int) -> int:
        nonlocal number
        number += 1
        desk.receive(now, "p0", Ask(number, (str(parts),)).body)
        desk.exam.advance(now)
        return len(desk.took())

    assert [answered(10.0, MOST_PARTS) for _ in range(3)] == [MOST_PARTS] * 3
    assert [answered(10.0, parts) for parts in (MOST_PARTS - 1, 2, 1, 1)] == [MOST_PARTS - 1, 0, 1, 0]
    assert desk.statistics == {"reply withheld": 2}
    assert [answered(10.0 + at / 64, 2) for at in (1.9, 2.1, 2.2)] == [0, 2, 0]
    assert [answered(1000.0, MOST_PARTS) for _ in range(5)] == [MOST_PARTS] * 4 + [0]
    assert answered(2000.0, MOST_PARTS + 1) == 0
    assert desk.statistics["exam failed"] == 1


def test_a_section_that_cannot_be_told_is_counted_and_the_others_come() -> None:
    desk = Desk(1)
    told: dict[str, Any] = {"fails": KeyError, "set": {1, 2}, "large": "x" * (1 << 20), "keys": {1: 2}}

    def sections(name: str) -> Any:
        if name == "fails":
            raise KeyError(name)
        return told[name]

    desk.exam.sections = sections
    desk.receive(10.0, "p0", Ask(1, ("fails", "set", "large", "keys")).body)
    desk.exam.advance(10.0)
    assert desk.took() == [("p0", Part(1, "keys", 0, 1, b'{"1":2}').body)]
    assert desk.statistics == {"exam failed": 3}
    desk.exam.sections = None
    desk.receive(10.0, "p0", Ask(2, ("keys",)).body)
    desk.exam.advance(10.0)
    assert (desk.took(), desk.statistics) == ([], {"exam failed": 3})


def test_a_closed_exam_answers_nothing_but_takes_answers() -> None:
    desk = Desk(1)
    desk.receive(10.0, "p0", Ping(1, 0, 4, UNICAST).body(100))
    question = desk.exam.ask(["report"], 1.0)
    desk.exam.advance(10.0)
    desk.exam.is_open = False
    desk.took()
    for body in (Ask(1, ("x",)).body, Round(7, 4).body, Pong(1, 0).body, Ping(1, 1, 4, UNICAST).body(100)):
        desk.receive(10.1, "p0", body)
    assert (desk.took(), desk.statistics["exam refused"]) == ([], 4)
    desk.receive(10.1, "p0", Part(question.number, "report", 0, 1, b"7").body)
    assert question.is_over


def test_who_leaves_ends_all_and_answers_nothing_more() -> None:
    desk = Desk(PROMPT + 1)
    question = desk.exam.ask(["report"], 1.0)
    desk.exam.advance(10.0)
    desk.receive(10.0, "p0", Ask(1, ("x",)).body)
    desk.receive(10.0, "p0", Round(7, 4).body)
    assert desk.exam.due < 10.2
    desk.exam.stop()
    assert (question.is_over, desk.exam.due) == (True, math.inf)
    desk.took()
    desk.receive(10.1, "p0", Ask(2, ("x",)).body)
    desk.exam.advance(99.0)
    assert (desk.took(), desk.statistics) == ([], {"exam refused": 1})


def test_rounds_are_half_a_second_apart_and_the_same_one_is_no_other() -> None:
    desk = Desk(1)
    number = desk.exam.start_round(4)
    desk.exam.advance(10.0)
    assert [body for to, body in desk.took() if to == "all"][:2] == [Round(number, 4).body] * 2
    desk.receive(10.1, "p0", Round(number, 4).body)
    desk.receive(10.0 + ROUND_SPACING - 0.001, "p0", Round(77, 4).body)
    assert desk.statistics == {"reply withheld": 1}
    desk.receive(10.0 + ROUND_SPACING, "p0", Round(78, 4).body)
    assert desk.statistics == {"reply withheld": 1}
    desk.exam.advance(20.0)
    assert desk.exam.describe_links()["round"] == 78


def test_of_a_round_each_ping_and_each_answer_counts_once() -> None:
    links = Links()
    assert links.of("a") == {"pinged": False}
    links.begin(Round(7, 6), ["a"])
    assert (links.sent_number, links.pings, links.count) == (7, 6, 0)
    assert not links.receive_pong(1.0, "a", Pong(7, 0)), "it was not sent yet"
    links.sent(1.0, 0)
    links.sent(1.1, 1)
    assert links.count == 2
    for peer, pong in (("a", Pong(8, 0)), ("b", Pong(7, 0)), ("a", Pong(7, 6)), ("a", Pong(7, 5))):
        assert not links.receive_pong(1.2, peer, pong)
    assert links.receive_pong(1.25, "a", Pong(7, 0))
    assert links.receive_pong(1.3, "a", Pong(7, 1))
    assert links.of("a") == {"pinged": True, "pongs": 2, "round_trip": 0.2, "mean_round_trip": 0.225}
    large = next(place for place in range(6) if is_large(place))
    small = next(place for place in range(6) if not is_large(place))
    for place, way in ((small, MULTICAST), (small, MULTICAST), (large, MULTICAST), (small, UNICAST), (6, UNICAST)):
        links.receive(1.0, "b", Ping(9, place, 6, way))
    all_large = sum(map(is_large, range(6)))
    assert links.of("b") == {
        "pinged": False, "heard": 9, "multicast": [1, 6 - all_large], "large_multicast": [1, all_large],
        "unicast": [1, 6 - all_large], "large_unicast": [0, all_large],
    }  # fmt: skip
    links.receive(1.0, "b", Ping(10, small, 6, UNICAST))
    assert links.of("b")["multicast"] == [0, 6 - all_large], "another round"
    links.begin(Round(8, 4), [])
    assert (links.count, links.pings, links.of("a")) == (0, 4, {"pinged": False})


def part(section: str = "x", number: int = 0, parts: int = 1, data: bytes = b"1") -> Part:
    return Part(1, section, number, parts, data)


def test_an_answer_is_whole_once_all_its_parts_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry_module, "ANSWERS", 2)
    question = Inquiry(Ask(1, ("x", "y")), 1.0)
    assert question.due == math.inf
    assert not question.is_answered([])
    question.begin(5.0)
    assert (question.due, question.ends_at) == (5.0, 6.0)
    question.asked(5.0)
    assert question.is_answered([])
    assert question.take("a", "A", part(number=1, parts=2, data=b"2"))
    assert (question.answers, question.missing("ab")) == ({}, ["a", "b"])
    assert question.take("a", "A", part(number=0, parts=2, data=b"1"))
    assert question.answers == {"a": {"x": 12}}
    assert question.take("a", "A", part(data=b"7")), "it is known already"
    assert question.answers == {"a": {"x": 12}}
    assert question.take("a", "A", part("y", number=2, parts=3, data=b"2"))
    assert question.take("a", "A", part("y", number=0, parts=2, data=b"1"))  # it has become shorter
    assert question.take("a", "A", part("y", number=1, parts=2, data=b"0"))
    assert question.answers == {"a": {"x": 12, "y": 10}}
    assert (question.missing("ab"), question.is_answered("a")) == (["b"], True)
    assert not question.take("b", "B", part(data=b"{"))
    assert question.take("b", "B", part(data=b"8"))
    assert not question.take("c", "C", part(data=b"8")), "so many peers, and no more"
    assert question.take("b", "B", part("y", data=b"8"))
    assert question.names == {"a": "A", "b": "B"}
