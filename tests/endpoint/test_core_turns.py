"""What the core of an endpoint makes of a turn: who is told which news, what is counted, when senders are stopped."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import (
    Accept,
    Addressed,
    Delivery,
    Missed,
    NameClash,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Receipted,
    Rung,
)
from glue.endpoint.core import EndpointCore
from glue.endpoint.message import Peer, delivery_weight
from glue.model import Answer
from glue.settings import Settings

ONE = "1" * 16


class Turns:
    """A core whose stack and parts the test plays; `told` are the calls of its parts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.core: Any = EndpointCore(Settings(name="ann", **settings), Random(0), 0.0, {})
        self.told: list[tuple[Any, ...]] = []
        self.up: list[Any] = []
        self.asked: list[list[Any]] = []
        monkeypatch.setattr(self.core.stack, "turn", self.turn)
        monkeypatch.setattr(self.core.stack, "send", lambda now, requests: [now, *requests])
        for part, names in (
            ("requests", ["note"]), ("wills", ["note"]), ("durability", ["note", "addressed"]), ("types", ["note"]),
            ("offers", ["change", "forget"]),
        ):  # fmt: skip
            setattr(self.core, part, SimpleNamespace(**{name: self.part(part, name) for name in names}))

    def part(self, part: str, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.told.append((part, name, *arguments))
            return [Publication("asked", [b""], 0.0)] if (part, name) == ("requests", "note") else ()

        return call

    def turn(self, now: float, trains: Any, requests: list[Any]) -> tuple[list[Any], list[Any]]:
        self.asked.append(requests)
        return self.up, ["out", now, trains]

    def run(self, *events: Any) -> list[Any]:
        self.up = [*events]
        found, out = self.core.turn(5.0, ["in"])
        assert out == ["out", 5.0, ["in"]]
        return list(found)

    @property
    def parts(self) -> list[str]:
        """The parts that were told since the last look, all with the same event."""
        found, self.told = self.told, []
        return [f"{part}.{name}" for part, name, *_ in found]


def delivery(size: int = 10, tokens: Any = ("a",), publisher: str = ONE, count: int = 1) -> Delivery:
    return Delivery("t", [bytes(size)] * count, None, "peer", publisher, 1, 1, 0.0, False, tokens)


def test_each_piece_of_news_is_told_to_those_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    core = turns.core
    added = PeerAdded(ONE, 7, "peer", ("a", 1), True)
    assert turns.run(added) == [added]
    assert core.peers == {ONE: Peer("peer", ONE, 7, ("a", 1), True)}
    assert turns.parts == ["wills.note"]
    interest = PeerInterest(ONE, ["t"], [])
    assert turns.run(interest) == [interest]
    assert [one[-1] for one in turns.told] == [interest] * 5
    assert [one[2] for one in turns.told[:2]] == [5.0] * 2
    assert turns.parts == ["requests.note", "wills.note", "durability.note", "types.note", "offers.change"]
    assert [one.topic for one in core.outbox.take()] == ["asked"]
    receivers: list[Any] = []
    core.receivers = SimpleNamespace(note=receivers.append)
    removed = PeerRemoved(ONE, 7, "peer", "goodbye")
    turns.run(removed)
    assert (core.peers, receivers, turns.told[-1]) == ({}, [removed], ("offers", "forget", ONE))
    assert turns.parts == ["requests.note", "wills.note", "durability.note", "types.note", "offers.forget"]
    turns.run(removed)  # of a peer that was not known
    history: list[Any] = []
    room = SimpleNamespace(poke=lambda: history.append("poked"))
    core.history = SimpleNamespace(
        note=history.append, advance=lambda now, backlog: [Publication("page", [b""], now)], poked=lambda: [room]
    )
    turns.parts  # noqa: B018
    core.outbox.take()
    turns.run(interest)
    assert (history, turns.parts[-1]) == ([interest, "poked"], "types.note")  # the history tells its offers
    assert [one.topic for one in core.outbox.take()] == ["asked", "page"]


def test_gaps_receipts_alarms_and_clashes_are_counted_and_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    core = turns.core
    turns.run(Missed("t", "peer", ONE, 3, "lost", ("a", "b")), NameClash("ann", 1, ("a", 1)))
    assert core.statistics["messages missed: lost"] == 6
    assert core.statistics["name clashes"] == 1
    noted: list[Any] = []
    receipt = SimpleNamespace(note=lambda event, peers: noted.append((event, peers is core.peers)), expectation=None)
    plain, answered = Addressed(receipt, [ONE], 9), Receipted(receipt, ONE)  # type: ignore[arg-type]
    turns.run(plain, answered)
    assert noted == [(plain, True), (answered, True)]
    assert turns.parts == []
    receipt.expectation = "expected"
    turns.run(plain, answered)
    assert turns.told == [("durability", "addressed", "expected", 9)]
    token = SimpleNamespace(rung=lambda now: [Publication(f"rung at {now}", [b""], now)])
    turns.run(Rung(token))
    assert [one.topic for one in core.outbox.take()] == ["rung at 5.0"]
    answers: list[Any] = []
    assert turns.run(Answer(SimpleNamespace(answered=answers.append), "answer")) == []  # type: ignore[arg-type]
    assert answers == ["answer"]


def test_observers_are_told_and_what_follows_comes_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    core = turns.core
    follows = delivery(tokens=("w",))
    told: list[Any] = []

    class Observer:
        def note(self, now: float, event: Any) -> list[Any]:
            told.append((now, event))
            return [follows]

    core.observers.add(Observer())
    added, clash = PeerAdded(ONE, 7, "peer", ("a", 1)), NameClash("ann", 1, ("a", 1))
    assert turns.run(added, clash) == [added, follows, clash]
    assert told == [(5.0, added)]
    assert core.statistics["messages arrived"] == 1
    assert core.waiting == delivery_weight(follows)


def test_requests_of_the_outbox_go_with_the_turn_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    first, second = Publication("one", [b""], 0.0), Publication("two", [b""], 0.0)
    turns.core.outbox.add(first)
    turns.run()
    turns.run()
    assert turns.asked == [[first], []]
    turns.core.outbox.add(first)
    assert turns.core.send(7.0, [second]) == [7.0, first, second]
    assert turns.core.send(8.0) == [8.0]


def test_senders_are_stopped_above_the_limit_and_released_at_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = delivery_weight(delivery())
    turns = Turns(monkeypatch, receive_limit=4 * weight)
    core = turns.core
    one = delivery(tokens=("a", "b"))
    orders: list[tuple[int, bool]] = []

    def look() -> None:
        orders.extend((core.waiting // weight, order.accepting) for order in core.outbox.take())
        assert all(isinstance(order, Accept) for order in core.outbox.take())

    assert turns.run(one, one) == [one, one]
    assert (core.waiting, core.statistics["messages arrived"]) == (4 * weight, 4)
    look()
    turns.run(delivery())
    look()
    for _ in range(2):
        assert not core.handled(delivery())
        look()
    core.keep(delivery())
    look()
    for _ in range(2):
        core.handled(delivery())
        look()
    assert orders == [(5, False), (2, True)]
    assert (core.statistics["senders stopped"], core.statistics["senders released"]) == (1, 1)
    assert not core.overfed


def test_an_endpoint_that_feeds_itself_too_much_is_told_when_it_may_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = delivery_weight(delivery())
    turns = Turns(monkeypatch, receive_limit=2 * weight)
    core = turns.core
    own = delivery(publisher=core.identity.endpoint_id)
    for expected in (False, False, True):
        core.hold(own)
        assert core.overfed is expected
    core.hold(delivery())
    assert core.handled(delivery()) is False
    assert core.handled(own) is True
    assert core.handled(own) is False
    assert str(core.would_block(77)) == (
        f"77 bytes wait to be acknowledged, with queue_limit={4 << 20}; {weight} to be handled here, with "
        f"receive_limit={2 * weight}"
    )


def test_outcomes_and_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Turns(monkeypatch).core
    for outcome, count in (("handled", 3), ("unread", 2), ("handled", 1), ("expired", 0)):
        core.settled(outcome, count)
    core.failed()
    core.arrived(4)
    core.arrived(-1)
    counted = {name: count for name, count in core.statistics.items() if count}
    assert sorted(counted.values()) == [1, 2, 3, 4]
    assert (counted["handler failed"], counted["messages arrived"]) == (1, 3)


def test_streams_are_taken_in_pieces_of_a_megabyte_or_a_quarter_of_the_queue() -> None:
    table = {
        (4 << 20, 1, 0): 2, (4 << 20, 600, 0): 1024, (4 << 20, 100, 1 << 20): 99, (4 << 20, 100, (1 << 19) - 1): 200,
        (4 << 20, 10, 10 << 20): 1, (1 << 30, 100, 1 << 20): 99, (4000, 100, 999): 100, (4000, 100, 1000): 99,
    }  # fmt: skip
    for (limit, count, size), expected in table.items():
        core = EndpointCore(Settings(name="ann", queue_limit=limit), Random(0), 0.0, {})
        half: Any = SimpleNamespace(size=size // 2)
        rest: Any = SimpleNamespace(size=size - size // 2)
        assert core.chunk_count(count, [half, rest]) == expected
    assert core.next_member() + 1 == core.next_member()
