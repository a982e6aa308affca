"""What clients send twice, or too early after a reconnect, reaches nobody twice; what no packet can hold, nobody."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.packets import Publish
from tests.gateway.mqtt.test_durable import HOUR, Restarts, messages, publish, subscribed
from tests.support import mqtt
from tests.support.mqtt import Bench


def test_a_message_of_qos_2_that_is_sent_twice_at_once_is_taken_once() -> None:
    bench = Bench()
    subscriber, publisher = bench.subscriber(("t", 0)), bench.connect("p")
    publisher.send(*(mqtt.publish("t", payload, 2, number) for payload, number in ((b"a", 1), (b"b", 2), (b"a", 1))))
    assert [one.body for one in publisher.read()] == [b"\0\1", b"\0\2", b"\0\1"], "each is acknowledged"
    assert subscriber.payloads() == [b"a", b"b"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_that_acknowledges_before_it_gets_anything_again_gets_nothing_twice(qos: int) -> None:
    door = Restarts()
    subscriber, publisher = subscribed(door, qos), door.connect("p")
    publish(door, publisher, 1, b"one", qos)
    publish(door, publisher, 2, b"two", qos)
    first, _ = (mqtt.publication(one, 5) for one in subscriber.read())
    subscriber.leave()
    publish(door, publisher, 3, b"three", qos)
    back = door.bench.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=HOUR), mqtt.acknowledge(3 + qos, first.number))
    if qos == 2:
        back.send(mqtt.acknowledge(7, first.number))
    door.sync()
    assert messages(back.read()) == [b"two", b"three"]


@pytest.mark.parametrize("version", [4, 5])
def test_a_message_that_no_packet_can_hold_is_dropped_and_holds_up_no_other(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.gateway.mqtt.codes.LARGEST_PACKET", 100)
    bench = Bench()
    device = bench.subscriber(("t", 1), version=version)
    for size in (150, 1):
        bench.broker.deliver(bench.now, Publish("t", (bytes(size),), 1))
    assert device.payloads() == [b"\0"]
    assert bench.broker.statistics["messages dropped"] == 1
