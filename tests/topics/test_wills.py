"""Wills: published for a lost endpoint, received once, kept for late joiners, and forgotten when the owner is back."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract import HIGH, ExecuteWill, Subscribe
from glue.topics.bundle import KEEP, KEPT, LIVE, MessageGroup, encode
from glue.topics.wills import will_topic
from tests.topics.parties import (
    WALL_CLOCK,
    Wire,
    added,
    deliveries,
    endpoint_id,
    groups,
    inbound,
    outbounds,
    removed,
    topics,
    wants,
)

OWNER = ("boi/ler", "0123456789abcdef", 7)
TOPIC = "home/boiler"


def will(
    payload: bytes = b"off", number: int = 1, topic: str = TOPIC, retain: bool = False, **more: Any
) -> ExecuteWill:
    """The will of the owner."""
    return ExecuteWill(topic, payload, more.get("json", False), retain, more.get("owner", OWNER), number, WALL_CLOCK)


def told(payload: bytes = b"off", number: int = 1, retain: int = LIVE, owner: Any = OWNER) -> bytes:
    """A bundle with a will, as a peer sends it."""
    group = MessageGroup(will_topic(owner, number, TOPIC), 3, 17_000_000, [payload], len(payload), retain=retain)
    return encode([group])


def test_a_will_goes_to_those_that_want_its_topic_and_comes_as_if_its_owner_had_published_it() -> None:
    wire = Wire("ann", "bob", "eve")
    wire.send(0.0, "bob", Subscribe("token", "home/+"))
    wire.send(0.0, "ann", Subscribe("own", "#"))
    down = wire.send(0.0, "ann", will())
    (out,) = outbounds(down)
    assert (out.peers, out.priority) == ((endpoint_id("bob"),), HIGH)
    (group,) = groups(down)
    assert (group.topic, group.sequence, group.retain) == (
        "$glue/will/0123456789abcdef/7/1/boi%2Fler/home/boiler",
        1,
        LIVE,
    )
    assert group.at == int(WALL_CLOCK * 1e6)
    for name, tokens in (("bob", ("token",)), ("ann", ("own",))):
        (heard,) = wire.heard[name]
        assert (heard.topic, heard.payloads, heard.sequence) == (TOPIC, [b"off"], 0)
        assert (heard.publisher, heard.publisher_id, heard.incarnation, heard.via) == (*OWNER, endpoint_id("ann"))
        assert (heard.tokens, heard.retained) == (tokens, False)
    statistics = wire.layers[endpoint_id("ann")].statistics
    assert (statistics["wills published"], statistics["messages owed"], statistics["messages to oneself"]) == (1, 1, 1)
    assert wire.layers[endpoint_id("bob")].statistics["messages received"] == 1
    assert wire.send(0.0, "ann", will()) == []
    assert wire.send(0.0, "bob", will()) == [], "it came already"
    assert statistics["wills seen before"] == 1
    assert len(groups(wire.send(0.0, "ann", will(number=2)))) == 1
    assert len(groups(wire.send(0.0, "ann", will(owner=(*OWNER[:2], 8))))) == 1, "another life"


def test_the_same_will_of_several_peers_is_received_once() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob")])
    layer.send(0.0, [Subscribe("token", "#")])
    for name, body, count in (
        ("ann", told(), 1), ("bob", told(), 0), ("bob", told(number=2), 1), ("ann", told(owner=(*OWNER[:2], 8)), 1),
        ("ann", told(owner=("boi/ler", "f" * 16, 7)), 1),
    ):  # fmt: skip
        up, _ = layer.receive(0.0, [inbound(name, body)])
        assert len(deliveries(up)) == count
    assert (layer.statistics["messages received"], layer.statistics["wills seen before"]) == (4, 1)
    for topic in ("$glue/will/x", will_topic(OWNER, 1, ""), will_topic(("a", "short", 1), 1, "a")):
        layer.receive(0.0, [inbound("ann", encode([MessageGroup(topic, 1, 0, [b"x"], 1)]))])
    assert layer.statistics["malformed will"] == 3


def test_what_nobody_here_wants_is_no_will_that_came() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    assert deliveries(layer.receive(0.0, [inbound("ann", told())])[0]) == []
    layer.send(0.0, [Subscribe("token", "#")])
    assert len(deliveries(layer.receive(0.0, [inbound("ann", told())])[0])) == 1


def test_a_retained_will_is_kept_for_late_joiners_until_its_owner_is_back() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [will(retain=True), will(b"", 2, "home/empty", True), will(b"x", 3, "home/plain")])
    _, down = layer.receive(0.0, [wants("ann", "home/+")])
    assert [(group.topic.rpartition("/")[2], group.payloads, group.retain) for group in groups(down)] == [
        ("boiler", [b"off"], KEPT)
    ]
    _, down = layer.receive(0.0, [wants("ann", "other/#")])
    assert groups(down) == []
    layer.receive(0.0, [removed("ann"), added("ann"), added("bob")])
    _, down = layer.receive(0.0, [wants("bob", "other/#", "#")])
    assert [one.peers for one in outbounds(down)] == [(endpoint_id("bob"),)]
    owner = added("boiler")
    owner.peer = OWNER[1]
    layer.receive(0.0, [owner])
    _, down = layer.receive(0.0, [wants("ann", "home/#")])
    assert groups(down) == []
    (sent,) = groups(layer.send(0.0, [will(retain=True)]))
    assert sent.retain == KEEP, "it is lost again"


@pytest.mark.parametrize(("payload", "values"), [(b"off", 1), (b"", 0)])
def test_a_retained_will_takes_the_place_of_its_owners_value(payload: bytes, values: int) -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe("first", "#")])
    layer.receive(0.0, [inbound("ann", told(retain=KEEP)), inbound("ann", told(payload, 2, KEEP))])
    layer.send(0.0, [Subscribe("second", "home/#")])
    found = deliveries(layer.receive(0.0, [])[0])
    assert [(one.payloads, one.via, one.tokens, one.retained) for one in found] == [
        ([payload], endpoint_id("ann"), ("second",), True)
    ] * values


def test_16384_wills_are_remembered() -> None:
    layer = topics()
    layer.send(0.0, [will(number=number) for number in (1, 2)])
    wills = layer.asking.wills
    assert wills._seen_count == 2
    wills._seen_count += 16_384 - 4  # of other owners
    for count, number in ((16_383, 1), (16_384, 2)):
        layer.send(0.0, [will(owner=("x", f"{number:016}", 1))])
        assert wills._seen_count == count
        assert layer.send(0.0, [will()]) == []
    assert layer.statistics["wills seen before"] == 2
    layer.send(0.0, [will(owner=("x", "3" * 16, 1))])
    assert wills._seen_count == 16_383
    layer.send(0.0, [will()])
    assert layer.statistics["wills seen before"] == 2, "all of the owner that was first are forgotten"
    wills.forget(OWNER[1])
    assert wills._seen_count == 16_383


def test_4096_retained_wills_are_kept() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [will(number=number, topic=f"t/{number}", retain=True) for number in range(4097)])
    _, down = layer.receive(0.0, [wants("ann", "t/0", "t/1", "t/4096")])
    assert [group.topic.rpartition("/")[2] for group in groups(down)] == ["1", "4096"]
