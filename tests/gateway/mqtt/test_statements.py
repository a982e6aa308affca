"""Statements of the specifications about the broker, each with little to do with the others, in virtual time."""

from __future__ import annotations

import pytest

from tests.support import mqtt
from tests.support.mqtt import Bench

VERSIONS = (3, 4, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscribe_is_answered_with_its_packet_id_and_a_code_for_each_filter(version: int) -> None:
    bench = Bench()
    subscriber = bench.connect("s", version)
    subscriber.send(mqtt.subscribe(0x107, ("a", 2), ("b", 0), ("a", 1), version=version))
    middle = b"\0" if version == 5 else b""
    assert subscriber.read() == [mqtt.Sent(9, 0, b"\x01\x07" + middle + b"\2\0\1")]


def test_a_subscription_to_the_same_filter_replaces_the_former_one_and_loses_nothing() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2))
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("t", b"before", 2, 1))
    subscriber.send(mqtt.subscribe(2, ("t", 0)))
    publisher.send(mqtt.publish("t", b"after", 2, 2))
    before, answer, after = subscriber.read()
    assert [mqtt.publication(sent).payload for sent in (before, after)] == [b"before", b"after"]
    assert [mqtt.publication(sent).qos for sent in (before, after)] == [2, 0]
    assert answer.kind == 9


def test_the_dup_flag_of_a_publisher_is_not_passed_on() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 1))
    bench.connect("p").send(mqtt.publish("t", b"x", 1, 1, dup=True))
    assert [one.dup for one in subscriber.messages()] == [False]


def test_a_message_that_its_receiver_refuses_is_not_sent_again_and_to_no_other_member() -> None:
    bench = Bench()
    hour = b"\x11\0\0\x0e\x10"
    receiver = bench.subscriber(("$share/g/t", 1), version=5, clean=False, raw=hour)
    bench.connect("p").send(mqtt.publish("t", b"x", 1, 1))
    (message,) = receiver.messages()
    other = bench.subscriber(("$share/g/t", 1), client_id="o")
    receiver.send(mqtt.packet(0x40, message.number.to_bytes(2, "big"), b"\x80"))
    receiver.leave()
    again = bench.link(5)
    again.send(mqtt.connect("s", 5, clean=False, raw=hour))
    assert [sent.kind for sent in again.read()] == [2]
    assert other.read() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_session_present_tells_whether_there_was_a_session(version: int) -> None:
    bench = Bench()
    hour = b"\x11\0\0\x0e\x10" if version == 5 else b""
    found = []
    for clean in (False, False, True):
        device = bench.link(version)
        device.send(mqtt.connect("c", version, clean, raw=hour))
        (answer,) = device.read()
        found.append(answer.body[:2])
        device.leave()
    assert found == [b"\0\0", b"\1\0" if version > 3 else b"\0\0", b"\0\0"]


def test_qos_2_of_a_shared_subscription_stays_with_its_member() -> None:
    bench = Bench()
    seconds = b"\x11\0\0\0\x05"
    first = bench.subscriber(("$share/g/t", 2), client_id="a", version=5, raw=seconds)
    bench.connect("p").send(mqtt.publish("t", b"x", 2, 1))
    (message,) = first.messages()
    other = bench.subscriber(("$share/g/t", 2), client_id="b")
    first.leave()
    again = bench.link(5)
    again.send(mqtt.connect("a", 5, clean=False, raw=seconds))
    assert mqtt.publication(again.read()[1], 5) == message._replace(dup=True)
    again.leave()
    bench.pass_time(6)
    assert "a" not in bench.broker.sessions
    assert other.read() == []


def test_what_is_under_way_is_completed_after_an_unsubscribe() -> None:
    bench = Bench()
    subscriber = bench.subscriber(("t", 2), clean=False)
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("t", b"x", 1, 1), mqtt.publish("t", b"y", 2, 2))
    x, y = subscriber.messages()
    subscriber.send(mqtt.unsubscribe(3, "t"))
    publisher.send(mqtt.publish("t", b"z", 2, 3))
    subscriber.leave()
    again = bench.link()
    again.send(mqtt.connect("s", clean=False), mqtt.acknowledge(4, x.number), mqtt.acknowledge(5, y.number))
    found = again.read()
    assert [mqtt.publication(sent) for sent in found if sent.kind == 3] == [x._replace(dup=True), y._replace(dup=True)]
    assert found[-1] == mqtt.Sent(6, 2, y.number.to_bytes(2, "big"))
