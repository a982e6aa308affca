"""Samples: what a watcher gets of the topics of others, and what it costs them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from glue.contract import BULK, Delivery, Subscribe, Unsubscribe
from glue.contract.metadata import Metadata
from glue.topics import samples as module
from glue.topics.bundle import KEPT, LIVE, MessageGroup, encode
from glue.topics.fastpath import TopicsFastPath
from glue.topics.samples import SIZE, asked_of
from glue.topics.wrapped import sampled
from tests.topics.parties import (
    Wire,
    added,
    deliveries,
    endpoint_id,
    groups,
    inbound,
    message,
    outbounds,
    topics,
    wants,
)

BAD = ["", "1000", "1000/5", "0/5/a", "1000/0/a", "x/5/a", "1000/99999/a", "1000/5/a+", "1000/5/"]


def watched(*names: str, count: int = 100, pattern: str = "#") -> Wire:
    wire = Wire("spy", *names)
    wire.send(0.0, "spy", Subscribe("spy", sampled(1000, count, pattern)))
    return wire


def run(wire: Wire, name: str, until: float) -> None:
    """Let everything happen at an endpoint that is due by then."""
    layer = wire.layers[endpoint_id(name)]
    while layer.deadline <= until:
        wire.receive(max(layer.deadline, 0.0), endpoint_id(name), [])


def seen(wire: Wire) -> list[tuple[str, Any, int]]:
    """Topic, payload and sequence of the samples since the last time."""
    found = [(one.topic, one.payloads[0], one.sequence) for one in wire.heard["spy"]]
    wire.heard["spy"] = []
    return found


@pytest.mark.parametrize("text", BAD)
def test_a_malformed_interest_in_samples_is_counted(text: str) -> None:
    assert asked_of("$glue/sample/" + text) is None
    layer = topics()
    layer.asking.add("peer", "$glue/sample/" + text)
    assert layer.statistics["malformed interest"] == 1
    assert not layer.asking.samples.users


def test_a_topic_is_sampled_once_an_interval_with_the_number_of_the_message_itself() -> None:
    wire = watched("kitchen")
    for number in range(50):
        wire.send(number / 100, "kitchen", message("home/a", b"%d" % number))
        run(wire, "kitchen", number / 100)
    run(wire, "kitchen", 1.0)
    assert seen(wire) == [("home/a", b"0", 1)]
    wire.send(1.1, "kitchen", message("home/a", b"x", b"y"))
    run(wire, "kitchen", 1.2)
    assert seen(wire) == [("home/a", b"y", 52)]


def test_intervals_follow_each_other_without_a_pause_unless_nothing_was_sampled() -> None:
    wire = watched("kitchen")
    for number, now in enumerate((0.0, 1.5, 1.9, 2.1, 2.9, 7.5, 8.4, 8.6)):
        wire.send(now, "kitchen", message("a", b"%d" % number))
    run(wire, "kitchen", 9.0)
    assert [payload for _, payload, _ in seen(wire)] == [b"0", b"1", b"3", b"5", b"7"]


def test_a_sample_comes_soon_and_together_with_others() -> None:
    wire = watched("kitchen")
    assert not groups(wire.send(0.0, "kitchen", message("a", b"1")))
    wire.send(0.04, "kitchen", message("b", b"2"))
    _, down = wire.layers[endpoint_id("kitchen")].receive(0.05, [])
    (item,) = outbounds(down)
    assert [group.topic for group in groups(down)] == [sampled(1000, 100, "a"), sampled(1000, 100, "b")]
    assert (item.reliable, item.priority, item.peers) == (False, BULK, (endpoint_id("spy"),))


def test_a_watcher_is_no_subscriber() -> None:
    wire = watched("kitchen")
    layer = wire.layers[endpoint_id("kitchen")]
    assert list(layer.subscribers("home/a")) == []
    wire.send(0.0, "kitchen", message("home/a", b"1"))
    assert layer.statistics["messages to nobody"] == 1


def test_no_more_samples_than_asked_for_and_each_topic_has_its_turn() -> None:
    wire = watched("kitchen", count=10)
    names = [f"t/{number}" for number in range(30)]
    counts: dict[str, int] = dict.fromkeys(names, 0)
    for second in range(12):
        for name in names:
            wire.send(float(second), "kitchen", message(name, b"x"))
        run(wire, "kitchen", second + 0.99)
        found = seen(wire)
        assert len(found) <= 10
        for topic, _, _ in found:
            counts[topic] += 1
    assert set(counts.values()) <= {2, 3, 4, 5}


def test_several_watchers_get_what_the_most_modest_asks_for() -> None:
    wire = Wire("spy", "other", "kitchen")
    wire.send(0.0, "spy", Subscribe("spy", sampled(1000, 100, "#")))
    wire.send(0.0, "other", Subscribe("other", sampled(2000, 1, "home/#")))
    for name in ("home/a", "home/b", "attic"):
        wire.send(0.0, "kitchen", message(name, b"1"))
    run(wire, "kitchen", 0.1)
    assert [one[0] for one in seen(wire)] == ["home/a"]
    assert [one.topic for one in wire.heard["other"]] == ["home/a"]
    wire.send(0.2, "other", Unsubscribe("other"))
    for name in ("home/a", "home/b", "attic"):
        wire.send(0.3, "kitchen", message(name, b"1"))
    run(wire, "kitchen", 0.4)
    assert [one[0] for one in seen(wire)] == ["home/a", "home/b", "attic"]


def test_retained_values_come_at_the_beginning_and_are_bounded() -> None:
    wire = Wire("spy", "kitchen")
    for number in range(20):
        wire.send(0.0, "kitchen", message(f"state/{number}", b"1", retain=True))
    wire.send(0.0, "spy", Subscribe("spy", sampled(1000, 5, "state/#")))
    run(wire, "kitchen", 0.1)
    assert len(wire.heard["spy"]) == 5
    assert all(one.retained for one in wire.heard["spy"])


def test_of_a_large_payload_the_beginning_and_the_size_are_sent() -> None:
    wire = watched("kitchen")
    wire.send(0.0, "kitchen", message("a", b'"' + b"x" * 100_000 + b'"', json=True, metadata=Metadata(None, 3)))
    run(wire, "kitchen", 0.1)
    (one,) = wire.heard["spy"]
    assert one.payloads == [b'"' + b"x" * 255]
    assert one.metadata.properties == {SIZE: "100002", module.CODEC: "3"}


def test_samples_of_an_interval_have_room_for_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES", 25)
    wire = watched("kitchen")
    for number in range(5):
        wire.send(0.0, "kitchen", message(f"t/{number}", bytes(10)))
    run(wire, "kitchen", 0.1)
    assert len(seen(wire)) == 3


def test_json_is_decoded_and_malformed_json_is_counted() -> None:
    wire = watched("kitchen")
    wire.send(0.0, "kitchen", message("a", b'{"b":1}', json=True, type="reading"))
    run(wire, "kitchen", 0.1)
    (one,) = wire.heard["spy"]
    assert (one.payloads, one.encoded, one.type) == ([{"b": 1}], [b'{"b":1}'], "reading")
    assert one.wrapped == sampled(1000, 100, "a")
    bad = MessageGroup(sampled(1000, 100, "a"), 1, 0, [b"{"], 1, json=True)
    empty = MessageGroup("$glue/sample/1000/100", 1, 0, [b"x"], 1)
    spy = wire.layers[endpoint_id("spy")]
    up, _ = spy.receive(0.2, [inbound("kitchen", encode([bad]), encode([empty]))])
    assert deliveries(up) == []
    assert spy.statistics["malformed JSON payload"] == 1


def test_an_endpoint_that_watches_sees_what_it_publishes_itself() -> None:
    layer = topics()
    layer.send(0.0, [Subscribe("spy", sampled(1000, 5, "#")), message("a", b"1")])
    up, _ = layer.receive(0.1, [])
    up += layer.receive(0.1, [])[0]
    assert [(one.topic, one.payloads) for one in deliveries(up)] == [("a", [b"1"])]


def test_unsampled_messages_keep_the_fast_path() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer"), wants("peer", "a"), added("spy"), wants("spy", sampled(1000, 5, "#"))])
    fast = TopicsFastPath(layer)
    layer.send(0.0, [message("a", b"1")])  # the first of a topic, which is sampled
    assert fast.send_one(0.1, message("a", b"2")) is not None
    layer.receive(1.1, [])  # another interval
    assert fast.send_one(1.1, message("a", b"3")) is None
    layer.send(1.1, [message("a", b"3")])
    assert fast.send_one(1.2, message("a", b"4")) is not None
    assert layer.statistics["messages to nobody"] == 0


def test_a_topic_that_nobody_watches_takes_no_place_of_a_sample_and_keeps_its_fast_path() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer"), wants("peer", "#"), added("spy"), wants("spy", sampled(1000, 2, "a/#"))])
    fast = TopicsFastPath(layer)
    layer.send(0.0, [message("b", b"1")])
    assert fast.send_one(0.0, message("b", b"2")) is not None
    layer.send(0.0, [message("b", b"3"), message("a/1", b"4"), message("b", b"5"), message("a/2", b"6")])
    assert layer.asking.limits.samples is not None
    assert sorted(layer.asking.limits.samples._sampled) == ["a/1", "a/2"]
    _, down = layer.receive(0.1, [])
    assert [group.topic for group in groups(down)] == [sampled(1000, 2, "a/1"), sampled(1000, 2, "a/2")]


def test_nothing_is_left_when_a_watcher_goes() -> None:
    wire = watched("kitchen")
    wire.send(0.0, "kitchen", message("a", b"1"))
    wire.send(0.01, "spy", Unsubscribe("spy"))
    layer = wire.layers[endpoint_id("kitchen")]
    assert not layer.asking.extra
    run(wire, "kitchen", 2.0)
    assert layer.deadline == float("inf")
    wire.send(3.0, "kitchen", message("a", b"1"))
    run(wire, "kitchen", 4.0)
    assert seen(wire) in ([], [("a", b"1", 1)])


def test_samples_are_no_gap_in_the_numbers_of_a_subscription() -> None:
    wire = watched("kitchen")
    wire.send(0.0, "spy", Subscribe("all", "#"))
    for number in range(4):
        wire.send(number * 0.7, "kitchen", message("a", b"%d" % number))
        run(wire, "kitchen", number * 0.7 + 0.1)
    assert all(isinstance(one, Delivery) for one in wire.heard["spy"])
    assert [one.sequence for one in wire.heard["spy"] if one.tokens == ("all",)] == [1, 2, 3, 4]


def test_a_sample_tells_when_it_was_published_and_whether_it_is_retained() -> None:
    for retain, is_retained in ((KEPT, True), (LIVE, False)):
        group = MessageGroup(sampled(1000, 100, "a"), 7, 1_700_000_000_500_000, [b"x"], 1, None, False, retain)
        (one,) = module.delivered(Counter(), group, "kitchen", "k" * 16, 3, ("token",))
        assert (one.topic, one.published_at, one.retained) == ("a", 1_700_000_000.5, is_retained)
        assert (one.publisher, one.publisher_id, one.incarnation, one.tokens) == ("kitchen", "k" * 16, 3, ("token",))
