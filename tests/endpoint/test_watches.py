"""What an endpoint notes of the interests of peers: presence, promised rates, and who offers history."""

from __future__ import annotations

from collections import Counter
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Alarm, Delivery, PeerAdded, PeerInterest, PeerRemoved, Rung, Surveyed
from glue.endpoint import deadlines, offers, presence
from glue.endpoint.deadlines import DeadlineWatch, Silence
from glue.endpoint.observers import Observers
from glue.endpoint.offers import Offers, served_by
from glue.endpoint.presence import Presence, PresenceWatch, promise_of, role_of
from glue.history.names import KEEPER, OWN

FAST, SLOW, NONE = "$glue/publisher/1000/", "$glue/publisher/3000/", "$glue/publisher/0/"


@pytest.mark.parametrize(
    ("interest", "promise"),
    [
        ("$glue/publisher/1500/home/+", (1500, "home/+")),
        ("$glue/publisher/0/t", (0, "t")),
        ("$glue/publisher/9999999999/t", (9_999_999_999, "t")),
        ("$glue/publisher/10000000000/t", None),
        ("$glue/publisher/\u0661/t", None),
        ("$glue/publisher//t", None),
        ("$glue/publisher/-1/t", None),
        ("$glue/publisher/1/", None),
        ("$glue/publisher/1/#/t", None),
        ("$glue/publishex/1/t", None),
    ],
)
def test_a_promise_is_a_number_of_milliseconds_and_a_pattern(interest: str, promise: tuple[int, str] | None) -> None:
    assert promise_of(interest) == promise
    if interest.startswith("$glue/publisher/"):
        assert role_of(interest) == (None if promise is None else ("publisher", promise[1]))


@pytest.mark.parametrize(
    ("interest", "role"),
    [
        ("home/+", ("subscriber", "home/+")),
        ("#", ("subscriber", "#")),
        ("", None),
        ("a/#/b", None),
        ("$glue/responder/home", ("responder", "home")),
        ("$glue/responder/#/x", None),
        ("$glue/keeper/disk/0/t", None),
        ("$glue/sampled/5/t", None),
    ],
)
def test_an_interest_is_a_role_of_an_endpoint(interest: str, role: tuple[str, str] | None) -> None:
    from glue.requests.wire import ANNOUNCED
    from glue.topics.wrapped import SAMPLED

    interest = interest.replace("$glue/responder/", ANNOUNCED).replace("$glue/sampled/", SAMPLED)
    assert role_of(interest) == role


class Watch:
    """A watch of presence with what it tells."""

    def __init__(self, pattern: str = "#") -> None:
        self.observers = Observers()
        self.statistics: Counter[str] = Counter()
        self.token: Any = SimpleNamespace(closed=False)
        self.watch = PresenceWatch(pattern, self.token, ("me", "id-me", 7), self.observers, self.statistics)
        self.observers.add(self.watch)
        self.sequences: list[int] = []

    def note(self, event: Any) -> list[tuple[str, str, str, str, bool, str]]:
        found: list[tuple[str, str, str, str, bool, str]] = []
        for delivery in self.watch.note(0.0, event):
            self.sequences += range(delivery.sequence, delivery.sequence + len(delivery.payloads))
            assert (delivery.topic, delivery.tokens) == ("$glue/presence", (self.token,))
            assert (delivery.publisher, delivery.publisher_id, delivery.incarnation) == ("me", "id-me", 7)
            assert (delivery.retained, delivery.published_at) == (False, 0.0)
            found += [(one.kind, one.name, one.id, one.pattern, one.present, one.reason) for one in delivery.payloads]
        return found


