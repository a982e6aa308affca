"""Identifiers of subscriptions: what a client sorts its messages by is there however late they come."""

from __future__ import annotations

import pytest

from tests.gateway.mqtt.test_durable import HOUR, Restarts
from tests.support import mqtt


@pytest.mark.parametrize("is_crash", [False, True])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_message_keeps_the_identifiers_of_its_subscriptions_until_the_client_is_back(
    is_under_way: bool, is_crash: bool
) -> None:
    door = Restarts()
    publisher = door.connect("p")
    publisher.send(mqtt.publish("kept", b"retained", 1, 1, True, version=5))
    subscriber = door.connect("s")
    subscriber.send(mqtt.subscribe(1, ("#", 1), version=5, raw=b"\x0b\x07"))
    subscriber.send(mqtt.subscribe(2, ("t", 1), version=5, raw=b"\x0b\x08"))
    subscriber.send(mqtt.subscribe(3, ("$share/g/t", 1), version=5, raw=b"\x0b\x09"))
    if not is_under_way:
        door.sync()
        for number in [one.number for one in map(mqtt.publication, subscriber.read()[3:]) if one.number]:
            subscriber.send(mqtt.acknowledge(4, number))
        subscriber.leave()
    publisher.send(mqtt.publish("t", b"new", 1, 1, version=5))
    door.sync()
    if is_under_way:
        subscriber.leave()
    if is_crash:
        door.crash()
    back = door.bench.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
    door.sync()
    found = [mqtt.publication(one, 5) for one in back.read()[1:]]
    ordinary, shared = (b"new", b"\x0b\x07\x0b\x08"), (b"new", b"\x0b\x09")
    assert [(one.payload, one.properties) for one in found] == [
        *([(b"retained", b"\x0b\x07")] * is_under_way), ordinary, shared
    ]  # fmt: skip
