"""What a rally foresees it recognizes by its text; it takes nothing for it that the layers would not take."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract import Delivery, Subscribe
from glue.fastpath.prediction import Question
from tests.fastpath.test_rally import STEP, met

NOW = 100.91


class Match:
    """Ann asks, bob answers, in one rally."""

    def __init__(self) -> None:
        self.players, self.now = met(), NOW
        self.heard: list[Any] = []  # what each was asked, or answered
        self.foreseen: list[bool] = []  # whether that was foreseen

    def rally(self, index: int) -> Any:
        return self.players.cores[index].stack.rally

    def ask(self, payload: Any, index: int = 0) -> bytes:
        """The datagram of a question, or, of bob, an answer; taken from the wire."""
        self.now += 1e-5
        self.players.say(self.now, index, ("ping/1", "pong/ann")[index], payload, {})
        return self.players.wire.pop()[2]

    def hear(self, index: int, data: bytes) -> bool:
        """Whether a datagram is taken."""
        assert self.players._open(self.now, index)
        rally = self.rally(index)
        latest = rally._heard
        delivery = rally.hear(self.now, data)
        if delivery is None:
            return False
        self.heard += delivery.payloads
        self.foreseen.append(rally._heard is latest)
        return True

    def play(self, payload: Any) -> None:
        """A question, and the same as its answer."""
        for index in (0, 1):
            assert self.hear(1 - index, self.ask(payload, index))


def begun(payload: Any = b"12345678") -> Match:
    """They have exchanged some, all alike, so that the next question is foreseen."""
    match = Match()
    for _ in range(5):
        match.play(payload)
    assert match.foreseen[-4:] == [True] * 4
    return match


def test_what_is_foreseen_is_heard_and_said_as_anything_else() -> None:
    for payload in (b"", b"x", bytes(1000), {"a": [1, None]}, "text", 5):
        match = begun(payload)
        assert match.heard == [payload] * 10


def test_who_says_something_of_another_length_is_understood_and_foreseen_again() -> None:
    match, payloads = begun(), [b"short", bytes(100), b"100%", b"%d", {"not": "bytes"}, b"", b"12345678"]
    for payload in payloads:
        match.foreseen.clear()
        for _ in range(3):
            match.play(payload)
        assert match.foreseen == [False, False, True, True, True, True]
    assert match.heard[10:] == [payload for payload in payloads for _ in range(6)]


def test_whoever_said_something_to_others_in_between_too() -> None:
    match = begun()
    match.foreseen.clear()
    match.rally(0)._datagrams.wrote()  # its datagrams are counted
    match.rally(0)._answer = b""
    for _ in range(2):
        match.play(b"12345678")
    assert match.foreseen == [False, True, True, True]


def test_the_same_twice_is_taken_once() -> None:
    match = begun()
    data = match.ask(b"12345678")
    assert match.hear(1, data)
    assert not match.hear(1, data)


def test_what_was_not_foreseen_leaves_what_is_said_next_right() -> None:
    match = begun()
    assert match.hear(1, match.ask(b"12345678"))
    assert match.hear(1, match.ask(b"12345678"))  # asked again before the answer
    for _ in range(2):
        assert match.hear(0, match.ask(b"12345678", 1))
    match.play(b"12345678")
    assert match.heard == [b"12345678"] * 16
    assert match.players.cores[0].stack.statistics["transport"]["frames resent"] == 0


def test_no_more_is_asked_than_the_other_has_promised_to_take_though_all_is_answered() -> None:
    match = Match()
    transport: Any = match.players.cores[0].stack.layers["transport"]
    (channel,) = transport._channels.values()
    (member,) = channel.attached
    member.limit = channel.next + 3
    for _ in range(3):
        match.play(b"12345678")
    rally = match.rally(0)
    assert rally.is_open
    assert rally.say(match.now, 1e9, rally.line("ping/1"), b"x", False) is None


@pytest.mark.parametrize("meanwhile", ["another is said", "all is settled", "something comes"])
def test_what_has_left_is_numbered_even_if_a_fault_kept_it_from_being_noted(meanwhile: str) -> None:
    match = begun()
    assert match.hear(1, match.ask(b"12345678"))
    rally = match.rally(1)
    line = rally.line("pong/ann")
    first, _ = rally.say(match.now, 1e9 + match.now, line, b"87654321", False)  # and then `said` is not called
    if meanwhile == "all is settled":
        rally.settle()
        rally.said()
    if meanwhile == "something comes":
        assert match.hear(1, match.ask(b"12345678"))
    second = match.ask(b"12345678", 1)
    for data in (first, second):
        assert match.hear(0, data)
    assert match.heard[-2:] == [b"87654321", b"12345678"]
    assert match.players.cores[1].stack.statistics["topics"]["messages published"] == 20 + 5 + 2


def test_a_topic_may_contain_what_is_special_in_formats() -> None:
    players, now, topic = met(), NOW, "ping/%b%"
    players.order(now, 1, Subscribe(topic, topic))
    for turn in range(60):
        now += STEP if turn >= 40 else 0.01
        players.pass_time(now)
        if turn >= 40:
            players.say(now, 0, topic, b"1%d", {})
        while players.wire:
            players.arrive(now)
    assert min(players.foreseen) >= 10
    told = [
        dict(zip(Delivery.__slots__, values, strict=True)) for kind, values in players.state()[0] if kind is Delivery
    ]
    heard = [delivery["topic"] for delivery in told if delivery["payloads"] == [b"1%d"]]
    assert sorted(heard) == [topic] * 20 + ["pong/ann"] * 20


def test_malformed_json_is_refused_and_leaves_no_trace() -> None:
    match = begun({"a": 1})
    data = match.ask({"a": 1})
    assert not match.hear(1, data.replace(b'{"a":1}', b'{"a":1{'))
    assert match.hear(1, data)
    assert match.hear(0, match.ask({"a": 1}, 1))
    assert match.heard == [{"a": 1}] * 12


def question(payload: Any = b"12345678") -> tuple[Question, Any, bytes]:
    """What bob foresees, his pattern, and what comes."""
    match = begun(payload)
    rally = match.rally(1)
    return rally._question, rally._match, match.ask(payload)


def known(found: Any) -> list[Any]:
    """Of what the pattern finds, all that is foreseen: not for how long, nor when."""
    groups = [*found.groups()]
    return groups[:4] + groups[5:9] + groups[10:]


def altered(data: bytes) -> list[bytes]:
    """What differs from it by a byte, another, fewer or more, at any place of its headers."""
    end = data.index(b"\n", data.index(b"\n") + 1) + 1
    found = [data[:end] + data[end + 1 :], data + b"x", data[:end], b"", data[:5]]
    for place in range(end):
        found.append(data[:place] + data[place + 1 :])
        for other in b"0", b"1", b"9", b" ", b"_", b"-", b"+", b"a", b'"', b",", b"\n", b"\0", b"\xb2":
            found += [data[:place] + other + data[place + 1 :], data[:place] + other + data[place:]]
    return [other for other in found if other != data]


@pytest.mark.parametrize("payload", [b"12345678", b"", {"a": 1}])
def test_nothing_is_recognized_that_the_layers_would_not_take_or_that_says_something_else(payload: Any) -> None:
    foreseen, match, data = question(payload)
    assert foreseen.read(data) is not None
    usual, recognized = known(match(data)), 0
    for other in altered(data):
        found = foreseen.read(other)
        if found is not None:
            recognized += 1
            pattern = match(other)
            assert pattern is not None
            assert known(pattern) == usual
            assert found == (pattern.group(5), pattern.group(10), other[pattern.end() :])
    assert recognized > 10, "other times, and for how long"


def test_a_question_is_short_of_nothing() -> None:
    foreseen, _, data = question()
    for size in range(len(data)):
        assert foreseen.read(data[:size]) is None
        assert foreseen.read(data[:size] * 2) is None
