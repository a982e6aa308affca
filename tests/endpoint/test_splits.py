"""The watch for peers that come back after a split, without endpoints."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Alarm, PeerAdded, PeerRemoved, Redeliver, Rung
from glue.endpoint import healed as splits
from glue.endpoint.healed import FETCHED, RECOVERED, Healed, HealWatch, RetainedConflict, RetainedVersion
from glue.endpoint.message import Gap


class Watch:
    """A watch for peers that come back, its clock, its alarms and what it tells."""

    def __init__(self) -> None:
        self.now = 0.0
        self.values: list[Any] = []
        self.counters: Counter[str] = Counter()
        self.asked: list[Any] = []
        self.told: list[Healed] = []
        self.chosen: Any = None
        self.watch = HealWatch(
            lambda: self.values, lambda name: self.counters[name], lambda: self.now, self.asked.append,
            self.told.append, lambda conflict: self.chosen, lambda: 1000.0 + self.now, 2.0,
        )  # fmt: skip

    def lose(self, peer: str, now: float, life: int = 1) -> None:
        self.now = now
        self.watch.lost(PeerRemoved(peer, life, peer, "expired"))

    def find(self, peer: str, now: float, life: int = 1) -> None:
        self.now = now
        self.watch.found(PeerAdded(peer, life, f"{peer}'s name", ("::1", 1)))

    def ring(self, now: float) -> list[Healed]:
        self.now = now
        self.told.clear()
        self.watch._deliver(Rung(self.watch))
        return [*self.told]

    def alarms(self) -> list[float]:
        found = [one.due for one in self.asked if isinstance(one, Alarm)]
        self.asked.clear()
        return found

    def miss(self, count: int, cause: str = "lost") -> None:
        self.watch.gap(Gap(cause, count, "t", "t", "b", "b"))


def value(topic: str, publisher: str, at: float, number: int, payload: bytes = b"1", json: bool = True) -> Any:
    return SimpleNamespace(
        topic=topic, publisher=f"{publisher}'s name", publisher_id=publisher, incarnation=1, sequence=number,
        at=int(at * 1e6), payload=payload, json=json,
    )  # fmt: skip


def test_a_heal_is_told_once_nothing_new_has_come_for_a_while() -> None:
    watch = Watch()
    watch.counters.update({RECOVERED: 10, FETCHED: 20})
    watch.lose("b", 10.0)
    watch.lose("c", 11.0)
    watch.miss(5)  # before any is back
    watch.find("d", 19.0)
    watch.find("b", 20.0, life=2)
    assert watch.alarms() == []
    watch.find("c", 21.0)
    assert watch.alarms() == [23.0]
    watch.lose("b", 21.0)
    watch.find("b", 21.5)
    assert watch.alarms() == []
    watch.miss(3)
    watch.miss(100, "overwritten")
    watch.counters.update({RECOVERED: 4, FETCHED: 6})
    assert watch.ring(23.0) == []
    assert watch.alarms() == [23.5]
    watch.counters.update({RECOVERED: 1})
    assert watch.ring(23.5) == []
    assert watch.alarms() == [24.0]
    assert watch.ring(24.0) == [Healed(("b's name", "c's name"), 10.0, 8, 5, 3, 6, ())]
    assert watch.alarms() == []
    assert watch.ring(30.0) == []
    watch.miss(9)
    watch.lose("b", 40.0)
    watch.find("b", 45.0)
    watch.ring(47.0)
    assert watch.ring(47.5) == [Healed(("b's name",), 5.0, 0, 0, 0, 0, ())]


def test_a_heal_is_told_after_half_a_minute_although_more_comes() -> None:
    watch = Watch()
    watch.lose("b", 0.0)
    watch.find("b", 10.0)
    for tenth in range(120, 400, 5):
        watch.miss(1)
        assert watch.ring(tenth / 10) == []
    (told,) = watch.ring(40.0)
    assert told.gone == 56


def test_no_more_lost_peers_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (splits.PEERS, splits.VALUES) == (1024, 65_536)
    monkeypatch.setattr(splits, "PEERS", 2)
    watch = Watch()
    for peer in "bcd":
        watch.lose(peer, 0.0)
    for peer in "bcd":
        watch.find(peer, 5.0)
    watch.ring(7.0)
    assert [told.peers for told in watch.ring(7.5)] == [("c's name", "d's name")], "the latest"


def healed(watch: Watch) -> tuple[RetainedConflict, ...]:
    """What is in conflict after "b" was gone from 10 to 20; the split began at 1008."""
    watch.ring(22.0)
    watch.asked.clear()
    (told,) = watch.ring(22.5)
    return told.conflicts


def test_values_of_both_sides_that_are_newer_than_the_split_are_in_conflict() -> None:
    watch = Watch()
    old, same = value("old", "b", 500, 1), value("same", "me", 500, 1)
    watch.values = [old, value("late", "me", 1008, 2), value("early", "me", 1007.9, 2)]
    watch.lose("b", 10.0)
    watch.find("b", 20.0)
    mine, theirs = value("t", "me", 1015, 3, b"[1]"), value("t", "b", 1012, 4, b"raw", json=False)
    broken = value("u", "b", 1016, 5, b"{")
    watch.values += [mine, theirs, broken, value("u", "me", 1015, 6), value("only mine", "me", 1015, 7)]
    watch.values += [value("only theirs", "b", 1015, 8), same, value("old", "me", 1015, 9)]
    watch.values += [value("late", "b", 1015, 10), value("early", "b", 1015, 11)]
    conflicts = {one.topic: one for one in healed(watch)}
    assert conflicts.keys() == {"t", "u", "late"}
    assert conflicts["t"].versions == (
        RetainedVersion(b"raw", "b's name", "b", 1012.0), RetainedVersion([1], "me's name", "me", 1015.0)
    )  # fmt: skip
    assert conflicts["t"].stands == conflicts["t"].versions[1]
    assert [one.payload for one in conflicts["u"].versions] == [1, b"{"]
    again = {one.topic: one for one in watch.asked if isinstance(one, Redeliver)}
    assert again.keys() == conflicts.keys()
    told = again["t"]
    assert (told.publisher_id, told.incarnation, told.sequence) == ("me", 1, 3)


def test_the_program_decides_which_version_stands() -> None:
    watch = Watch()
    watch.lose("b", 10.0)
    watch.find("b", 20.0)
    watch.values = [value("t", "me", 1015, 3), value("t", "b", 1012, 4, b"2")]
    watch.chosen = RetainedVersion(2, "b's name", "b", 1012.0)
    (conflict,) = healed(watch)
    assert conflict.stands == watch.chosen
    (told,) = watch.asked
    assert (told.publisher_id, told.sequence) == ("b", 4)


def test_a_choice_of_no_version_is_none() -> None:
    watch = Watch()
    watch.lose("b", 10.0)
    watch.find("b", 20.0)
    watch.values = [value("t", "me", 1015, 3), value("t", "b", 1015, 4)]
    watch.chosen = RetainedVersion(3, "b's name", "b", 1.0)
    (conflict,) = healed(watch)
    assert conflict.stands.publisher_id == "me"  # of equal times the later id


def test_what_was_there_before_a_second_split_is_remembered_anew() -> None:
    watch = Watch()
    watch.lose("b", 10.0)
    watch.values = [value("t", "me", 1015, 3), value("t", "b", 1015, 4)]
    watch.find("b", 20.0)
    assert len(healed(watch)) == 1
    watch.lose("b", 30.0)
    watch.find("b", 40.0)
    watch.ring(42.0)
    (told,) = watch.ring(42.5)
    assert told.conflicts == ()


def test_what_was_there_before_a_split_is_remembered_until_the_last_peer_is_back() -> None:
    watch = Watch()
    watch.values = [value("t", "c", 500, 1), value("t", "me", 500, 1)]
    watch.lose("b", 10.0)
    watch.lose("c", 10.0)
    watch.find("b", 20.0)
    assert healed(watch) == ()
    watch.values[1] = value("t", "me", 1025, 2)
    watch.find("c", 40.0)
    watch.ring(42.0)
    (told,) = watch.ring(42.5)
    assert (told.peers, told.conflicts) == (("c's name",), ()), "the value of c is the one that was there"


def test_what_was_written_before_a_split_is_no_conflict_although_another_peer_was_lost_for_good() -> None:
    watch = Watch()
    watch.values = [value("t", "me", 500, 1), value("t", "b", 500, 1)]
    watch.lose("killed", 10.0)
    watch.values = [value("t", "me", 1500, 2), value("t", "b", 1501, 2)]
    watch.lose("b", 600.0)
    watch.values.append(value("u", "me", 1605, 3))
    watch.find("b", 610.0)
    watch.values.append(value("u", "b", 1606, 3))
    watch.ring(612.0)
    (told,) = watch.ring(612.5)
    assert [one.topic for one in told.conflicts] == ["u"]
    assert told.seconds == 10.0


def test_values_beyond_the_limit_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "VALUES", 2)
    watch = Watch()
    watch.values = [value("a", "b", 500, 1), value("b", "b", 500, 2), value("c", "b", 500, 3)]
    watch.lose("b", 10.0)
    watch.find("b", 20.0)
    watch.values += [value(topic, "me", 1015, 9) for topic in "abc"]
    assert [one.topic for one in healed(watch)] == ["c"]


def test_a_heal_in_words_names_the_first_topics_in_conflict() -> None:
    version = RetainedVersion(1, "b's name", "b", 0.0)
    conflicts = tuple(RetainedConflict(f"t/{number}", (version,), version) for number in range(6))
    told = "b, c are back: of 5 messages that were missed, 3 are recovered and 2 gone"
    stands = ", ".join(f"t/{number} (that of b's name stands)" for number in range(5))
    assert str(Healed(("b", "c"), 1.0, 5, 3, 2, 0, ())) == f"{told}; 0 topics in conflict"
    assert str(Healed(("b", "c"), 1.0, 5, 3, 2, 0, conflicts[:5])) == f"{told}; 5 topics in conflict: {stands}"
    assert str(Healed(("b", "c"), 1.0, 5, 3, 2, 0, conflicts)) == f"{told}; 6 topics in conflict: {stands} …"
