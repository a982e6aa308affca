"""The holder of the wills of peers, without endpoints."""

from __future__ import annotations

from collections import Counter
from math import inf
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from glue.contract import (
    Alarm,
    Delivery,
    ExecuteWill,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Subscribe,
    Unsubscribe,
)
from glue.endpoint import wills as module
from glue.endpoint.reserved import WILL_OF
from glue.endpoint.wills import AFTERWARDS, STEP, WILLS_OF, Holder, Will, decode_wills, encode_wills
from glue.errors import ForbiddenError


def entry(**changes: Any) -> dict[str, Any]:
    return {"number": 1, "topic": "t", "payload": "eA==", "json": 0, "retain": 0, "delay": 0, **changes}


def encoded(*entries: Any) -> bytes:
    return orjson.dumps({"wills": entries})


def test_wills_are_read_as_they_were_written() -> None:
    wills = [Will(1, "t", b"x", False, True, 0.25), Will(10**15 - 1, "u/v", b"", True, False, 10.0**6)]
    assert decode_wills(encode_wills(wills)) == wills
    assert decode_wills(encoded(*[entry()] * 64))[63] == Will(1, "t", b"x", False, False, 0.0)
    assert orjson.loads(encode_wills([Will(1, "t", b"x", False, False, 0.0001)]))["wills"][0]["delay"] == 1


@pytest.mark.parametrize(
    "payload",
    [
        "text", b"{}", b"5", encoded(*[entry()] * 65), orjson.dumps({"wills": {}}), encoded(entry(number=0)),
        encoded(entry(number=10**15)), encoded(entry(number=1.0)), encoded(entry(delay=-1)), encoded(entry(delay=1.5)),
        encoded(entry(delay=10**9 + 1)), encoded(entry(topic="#")), encoded(entry(topic="$glue/x")),
        encoded(entry(payload="eA")), encoded({}),
    ],
)  # fmt: skip
def test_malformed_wills_are_counted_and_the_next_payload_is_read(payload: Any) -> None:
    side = Side()
    side.announce("b")
    side.tell("b", payload, encoded(entry()))
    assert side.statistics == {"malformed wills": 1}
    side.lose("b")
    assert side.published(100.0) == ["t"]


class Side:
    """The holder of an endpoint "me" and what it asks of the stack."""

    def __init__(self, *others: str, guard: Any = None) -> None:
        self.asked: list[Any] = []
        self.settled: Counter[str] = Counter()
        self.handled: list[Any] = []
        self.statistics: Counter[str] = Counter()
        clocks: Any = SimpleNamespace(unix_time=lambda: 5000.0, statistics=self.statistics)
        self.topics: list[str] = []
        self.others = others
        self.holder = Holder(
            "me", self.asked.append, self.subscribers,
            lambda outcome, count: self.settled.update({outcome: count}), clocks, guard,
        )  # fmt: skip
        self.holder.handled = self.handled.append

    def subscribers(self, topic: str) -> tuple[str, ...]:
        self.topics.append(topic)
        return self.others

    def announce(self, peer: str) -> None:
        self.holder.note(0.0, PeerInterest(peer, [WILL_OF + peer, "t"], []))

    def holding(self, peer: str) -> Any:
        return self.holder._holdings[peer]

    def tell(self, owner: str, *payloads: Any, publisher: str = "", life: int = 1) -> None:
        peer = publisher or owner
        self.holding(owner)._deliver(
            Delivery(WILLS_OF + owner, payloads, None, peer, peer, life, 1, 0.0, True, (self.holding(owner),))
        )

    def lose(self, peer: str, reason: str = "expired", life: int = 1, now: float = 0.0) -> None:
        self.holder.note(now, PeerRemoved(peer, life, f"{peer}'s name", reason))

    def published(self, now: float, peer: str = "b") -> list[str]:
        """The topics of wills that are published at this time."""
        self.asked.clear()
        if peer in self.holder._holdings:
            self.notices = [*self.holding(peer).rung(now)]
        return [one.topic for one in self.asked if isinstance(one, ExecuteWill)]

    def alarms(self) -> list[float]:
        found = [one.due for one in self.asked if isinstance(one, Alarm)]
        self.asked.clear()
        return found


def test_a_will_is_published_after_its_delay_with_all_that_it_says() -> None:
    side = Side()
    side.announce("b")
    side.announce("b")
    (begun,) = side.asked
    assert isinstance(begun, Subscribe)
    assert (begun.token, begun.patterns) == (side.holding("b"), (WILLS_OF + "b",))
    side.tell("b", encode_wills([Will(1, "t", b"x", False, True, 0.0), Will(2, "u", b"{}", True, False, 2.0)]))
    assert (side.settled, len(side.handled), len(side.holder)) == ({"handled": 1}, 1, 1)
    side.asked.clear()
    side.lose("b", now=100.0)
    assert side.topics == [WILLS_OF + "b"]
    assert side.alarms() == [100.0]
    side.lose("b", now=101.0)
    assert side.alarms() == []
    assert side.published(99.9) == []
    assert side.published(100.0) == ["t"]
    told, alarm = side.asked
    assert (told.payload, told.json, told.retain, told.owner) == (b"x", False, True, ("b's name", "b", 1))
    assert (told.number, told.published_at) == (1, 5000.0)
    assert (alarm.token, alarm.due) == (side.holding("b"), 102.0)
    (notice,) = side.notices
    assert (notice.topic, notice.published_at, notice.json) == (WILLS_OF + "b", 5000.0, False)
    assert orjson.loads(notice.payloads[0]) == {"incarnation": 1, "done": [1]}
    assert side.published(101.9) == []
    assert side.notices == []
    assert side.published(102.0) == ["u"]
    assert side.alarms()[-1] == 102.0 + AFTERWARDS
    assert side.published(111.9) == []
    assert len(side.holder) == 1
    assert side.published(112.0) == []
    assert [type(one) for one in side.asked] == [Alarm, Unsubscribe]
    assert (side.asked[0].due, len(side.holder)) == (inf, 0)