def test_a_watch_begins_with_its_survey_and_numbers_what_it_tells() -> None:
    watch = Watch()
    assert watch.note(PeerAdded("b", 1, "b's name", ("::1", 1))) == []
    assert watch.note(Surveyed("another", [("b", "b's name", ["t"])])) == []
    assert watch.note(Surveyed(watch.token, [("b", "b's name", ["t", "$glue/x"]), ("c", "c's name", [])])) == [
        ("endpoint", "b's name", "b", "", True, ""),
        ("subscriber", "b's name", "b", "t", True, ""),
        ("endpoint", "c's name", "c", "", True, ""),
    ]
    assert watch.note(PeerAdded("b", 1, "b's name", ("::1", 1))) == []
    assert watch.note(PeerInterest("c", ["t", "t", FAST + "t"], ["u"])) == [
        ("subscriber", "c's name", "c", "t", True, ""),
        ("publisher", "c's name", "c", "t", True, ""),
    ]
    assert watch.note(PeerInterest("unknown", ["t"], [])) == []
    assert watch.note(PeerInterest("c", [], ["t"])) == []
    assert watch.note(PeerInterest("c", [], ["t", "t"])) == [("subscriber", "c's name", "c", "t", False, "")]
    assert watch.note(PeerRemoved("unknown", 1, "x", "expired")) == []
    assert watch.note(PeerRemoved("c", 1, "c's name", "expired")) == [
        ("publisher", "c's name", "c", "t", False, "expired"),
        ("endpoint", "c's name", "c", "", False, "expired"),
    ]
    assert watch.note(PeerRemoved("c", 1, "c's name", "expired")) == []
    assert watch.sequences == [*range(1, 9)]
    assert Presence("endpoint", "b's name", "b", "", True).reason == ""


def test_a_closed_watch_is_an_observer_no_more() -> None:
    watch = Watch()
    watch.note(Surveyed(watch.token, []))
    watch.token.closed = True
    assert watch.observers
    assert watch.note(PeerAdded("b", 1, "b's name", ("::1", 1))) == []
    assert not watch.observers


def test_roles_beyond_the_limit_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert presence.PATTERNS == 65_536
    monkeypatch.setattr(presence, "PATTERNS", 2)
    watch = Watch()
    watch.note(Surveyed(watch.token, [("b", "b", ["t/1", "t/2"]), ("c", "c", [])]))
    assert watch.statistics == {}
    assert watch.note(PeerInterest("c", ["t/3"], [])) == []  # whose end would not be told either
    assert watch.note(PeerInterest("c", [], ["t/3"])) == []
    assert watch.statistics == {"presence left out: too many": 1}
    watch.note(PeerInterest("b", ["t/2"], ["t/1"]))
    assert watch.note(PeerInterest("c", ["t/3"], [])) == [("subscriber", "c", "c", "t/3", True, "")]
    assert watch.statistics == {"presence left out: too many": 1}
    watch.note(PeerRemoved("b", 1, "b", "expired"))
    watch.note(PeerInterest("c", ["t/4"], []))
    assert watch.statistics == {"presence left out: too many": 1}
    watch.note(PeerInterest("c", ["t/5"], []))
    assert watch.statistics == {"presence left out: too many": 2}


# ------------------------------------------------------------------------------------------------------- deadlines


class Due:
    """A watch of a deadline of two seconds, its alarm, and what it tells."""

    def __init__(self, *patterns: str, counts: bool = True, takes_weaker: bool = False) -> None:
        self.now = 0.0
        self.alarms: list[float] = []
        self.told: list[Silence] = []
        self.settled: Counter[str] = Counter()
        self.handled: list[Any] = []
        owner: Any = SimpleNamespace(
            settled=lambda outcome, count: self.settled.update({outcome: count}), handled=self.handled.append
        )
        self.watch = DeadlineWatch(
            patterns or ("home/#",), 2.0, "my pattern", owner, self.order, lambda: self.now, self.told.append, counts,
            takes_weaker,
        )  # fmt: skip

    def order(self, request: Any) -> None:
        assert isinstance(request, Alarm)
        assert request.token is self.watch
        self.alarms.append(request.due)

    def change(self, added: list[str], removed: list[str] | None = None, peer: str = "b") -> None:
        self.watch.note(self.now, PeerInterest(peer, added, removed or []))

    def message(self, topic: str, peer: str = "b", old: bool = False) -> None:
        self.watch._deliver(Delivery(topic, ["x", "y"], None, peer, peer, 1, 1, 0.0, old, ()))

    def ring(self, now: float) -> list[tuple[str, str, str, float, str]]:
        self.now = now
        self.told.clear()
        self.watch._deliver(Rung(self.watch))
        return [(one.topic, one.publisher, one.publisher_id, one.seconds, one.pattern) for one in self.told]


