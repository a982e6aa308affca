"""Going up: who hears a message, what it looks like, and what is dropped."""

from __future__ import annotations

from math import inf
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.contract import NameClash, Subscribe, Undelivered, Unsubscribe
from glue.contract.pieces import Pieces
from glue.topics import Topics
from glue.topics.bundle import KEEP, MessageGroup, common_length, encode
from glue.topics.fastpath import TopicsFastPath
from tests.topics.parties import (
    WALL_CLOCK,
    Wire,
    added,
    deliveries,
    endpoint_id,
    inbound,
    message,
    removed,
    topics,
    wants,
)


def subscriber(*patterns: str) -> Topics:
    """A layer that knows ann, with each pattern subscribed to under itself as the token."""
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe(pattern, pattern) for pattern in patterns])
    return layer


def body(topic: str, *payloads: bytes, **options: object) -> bytes:
    many = list(payloads)
    return encode([MessageGroup(topic, 7, int(WALL_CLOCK * 1e6), many, common_length(many), **options)])  # type: ignore[arg-type]


def test_a_message_arrives_as_it_was_published() -> None:
    layer = subscriber("a/+")
    (heard,) = deliveries(layer.receive(0.0, [inbound("ann", body("a/b", b"1", b"22", type="T"), incarnation=5)])[0])
    assert (heard.topic, heard.payloads, heard.type) == ("a/b", [b"1", b"22"], "T")
    assert (heard.publisher, heard.publisher_id, heard.incarnation) == ("ann", endpoint_id("ann"), 5)
    assert (heard.sequence, heard.published_at, heard.retained) == (7, WALL_CLOCK, False)
    assert list(heard.tokens) == ["a/+"]
    assert layer.statistics == {"messages received": 2}


def test_overlapping_subscriptions_each_hear_a_message_once() -> None:
    layer = subscriber("a/#", "a/b", "+/b", "c")
    layer.send(0.0, [Subscribe("again", "a/b")])
    (heard,) = deliveries(layer.receive(0.0, [inbound("ann", body("a/b", b""))])[0])
    assert list(heard.tokens) == ["a/#", "a/b", "+/b", "again"]


def test_an_ended_subscription_hears_nothing_and_the_others_go_on() -> None:
    layer = subscriber("a", "#")
    layer.send(0.0, [Unsubscribe("#")])
    up, _ = layer.receive(0.0, [inbound("ann", body("a", b"1"), body("b", b"2"))])
    assert [list(heard.tokens) for heard in deliveries(up)] == [["a"]]
    assert layer.statistics["messages not subscribed to"] == 1


def test_groups_and_bundles_keep_their_order_and_news_its_place() -> None:
    layer = subscriber("#")
    groups = [MessageGroup(topic, 1, 0, [b"x"], 1) for topic in ("b", "a", "b/c")]
    clash, lost = NameClash("self", 2, ("127.0.0.1", 1)), Undelivered(endpoint_id("ann"), 1, "expired")
    bob = added("bob")
    up, down = layer.receive(0.0, [clash, inbound("ann", encode(groups), body("z", b"")), lost, bob, removed("bob")])
    assert [getattr(item, "topic", item.__class__.__name__) for item in up] == [
        "NameClash", "b", "a", "b/c", "z", "Undelivered", "PeerAdded", "PeerRemoved",
    ]  # fmt: skip
    assert up[0] is clash
    assert up[-2] is bob
    assert down == []


def test_a_peer_that_discovery_did_not_tell_of_goes_by_its_id() -> None:
    (heard,) = deliveries(subscriber("a").receive(0.0, [inbound("bob", body("a", b""))])[0])
    assert heard.publisher == endpoint_id("bob")


def test_a_message_older_than_its_lifespan_is_dropped() -> None:
    short = body("a", b"1", b"2", lifespan_ms=500)
    assert len(deliveries(subscriber("a").receive(1e9, [inbound("ann", short, age=0.5)])[0])) == 1
    layer = subscriber("a")
    assert layer.receive(1e9, [inbound("ann", short, age=0.501)]) == ([], [])
    assert layer.statistics["messages expired"] == 2


