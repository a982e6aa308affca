"""The broker in virtual time: subscriptions, the three qualities of service, retained messages, MQTT 5."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.limits import Limits
from tests.support import mqtt
from tests.support.mqtt import Bench

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("receiver_version", VERSIONS)
def test_messages_go_to_subscribers_of_any_version(version: int, receiver_version: int) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("a/+", 2), version=receiver_version)
    publisher = bench.connect("p", version)
    publisher.send(*(mqtt.publish("a/b", b"%d" % n, version=version) for n in range(5)))
    publisher.send(mqtt.publish("b/c", b"no", version=version))
    found = subscriber.messages()
    assert [(one.topic, one.payload, one.qos) for one in found] == [("a/b", b"%d" % n, 0) for n in range(5)]


@pytest.mark.parametrize(("wanted", "published", "granted"), [(0, 2, 0), (1, 2, 1), (2, 1, 1), (2, 2, 2), (1, 0, 0)])
def test_a_message_has_the_lower_qos_of_publisher_and_subscription(wanted: int, published: int, granted: int) -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", wanted))
    bench.connect("p").send(mqtt.publish("t", b"x", published, 9))
    assert [one.qos for one in subscriber.messages()] == [granted]


def test_overlapping_subscriptions_get_a_message_once_with_the_highest_qos() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t/#", 0), ("t/1", 2), ("+/1", 1))
    bench.connect("p").send(mqtt.publish("t/1", b"x", 2, 1))
    assert [(one.payload, one.qos) for one in subscriber.messages()] == [(b"x", 2)]


def test_wildcards_at_the_first_level_do_not_match_topics_of_the_system() -> None:
    bench = Bench()
    everything, system = bench.subscriber(("#", 0), client_id="a"), bench.subscriber(("$SYS/#", 0), client_id="b")
    bench.connect("p").send(mqtt.publish("$SYS/broker/x", b"forged"))
    assert everything.read() == system.read() == []
    assert bench.broker.statistics["refused to write"] == 1


def test_qos_1_is_acknowledged_in_order_and_sent_again_after_a_reconnect() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 1), clean=False)
    publisher = bench.connect("p")
    publisher.send(*(mqtt.publish("t", b"%d" % n, 1, n) for n in range(1, 5)))
    assert [sent.body for sent in publisher.read()] == [n.to_bytes(2, "big") for n in range(1, 5)]
    first = subscriber.messages()
    subscriber.send(mqtt.acknowledge(4, first[0].number), mqtt.acknowledge(4, first[1].number))
    subscriber.leave()
    publisher.send(mqtt.publish("t", b"5", 1, 9))
    again = bench.link()
    again.send(mqtt.connect("s", clean=False))
    answer, *rest = again.read()
    assert answer.body == b"\x01\x00"
    found = [mqtt.publication(sent) for sent in rest]
    assert [(one.payload, one.dup) for one in found] == [(b"3", True), (b"4", True), (b"5", False)]
    assert [one.number for one in found[:2]] == [one.number for one in first[2:]]


def test_qos_2_is_delivered_once_though_the_publisher_repeats_it() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2))
    publisher = bench.connect("p", clean=False)
    publisher.send(mqtt.publish("t", b"x", 2, 7))
    assert [sent.kind for sent in publisher.read()] == [5]
    publisher.leave()
    publisher = bench.link()
    publisher.send(mqtt.connect("p", clean=False), mqtt.publish("t", b"x", 2, 7, dup=True), mqtt.acknowledge(6, 7))
    assert [sent.kind for sent in publisher.read()] == [2, 5, 7]
    publisher.send(mqtt.publish("t", b"y", 2, 7))
    assert subscriber.payloads() == [b"x", b"y"]


def test_qos_2_to_a_receiver_goes_on_where_it_was_after_a_reconnect() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2), clean=False)
    bench.connect("p").send(mqtt.publish("t", b"x", 2, 1), mqtt.publish("t", b"y", 2, 2))
    x, y = subscriber.messages()
    subscriber.send(mqtt.acknowledge(5, x.number))
    assert [(sent.kind, sent.flags) for sent in subscriber.read()] == [(6, 2)]
    subscriber.leave()
    again = bench.link()
    again.send(mqtt.connect("s", clean=False))
    _, release, repeated = again.read()
    assert release == mqtt.Sent(6, 2, x.number.to_bytes(2, "big"))
    assert mqtt.publication(repeated)._replace(dup=False) == y
    again.send(mqtt.acknowledge(7, x.number), mqtt.acknowledge(5, y.number), mqtt.acknowledge(7, y.number))
    again.leave()
    last = bench.link()
    last.send(mqtt.connect("s", clean=False))
    assert len(last.read()) == 1


def test_a_clean_session_forgets_what_was_there() -> None:
    bench = Bench()
    bench.subscriber(("t", 1), clean=False).leave()
    bench.connect("p").send(mqtt.publish("t", b"x", 1, 1))
    again = bench.link()
    again.send(mqtt.connect("s", clean=True))
    assert [sent.body for sent in again.read()] == [b"\x00\x00"]
    bench.connect("p").send(mqtt.publish("t", b"y", 1, 2))
    assert again.read() == []


def test_no_more_is_under_way_than_the_receiver_asked_for() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 1), version=5, raw=b"\x21\x00\x03")
    bench.connect("p").send(*(mqtt.publish("t", b"%d" % n, 1, n) for n in range(1, 11)))
    found = subscriber.messages()
    assert [one.payload for one in found] == [b"1", b"2", b"3"]
    subscriber.send(mqtt.PING, mqtt.subscribe(2, ("u", 0), version=5))
    assert [sent.kind for sent in subscriber.read()] == [13, 9], "all else goes on"
    subscriber.send(mqtt.acknowledge(4, found[0].number), mqtt.acknowledge(4, found[1].number))
    assert subscriber.payloads() == [b"4", b"5"]


def test_what_waits_for_a_client_is_bounded_and_the_newest_is_dropped_and_counted() -> None:
    bench = Bench(limits=Limits(queue_messages=3))
    bench.subscriber(("t", 1), clean=False).leave()
    bench.connect("p").send(*(mqtt.publish("t", b"%d" % n, 1, n) for n in range(1, 6)))
    assert bench.broker.statistics["messages dropped"] == 2
    again = bench.link()
    again.send(mqtt.connect("s", clean=False))
    assert [mqtt.publication(sent).payload for sent in again.read()[1:]] == [b"1", b"2", b"3"]


def test_packet_ids_go_round_and_pass_over_those_in_use() -> None:
    bench = Bench(limits=Limits(inflight=65_535))
    subscriber = bench.subscriber(("t", 1))
    publisher = bench.connect("p")
    held = 0
    seen: set[int] = set()
    for _ in range(70):
        publisher.send(*(mqtt.publish("t", b"", 1, n) for n in range(1, 1001)))
        numbers = [one.number for one in subscriber.messages()]
        assert len(numbers) == 1_000
        held = held or numbers[0]
        assert held not in numbers[1:] or not seen
        assert 0 not in numbers
        seen.update(numbers)
        subscriber.send(*(mqtt.acknowledge(4, number) for number in numbers if number != held))
    assert len(seen) == 65_535


# ------------------------------------------------------------------------------------------------ retained


def test_a_new_subscription_gets_the_retained_messages_and_an_empty_one_clears() -> None:
    bench = Bench()
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("a/1", b"one", 1, 1, retain=True), mqtt.publish("a/2", b"two", retain=True))
    publisher.send(mqtt.publish("b", b"other", retain=True), mqtt.publish("a/2", b"new", retain=True))
    publisher.send(mqtt.publish("a/1", b"live"), mqtt.publish("a/2", b""), mqtt.publish("a/3", b"live"))
    publisher.disconnect()
    publisher = bench.connect("q")
    subscriber = bench.connect("s")
    subscriber.send(mqtt.subscribe(1, ("a/#", 1)))
    _, *rest = subscriber.read()
    found = {(one.topic, one.payload, one.qos, one.retain) for one in map(mqtt.publication, rest)}
    assert found == {("a/1", b"one", 1, True), ("a/2", b"new", 0, True)}
    publisher.send(mqtt.publish("a/1", b"", retain=True))
    assert [(one.payload, one.retain) for one in subscriber.messages()] == [(b"", False)]
    other = bench.connect("o")
    other.send(mqtt.subscribe(1, ("a/1", 1)))
    assert [sent.kind for sent in other.read()] == [9]


@pytest.mark.parametrize(("options", "first", "second"), [(0x00, 1, 1), (0x10, 1, 0), (0x20, 0, 0)])
def test_retain_handling_decides_whether_a_subscription_gets_retained_messages(
    options: int, first: int, second: int
) -> None:
    bench = Bench()
    bench.connect("p").send(mqtt.publish("t", b"x", retain=True))
    subscriber = bench.connect("s", 5)
    for expected in (first, second):
        subscriber.send(mqtt.subscribe(1, ("t", options), version=5))
        assert len(subscriber.read()) - 1 == expected


def test_retain_as_published_keeps_the_flag_of_live_messages() -> None:
    bench = Bench()
    plain = bench.subscriber(("t", 0), client_id="a", version=5)
    keeps = bench.subscriber(("t", 8), client_id="b", version=5)
    bench.connect("p").send(mqtt.publish("t", b"x", retain=True))
    assert [one.retain for one in plain.messages() + keeps.messages()] == [False, True]


# --------------------------------------------------------------------------------------------------- MQTT 5


def test_properties_of_a_message_arrive_and_those_of_the_connection_do_not() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 0), version=5)
    raw = b"\x01\x01\x03" + mqtt.text("text/csv") + b"\x08" + mqtt.text("answer/to") + b"\x09" + mqtt.text(b"\0\xff")
    raw += b"".join(b"\x26" + mqtt.text(name) + mqtt.text(value) for name, value in ("k2", "k1", "k3"))
    bench.connect("p", 5).send(mqtt.publish("t", b"x", version=5, raw=raw + b"\x23\x00\x01"))
    assert [one.properties for one in subscriber.messages()] == [raw]


def test_a_topic_alias_stands_for_its_topic() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("#", 0))
    publisher = bench.connect("p", 5)
    publisher.send(mqtt.publish("a/b", b"1", version=5, raw=b"\x23\x00\x02"))
    publisher.send(mqtt.publish("", b"2", version=5, raw=b"\x23\x00\x02"))
    assert [(one.topic, one.payload) for one in subscriber.messages()] == [("a/b", b"1"), ("a/b", b"2")]
    publisher.send(mqtt.publish("", b"3", version=5, raw=b"\x23\x00\x03"))
    assert publisher.read()[0].body[0] == codes.PROTOCOL_ERROR


def test_long_topics_are_sent_once_to_a_client_that_takes_aliases() -> None:
    bench = Bench()
    wanted = b"\x22\x00\x01"  # one alias
    subscriber = bench.subscriber(("#", 1), version=5, raw=wanted)
    without = bench.subscriber(("#", 1), client_id="w", version=5)
    bench.connect("p").send(
        *(mqtt.publish("long/topic", b"%d" % n, 1, n) for n in (1, 2)), mqtt.publish("other/topic", b"", 1, 3)
    )
    bench.connect("q").send(mqtt.publish("long/topic", b"3", 0), mqtt.publish("t", b""))
    alias = b"\x23\x00\x01"
    assert [(one.topic, one.payload, one.properties) for one in subscriber.messages()] == [
        ("long/topic", b"1", alias), ("long/topic", b"2", alias), ("other/topic", b"", b""), ("", b"3", alias),
        ("t", b"", b""),
    ]  # fmt: skip
    assert {one.properties for one in without.messages()} == {b""}
    subscriber.leave()
    again = bench.subscriber(("#", 1), version=5, raw=wanted)
    bench.connect("q").send(mqtt.publish("long/topic", b"4", 0))
    assert [one.topic for one in again.messages()] == ["long/topic"]


def test_an_alias_above_the_maximum_ends_the_connection() -> None:
    bench = Bench()
    publisher = bench.connect("p", 5)
    publisher.send(mqtt.publish("t", b"", version=5, raw=b"\x23\x7f\x00"))
    assert publisher.read()[0].body[0] == codes.TOPIC_ALIAS_INVALID


def test_a_message_expires_and_tells_the_time_that_is_left() -> None:
    bench = Bench()
    bench.subscriber(("t", 1), version=5, raw=b"\x11\x00\x00\x00\x64").leave()
    publisher = bench.connect("p", 5)
    publisher.send(mqtt.publish("t", b"short", 1, 1, version=5, raw=b"\x02\x00\x00\x00\x05"))
    publisher.send(mqtt.publish("t", b"long", 1, 2, version=5, raw=b"\x02\x00\x00\x00\x32"))
    bench.pass_time(10)
    again = bench.link(5)
    again.send(mqtt.connect("s", 5, clean=False, raw=b"\x11\x00\x00\x00\x64"))
    found = [mqtt.publication(sent, 5) for sent in again.read()[1:]]
    assert [(one.payload, one.properties) for one in found] == [(b"long", b"\x02\x00\x00\x00\x28")]


def test_subscription_identifiers_come_with_the_messages() -> None:
    bench = Bench()
    subscriber = bench.connect("s", 5)
    subscriber.send(mqtt.subscribe(1, ("t/#", 0), version=5, raw=b"\x0b\x07"))
    subscriber.send(mqtt.subscribe(2, ("t/1", 0), version=5, raw=b"\x0b\x08"))
    subscriber.read()
    bench.connect("p").send(mqtt.publish("t/1", b"x"))
    assert [one.properties for one in subscriber.messages()] == [b"\x0b\x07\x0b\x08"]


def test_no_local_keeps_own_messages_away() -> None:
    bench = Bench()
    device = bench.subscriber(("t", 4), version=5)
    device.send(mqtt.publish("t", b"own", version=5))
    bench.connect("p").send(mqtt.publish("t", b"other"))
    assert device.payloads() == [b"other"]


@pytest.mark.parametrize("version", [0x83, 0x84])
def test_a_bridge_of_mosquitto_gets_the_messages_of_others_and_their_retain_flags(version: int) -> None:
    bench = Bench()
    bridge = bench.link(version & 0x7F)
    greeting = bytearray(mqtt.connect("bridge", version & 0x7F))
    greeting[greeting.index(b"MQ") + (6 if version == 0x83 else 4)] = version
    bridge.send(bytes(greeting), mqtt.subscribe(1, ("#", 1), version=version & 0x7F))
    assert [answer.kind for answer in bridge.read()] == [2, 9]
    bridge.send(mqtt.publish("t", b"own", 0, version=version & 0x7F))
    bench.connect("p").send(mqtt.publish("t", b"kept", retain=True), mqtt.publish("t", b"plain"))
    assert [(one.payload, one.retain) for one in bridge.messages()] == [(b"kept", True), (b"plain", False)]


def test_a_message_larger_than_a_client_takes_is_left_out_and_the_next_one_comes() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 1), version=5, raw=b"\x27\x00\x00\x00\x20")
    bench.connect("p").send(*(mqtt.publish("t", bytes(size), 1, size) for size in (5, 100, 6)))
    assert [len(one) for one in subscriber.payloads()] == [5, 6]
    assert bench.broker.statistics["messages dropped"] == 1


def test_shared_subscriptions_give_each_message_to_one_member() -> None:
    bench = Bench()
    members = [bench.subscriber(("$share/g/t/#", 1), client_id=f"m{n}") for n in range(3)]
    plain = bench.subscriber(("t/1", 0), client_id="plain")
    bench.connect("p").send(*(mqtt.publish("t/1", b"%d" % n, 1, n) for n in range(1, 31)))
    found = [member.messages() for member in members]
    shares = [[one.payload for one in share] for share in found]
    assert {one.qos for share in found for one in share} == {1}
    assert sorted(int(one) for share in shares for one in share) == list(range(1, 31))
    assert all(shares)
    assert len(plain.payloads()) == 30
    for member in members[:2]:
        member.disconnect()
    bench.connect("p").send(mqtt.publish("t/1", b"last", 1, 1))
    assert members[2].payloads() == [b"last"]


def test_unsubscribe_says_what_was_there() -> None:
    bench = Bench()
    device = bench.subscriber(("t", 0), version=5)
    device.send(mqtt.unsubscribe(3, "t", "u", version=5))
    (answer,) = device.read()
    assert answer.body == b"\x00\x03\x00\x00\x11"
    bench.connect("p").send(mqtt.publish("t", b"x"))
    assert device.read() == []


def test_more_qos_2_under_way_than_allowed_ends_the_connection() -> None:
    bench = Bench(limits=Limits(receive_maximum=2))
    publisher = bench.connect("p", 5)
    publisher.send(*(mqtt.publish("t", b"", 2, n, version=5) for n in (1, 2, 3)))
    assert publisher.read()[-1].body[0] == codes.RECEIVE_MAXIMUM_EXCEEDED


# ------------------------------------------------------------------------------------------------- slowness


def test_a_stuck_client_holds_its_publishers_for_a_moment_only() -> None:
    bench = Bench()
    slow, fast = bench.subscriber(("t", 0), client_id="slow"), bench.subscriber(("t", 0), client_id="fast")
    publisher = bench.connect("p")
    bench.broker.full(bench.now, slow.client)
    publisher.send(mqtt.publish("t", b"1"))
    assert publisher.client.held == 1
    bench.pass_time(0.6)
    assert publisher.client.held == 0
    publisher.send(mqtt.publish("t", b"2"))
    assert publisher.client.held == 0
    assert fast.payloads() == [b"1", b"2"]
    assert slow.payloads() == [b"1"]
    assert bench.broker.statistics["messages dropped"] == 1
    bench.broker.free(bench.now, slow.client)
    publisher.send(mqtt.publish("t", b"3"))
    assert slow.payloads() == [b"3"]


def test_a_stuck_client_gets_its_messages_of_qos_1_when_it_takes_bytes_again() -> None:
    bench = Bench()
    slow = bench.subscriber(("t", 1))
    bench.broker.full(bench.now, slow.client)
    bench.pass_time(1)
    bench.connect("p").send(*(mqtt.publish("t", b"%d" % n, 1, n) for n in range(1, 4)))
    assert slow.read() == []
    bench.broker.free(bench.now, slow.client)
    assert slow.payloads() == [b"1", b"2", b"3"]


def test_a_publisher_that_leaves_while_it_is_held_is_forgotten() -> None:
    bench = Bench()
    slow = bench.subscriber(("t", 0))
    publisher = bench.connect("p")
    bench.broker.full(bench.now, slow.client)
    publisher.send(mqtt.publish("t", b"1"))
    publisher.leave()
    slow.leave()
    assert len(bench.broker.clients) == 0
