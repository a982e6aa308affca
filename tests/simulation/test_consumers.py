"""Durable consumers: they go on where they left off, share the work, and no message is committed twice."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import glue
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk

SECOND = 1.0


def home(world: World, pattern: str = "orders/#") -> tuple[SimulatedEndpoint, SimulatedDisk]:
    """A keeper with a disk."""
    keeper, disk = world.endpoint("keeper"), SimulatedDisk(Random(1))
    keeper.keep(pattern, directory=disk)
    return keeper, disk


def publish(publisher: SimulatedEndpoint, *numbers: int, topic: str = "orders/a") -> None:
    for number in numbers:
        publisher.publish(topic, number)


def payloads(subscription: Any) -> list[Any]:
    return [message.payload for message in subscription.received]


def test_a_consumer_goes_on_where_it_left_off_on_another_machine() -> None:
    world = World()
    home(world)
    publisher, first, second = (world.endpoint(name) for name in ("publisher", "first", "second"))
    world.run(SECOND)
    publish(publisher, 1, 2, 3)
    consumer = first.subscribe("orders/#", consumer="billing")
    world.run(SECOND)
    assert payloads(consumer) == [1, 2, 3]
    first.close()
    publish(publisher, 4, 5)
    world.run(5 * SECOND)
    consumer = second.subscribe("orders/#", consumer="billing")
    world.run(SECOND)
    publish(publisher, 6)
    world.run(SECOND)
    assert payloads(consumer) == [4, 5, 6]
    assert not any(message.redelivered for message in consumer.received)
    assert {message.publisher for message in consumer.received} == {"publisher"}
    assert [message.sequence for message in consumer.received] == [4, 5, 6]


def test_what_a_crashed_member_had_comes_again_and_is_marked() -> None:
    world = World()
    home(world)
    publisher, first, second = (world.endpoint(name) for name in ("publisher", "first", "second"))
    world.run(SECOND)
    first.subscribe("orders/#", consumer="billing", by_hand=True)
    world.run(SECOND)
    publish(publisher, 1, 2)
    world.run(SECOND)
    second.subscribe("orders/#", consumer="billing", by_hand=True)
    first.crash()
    consumer = next(iter(second._subscriptions))
    world.run(2 * SECOND)
    assert payloads(consumer) == [1, 2]
    assert all(message.redelivered for message in consumer.received)


def test_the_position_survives_the_keeper() -> None:
    world = World()
    keeper, disk = home(world)
    publisher, member = world.endpoint("publisher"), world.endpoint("member")
    world.run(SECOND)
    consumer = member.subscribe("orders/#", consumer="billing")
    publish(publisher, *range(100))
    world.run(2 * SECOND)
    assert payloads(consumer) == [*range(100)]
    keeper.crash()
    disk.crash()
    world.run(10 * SECOND)
    keeper.restart()
    keeper.keep("orders/#", directory=disk)
    world.run(5 * SECOND)
    publish(publisher, 100)
    world.run(5 * SECOND)
    assert payloads(consumer) == [*range(101)]
    assert not consumer.received[-1].redelivered
