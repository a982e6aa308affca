"""A subscription to what is published from now on has all of it, also of streams that began while it was cut off."""

from __future__ import annotations

from typing import Any

import pytest

from glue.simulation import Conditions, SimulatedEndpoint, World


def begin(world: World, keepers: int, **options: Any) -> tuple[list[SimulatedEndpoint], SimulatedEndpoint]:
    """Keepers with old messages of a publisher."""
    keeping = [world.endpoint(f"keeper{number}") for number in range(keepers)]
    for keeper in keeping:
        keeper.keep("log/#", **options)
    old = world.endpoint("old")
    world.run(1)
    for number in range(10):
        old.publish("log/old", f"old {number}")
        old.publish("log/quiet", f"quiet {number}")
    world.run(2)
    return keeping, old


def payloads(subscription: Any) -> list[Any]:
    return [message.payload for message in subscription.received]


@pytest.mark.parametrize(
    ("keepers", "options", "start"),
    [
        (1, {}, {"start": "latest"}), (2, {}, {"start": "latest"}), (3, {"replicas": 1}, {"start": "latest"}),
        (1, {}, {"start": "-0s"}), (1, {}, {"last": 2}),
    ],
)  # fmt: skip
def test_a_stream_that_began_during_a_split_comes_as_a_whole(
    keepers: int, options: dict[str, Any], start: dict[str, Any]
) -> None:
    world = World()
    _, old = begin(world, keepers, **options)
    endpoint = world.endpoint("reader")
    reader = endpoint.subscribe("log/#", **start)
    world.run(3)
    before = len(reader.received)  # 2 of each stream with `last`
    assert before in (0, 4)
    world.network.partition([endpoint.host])
    world.run(8)
    new = world.endpoint("new")
    world.run(1)
    for number in range(5):
        new.publish("log/new", number)
        new.publish("log/ended", number)
    old.publish("log/quiet", "quiet still")
    world.run(1)
    world.network.heal()
    world.run(0.5)
    new.publish("log/new", 5)  # live, perhaps before the reader has looked what it missed
    world.run(10)
    came = payloads(reader)[before:]
    assert [one for one in came if isinstance(one, str)] == ["quiet still"]
    assert sorted(one for one in came if isinstance(one, int)) == sorted([*range(6), *range(5)])
    for topic, count in (("log/new", 6), ("log/ended", 5)):
        assert [message.payload for message in reader.received if message.topic == topic] == [*range(count)]


def test_a_new_life_of_a_publisher_that_remembers_comes_as_a_whole() -> None:
    world = World()
    endpoint, publisher = world.endpoint("reader"), world.endpoint("publisher")
    publisher.remember("log/#")
    world.run(1)
    publisher.publish("log/a", "old")
    world.run(1)
    reader = endpoint.subscribe("log/#", start="latest")
    world.run(1)
    publisher.publish("log/a", 1)
    world.run(1)
    world.network.partition([endpoint.host])
    world.run(8)
    publisher.restart()
    publisher.remember("log/#")
    for number in (2, 3):
        publisher.publish("log/a", number)
    world.run(2)
    world.network.heal()
    world.run(5)
    assert payloads(reader) == [1, 2, 3]


def test_nothing_old_comes_and_live_messages_do_not_wait() -> None:
    world = World()
    _, old = begin(world, 2)
    reader = world.endpoint("reader").subscribe("log/#", start="latest")
    assert world.run_until(lambda: len(old.subscribers("log/old")) == 3, 5)
    began = world.time
    old.publish("log/old", "now")
    old.publish("log/fresh", "now")
    assert world.run_until(lambda: len(reader.received) == 2, 5)
    assert world.time - began < 0.1
    world.run(20)
    assert payloads(reader) == ["now", "now"]


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_was_published_on_the_other_side_of_a_split_comes_from_whoever_is_met_later(is_kept: bool) -> None:
    world = World()
    endpoint, publisher = world.endpoint("reader"), world.endpoint("publisher")
    world.network.partition([endpoint.host])
    if is_kept:
        world.endpoint("keeper").keep("log/#")
        world.run(1)
    else:
        publisher.remember("log/#")
    publisher.publish("log/a", "old")
    publisher.publish("log/quiet", "old")
    world.run(1)
    reader = endpoint.subscribe("log/#", start="latest")
    world.run(3)
    for number in range(1, 4):
        publisher.publish("log/a", number)
        publisher.publish("log/b", number)
    world.run(1)
    world.network.heal()
    world.run(0.5)
    publisher.publish("log/a", 4)  # live, or before the two know each other
    world.run(10)
    for topic, expected in (("log/a", [1, 2, 3, 4]), ("log/b", [1, 2, 3]), ("log/quiet", [])):
        assert [message.payload for message in reader.received if message.topic == topic] == expected


def test_a_publisher_that_begins_soon_after_the_reader_is_read_from_its_beginning() -> None:
    world = World()
    endpoint = world.endpoint("reader")
    world.run(3)
    reader = endpoint.subscribe("log/#", start="latest")
    publisher = world.endpoint("publisher")
    world.network.partition([publisher.host])
    publisher.remember("log/#")
    publisher.publish("log/new", "first")
    world.run(0.1)
    world.network.heal()
    publisher.publish("log/new", "second")
    world.run(10)
    assert payloads(reader) == ["first", "second"]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_kept_value_is_not_followed_by_what_came_after_it_and_before_the_subscription(
    is_known: bool, loss: float
) -> None:
    world = World(4)
    publisher = world.endpoint("publisher")
    publisher.remember("t/#")
    reader = None
    if is_known:
        reader = world.endpoint("reader")
    world.run(1)
    publisher.publish("t/a", "kept", retain=True)
    for number in range(5):
        publisher.publish("t/a", number)
    world.run(1)
    subscription = (reader or world.endpoint("reader")).subscribe("t/#", start="latest")
    world.network.set_conditions(Conditions(loss=loss))
    world.run(6)
    assert payloads(subscription) == ["kept"]
    for number in range(5, 8):
        publisher.publish("t/a", number)
        world.run(0.1)
    world.network.set_conditions(Conditions())
    world.run(6)
    assert payloads(subscription) == ["kept", 5, 6, 7]
