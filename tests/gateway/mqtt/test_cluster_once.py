"""In a cluster each client gets a message once, whether its session stays or not, and the network gets it once, too."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.packets import Publish
from tests.gateway.mqtt.cluster_doors import Door
from tests.gateway.mqtt.test_cluster import Cluster, messages
from tests.support import mqtt
from tests.support.mqtt import Device


def guest(cluster: Cluster, door: Door, name: str, qos: int) -> Device:
    """A client whose session ends with its connection."""
    device = door.link(5)
    device.send(mqtt.connect(name, 5))
    cluster.settle()
    device.send(mqtt.subscribe(1, ("t", qos), version=5))
    cluster.settle()
    assert [one.kind for one in device.read()] == [2, 9]
    return device


def guests(cluster: Cluster) -> list[Device]:
    """At each door one guest for each QoS."""
    return [
        guest(cluster, door, f"guest {place}-{qos}", qos)
        for place, door in enumerate(cluster.doors)
        for qos in range(3)
    ]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_what_a_client_publishes_comes_once_and_not_before_it_is_committed(qos: int, retain: bool) -> None:
    cluster = Cluster()
    first, second = cluster.doors
    clients = [*guests(cluster), cluster.subscriber(second, ("t", 2))]
    publisher = cluster.connect(first, "p")
    publisher.send(mqtt.publish("t", b"once", qos, 1, retain, version=5))
    assert [messages(client) for client in clients] == [[]] * 7
    assert first.broker.published == []
    cluster.settle()
    assert [messages(client) for client in clients] == [[b"once"]] * 7
    assert [(run.topic, [*run.payloads]) for run in first.broker.published] == [("t", [b"once"])]
    assert second.broker.published == []
    assert [len(door.broker.retained) for door in cluster.doors] == [retain] * 2
    cluster.pass_time(1.0)
    assert [messages(client) for client in clients] == [[]] * 7


@pytest.mark.parametrize("retain", [False, True])
def test_of_qos_0_the_clients_of_the_door_get_it_at_once_and_the_network_passes_it_on(retain: bool) -> None:
    cluster = Cluster()
    first, second = cluster.doors
    clients = guests(cluster)
    publisher = cluster.connect(first, "p")
    publisher.send(mqtt.publish("t", b"once", 0, 0, retain, version=5))
    assert [messages(client) for client in clients] == [[b"once"]] * 3 + [[]] * 3
    assert len(first.broker.published) == 1
    cluster.settle()
    second.broker.deliver(second.now, first.broker.published.pop())
    cluster.settle()
    assert [messages(client) for client in clients] == [[]] * 3 + [[b"once"]] * 3
    assert [len(door.broker.retained) for door in cluster.doors] == [retain] * 2
    assert [door.broker.published for door in cluster.doors] == [[], []]


def test_what_an_endpoint_publishes_comes_to_guests_from_it_and_to_others_from_the_log() -> None:
    cluster = Cluster()
    cluster.pass_time(0.0)
    clients = guests(cluster)
    staying = cluster.subscriber(cluster.doors[0], ("t", 1))
    for door in cluster.doors:
        door.broker.deliver(door.now, Publish("t", (b"once",), 2))
    assert [messages(client) for client in clients] == [[b"once"]] * 6
    assert messages(staying) == []
    cluster.settle()
    assert messages(staying) == [b"once"]
    assert [messages(client) for client in clients] == [[]] * 6
    assert [door.broker.published for door in cluster.doors] == [[], []]
