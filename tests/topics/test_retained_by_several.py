"""Retained values of several publishers on one topic, where there is no room for all."""

from __future__ import annotations

import pytest

from glue.contract import Subscribe, Unsubscribe
from glue.topics.bundle import KEEP, MessageGroup, encode
from glue.topics.retained import RetainedValue, RetainedValues
from tests.support.weight import weight
from tests.topics.parties import added, deliveries, groups, inbound, message, removed, topics, wants


def value(topic: str, publisher: str, size: int = 10, sequence: int = 1) -> RetainedValue:
    return RetainedValue(topic, bytes(size - len(topic)), publisher, publisher, 1, sequence, 0)


def kept(values: RetainedValues) -> list[tuple[str, str]]:
    return sorted((found.topic, found.publisher) for found in values.matching(["#"], 0.0))


def test_the_topic_that_has_not_changed_for_longest_is_forgotten_with_all_its_publishers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.topics.retained.RETAINED_VALUES", 4)
    values = RetainedValues()
    for topic, publisher in (("a", "ann"), ("b", "ann"), ("a", "bob"), ("b", "bob")):
        assert values.put_anyway(value(topic, publisher)) == 0
    assert values.put_anyway(value("a", "ann")) == 0  # a change of what is there takes no room
    assert values.put_anyway(value("c", "ann")) == 2
    assert kept(values) == [("a", "ann"), ("a", "bob"), ("c", "ann")]
    assert values.put_anyway(value("c", "bob")) == 0
    assert values.put_anyway(value("d", "ann")) == 2
    assert kept(values) == [("c", "ann"), ("c", "bob"), ("d", "ann")]


def test_one_publisher_that_clears_its_value_leaves_that_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.retained.RETAINED_VALUES", 2)
    values = RetainedValues()
    for _ in range(5):
        assert values.put(value("a", "ann"))
        assert values.put(value("a", "bob"))
        assert not values.put(value("b", "ann"))
        values.discard("a", "ann")
        values.discard("a", "ann")
        assert kept(values) == [("a", "bob")]
        assert values.get("a", "ann") is None
        values.discard("a", "bob")
        assert kept(values) == []
        assert values.topics(["a", "#"]) == []


def test_bytes_are_bounded_and_given_back_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.retained.RETAINED_SIZE", 100)
    values = RetainedValues()
    for _ in range(5):
        assert values.put(value("a", "ann", 40))
        assert values.put(value("a", "bob", 60))
        assert not values.put(value("b", "ann", 1))
        assert not values.put(value("a", "bob", 61)), "there is no room, and the former one is dropped"
        assert kept(values) == [("a", "ann")]
        assert values.put(value("a", "bob", 60))
        assert values.put_anyway(value("b", "cid", 1)) == 2
        assert kept(values) == [("b", "cid")]
        assert values.put_anyway(value("b", "cid", 101)) == 1
        assert kept(values) == []
        assert values.put_anyway(value("b", "cid", 100)) == 0
        values.discard("b", "cid")


def test_what_is_forgotten_of_two_publishers_is_counted_and_the_rest_goes_to_a_late_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.topics.retained.RETAINED_VALUES", 3)
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob")])
    layer.send(0.0, [Subscribe("all", "#")])
    for topic in ("a", "b"):
        for name in ("ann", "bob"):
            group = MessageGroup(topic, 1, 0, [name.encode()], 3, None, False, KEEP)
            up, _ = layer.receive(0.0, [inbound(name, encode([group]))])
            assert len(deliveries(up)) == 1
    assert layer.statistics["retained values forgotten: too many"] == 2
    layer.send(0.0, [Subscribe("late", "#")])
    late = deliveries(layer.receive(0.0, [])[0])
    assert sorted((heard.topic, heard.publisher, heard.payloads) for heard in late) == [
        ("b", "ann", [b"ann"]),
        ("b", "bob", [b"bob"]),
    ]


def test_a_peer_that_clears_its_value_leaves_that_of_another_to_late_subscriptions() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob")])
    layer.send(0.0, [Subscribe("all", "#")])
    for name, sequence, payload in (("ann", 1, b"x"), ("bob", 1, b"y"), ("ann", 2, b"")):
        group = MessageGroup("a", sequence, 0, [payload], len(payload), None, False, KEEP)
        layer.receive(0.0, [inbound(name, encode([group]))])
    layer.send(0.0, [Subscribe("late", "#")])
    late = deliveries(layer.receive(0.0, [])[0])
    assert [(heard.publisher, heard.payloads) for heard in late] == [("bob", [b"y"])]


def test_a_value_is_as_new_as_a_message_of_its_own_life_only() -> None:
    found = RetainedValue("a", b"x", "ann", "ann", 2, 5, 0)
    lives = [(2, 5), (2, 4), (2, 6), (1, 5), (3, 5), (1, 1), (3, 1)]
    assert [life for life in lives if found.covers(*life)] == [(2, 5), (2, 4)]


def test_values_that_come_and_go_leave_nothing_behind() -> None:
    values = RetainedValues()
    weights = []
    for number in range(40):
        for publisher in ("ann", "bob"):
            values.put(value(f"a/{number}", publisher))
        values.discard(f"a/{number}", "ann")
        values.drop(f"a/{number}")
        weights.append(weight(values))
    assert weights[-1] == weights[9]


def test_subscriptions_that_come_and_go_leave_nothing_behind() -> None:
    layer = topics()
    weights = []
    for number in range(40):
        for token, pattern in enumerate((f"a/{number}", f"a/+/{number}", f"b/{number}/#", "same", "same")):
            layer.send(0.0, [Subscribe((number, token), pattern)])
        layer.send(0.0, [message(f"a/{number % 3}", b"")])
        for token in range(5):
            layer.send(0.0, [Unsubscribe((number, token))])
        layer.receive(0.0, [])
        weights.append(weight(layer))
    assert weights[-1] <= weights[9]


def test_interests_that_come_and_go_leave_nothing_behind_in_the_index() -> None:
    layer = topics()
    weights = []
    for number in range(40):
        patterns = [f"a/{number}", f"a/+/{number}", f"b/{number}/#", f"+/{number}/+/c"]
        layer.receive(0.0, [added("ann", number), wants("ann", *patterns)])
        assert len(layer.subscribers(f"a/{number}")) == 1
        layer.receive(0.0, [removed("ann", number)])
        assert len(layer.subscribers(f"a/{number}")) == 0
        weights.append(weight(layer))
    assert weights[-1] <= weights[9]


def test_a_replayed_value_has_the_rest_of_its_life_and_none_once_that_is_over() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(10.0, [message("a", b"1", retain=True, lifespan=5.0)])
    _, down = layer.receive(12.0, [wants("ann", "a")])
    (replayed,) = groups(down)
    assert replayed.lifespan_ms == 3000
    layer.receive(12.0, [added("bob")])
    _, down = layer.receive(15.1, [wants("bob", "a")])
    assert groups(down) == []
