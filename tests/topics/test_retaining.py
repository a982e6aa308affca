"""The last value for those who come late: everyone gets it, nobody twice."""

from __future__ import annotations

from math import inf

from glue.contract import Delivery, Redeliver, Subscribe, Unsubscribe
from glue.topics import Topics
from glue.topics.bundle import KEEP, KEPT, MessageGroup, encode
from glue.topics.retained import RETAINED_SIZE, RETAINED_VALUES, RetainedValue, RetainedValues
from tests.topics.parties import (
    WALL_CLOCK,
    Wire,
    added,
    deliveries,
    endpoint_id,
    flow,
    groups,
    inbound,
    message,
    outbounds,
    removed,
    route,
    topics,
    wants,
    wants_no_more,
)


def test_a_late_joiner_gets_the_last_value() -> None:
    wire = Wire("ann", "bob")
    wire.send(0.0, "ann", message("a/x", b"old", b"new", retain=True, type="T"), message("a/y", b"not kept"))
    wire.send(9.0, "bob", Subscribe(1, "a/#"))
    (heard,) = wire.heard["bob"]
    assert (heard.topic, heard.payloads, heard.type, heard.retained) == ("a/x", [b"new"], "T", True)
    assert (heard.publisher, heard.sequence, heard.published_at) == ("ann", 2, WALL_CLOCK)


def test_a_replay_goes_to_the_newcomer_alone_and_reliably() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), wants("ann", "#")])
    layer.send(0.0, [message("a", b"1", retain=True, reliable=False)])
    up, down = layer.receive(1.0, [added("bob"), wants("bob", "x", "a")])
    assert len(up) == 2, "the news goes on to the application"
    (sent,) = outbounds(down)
    assert (sent.peers, sent.reliable, sent.expires) == (route("bob"), True, inf)
    assert [(group.topic, group.sequence, group.retain) for group in groups([sent])] == [("a", 1, KEPT)]
    assert layer.receive(1.0, [wants("bob", "a")])[1] == [], "it is not news"


def test_what_follows_a_replay_does_not_overtake_it_nor_it_what_went_before() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), wants("ann", "#"), added("bob"), wants("bob", "#")])
    layer.send(0.0, [message("a", b"1", retain=True)])
    (replay,) = outbounds(layer.receive(0.0, [wants("bob", "a")])[1])
    assert replay.after == (flow("ann", "bob"),)
    (live,) = outbounds(layer.send(0.0, [message("a", b"2")]))
    assert live.after == (flow("bob"),)
    (live,) = outbounds(layer.send(0.0, [message("a", b"3")]))
    assert live.after == ()


def test_an_empty_payload_clears_the_value_and_is_heard_as_a_message() -> None:
    wire = Wire("ann", "bob", "cid")
    wire.send(0.0, "bob", Subscribe(1, "a"))
    wire.send(0.0, "ann", message("a", b"1", retain=True), message("a", b"", retain=True))
    assert wire.take("bob") == [("a", b"1", False, [1]), ("a", b"", False, [1])]
    wire.send(0.0, "cid", Subscribe(1, "a"))
    wire.send(0.0, "bob", Subscribe(2, "a"))
    assert wire.take("cid") == wire.take("bob") == []


def test_a_second_subscription_gets_the_value_and_the_first_not_again() -> None:
    wire = Wire("ann", "bob")
    wire.send(0.0, "ann", message("a/x", b"1", retain=True))
    wire.send(0.0, "bob", Subscribe("first", "a/#"))
    assert wire.take("bob") == [("a/x", b"1", True, ["first"])]
    wire.send(0.0, "bob", Subscribe("same pattern", "a/#"))
    assert wire.take("bob") == [("a/x", b"1", True, ["same pattern"])]
    wire.send(0.0, "bob", Subscribe("overlapping", "+/x"))
    assert wire.take("bob") == [("a/x", b"1", True, ["overlapping"])]


def test_a_value_heard_live_is_given_to_a_later_subscription() -> None:
    wire = Wire("ann", "bob")
    wire.send(0.0, "bob", Subscribe("first", "a"))
    wire.send(0.0, "ann", message("a", b"1", retain=True), message("a", b"2"))
    assert wire.take("bob") == [("a", b"1", False, ["first"]), ("a", b"2", False, ["first"])]
    wire.send(0.0, "bob", Subscribe("second", "a"))
    assert wire.take("bob") == [("a", b"1", True, ["second"])]