def test_a_silence_is_told_after_one_and_a_quarter_deadlines() -> None:
    due = Due()
    due.watch.note(0.0, PeerAdded("b", 1, "b's name", ("::1", 1)))
    due.change([FAST + "home/a"])
    assert due.alarms == [2.5]
    assert due.ring(2.4) == []
    assert due.alarms == [2.5, 2.5]
    assert due.ring(2.5) == [("home/a", "b's name", "b", 2.5, "my pattern")]
    assert due.alarms == [2.5, 2.5]
    assert due.ring(9.0) == []
    due.message("home/a")
    assert due.alarms[2:] == [11.5]
    assert (due.settled, len(due.handled)) == ({"handled": 2}, 1)


def test_the_next_look_is_when_the_next_is_due_but_not_at_once() -> None:
    due = Due(counts=False)
    due.change([FAST + "home/a"])
    due.now = 1.0
    due.message("home/a")
    assert (due.alarms, due.handled) == ([2.5], [])
    due.change([FAST + "home/b"], peer="c")
    due.now = 1.05
    due.message("home/b", "c")
    due.ring(2.5)
    assert due.alarms[1:] == [3.5]
    assert [topic for topic, *_ in due.ring(3.5)] == ["home/a"]
    assert due.alarms[2:] == [3.6]  # a twentieth of the deadline later, though "home/b" is due before
    assert [topic for topic, *_ in due.ring(3.6)] == ["home/b"]


def test_only_promises_that_are_fast_enough_and_meet_the_patterns_count() -> None:
    due = Due("home/#", "cellar/+")
    due.change([SLOW + "home/a", NONE + "home/b", FAST + "garden/x", "home/a", "$glue/publisher/x/home/c"])
    assert due.alarms == []
    due.change(["$glue/publisher/2001/home/a"])
    assert due.alarms == []
    due.change(["$glue/publisher/2000/home/a", FAST + "cellar/1"])
    assert due.alarms == [2.5]
    assert [topic for topic, *_ in due.ring(2.5)] == ["home/a", "cellar/1"]


def test_a_slower_promise_holds_at_its_own_rate_for_quality_of_service() -> None:
    due = Due(takes_weaker=True)
    due.change([SLOW + "home/a", NONE + "home/b"])
    assert due.ring(3.74) == []
    assert due.alarms == [2.5, pytest.approx(3.84)]
    assert [topic for topic, *_ in due.ring(3.85)] == ["home/a"]


def test_the_fastest_promise_of_a_publisher_holds_and_then_what_is_left() -> None:
    due = Due(takes_weaker=True)
    due.change([SLOW + "home/+", "$glue/publisher/4000/home/a"])
    due.message("home/a")
    due.message("home/x", "c")  # which promised nothing
    due.change([], [SLOW + "home/+"])
    assert due.ring(4.9) == []
    due.change([FAST + "home/#"], [SLOW + "home/#"], "d")
    due.change([], ["$glue/publisher/4000/home/a"])
    assert due.ring(9.0) == []
    due.change([], [FAST + "home/#"], "e")


def test_a_goodbye_takes_its_promises_with_it_and_another_end_does_not() -> None:
    for reason, told in (("goodbye", []), ("expired", ["home/a", "home/b"])):
        due = Due()
        due.change([FAST + "home/#", FAST + "home/a"])
        due.message("home/b")
        due.watch.note(0.0, PeerRemoved("b", 1, "b", reason))
        assert [topic for topic, *_ in due.ring(2.5)] == told
        due.message("home/c")
        assert due.ring(9.0) == [], "what a lost publisher promised is told once"


def test_the_next_life_of_a_publisher_is_watched_only_for_its_own_promises() -> None:
    due = Due()
    added = PeerAdded("b", 1, "b's name", ("::1", 1))
    due.watch.note(0.0, added)
    due.change([FAST + "home/+", FAST + "home/a"])
    due.watch.note(0.0, PeerRemoved("b", 1, "b's name", "restarted"))
    due.watch.note(0.0, added)
    due.change([FAST + "home/b/+"])
    due.message("home/c")
    due.message("home/b/x")
    assert [(topic, name) for topic, name, *_ in due.ring(2.5)] == [("home/a", "b's name"), ("home/b/x", "b's name")]
    due.watch.note(3.0, PeerRemoved("b", 1, "b's name", "expired"))
    assert (due.watch._names, due.watch._promises, due.watch._gone) == ({}, {}, set())


