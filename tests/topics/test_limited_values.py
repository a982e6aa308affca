"""Retained values and receipts where endpoints want a topic at a limited rate."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract import Addressed, Subscribe
from glue.topics import Topics
from glue.topics import retained as module
from glue.topics.bundle import KEPT
from glue.topics.wrapped import limited, sampled
from tests.topics.parties import added, deliveries, endpoint_id, groups, message, outbounds, route, topics, wants

SLOW = limited(1000, "t")


def publisher() -> Topics:
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob"), added("cat")])
    return layer


def replayed(layer: Topics, now: float, name: str, *patterns: str) -> list[tuple[Any, ...]]:
    """What goes to a peer for its new interests: topic, payloads, number there."""
    _, down = layer.receive(now, [wants(name, *patterns)])
    assert all(item.peers == route(name) for item in outbounds(down))
    assert all(group.retain == KEPT for group in groups(down))
    return [(group.topic, group.payloads, group.sequence) for group in groups(down)]


def test_a_late_joiner_at_a_limited_rate_gets_the_last_value_with_one_number_for_all() -> None:
    layer = publisher()
    layer.send(0.0, [message("t", b"1", retain=True), message("t", b"2", retain=True)])
    assert replayed(layer, 0.0, "ann", SLOW) == [(SLOW, [b"2"], 1)]
    assert replayed(layer, 0.1, "bob", SLOW) == [(SLOW, [b"2"], 1)]
    assert [group.sequence for group in groups(layer.send(0.2, [message("t", b"3", retain=True)]))] == [2]
    layer.send(0.3, [message("t", b"4", retain=True)])  # which waits
    assert replayed(layer, 0.4, "cat", SLOW, limited(10, "t")) == [(SLOW, [b"4"], 3), (limited(10, "t"), [b"4"], 1)]
    _, down = layer.receive(1.2, [])
    assert [(group.topic, group.payloads, group.sequence) for group in groups(down)] == [(SLOW, [b"4"], 4)]


def test_what_was_cleared_comes_to_no_late_joiner_at_a_limited_rate() -> None:
    layer = publisher()
    layer.send(0.0, [message("t", b"1", retain=True)])
    replayed(layer, 0.0, "ann", SLOW)
    layer.send(0.1, [message("t", b"2", retain=True), message("t", b"", retain=True)])  # the end waits
    assert replayed(layer, 0.2, "bob", SLOW) == []
    layer.receive(2.0, [])
    assert replayed(layer, 2.1, "cat", SLOW) == []


def test_a_value_at_a_limited_rate_that_finds_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETAINED_VALUES", 2)
    layer = publisher()
    layer.send(0.0, [message("t", b"1", retain=True)])
    assert len(replayed(layer, 0.0, "ann", SLOW)) == 1
    assert layer.statistics["retained values refused: too many"] == 0
    assert replayed(layer, 0.0, "bob", limited(10, "t")) == []
    assert layer.statistics["retained values refused: too many"] == 1


def test_an_own_subscription_at_a_limited_rate_begins_with_the_own_value() -> None:
    layer = topics()
    layer.send(0.0, [message("t", b"1", retain=True)])
    layer.send(0.0, [Subscribe("other", "u"), Subscribe("token", SLOW)])
    (delivery,) = deliveries(layer.receive(0.0, [])[0])
    assert (delivery.topic, delivery.wrapped, delivery.payloads, delivery.retained) == ("t", SLOW, [b"1"], True)


def test_endpoints_at_a_limited_rate_are_subscribers_and_those_that_watch_are_not() -> None:
    layer = publisher()
    layer.receive(0.0, [wants("ann", limited(10, "t/+")), wants("bob", "t/a", limited(20, "#"))])
    layer.receive(0.0, [wants("cat", sampled(9, 9, "#"))])
    assert layer.subscribers("t/a") == sorted([endpoint_id("ann"), endpoint_id("bob")])
    assert layer.subscribers("u") == [endpoint_id("bob")]
    assert [*layer.subscribers("t/a")] == layer.subscribers("t/a")


def test_a_receipt_is_told_once_and_waits_for_plain_subscribers_alone() -> None:
    layer = publisher()
    layer.receive(0.0, [wants("ann", "t"), wants("bob", SLOW)])
    sent = outbounds(layer.send(0.0, [message("t", b"1", b"2", receipt="r")]))
    assert sorted((item.peers, item.receipts) for item in sent) == [(route("ann"), ("r",)), (route("bob"), ())]
    up, _ = layer.receive(0.0, [])
    assert [(one.receipt, one.peers, one.last) for one in up if isinstance(one, Addressed)] == [("r", route("ann"), 2)]
