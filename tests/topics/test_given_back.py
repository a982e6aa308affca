"""What has ended gives back its room, and what goes on is served in every interval: limits, groups, what was held."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import Options, Publication, Subscribe
from glue.topics import limits as module
from glue.topics import peers as table
from glue.topics.bundle import MessageGroup
from glue.topics.held import HeldParcels, Parcel
from glue.topics.limits import Limits
from glue.topics.published import PublishedTopic
from glue.topics.shared.dispatcher import Dispatcher
from glue.topics.shared.wire import interest_of
from glue.topics.wrapped import limited
from tests.topics.parties import added, deliveries, message, removed, route, topics, wants, wants_no_more
from tests.topics.test_shared import MEMBER, Numbers, assigned


def test_a_steady_topic_has_its_latest_value_in_every_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_SIZE", 250)
    pace, got = Limits(Counter()), list[tuple[float, int]]()

    def take(now: float, item: Publication) -> None:
        got.append((now, item.payloads[0][0]))

    pace.add(limited(1000, "t"))
    for step in range(40):
        now = step / 4
        for item in (*pace.due(now), *pace.offer(now, message("t", bytes([step]) * 100))):
            take(now, item)
    assert got == [(0.0, 0), *[(float(second), 4 * second - 1) for second in range(1, 10)]]


def test_a_steady_topic_makes_no_room_beyond_the_limit_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_SIZE", 250)
    pace = Limits(Counter())
    pace.add(limited(1000, "#"))

    def left(now: float, *names: str) -> list[str]:
        sent = [one for name in names for one in (*pace.due(now), *pace.offer(now, message(name, bytes(100))))]
        return [one.topic.removeprefix(limited(1000, "")) for one in sent]

    for second in range(5):
        assert left(float(second), "a", "a") == ["a"]
    assert left(4.5, "b", "b", "c", "c") == ["b", "c", "c"], "two values wait, and there is no room for a third"


def test_interests_taken_back_and_those_of_lost_peers_give_back_the_room_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "INTEREST_SIZE", 2 * (table.NODE_SIZE + 1))
    layer = topics()
    for life in range(1, 5):
        layer.receive(0.0, [added("a", life), added("b", life), wants("a", "t"), wants("b", "t")])
        layer.receive(0.0, [wants_no_more("a", "t"), removed("b", life)])
    layer.receive(0.0, [added("c"), wants("c", "t"), added("d"), wants("d", "t"), added("e"), wants("e", "t")])
    assert layer.subscribers("t") == route("c", "d")
    assert layer.statistics["interest refused: too many"] == 1


def test_what_waits_for_a_member_by_its_key_goes_to_another_when_it_leaves() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    dispatcher.offer(Numbers(*range(6)), 6, key="k")
    assert [numbers for _, numbers, _ in assigned(dispatcher)] == [(0,), (1,), (2,), (3,)]
    dispatcher.leave("a")
    dispatcher.join("b")
    first = assigned(dispatcher)
    dispatcher.acknowledge(0.0, "b", "lane", 0, 3)
    assert [*first, *assigned(dispatcher)] == [("b", (number,), number < 4) for number in range(6)]


def test_a_group_that_has_a_member_again_is_not_given_up() -> None:
    dispatcher = Dispatcher(Counter())
    assert [*dispatcher.assign(10.0)] == []
    assert dispatcher.deadline == 40.0
    dispatcher.join("a")
    assert dispatcher.deadline == float("inf")


def test_after_a_group_was_given_up_its_topic_has_no_subscriber() -> None:
    layer, interest = topics(), interest_of("g", MEMBER, "t")
    layer.receive(0.0, [added("peer"), wants("peer", interest, interest_of("h", MEMBER, "u"))])
    layer.receive(1.0, [wants_no_more("peer", interest)])
    layer.receive(60.0, [])
    layer.send(61.0, [message("t", b"1")])
    assert layer.statistics["messages to nobody"] == 1
    layer.receive(62.0, [wants("peer", interest)])
    layer.send(63.0, [message("t", b"2")])
    assert (layer.statistics["messages to nobody"], layer.unfinished) == (1, 1), "a new group begins"


def test_what_was_held_at_the_start_and_has_left_waits_no_more() -> None:
    held = HeldParcels()
    for topic in "ab":
        group = MessageGroup(topic, 1, 0, [bytes(100)], 100)
        held.add(Parcel(PublishedTopic(0, ()), group, 2, float("inf"), Options(retain=True), False))
    held.complete(5.0)
    (released,) = held.released(lambda topic: ("peer",) if topic == "a" else (), False)
    assert released.group.topic == "a"
    assert (held.size, held.retained) == (100, {"b"}), "a late joiner of this topic gets the value by a replay again"
    assert len(held.released(lambda topic: (), True)) == 1
    assert (held.size, held.retained, held.deadline) == (0, set(), float("inf"))


def test_a_subscription_that_moves_has_own_messages_if_it_wants_them_now_and_they_are_backlog_until_then() -> None:
    layer = topics()
    layer.send(0.0, [Subscribe("token", "t", (), False), Subscribe("token", "u")])
    layer.send(0.0, [message("u", b"123")])
    assert layer.backlog == 3
    (delivery,) = deliveries(layer.receive(0.0, [])[0])
    assert (delivery.topic, layer.backlog) == ("u", 0)