def test_a_malformed_bundle_is_counted_with_its_cause_and_the_next_is_taken() -> None:
    layer = subscriber("a")
    up, _ = layer.receive(0.0, [inbound("ann", b"garbage", b"{}\n", body("a", b"1"))])
    assert len(deliveries(up)) == 1
    assert layer.statistics["malformed bundle: no index"] == 1
    assert layer.statistics["malformed bundle: no groups"] == 1


def test_a_body_of_which_nothing_is_left_is_malformed() -> None:
    """As that of a header alone, where transport cut off what had come before it."""
    layer = subscriber("a")
    item = inbound("ann", b"")
    item.bodies = Pieces([b"had before"], 10, 2)[1:]
    assert layer.receive(0.0, [item]) == ([], [])
    assert TopicsFastPath(layer).receive_one(0.0, item) is None
    assert layer.statistics == {"malformed bundle: no index": 1}


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_bytes_change_nothing_but_counters(bodies: list[bytes]) -> None:
    layer = subscriber("#")
    assert layer.receive(0.0, [inbound("ann", *bodies)]) == ([], [])
    assert layer.statistics.total() == len(bodies)


def test_json_payloads_arrive_as_values() -> None:
    layer = subscriber("a")
    values = [{"x": [1, 2.5, None, True]}, "", [], "é"]
    (heard,) = deliveries(layer.receive(0.0, [inbound("ann", body("a", *map(orjson.dumps, values), json=True))])[0])
    assert heard.payloads == values


def test_a_payload_that_is_not_the_json_it_claims_to_be_does_not_harm_the_others() -> None:
    layer = subscriber("a")
    payloads = [b"bad", b"1", b"2", b"", b"NaN", b"3", b"[" * 5000, b'{"a"', b"4"]
    up, _ = layer.receive(0.0, [inbound("ann", body("a", *payloads, json=True))])
    assert [(heard.sequence, heard.payloads) for heard in deliveries(up)] == [(8, [1, 2]), (12, [3]), (15, [4])]
    assert layer.statistics["malformed JSON payload"] == 5


def test_an_endpoint_hears_its_own_messages_at_the_next_turn() -> None:
    layer = subscriber("a")
    layer.receive(0.0, [wants("ann", "a")])
    layer.send(5.0, [message("a", b"1", b"22", type="T"), message("b", b"3"), message("a", b"4", type="T")])
    assert layer.deadline == -inf
    assert layer.backlog == 4
    heard = deliveries(layer.receive(5.0, [])[0])
    assert [(h.topic, h.sequence, h.payloads, h.type) for h in heard] == [
        ("a", 1, [b"1", b"22"], "T"),
        ("a", 3, [b"4"], "T"),
    ]
    assert {(h.publisher, h.publisher_id, h.incarnation, h.retained) for h in heard} == {
        ("self", endpoint_id("self"), 1, False)
    }
    assert heard[0].published_at == WALL_CLOCK
    assert (layer.deadline, layer.backlog) == (inf, 0)
    assert layer.receive(5.0, []) == ([], [])


def test_own_json_values_arrive_equal_and_own_messages_expire_like_others() -> None:
    layer = subscriber("a")
    layer.send(0.0, [message("a", b'{"x":1}', json=True), message("a", b"2", lifespan=1.0)])
    assert [heard.payloads for heard in deliveries(layer.receive(1.5, [])[0])] == [[{"x": 1}]]
    assert layer.statistics["messages expired"] == 1


@pytest.mark.parametrize("options", [{}, {"reliable": False}, {"json": True}, {"lifespan": 1.0}, {"retain": True}])
def test_two_endpoints_hear_each_other(options: dict[str, Any]) -> None:
    wire = Wire("ann", "bob")
    wire.send(0.0, "bob", Subscribe(1, "t/+"))
    wire.send(0.0, "ann", message("t/a", b"1", b"2", **options), message("t/b", b"333", **options))
    payloads = [1, 2, 333] if "json" in options else [b"1", b"2", b"333"]
    assert [payload for _, payload, _, _ in wire.take("bob")] == payloads
    assert wire.take("ann") == []


def test_a_retained_message_heard_live_is_an_ordinary_one() -> None:
    layer = subscriber("a")
    (heard,) = deliveries(layer.receive(0.0, [inbound("ann", body("a", b"1", retain=KEEP))])[0])
    assert heard.retained is False