def test_values_of_several_publishers_are_kept_side_by_side() -> None:
    wire = Wire("ann", "bob", "cid")
    wire.send(0.0, "ann", message("a", b"of ann", retain=True))
    wire.send(0.0, "bob", message("a", b"of bob", retain=True))
    wire.send(0.0, "cid", Subscribe(1, "a"))
    assert {payload for _, payload, _, _ in wire.take("cid")} == {b"of ann", b"of bob"}


def test_an_endpoint_hears_its_own_retained_value() -> None:
    wire = Wire("ann")
    wire.send(0.0, "ann", message("a", b"[1]", retain=True, json=True))
    wire.send(0.0, "ann", Subscribe(1, "#"))
    assert wire.take("ann") == [("a", [1], True, [1])]


def test_a_value_lives_only_for_the_rest_of_its_lifespan() -> None:
    layer = topics()
    layer.send(10.0, [message("a", b"1", retain=True, lifespan=2.0)])
    (sent,) = outbounds(layer.receive(11.5, [added("ann"), wants("ann", "a")])[1])
    assert sent.expires == 12.0
    assert groups([sent])[0].lifespan_ms == 500
    assert layer.receive(12.5, [added("bob"), wants("bob", "a")])[1] == []


def test_a_value_heard_expires_by_age() -> None:
    layer = topics()
    layer.send(0.0, [Subscribe(1, "a")])
    body = encode([MessageGroup("a", 1, 0, [b"1"], 1, retain=KEEP, lifespan_ms=2000)])
    layer.receive(100.0, [inbound("ann", body, age=0.5)])
    layer.send(101.4, [Subscribe(2, "a")])
    assert len(layer.receive(101.4, [])[0]) == 1
    layer.send(101.6, [Subscribe(3, "a")])
    assert layer.receive(101.6, [])[0] == []


def heard_after(layer: Topics, sequence: int, payload: bytes, incarnation: int = 1) -> list[bytes]:
    """What the application hears of a replay from ann."""
    body = encode([MessageGroup("a", sequence, 0, [payload], len(payload), retain=KEPT)])
    up, _ = layer.receive(0.0, [inbound("ann", body, incarnation=incarnation)])
    return [payload for heard in deliveries(up) for payload in heard.payloads]


def test_after_a_separation_only_what_changed_is_heard() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe(1, "a")])
    assert heard_after(layer, 5, b"five") == [b"five"]
    layer.receive(0.0, [removed("ann"), added("ann")])
    assert heard_after(layer, 5, b"five") == []
    assert layer.statistics["retained values seen before"] == 1
    assert heard_after(layer, 9, b"nine") == [b"nine"]
    assert heard_after(layer, 1, b"new life", incarnation=2) == [b"new life"]


def test_what_went_unheard_for_a_while_is_not_taken_from_memory() -> None:
    wire = Wire("ann", "bob")
    wire.send(0.0, "ann", message("a", b"1", retain=True), message("b", b"1", retain=True))
    wire.send(0.0, "bob", Subscribe(1, "a"), Subscribe(2, "#"))
    wire.send(0.0, "bob", Unsubscribe(2))
    wire.send(0.0, "ann", message("b", b"", retain=True))
    wire.take("bob")
    wire.send(0.0, "bob", Subscribe(3, "+"))
    assert wire.take("bob") == [("a", b"1", True, [3])]


def test_a_peer_that_loses_interest_and_regains_it_is_told_again() -> None:
    layer = topics()
    layer.send(0.0, [message("a", b"1", retain=True)])
    for _ in range(2):
        assert len(outbounds(layer.receive(0.0, [added("ann"), wants("ann", "a")])[1])) == 1
        layer.receive(0.0, [wants_no_more("ann", "a")])


def test_many_values_travel_in_few_bundles() -> None:
    layer = topics()
    layer.send(0.0, [message(f"t/{number}", b"x", retain=True) for number in range(1000)])
    sent = outbounds(layer.receive(0.0, [added("ann"), wants("ann", "t/+")])[1])
    assert len(sent) == 1
    assert [group.topic for group in groups([*sent])] == [f"t/{number}" for number in range(1000)]


