"""What keepers list, and what they do not: young streams, long topics, rare topics; and keepers far away."""

from __future__ import annotations

from typing import Any

import pytest

from glue.simulation import Conditions, World
from tests.simulation.test_keepers_serve import SECOND, answers, kept


@pytest.mark.parametrize("cut_off", [0, 1])
@pytest.mark.parametrize(
    ("options", "first"), [({"start": "earliest"}, 1), ({"last": 8}, 13), ({"start": "-0.1s"}, 11)]
)
def test_a_young_stream_that_a_keeper_does_not_list_begins_with_another_keeper(
    options: dict[str, Any], first: int, cut_off: int
) -> None:
    world = World()
    publisher, keeping = kept(world, 2, 0)
    publisher.remember("log/#", last=5)
    world.run(20 * SECOND)
    world.network.block(publisher.host, keeping[cut_off].host)
    for number in range(1, 21):
        if number == 11:
            world.run(0.1)
        publisher.publish("log/a", number)
    world.run(0.05)
    late = world.endpoint("late").subscribe("log/#", **options)
    world.run(5 * SECOND)
    assert [message.payload for message in late.received] == list(range(first, 21))


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(("count", "length"), [(600, 1000), (5, 60_000), (2, 0)])
def test_history_of_topics_with_long_names_comes(keeps: bool, count: int, length: int) -> None:
    world = World()
    publisher, _ = kept(world, int(keeps), 0)
    publisher.remember("log/#", last=1)
    for number in range(count):
        publisher.publish(f"log/{number}/" + ("\1" * 65_000 if not length else "x" * length), number)
        world.run(0.001)
    world.run(SECOND)
    if keeps:
        publisher.crash()
        world.run(10 * SECOND)
    late = world.endpoint("late").subscribe("log/#", start="earliest")
    world.run(3 * SECOND)
    assert sorted(message.payload for message in late.received) == [*range(count)]


def test_what_was_published_since_a_time_comes_of_rare_topics_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.history.kept.SINCE_RECORDS", 30)
    world = World()
    publisher, _ = kept(world, 1, 100)
    for number in range(1, 4):
        publisher.publish("log/rare", number)
        world.run(0.1)
    world.run(60 * SECOND)
    for number in range(101, 201):
        publisher.publish("log/a", number)
        world.run(0.01)
    publisher.publish("log/rare", 4)
    world.run(SECOND)
    publisher.crash()
    world.run(10 * SECOND)
    late = world.endpoint("late").subscribe("log/#", start="-30s")
    world.run(5 * SECOND)
    came = [(message.topic, message.payload) for message in late.received]
    assert sorted(came) == sorted([*(("log/a", number) for number in range(101, 201)), ("log/rare", 4)])


def test_a_keeper_far_away_is_asked_once_for_each_page() -> None:
    world = World()
    _, (keeper, *_) = kept(world, 1, 100)
    world.network.set_conditions(Conditions(delay=0.2))
    late = world.endpoint("late")
    world.run(2 * SECOND)
    before = answers([keeper])
    received = late.subscribe("log/#", start="earliest")
    world.run(1.5 * SECOND)
    assert len(received.received) == 100
    assert answers([keeper]) - before <= 5


def test_a_new_keeper_fetches_all_from_one_with_a_topic_of_which_everything_was_removed() -> None:
    world = World()
    publisher, keeper, late = (world.endpoint(name) for name in ("publisher", "keeper", "late"))
    keeper.keep("log/#", size=4000)
    world.run(2 * SECOND)
    publisher.publish("log/old", 0)
    for number in range(1000):
        publisher.publish("log/new", bytes(100))
        world.run(0.02 if number % 20 == 0 else 0.0)
    publisher.publish("log/new", number)
    world.run(2 * SECOND)
    publisher.crash()
    late.keep("log/#", size=4000)
    world.run(5 * SECOND)
    states = {stream.topic: state for stream, state in keeper._keepers[0].log.streams(lambda topic: True)}
    assert states["log/old"].first_kept == 2, "nothing is left"
    (found,) = [[*state.durable] for _, state in late._keepers[0].log.streams(lambda topic: True)]
    assert found == [(states["log/new"].first_kept, 1002)]


def test_what_a_reader_missed_later_comes_though_the_publishers_clock_is_behind() -> None:
    world = World()
    publisher, _ = kept(world, 1, 10)
    publisher.host.wall_offset = -60.0
    world.run(3 * SECOND)
    late = world.endpoint("late")
    received = late.subscribe("log/#", start="-1s").received
    world.run(5 * SECOND)
    for number in range(11, 31):
        if number == 16:
            world.network.block(publisher.host, late.host)
        if number == 26:
            world.network.heal()
            world.run(5 * SECOND)
        publisher.publish("log/a", number)
        world.run(1.5)
    world.run(5 * SECOND)
    assert [message.payload for message in received][-20:] == list(range(11, 31))
