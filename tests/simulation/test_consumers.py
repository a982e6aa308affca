"""Durable consumers: they go on where they left off, share the work, and no message is committed twice."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import glue
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.simulation.consumer_swarm import BUGS, hunt, run
from tests.support.planting import seeds_to_find

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


def test_a_member_that_dies_moves_only_its_part_within_two_seconds() -> None:
    world = World()
    home(world)
    publisher = world.endpoint("publisher")
    members = [world.endpoint(f"member{number}") for number in range(3)]
    world.run(SECOND)
    received: list[list[glue.Message]] = [[], [], []]
    for member, handled in zip(members, received, strict=True):
        member.subscribe("orders/#", handled.append, consumer="billing", ordered=True, handling_time=0.01)
    world.run(SECOND)
    for number in range(200):
        world.after(number / 40, lambda number=number: publish(publisher, number, topic=f"orders/{number % 20}"))  # type: ignore[misc]
    world.run(2.5)
    members[0].crash()
    before = [len(handled) for handled in received]
    world.run(2.0)
    topics = [{message.topic for message in handled} for handled in received]
    assert topics[1] | topics[2] == {f"orders/{number}" for number in range(20)}, "the part of the dead has moved"
    assert all(len(one) > some + 12 for one, some in zip(received[1:], before[1:], strict=True))
    moved = {message.topic for message in received[0]}
    world.run(4.0)
    for handled in received[1:]:
        again = [message for message in handled if message.redelivered]
        assert {message.topic for message in again} <= moved
        for topic in topics[1] | topics[2]:
            numbers = [message.payload for message in handled if message.topic == topic]
            assert numbers == sorted(numbers)
    assert {message.payload for handled in received for message in handled} == set(range(200))


def test_one_that_is_away_delays_nobody_and_gets_everything_in_order_after_a_restart_of_the_publisher() -> None:
    world = World()
    publisher, disk = world.endpoint("publisher"), SimulatedDisk(Random(1))
    live = world.endpoint("live").subscribe("orders/#")
    world.run(SECOND)

    def begin() -> None:
        publisher.keep("orders/#", directory=disk)

    begin()
    away = world.endpoint("away")
    consumer = away.subscribe("orders/#", consumer="billing")
    publish(publisher, 0)
    world.run(SECOND)
    away.crash()
    for life in range(3):
        publish(publisher, *range(life * 100 + 1, life * 100 + 101))
        world.run(SECOND)
        assert len(live.received) == 1 + 100 * (life + 1), "others are not delayed"
        publisher.crash()
        disk.crash()
        world.run(20.0)
        publisher.restart()
        begin()
        world.run(SECOND)
    alerts: list[Any] = []
    publisher.on_consumer_alert = alerts.append
    world.run(70.0)
    assert [alert.kind for alert in alerts] == ["stuck"]
    away.restart()
    back = away.subscribe("orders/#", consumer="billing")
    world.run(2.0)
    assert payloads(consumer) + payloads(back) == [*range(301)]


def test_a_member_at_the_keeper_itself() -> None:
    world = World()
    keeper, _ = home(world)
    consumer = keeper.subscribe("orders/#", consumer="billing", start="latest")
    world.run(SECOND)
    publish(keeper, 1, 2)
    world.run(SECOND)
    assert payloads(consumer) == [1, 2]


@pytest.mark.parametrize(
    "options",
    [{"group": "a"}, {"last": 3}, {"start": 7}, {"local": False}, {"max_rate": 3.0}, {"policy": "drop_oldest"},
     {"limit": 7}, {"consumer": "a/b"}, {"consumer": ""}, {"ordered": 3}],
)  # fmt: skip
def test_what_a_consumer_cannot_have_is_refused(options: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(glue.ConfigurationError):
        world.endpoint("member").subscribe("orders/#", **{"consumer": "billing", **options})


def test_other_messages_cannot_be_acknowledged() -> None:
    world = World()
    publisher, plain = world.endpoint("publisher"), world.endpoint("plain")
    subscription = plain.subscribe("orders/#")
    with pytest.raises(glue.ConfigurationError, match="consumer="):
        plain.subscribe("orders/#", by_hand=True)
    world.run(SECOND)
    publish(publisher, 1)
    world.run(SECOND)
    with pytest.raises(glue.ConfigurationError, match="consumer="):
        subscription.received[0].acknowledge()


def test_everything_is_handled_and_nothing_is_committed_twice() -> None:
    assert hunt(0, 3) > 200


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_found(bug: Any) -> None:
    assert seeds_to_find(run, range(BUGS[bug], BUGS[bug] + 12), bug) is not None


def test_a_battery_node_is_awake_for_less_than_100_ms_a_cycle_and_misses_nothing() -> None:
    world = World()
    home(world)
    publisher, node = world.endpoint("publisher"), world.endpoint("node")
    world.run(SECOND)
    number, handled, awake = 0, list[Any](), list[float]()
    node.close()
    world.run(SECOND)
    for cycle in range(5):
        for _ in range(20):
            publish(publisher, number)
            number += 1
            world.run(3.0)
        node.restart()
        began = world.time
        node.subscribe("orders/#", lambda message: handled.append(message.payload), consumer="node")
        node.publish("state/node", cycle)
        assert world.run_until(lambda wanted=number: len(handled) == wanted, 1.0)  # type: ignore[misc]
        node.close()
        assert world.run_until(lambda: node._state is None, 1.0)
        awake.append(world.time - began)
    assert handled == [*range(100)]
    assert max(awake) < 0.1, awake
