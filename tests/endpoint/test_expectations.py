"""Who keeps what, and which messages are durable where, as a publisher learns it from keepers."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.contract import PeerInterest, PeerRemoved
from glue.endpoint import durability
from glue.endpoint.durability import DISK, HELD, MEMORY, Durability, Expectation, check_acks, keeper_interest


class Publisher:
    """What one life of an endpoint "me" knows of keepers, and which of its expectations have ended."""

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()
        self.placed: list[bool] = []
        self.wanted: list[tuple[str, int]] = []
        self.ended: list[str] = []
        identity = SimpleNamespace(endpoint_id="me", incarnation=7)
        self.durability = Durability(identity, lambda peer: f"{peer}'s name", self.statistics)
        self.durability.on_placed.append(self.placed.append)
        self.durability.on_wanted.append(lambda peer, life: self.wanted.append((peer, life)))

    def keeps(self, peer: str, pattern: str = "#", replicas: int | None = None, on_disk: bool = True) -> None:
        self.durability.note(PeerInterest(peer, [keeper_interest(pattern, replicas, on_disk)], []))

    def ends(self, peer: str, pattern: str = "#", replicas: int | None = None, on_disk: bool = True) -> None:
        self.durability.note(PeerInterest(peer, [], [keeper_interest(pattern, replicas, on_disk)]))

    def expect(self, acks: Any, last: int, count: int = 1, topic: str = "t") -> Expectation:
        name = f"{topic} {last}"
        found = self.durability.expect(topic, count, acks, lambda: self.ended.append(name))
        if last:
            self.durability.addressed(found, last)
        return found

    def take(self, peer: str, **message: Any) -> None:
        self.durability.take(peer, message)


def test_keepers_come_and_go_by_their_interests() -> None:
    me = Publisher()
    me.keeps("b", "t/+", 2)
    me.keeps("b", "t/1")
    me.keeps("c", "t/#", 64, on_disk=False)
    me.durability.note(
        PeerInterest("d", ["t", "$glue/keeper/tape/1/t", "$glue/keeper/disk/1/", "$glue/keeper/disk/x/t"], [])
    )
    me.durability.note(PeerInterest("d", ["$glue/keeper/disk/1000/t", "$glue/keeper/disk/\u0661/t"], []))
    assert me.placed == [True] * 3
    assert me.durability.disks == {"b": {"t/+": 2, "t/1": 0}}
    assert me.durability.keepers("t/1") == {"b": 0}  # who keeps all of it
    assert me.durability.keepers("t/2") == {"b": 2}
    assert me.durability.keepers(HELD + "t/2", MEMORY) == {"c": 64}
    assert me.durability.holders("t/1") == me.durability.known() == ["b", "c"]
    assert [me.durability.is_kept_by(peer, "t/1") for peer in "bcd"] == [True, True, False]
    assert [me.durability.is_kept_by(peer, "u") for peer in "bcd"] == [False] * 3
    me.ends("b", "t/1")
    me.ends("b", "t/1")
    me.ends("x")
    assert me.placed == [True] * 3 + [False]
    assert me.durability.keepers("t/1") == {"b": 2}
    me.ends("b", "t/+", 2)
    assert (me.durability.known(), me.durability.disks) == (["c"], {})
    me.durability.note(PeerRemoved("c", 1, "c", "expired"))
    me.durability.note(PeerRemoved("c", 1, "c", "expired"))
    assert (me.durability.known(), me.placed) == ([], [True] * 3 + [False] * 3)


def test_more_replicas_than_may_be_asked_for_are_as_many_as_may_be() -> None:
    me = Publisher()
    me.durability.note(PeerInterest("b", ["$glue/keeper/disk/999/t"], []))
    assert me.durability.keepers("t") == {"b": 64}
    assert keeper_interest("t", None, True) == "$glue/keeper/disk/0/t"
    assert keeper_interest("t", 3, False) == "$glue/keeper/memory/3/t"


def test_a_keeper_covers_a_pattern_if_it_keeps_all_of_its_topics() -> None:
    me = Publisher()
    me.keeps("b", "t/#")
    me.keeps("c", "t/1")
    me.keeps("d", "#", 2)
    me.keeps("e", "#", on_disk=False)
    assert me.durability.covering("t/+") == ["b", "d"]
    me.keeps("f", "t/+", 3)
    assert me.durability.covering("t/+") == ["b", "f"]  # three keep it, and of these d has only two thirds
    assert me.durability.covering("u") == ["d"]
    me.keeps("d", "u", 0)
    me.keeps("g", "u", 2)
    assert me.durability.covering("u") == ["d", "g"]
    me.keeps("h", "u", 1)
    assert me.durability.covering("u") == []


def test_the_patterns_of_a_keeper_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    me = Publisher()
    assert durability.PATTERNS == 1024
    monkeypatch.setattr(durability, "PATTERNS", 2)
    for number in range(3):
        me.keeps("b", f"t/{number}")
    assert me.durability.holders("t/1") == ["b"]
    assert me.durability.holders("t/2") == []
    assert me.statistics == {"kept patterns beyond the limit": 1}
    assert me.placed == [True, True]


def test_remembered_topics_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    me = Publisher()
    me.keeps("b")
    assert durability.KNOWN_TOPICS == 4096
    monkeypatch.setattr(durability, "KNOWN_TOPICS", 2)
    found = [me.durability.keepers(topic) for topic in ("t/1", "t/2", "t/2", "t/3", "t/1")]
    assert found == [{"b": 0}] * 5
    assert [*me.durability._known] == [(DISK, "t/3"), (DISK, "t/1")]


def test_a_life_that_wants_acknowledgements_says_so_for_itself_alone() -> None:
    me = Publisher()
    topics = ["t", "$glue/durable/b/12", "$glue/durable/c/13", "$glue/durable/b/-1", "$glue/durable/b/" + "9" * 20]
    me.durability.note(PeerInterest("b", topics, []))
    me.durability.note(PeerInterest("c", ["$glue/durable/c/" + "9" * 19], []))
    assert me.wanted == [("b", 12), ("c", int("9" * 19))]
    assert me.durability.wanted == dict(me.wanted)
    me.durability.note(PeerRemoved("b", 12, "b", "expired"))
    assert [*me.durability.wanted] == ["c"]
    assert me.placed == []
    assert me.durability.topic == "$glue/durable/me/7"


@pytest.mark.parametrize("acks", ["disk", "replicas", 1, 64])
def test_so_many_keepers_may_be_asked_for(acks: Any) -> None:
    check_acks(acks)


@pytest.mark.parametrize("acks", [0, 65, True, 1.0, "all", None, -1])
def test_other_numbers_of_keepers_are_refused(acks: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        check_acks(acks)
    assert str(caught.value) == f'acks={acks!r}: expected "disk", "replicas" or a number of keepers from 1 to 64'


def test_messages_are_durable_once_enough_keepers_have_all_of_them() -> None:
    me = Publisher()
    for peer in "bcd":
        me.keeps(peer, "#", 3)
    one, two, all_of_it = me.expect("disk", 3, 3), me.expect(2, 6, 3), me.expect("replicas", 9, 3)
    assert [(each.first, each.needed) for each in (one, two, all_of_it)] == [(1, 1), (4, 2), (7, 3)]
    assert one.keepers == {}
    me.take("b", durable=[["t", 1, 3], ["t", 4, 7]])
    assert (me.ended, two.keepers) == ([], {"b": "b's name"})
    me.take("b", durable=[["t", 3, 4]])
    assert (me.ended, one.is_durable, one.is_over, one.keepers) == (["t 3"], True, True, {"b": "b's name"})
    assert not two.is_durable
    me.take("c", durable=[["t", 1, 9]])
    assert me.ended == ["t 3", "t 6"]
    assert all_of_it.keepers == {}
    for peer in "bcd":
        me.take(peer, durable=[["t", 7, 10]])
    assert me.ended == ["t 3", "t 6", "t 9"]
    assert [*all_of_it.keepers] == ["b", "c", "d"]
    assert (all_of_it.reason, me.statistics) == ("", {})
    me.take("b", durable=[["t", 1, 100]])
    assert len(me.ended) == 3


def test_an_acknowledgement_may_come_before_the_number_is_known() -> None:
    me = Publisher()
    me.keeps("b")
    early = me.durability.expect("t", 2, "disk", lambda: me.ended.append("early"))
    me.take("b", durable=[["t", 4, 6]])
    assert me.ended == []
    me.durability.addressed(early, 5)
    assert (me.ended, early.first) == (["early"], 4)
    assert me.durability._pending == me.durability._durable == {}


def test_the_first_of_many_that_is_durable_does_not_wait_for_the_others() -> None:
    me = Publisher()
    me.keeps("b")
    for last in range(1, 5):
        me.expect("disk", last)
    me.take("b", durable=[["t", 2, 4]])
    assert me.ended == ["t 2", "t 3"]
    me.take("b", durable=[["t", 1, 2]])
    me.take("b", durable=[["t", 4, 5]])
    assert me.ended == ["t 2", "t 3", "t 1", "t 4"]


def test_too_few_keepers_are_told_at_once_and_with_their_number() -> None:
    me = Publisher()
    none = me.expect("disk", 1)
    assert none.reason == "0 of 1 keepers of 't' with a disk are known"
    assert (none.is_over, none.is_durable, me.ended) == (True, False, ["t 1"])
    me.keeps("b", on_disk=False)
    me.keeps("c")
    assert me.expect(2, 2).reason == "1 of 2 keepers of 't' with a disk are known"
    assert me.expect(1, 3, topic=HELD + "t").reason == ""
    assert me.expect("replicas", 3).needed == 1


def test_a_keeper_that_leaves_ends_what_cannot_be_fulfilled_any_more() -> None:
    me = Publisher()
    for peer in "bc":
        me.keeps(peer)
    one, two, unknown = me.expect("disk", 1), me.expect(2, 2), me.expect(2, 0)
    me.durability.note(PeerRemoved("b", 1, "b's name", "expired"))
    assert (me.ended, one.reason, unknown.reason) == (["t 2"], "", "")
    assert two.reason == "keeper b's name left; 1 of 2 keepers of 't' with a disk are known"
    me.ends("c")
    assert me.ended == ["t 2", "t 1"]
    assert one.reason == "keeper c's name ended; 0 of 1 keepers of 't' with a disk are known"


def test_who_has_synced_counts_although_it_has_left() -> None:
    me = Publisher()
    for peer in "bc":
        me.keeps(peer)
    two = me.expect(2, 1)
    me.take("b", durable=[["t", 1, 2]])
    me.durability.note(PeerRemoved("b", 1, "b's name", "expired"))
    assert two.reason == ""
    me.take("c", durable=[["t", 1, 2]])
    assert two.is_durable


def test_a_refusal_ends_what_it_is_about_with_its_cause() -> None:
    me = Publisher()
    for peer in "bc":
        me.keeps(peer)
    one, both, other = me.expect("disk", 2, 2), me.expect(2, 4, 2), me.expect(2, 6, 2)
    me.take("b", refused=[["t", 2, 5]], cause="full")
    assert (me.ended, one.reason, other.reason) == (["t 4"], "", "")
    assert both.reason == "keeper b's name refused: full; 1 of 2 keepers of 't' with a disk are known"
    assert me.statistics == {"messages refused by a keeper": 3}
    me.take("c", refused=[["t", 6, 7], ["u", 1, 2]], cause="x" * 300)
    assert other.reason.startswith(f"keeper c's name refused: {'x' * 200}; 1 of 2")
    me.take("b", refused=[["t", 7, 9]])
    assert len(me.ended) == 2


def test_delayed_messages_are_acknowledged_apart_from_others_of_their_topic() -> None:
    me = Publisher()
    me.keeps("b")
    plain, held = me.expect("disk", 1), me.expect("disk", 1, topic=HELD + "t")
    assert held.needed == 1
    me.take("b", held=[["t", 1, 2]])
    assert (plain.is_over, held.is_durable) == (False, True)
    held = me.expect("disk", 2, topic=HELD + "t")
    me.take("b", unheld=[["t", 2, 3]], cause="no room")
    assert held.reason == "keeper b's name refused: no room; 0 of 1 keepers of 't' with a disk are known"


@pytest.mark.parametrize(
    "message",
    [
        5, None, {"durable": 5}, {"durable": [5]}, {"durable": [["t", 1]]}, {"durable": [["t", 1, 2, 3]]},
        {"durable": [[1, 1, 2]]}, {"durable": [["t", 0, 2]]}, {"durable": [["t", 2, 2]]}, {"durable": [["t", True, 2]]},
        {"durable": [["t", 1, 2.0]]}, {"durable": [["t", 1, 1 << 63]]}, {"refused": None},
    ],
)  # fmt: skip
def test_a_malformed_acknowledgement_is_counted(message: Any) -> None:
    me = Publisher()
    me.keeps("b")
    one = me.expect("disk", 1)
    me.durability.take("b", message)
    assert me.statistics == {"malformed acknowledgements": 1}
    assert not one.is_over
    me.take("b", durable=[["t", 1, (1 << 63) - 1]])
    assert one.is_durable


def test_what_was_not_published_and_what_is_closed_is_expected_no_more() -> None:
    me = Publisher()
    me.keeps("b")
    first, second, third = me.expect("disk", 1), me.expect("disk", 2), me.expect("disk", 0)
    me.durability.drop(second)
    assert me.ended == ["t 2"]
    me.durability.close("the endpoint was closed")
    assert (first.reason, third.reason) == ("the endpoint was closed",) * 2
    assert me.ended == ["t 2", "t 1", "t 0"]
    me.durability.addressed(third, 5)
    assert third.first == 0
    assert me.durability._pending == {}