def test_retained_values_are_no_sign_of_life() -> None:
    due = Due()
    due.change([FAST + "home/#"])
    due.message("home/a", old=True)
    assert due.alarms == []
    due.message("home/a")
    assert due.alarms == [2.5]
    assert due.settled == {"handled": 4}


def test_a_survey_of_this_watch_tells_of_promises_that_were_there_before() -> None:
    due = Due()
    peers = [("b", "b's name", [FAST + "home/a"])]
    due.watch.note(1.0, Surveyed("another", peers))
    assert due.alarms == []
    due.watch.note(1.0, Surveyed(due.watch, peers))
    assert due.alarms == [3.5]
    assert due.ring(3.5) == [("home/a", "b's name", "b", 2.5, "my pattern")]


def test_no_more_topics_are_watched_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Due()
    due.change([FAST + "home/#"])
    assert deadlines.TOPICS == 65_536
    monkeypatch.setattr(deadlines, "TOPICS", 2)
    for topic in ("home/a", "home/b", "home/c", "home/a"):
        due.message(topic)
    assert [topic for topic, *_ in due.ring(2.5)] == ["home/a", "home/b"]


def test_a_closed_watch_tells_nothing_and_sets_no_alarm() -> None:
    due = Due()
    due.change([FAST + "home/a", FAST + "home/#"])
    due.watch.close()
    assert due.alarms == [2.5, inf]
    due.message("home/a")
    assert due.ring(9.0) == []
    assert due.alarms == [2.5, inf]


# ---------------------------------------------------------------------------------------------- offers of history


def test_an_offer_of_history_has_a_place_a_pattern_and_replicas() -> None:
    assert served_by(OWN + "a/+") == ("", "a/+", 0)
    assert served_by(KEEPER + "disk/3/a/+") == ("disk", "a/+", 3)
    assert served_by(KEEPER + "memory/0/#") == ("memory", "#", 0)
    assert served_by(KEEPER + "/x/a") == ("?", "a", 0)
    assert served_by(KEEPER + "disk/\u0663/a") == ("disk", "a", 0)
    assert served_by(KEEPER + "disk") == ("disk", "", 0)
    assert served_by(KEEPER) == ("?", "", 0)


def test_offers_are_told_once_and_taken_back_once() -> None:
    found = Offers(statistics := Counter[str]())
    a, b = OWN + "a", KEEPER + "disk/0/b"
    news = PeerInterest("p", [a, "a", b, a, KEEPER + "disk"], [a + "x", "a"])
    assert found.change(news) == ([a, b], [])
    assert statistics == {"malformed offers of history": 1}
    assert found.interests == {"p": {a: None, b: None}}
    assert not found.add("p", a)
    assert found.change(PeerInterest("p", [], [a, a, "b"])) == ([], [a])
    assert found.remove("p", b)
    assert found.interests == {}
    assert not found.remove("p", b)


def test_a_peer_offers_no_more_than_its_limit_and_all_no_more_than_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (offers.OFFERS, offers.ALL_OFFERS) == (4096, 32_768)
    monkeypatch.setattr(offers, "OFFERS", 3)
    monkeypatch.setattr(offers, "ALL_OFFERS", 5)
    found = Offers(statistics := Counter[str]())
    names = [f"{OWN}{number}" for number in range(6)]
    assert [found.add("p", name) for name in names[:4]] == [True, True, True, False]
    assert [found.add("q", name) for name in names[:3]] == [True, True, False]
    assert statistics == {"offers of history refused: too many": 2}
    assert found.remove("p", names[0])
    assert [found.add("r", name) for name in names[:2]] == [True, False]
    found.forget("p")
    found.forget("p")
    assert [found.add("r", name) for name in names[1:4]] == [True, True, False]
    assert found.interests.keys() == {"q", "r"}
