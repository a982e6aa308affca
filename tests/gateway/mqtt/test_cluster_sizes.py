"""What is too large for the model of a cluster harms nobody but who sends it: properties, wills, names, endpoints."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.cluster.keys import ROOM, is_small
from glue.gateway.mqtt.packets import Publish, Will
from tests.gateway.mqtt.test_cluster import HOUR, Cluster
from tests.support import mqtt

QUOTED = 20 * (b"\x26" + mqtt.text("k") + mqtt.text(30_000 * '"'))
"""Properties of 600 kB, which are twice as long as JSON."""


def test_an_endpoint_s_message_that_is_too_large_to_be_kept_costs_no_client_its_connection() -> None:
    cluster = Cluster()
    door, other = cluster.doors
    device, guest = cluster.connect(door), door.link(5)
    guest.send(mqtt.connect("guest", 5), mqtt.subscribe(1, ("t", 0), version=5))
    device.send(mqtt.subscribe(1, ("t", 1), version=5))
    cluster.settle()
    device.read(), guest.read()
    door.broker.is_chosen = True
    picture = bytes(2 << 20)
    for one in (door, other):
        one.broker.deliver(cluster.now, Publish("t", (b"1", picture, b"2"), 2))
    cluster.settle()
    assert [one.payload for one in device.messages()] == [b"1", b"2"]
    assert [len(one.payload) for one in guest.messages()] == [1, 2 << 20, 1], "who keeps nothing gets it at once"
    assert door.broker.statistics["messages dropped"] == 1
    door.broker.retain(Publish("r", (picture,), 1, True))
    device.send(mqtt.subscribe(2, ("r", 1), version=5))
    cluster.settle()
    assert [one.kind for one in device.read()] == [9]
    assert door.broker.statistics["messages dropped"] == 2


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publisher_of_properties_that_are_too_large_is_closed_alone(qos: int) -> None:
    cluster = Cluster()
    door = cluster.doors[0]
    device, guest = cluster.connect(door), door.link(5)
    guest.send(mqtt.connect("guest", 5), mqtt.publish("t", b"x", qos, 1, True, version=5, raw=QUOTED))
    cluster.settle()
    assert guest.is_closed() == (qos > 0)
    assert [sent.body[0] for sent in guest.read()[1:]] == [codes.PACKET_TOO_LARGE] * (qos > 0)
    assert door.broker.statistics["retained messages refused"] == (qos == 0)
    assert not device.is_closed()


def test_a_topic_counts_also_where_an_alias_stands_for_it() -> None:
    cluster = Cluster()
    guest = cluster.doors[0].link(5)
    topic, alias = 60_000 * "\x01", b"\x23\x00\x01"
    guest.send(mqtt.connect("guest", 5), mqtt.publish(topic, b"x", 1, 1, version=5, raw=alias))
    cluster.settle()
    assert [sent.kind for sent in guest.read()] == [2, 4]
    guest.send(mqtt.publish("", bytes(600_000), 1, 2, version=5, raw=alias))
    assert [sent.body[0] for sent in guest.read()] == [codes.PACKET_TOO_LARGE]


def test_a_will_that_is_too_large_is_refused_at_the_connect() -> None:
    cluster = Cluster()
    device = cluster.doors[0].link(5)
    device.send(mqtt.connect("s", 5, clean=False, raw=HOUR, will=("w", b"x", 1, False), will_raw=QUOTED))
    cluster.settle()
    assert [sent.body[1] for sent in device.read()] == [codes.PACKET_TOO_LARGE]
    assert device.is_closed()


def test_topic_filters_of_signs_that_json_writes_at_length_are_kept_in_parts() -> None:
    cluster = Cluster()
    device = cluster.connect(cluster.doors[0])
    device.read()
    wanted = [(f"{number}/" + 60_000 * "\x01", 1) for number in range(4)]
    device.send(mqtt.subscribe(1, *wanted, version=5))
    cluster.settle()
    assert [sent.body[3:] for sent in device.read()] == [b"\1" * 4]
    cluster.connect(cluster.doors[1])
    assert len(cluster.doors[1].broker.sessions["s"].subscriptions) == 4


def test_a_will_may_take_as_much_as_a_value_of_the_model_has_room_for() -> None:
    rest = ROOM - len('["",""' + ",1,false,{}]")
    assert is_small(Will("t" * (rest - 4), b"abc", 1, False)), "four characters in base64"
    assert not is_small(Will("t" * (rest - 3), b"abc", 1, False))
