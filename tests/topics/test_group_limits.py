"""Groups and samples: every bound at its value and one beyond, and what a group tells of its messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from glue.contract import HIGH, Acknowledge, PeerInterest, Subscribe, Undelivered
from glue.contract.metadata import Metadata
from glue.topics.bundle import KEPT, LIVE
from glue.topics.shared.credit import Credit
from glue.topics.shared.dispatcher import Dispatcher
from glue.topics.shared.wire import (
    decode_done,
    encode_done,
    interest_of,
    member_id,
    parse_interest,
    parse_topic,
    topic_of,
)
from glue.topics.wrapped import sampled
from tests.topics.parties import added, deliveries, endpoint_id, groups, message, outbounds, removed, topics, wants
from tests.topics.test_samples import run, seen, watched
from tests.topics.test_shared import MEMBER, PEER, Numbers, assigned


def test_a_member_begins_with_four_messages_and_has_a_megabyte_at_most() -> None:
    credit = Credit()
    assert credit.room == 4
    credit.use(1, (1 << 20) - 1)
    assert credit.room == 3
    credit.use(0, 1)
    assert credit.room == 0
    credit.release(0, 1)
    assert (credit.room, credit.count, credit.size) == (3, 1, (1 << 20) - 1)
    credit = Credit()
    credit.size = 2 << 20
    assert credit.room == 4, "it has nothing: the next message may be as large as it is"


@pytest.mark.parametrize(
    ("alone", "took", "place", "window"),
    [
        (0.0, 0.049, 5, 10), (0.0, 0.05, 5, 8), (0.0, 0.2, 5, 8), (0.0, 0.21, 8, 3), (0.0, 9.0, 8, 1),
        (0.1, 0.149, 5, 10), (0.1, 0.16, 5, 8), (0.1, 0.4, 8, 4), (0.1, 0.001, 4096, 8192),
        (0.1, 0.001, 4095, 8190), (0.1, 0.001, 9999, 8192), (0.1, 0.001, 3, 8), (0.0, 0.21, 99, 8),
    ],
)  # fmt: skip
def test_credit_follows_how_long_a_message_waits_behind_others(
    alone: float, took: float, place: int, window: int
) -> None:
    credit = Credit()
    credit.learn(alone, 1)
    assert credit.window == 4, "alone it says nothing of more"
    credit.window = 8
    credit.learn(took, place)
    assert credit.window == window


def test_a_group_without_members_is_given_up_after_half_a_minute() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer"), wants("peer", interest_of("g", MEMBER, "a/#"))])
    layer.send(0.0, [message("a/b", b"12", b"3")])
    assert (layer.unfinished, layer.backlog) == (2, 3)
    layer.receive(1.0, [removed("peer")])
    assert layer.deadline == 31.0
    layer.send(2.0, [message("a/c", b"4")])
    assert layer.statistics["messages to nobody"] == 0
    assert layer.deadline == 31.0, "it counts from when the last one left"
    up, _ = layer.receive(30.9, [])
    assert up == []
    (lost,), _ = layer.receive(31.0, [])
    assert isinstance(lost, Undelivered)
    assert (lost.peer, lost.count, lost.cause) == ("", 3, "no member of the group")
    assert layer.statistics["shared messages lost: no member of the group"] == 3
    assert (layer.unfinished, layer.backlog, layer.deadline) == (0, 0, float("inf"))
    layer.send(32.0, [message("a/b", b"5")])
    assert layer.statistics["messages to nobody"] == 1


def test_a_member_that_comes_in_time_gets_all_that_waited() -> None:
    layer = topics()
    other = member_id(endpoint_id("other"), 1, 2)
    layer.receive(0.0, [added("peer"), added("other"), wants("peer", interest_of("g", MEMBER, "a"))])
    (first,) = groups(layer.send(0.0, [message("a", b"1", retain=True, lifespan=50.0)]))
    assert (first.topic, first.retain, first.lifespan_ms) == (topic_of("g", MEMBER, False, "a"), LIVE, 50_000)
    layer.receive(1.0, [removed("peer")])
    _, down = layer.receive(20.0, [wants("other", interest_of("g", other, "a"))])
    (out,) = outbounds(down)
    assert out.peers == (endpoint_id("other"),)
    assert [(one.topic, one.payloads, one.lifespan_ms) for one in groups(down) if one.topic != "a"] == [
        (topic_of("g", other, True, "a"), [b"1"], 30_000)
    ]
    assert layer.statistics["shared messages to be redelivered"] == 1
    assert list(layer.subscribers("a")) == [endpoint_id("other")]


def test_what_the_transport_gave_up_goes_to_another_member() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer"), added("other")])
    layer.receive(0.0, [wants("peer", interest_of("g", MEMBER, "a"))])
    assert len(groups(layer.send(0.0, [message("a", b"1")]))) == 1
    layer.receive(1.0, [wants("other", interest_of("g", member_id(endpoint_id("other"), 1, 1), "a"))])
    for news, count in (
        (Undelivered(PEER, 1, "peer removed"), 0), (Undelivered(endpoint_id("other"), 1, "slow receiver"), 0),
        (Undelivered(PEER, 1, "slow receiver"), 1),
    ):  # fmt: skip
        _, down = layer.receive(2.0, [news])
        assert len(groups(down)) == count


def test_a_message_is_skipped_five_times_before_it_counts_as_unreadable() -> None:
    dispatcher = Dispatcher(counts := Counter[str]())
    dispatcher.join("a")
    dispatcher.offer(Numbers(1, 2), 2)
    assigned(dispatcher)
    dispatcher.acknowledge(0.0, "a", "lane", 2, 2)
    for _ in range(5):
        assert assigned(dispatcher) == [("a", (1,), True)]
        dispatcher.acknowledge(0.0, "a", "lane", 2, 2)
    assert assigned(dispatcher) == []
    assert counts == {
        "shared messages acknowledged": 1, "shared messages to be redelivered": 5,
        "shared messages lost: unreadable": 1,
    }  # fmt: skip
    assert (dispatcher.count, dispatcher.size) == (0, 0)


def test_65536_keys_have_their_member() -> None:
    dispatcher = Dispatcher(Counter())
    dispatcher.join("a")
    dispatcher._keys.update((str(number), "a") for number in range(65_535))
    for key, first in (("x", "0"), ("0", "1"), ("y", "2")):
        dispatcher.offer(Numbers(1), 1, key)
        assigned(dispatcher)
        assert next(iter(dispatcher._keys)) == first
        assert len(dispatcher._keys) == 65_536


def test_4096_groups_and_32768_members_are_known() -> None:
    layer = topics()
    sharing = layer.asking.sharing
    layer.receive(0.0, [added("peer")])
    one = Dispatcher(Counter())
    sharing.dispatchers.update(((str(number), "x"), one) for number in range(4095))
    for group, refused in (("g", 0), ("h", 1), ("g", 1)):
        layer.receive(0.0, [wants("peer", interest_of(group, member_id(PEER, 1, refused + 5), "a"))])
        assert layer.statistics["members of groups refused: too many"] == refused
    sharing._members.update(dict.fromkeys(range(32_767 - 2)))  # type: ignore[arg-type]  # others
    for number, refused in ((7, 1), (8, 2)):
        layer.receive(0.0, [wants("peer", interest_of("g", member_id(PEER, 1, number), "a"))])
        assert layer.statistics["members of groups refused: too many"] == refused
    sharing.dispatchers = {key: found for key, found in sharing.dispatchers.items() if found is not one}
    gone = interest_of("g", member_id(PEER, 1, 7), "a")
    layer.receive(0.0, [PeerInterest(PEER, [], [gone, gone])])
    assert sorted(sharing.dispatchers["g", "a"].members) == [member_id(PEER, 1, number) for number in (5, 6)]


@pytest.mark.parametrize(
    ("entries", "is_good"),
    [([["t", 1, 1]] * 4096, True), ([["t", 1, 1]] * 4097, False), ([["t", 1, 1 << 50]], True),
     ([["t", 1, (1 << 50) + 1]], False), ([["t", 0, 1]], False), ([["t", 2, 1]], False), ([[7, 1, 1]], False),
     ([["t", True, 1]], False), ([["t", 1]], False), ([["t", 1, 1, 1]], False), ({}, False), ([7], False), ([], True)],
)  # fmt: skip
def test_acknowledgements_are_read_within_their_limits(entries: Any, is_good: bool) -> None:
    if is_good:
        assert [[*one] for payload in encode_done(entries) for one in decode_done(payload)] == entries
    else:
        with pytest.raises(ValueError, match=r"no list|no entry|malformed"):
            decode_done(orjson.dumps(entries))
    assert [len(decode_done(one)) for one in encode_done([("t", 1, 1)] * 4097)] == [4096, 1]


def test_interests_and_topics_of_members() -> None:
    longest = member_id(PEER, 10**16 - 1, 10**16 - 1)
    assert parse_interest(PEER, interest_of("g", longest, "a/#")) == ("g", longest, "a/#")
    assert parse_interest(PEER, interest_of("g", member_id(PEER, 10**16, 1), "a")) is None
    assert parse_interest(PEER, interest_of("g", member_id(PEER, 1, 10**16), "a")) is None
    assert parse_topic(topic_of("g", longest, True, "a/b")) == ("g", longest, "a/b")
    assert topic_of("g", "m", False, "a") == "$glue/share/g/m/0/a"
    for topic in ("$glue/share/g/m/0", "$glue/other/g/m/0/a", "a"):
        assert parse_topic(topic) is None


def test_acknowledgements_that_follow_each_other_are_one() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer")])
    done: list[Any] = [Acknowledge(topic, PEER, first, last) for topic, first, last in (
        ("t", 1, 2), ("t", 3, 3), ("t", 5, 5), ("u", 6, 6), ("t", 6, 6),
    )]  # fmt: skip
    down = layer.send(0.0, [*done, Acknowledge("t", endpoint_id("gone"), 1, 1)])
    (answer,) = groups(down)
    assert outbounds(down)[0].priority == HIGH
    assert decode_done(answer.payloads[0]) == [("t", 1, 3), ("t", 5, 5), ("u", 6, 6), ("t", 6, 6)]
    assert groups(layer.send(0.0, [])) == []


# ---------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize(("size", "is_whole"), [(8192, True), (8193, False)])
def test_a_payload_of_eight_kilobytes_is_sampled_whole(size: int, is_whole: bool) -> None:
    wire = watched("kitchen")
    wire.send(0.0, "kitchen", message("a", bytes(size), metadata=Metadata({"k": "v"}, None)))
    run(wire, "kitchen", 0.1)
    (one,) = wire.heard["spy"]
    assert [len(payload) for payload in one.payloads] == [size if is_whole else 256]
    assert one.length == (size if is_whole else 256)
    assert dict(one.metadata.properties or {}) == ({"k": "v"} if is_whole else {"$glue/size": "8193"})


def test_samples_are_gathered_for_a_twentieth_of_a_second_and_live_one() -> None:
    wire = watched("kitchen")
    layer = wire.layers[endpoint_id("kitchen")]
    wire.send(3.0, "kitchen", message("a", b"1", retain=True, type="t"))
    assert layer.deadline == 3.05
    assert layer.receive(3.04, [])[1] == []
    _, down = layer.receive(3.05, [])
    (out,) = outbounds(down)
    (group,) = groups(down)
    assert (out.expires, group.retain, group.type, group.sequence) == (4.05, KEPT, "t", 1)
    assert layer.deadline == 4.0, "the interval ends"
    assert (layer.statistics["samples sent"], layer.statistics["messages owed"]) == (1, 1)


def test_samples_of_an_interval_have_half_a_megabyte() -> None:
    for last, count in ((8192, 64), (8191, 65)):
        wire = watched("kitchen")
        for number in range(70):
            size = last if number == 63 else 8192
            wire.send(0.0, "kitchen", message(f"t/{number}", bytes(size)))
        run(wire, "kitchen", 0.1)
        assert len(seen(wire)) == count


def test_intervals_between_samples_of_a_topic_grow_to_64_and_fall_again() -> None:
    wire = watched("kitchen", count=1)
    samples = wire.layers[endpoint_id("kitchen")].asking.samples
    strides = []
    for second in range(70):
        for name in ("a", "b", "c"):
            samples._sampled.pop(name, None)
            wire.send(float(second), "kitchen", message(name, b"x"))
        run(wire, "kitchen", second + 0.99)
        strides.append(samples._stride)
    assert strides == [min(1 + second, 64) for second in range(70)]
    wire.heard["spy"].clear()
    samples._is_short, samples._left = False, 1
    samples._next_interval()
    assert samples._stride == 63, "half of the room was left"


def test_65536_sampled_topics_are_remembered() -> None:
    wire = watched("kitchen")
    samples = wire.layers[endpoint_id("kitchen")].asking.samples
    samples._sampled = dict.fromkeys((str(number) for number in range(65_535)), 0)
    for name, known in (("a", 65_536), ("b", 1)):
        wire.send(0.0, "kitchen", message(name, b"x"))
        assert len(samples._sampled) == known


def test_samples_reach_only_who_still_asks_for_them() -> None:
    layer = topics()
    layer.receive(0.0, [added("spy"), added("other")])
    layer.receive(0.0, [wants("spy", sampled(1000, 9, "#")), wants("other", sampled(1000, 9, "a"))])
    layer.send(0.0, [Subscribe("own", sampled(2000, 9, "a")), message("a", b"1")])
    layer.receive(0.01, [removed("other")])
    _, down = layer.receive(0.05, [])
    assert [(out.peers, [one.topic for one in groups([out])]) for out in outbounds(down)] == [
        ((endpoint_id("spy"),), [sampled(1000, 9, "a")])
    ]
    (own,) = deliveries(layer.receive(0.05, [])[0])
    assert (own.topic, own.wrapped, own.tokens, own.publisher) == ("a", sampled(2000, 9, "a"), ("own",), "self")