def test_a_value_that_finds_no_room_is_an_ordinary_message_and_counted() -> None:
    layer = topics()
    layer.send(0.0, [message("a", b"old", retain=True), message("b", bytes(RETAINED_SIZE), retain=True)])
    layer.send(0.0, [message("a", bytes(RETAINED_SIZE), retain=True)])
    assert layer.statistics["retained values refused: too many"] == 2
    assert layer.receive(0.0, [added("ann"), wants("ann", "#")])[1] == [], "an outdated value is worse than none"


def value(topic: str, publisher: str = "ann", size: int = 1) -> RetainedValue:
    return RetainedValue(topic, bytes(size), publisher, endpoint_id(publisher), 1, 1, 0)


def test_the_table_of_a_publisher_refuses_and_a_cache_forgets_the_oldest() -> None:
    values = RetainedValues()
    assert all(values.put(value(f"t/{number}")) for number in range(RETAINED_VALUES))
    assert not values.put(value("more"))
    assert values.put(value("t/0")), "a value may always replace its own kind"
    assert values.put_anyway(value("more")) == 1
    assert values.topics(["t/0", "t/1", "more"]) == ["t/0", "more"]
    assert values.put_anyway(value("huge", size=RETAINED_SIZE + 1)) == 1
    assert values.topics(["huge"]) == []
    assert values.drop("more") == 1
    assert values.drop("more") == 0


def test_a_live_message_that_its_own_replay_has_overtaken_is_not_heard_twice() -> None:
    ann, bob = topics("ann"), topics("bob")
    ann.receive(0.0, [added("carl"), wants("carl", "a")])
    bob.receive(0.0, [added("ann")])
    bob.send(0.0, [Subscribe(1, "a")])
    (live,) = outbounds(ann.send(0.0, [message("a", b"1", b"2", retain=True, reliable=False)]))  # by multicast, to all
    (replay,) = outbounds(ann.receive(0.0, [added("bob"), wants("bob", "a")])[1])
    late = inbound("ann", *live.bodies, reliable=False)
    up = [*bob.receive(1.0, [inbound("ann", *replay.bodies)])[0], *bob.receive(2.0, [late])[0]]
    heard = [(sequence, delivery.retained) for delivery in deliveries(up) for sequence in sequences(delivery)]
    assert heard == [(2, True), (1, False)]
    assert deliveries(bob.receive(3.0, [inbound("ann", *replay.bodies)])[0]) == []


def sequences(delivery: Delivery) -> range:
    return range(delivery.sequence, delivery.sequence + len(delivery.payloads))


def test_a_value_is_handed_over_again_to_its_subscriptions_unless_it_was_replaced() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann", 4)])
    data = encode([MessageGroup("a", 7, 1, [b"of ann"], 6, retain=KEEP)])
    layer.send(0.0, [Subscribe("all", "#"), Subscribe("others'", "a", local=False), Subscribe("else", "b")])
    layer.send(0.0, [message("a", b"1", retain=True), message("a", b"2", retain=True)])
    layer.receive(0.0, [inbound("ann", data, incarnation=4)])

    def again(name: str, incarnation: int, sequence: int, topic: str = "a") -> list[tuple[bytes, bool, list[object]]]:
        layer.send(1.0, [Redeliver(topic, endpoint_id(name), incarnation, sequence)])
        found = deliveries(layer.receive(1.0, [])[0])
        return [(one.payloads[0], one.retained, [*one.tokens]) for one in found]

    assert again("ann", 4, 7) == [(b"of ann", True, ["all", "others'"])]
    assert again("self", 1, 2) == [(b"2", True, ["all"])]
    for name, incarnation, sequence in (("ann", 4, 6), ("ann", 5, 7), ("self", 1, 1), ("self", 2, 2), ("bob", 4, 7)):
        assert again(name, incarnation, sequence) == []
    assert again("ann", 4, 7, "b") == []
    layer.send(1.0, [Unsubscribe("all")])
    assert again("self", 1, 2) == []
