"""What a door must still have after a power cut, whatever was cleared, said again or not wanted before."""

from __future__ import annotations

import pytest

from tests.gateway.mqtt.test_durable import HOUR, Restarts, messages, publish, subscribed
from tests.support import mqtt


@pytest.fixture
def door() -> Restarts:
    return Restarts()


@pytest.mark.parametrize("is_away", [False, True])
def test_what_is_in_flight_outlives_the_clearing_of_the_log(door: Restarts, is_away: bool) -> None:
    subscriber, publisher = subscribed(door), door.connect("p")
    publish(door, publisher, 1, b"in flight")
    (found,) = [mqtt.publication(one, 5) for one in subscriber.read()]
    assert found.payload == b"in flight"
    subscriber.send(mqtt.subscribe(2, ("more", 1), version=5))
    subscriber.read()
    for number in range(2, 40):
        publisher.send(mqtt.publish("more", bytes(500), 1, number, version=5))
        door.sync()
        subscriber.send(*(mqtt.acknowledge(4, one.number) for one in subscriber.messages()))
    if is_away:
        subscriber.leave()
    door.bench.save()
    assert door.bench.store is not None
    assert door.bench.store.log.first == 0, "the first segment is needed"
    door.crash()
    assert messages(door.resume("s")[1]) == [b"in flight"]


def test_who_subscribes_again_when_it_is_back_misses_nothing_that_waited(door: Restarts) -> None:
    subscribed(door).leave()
    for number in (1, 2):
        publish(door, door.connect(f"p{number}"), 1, b"%d" % number)
    device = door.bench.link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR), mqtt.subscribe(1, ("t", 1), version=5))
    door.sync()
    assert messages(device.read()) == [b"1", b"2"]


def test_a_message_of_qos_2_that_no_session_keeps_is_taken_once_also_over_a_power_cut(door: Restarts) -> None:
    publisher = door.connect("p")
    publisher.send(mqtt.publish("nobody", b"x", 2, 7, version=5))
    door.sync()
    assert [one.kind for one in publisher.read()] == [5]
    assert len(door.bench.broker.published) == 1
    door.crash()
    publisher, _ = door.resume("p")
    publisher.send(mqtt.publish("nobody", b"x", 2, 7, dup=True, version=5), mqtt.acknowledge(6, 7))
    door.sync()
    assert [one.kind for one in publisher.read()] == [5, 7]
    assert door.bench.broker.published == []