def test_a_holder_of_a_later_rank_waits_and_forgets_what_another_has_done() -> None:
    side = Side(*map(str, range(40)), "b")
    side.announce("b")
    side.tell("b", encode_wills([Will(1, "t", b"", False, False, 0.0), Will(2, "u", b"", False, False, 0.0)]))
    side.lose("b", now=100.0)
    rank = side.holder._rank(("b's name", "b", 1))
    assert 0 < rank <= 40
    assert side.alarms()[-1] == pytest.approx(100.0 + STEP * rank)
    for notice in ({"incarnation": 2, "done": [1]}, {"incarnation": 1, "done": [2, 7]}, {}, {"incarnation": 1}):
        side.tell("b", orjson.dumps(notice), publisher="1")
    assert side.statistics == {"malformed wills": 2}
    assert side.published(200.0) == ["t"]
    ranks = {Side(*"cde").holder._rank(("b", "b", life)) for life in range(30)}
    assert ranks == {0, 1, 2, 3}


@pytest.mark.parametrize("reason", ["goodbye", "restarted"])
def test_an_end_that_is_no_loss_publishes_nothing(reason: str) -> None:
    side = Side()
    side.announce("b")
    side.tell("b", encoded(entry()))
    side.lose("b", reason)
    assert len(side.holder) == 0
    assert [type(one) for one in side.asked] == [Subscribe, Alarm, Unsubscribe]
    side.lose("unknown")


def test_only_the_wills_of_the_life_that_was_lost_are_published() -> None:
    side = Side()
    side.announce("b")
    side.tell("b", encoded(entry()), life=2)
    side.lose("b", life=1)
    assert len(side.holder) == 0


def test_a_peer_that_is_back_or_takes_its_wills_back_is_held_for_no_more() -> None:
    for news in (PeerAdded("b", 2, "b", ("::1", 1)), PeerInterest("b", [], [WILL_OF + "b"])):
        side = Side()
        side.announce("b")
        side.tell("b", encoded(entry()))
        holding = side.holding("b")
        side.lose("b")
        side.holder.note(0.0, news)
        assert len(side.holder) == 0
        assert holding.rung(100.0) == ()
    side.announce("b")
    side.holder.note(0.0, PeerInterest("b", [WILL_OF + "b"], [WILL_OF + "b"]))
    assert len(side.holder) == 1


def test_what_comes_after_the_loss_or_clears_changes_what_is_held() -> None:
    side = Side()
    side.announce("b")
    side.tell("b", encoded(entry()))
    side.tell("b", b"")
    assert side.holding("b").wills == {}
    side.tell("b", encoded(entry(topic="u")))
    side.lose("b")
    side.tell("b", encoded(entry(topic="v")))
    assert side.published(0.0) == ["u"]
    assert side.statistics == {}
    side.tell("b", encoded(entry(topic="v")), publisher="c")
    assert side.statistics == {"malformed wills": 1}


def test_the_wills_of_all_peers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (module.WILLS, module.WILLS_SIZE, module.HELD_SIZE) == (64, 1 << 20, 64 << 20)
    size = len(encoded(entry()))
    monkeypatch.setattr(module, "HELD_SIZE", 2 * size)
    side = Side()
    for peer in "bcd":
        side.announce(peer)
    for peer in "bc":
        side.tell(peer, encoded(entry()))
    side.tell("b", encoded(entry(topic="u")))
    assert side.statistics == {}
    side.tell("b", encoded(entry(topic="u2")))
    side.tell("d", encoded(entry()))
    assert side.statistics == {"wills refused: too many": 2}
    assert side.holding("b").wills[1].topic == "u"
    side.lose("c", "goodbye")
    side.tell("d", encoded(entry()))
    assert side.statistics == {"wills refused: too many": 2}


def test_a_will_that_this_endpoint_may_not_publish_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def require(guard: Any, what: str, topics: Any) -> None:
        assert (guard, what) == ("guard", "publish")
        if topics == ("secret",):
            raise ForbiddenError("no")

    monkeypatch.setattr(module, "require", require)
    side = Side(guard="guard")
    side.announce("b")
    side.tell("b", encoded(entry(topic="secret"), entry(number=2)))
    side.lose("b")
    assert side.published(0.0) == ["t"]
    assert orjson.loads(side.notices[0].payloads[0])["done"] == [2]
