"""Of several keepers, as many as wanted keep each topic; another one takes the place of a lost one."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.history import healing
from glue.simulation import SimulatedEndpoint, World

SECOND = 1.0


def pages(keeping: list[SimulatedEndpoint]) -> int:
    return sum(keeper.statistics["endpoint"]["pages of history"] for keeper in keeping)


def spread(world: World, count: int, replicas: int) -> tuple[SimulatedEndpoint, list[SimulatedEndpoint]]:
    """A publisher, and keepers of which so many keep each topic."""
    publisher = world.endpoint("publisher")
    keeping = [world.endpoint(f"keeper{number}") for number in range(count)]
    for keeper in keeping:
        keeper.keep("log/#", replicas=replicas)
    world.run(3 * SECOND)
    return publisher, keeping


def holders(keeping: list[SimulatedEndpoint]) -> Counter[str]:
    """By topic, how many keepers have a message of it."""
    found: Counter[str] = Counter()
    for keeper in keeping:
        if keeper.is_running:
            found.update({stream.topic for stream, _ in keeper._keepers[0].log.streams(lambda topic: True)})
    return found


def test_of_eight_keepers_two_keep_each_topic_and_a_reader_asks_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "INTERVAL", 1e9)  # keepers ask each other when they meet alone
    world = World()
    publisher, keeping = spread(world, 8, replicas=2)
    topics = [f"log/{number}" for number in range(64)]
    for topic in topics:
        for payload in range(5):
            publisher.publish(topic, payload)
    world.run(SECOND)
    assert holders(keeping) == dict.fromkeys(topics, 2)
    sizes = [len([*keeper._keepers[0].log.streams(lambda topic: True)]) for keeper in keeping]
    assert min(sizes) > 4
    publisher.crash()
    world.run(10 * SECOND)
    before, handled = pages(keeping), sum(keeper.accounting.received["handled"] for keeper in keeping)
    reader = world.endpoint("reader")
    late = reader.subscribe("log/#", start="earliest")
    assert world.run_until(lambda: len(late.received) == 5 * 64, 0.5)
    asked = sum(keeper.accounting.received["handled"] for keeper in keeping) - handled
    assert pages(keeping) - before == asked <= 2 * 8


@pytest.mark.parametrize("replicas", [1, 2])
def test_another_keeper_takes_the_place_of_a_lost_one_without_a_gap(replicas: int) -> None:
    world = World()
    publisher, keeping = spread(world, 4, replicas)
    publisher.publish("log/a", 0)
    world.run(20 * SECOND)
    lost = next(keeper for keeper in keeping if holders([keeper]))
    first = 0 if replicas > 1 else 1  # the message that the lost keeper had alone
    for number in range(1, 31):
        publisher.publish("log/a", number)
        world.run(0.5)
        if number == 1:
            lost.crash()
    assert holders(keeping) == {"log/a": replicas}
    publisher.crash()
    world.run(10 * SECOND)
    late = world.endpoint("reader").subscribe("log/#", start="earliest")
    world.run(5 * SECOND)
    assert [message.payload for message in late.received] == list(range(first, 31))


def test_a_keeper_that_comes_takes_topics_over_without_a_gap() -> None:
    world = World()
    publisher, keeping = spread(world, 2, replicas=1)
    topics = [f"log/{number}" for number in range(16)]
    for number in range(60):
        for topic in topics:
            publisher.publish(topic, number)
        world.run(0.1)
        if number == 20:
            keeping.append(world.endpoint("late keeper"))
            keeping[-1].keep("log/#", replicas=1)
    assert holders(keeping[-1:]) != {}
    publisher.crash()
    world.run(10 * SECOND)
    late = world.endpoint("reader").subscribe("log/#", start="earliest")
    world.run(10 * SECOND)
    assert len(late.received) == 60 * 16
