"""Subscriptions that ask for less: a limited rate, not one's own messages, several patterns in one."""

from __future__ import annotations

import pytest

from glue import ConfigurationError, Message, TopicError
from glue.simulation import SimulatedEndpoint, World


def pair(world: World) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints that know each other."""
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    return one, other


def payloads(messages: list[Message]) -> list[object]:
    return [message.payload for message in messages]


def stream(world: World, publisher: SimulatedEndpoint, topic: str, count: int, seconds: float) -> None:
    """Publish 0, 1, 2, ... at regular times."""
    for number in range(count):
        publisher.publish(topic, number)
        world.run(seconds / count)


def test_several_patterns_give_each_message_once() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe(["a/#", "+/b", "c"])
    world.run(0.1)
    for topic in ("a/b", "a", "c", "d", "x/b"):
        one.publish(topic, topic)
    world.run(0.1)
    assert payloads(heard.received) == ["a/b", "a", "c", "x/b"]
    heard.close()
    world.run(0.1)
    assert one.subscribers("a/b") == one.subscribers("c") == []


def test_several_patterns_give_a_retained_value_once() -> None:
    world = World()
    one, other = pair(world)
    one.publish("a/b", 1, retain=True)
    heard, own = other.subscribe(["a/#", "+/b"]), one.subscribe(["a/#", "+/b"])
    world.run(0.2)
    assert payloads(heard.received) == payloads(own.received) == [1]


def test_without_local_ones_own_messages_stay_out() -> None:
    world = World()
    one, other = pair(world)
    remote, all_of_them = one.subscribe("t", local=False), one.subscribe("t")
    world.run(0.1)
    one.publish("t", "own", retain=True)
    other.publish("t", "foreign")
    world.run(0.1)
    late = one.subscribe("#", local=False)
    world.run(0.1)
    assert payloads(remote.received) == ["foreign"]
    assert payloads(all_of_them.received) == ["own", "foreign"]
    assert payloads(late.received) == []


def test_a_limited_rate_gives_the_latest_value_and_the_network_carries_no_more() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("sensor/+", max_rate=10)
    world.run(0.1)
    before = one.statistics["topics"]["messages owed"]
    stream(world, one, "sensor/a", 1000, 1.0)
    world.run(0.5)
    assert 10 <= len(heard.received) <= 12
    assert payloads(heard.received)[-1] == 999
    assert {message.topic for message in heard.received} == {"sensor/a"}
    assert one.statistics["topics"]["messages owed"] - before == len(heard.received)
    assert one.statistics["topics"]["messages to nobody"] == 0


def test_a_limited_rate_counts_for_each_topic_and_leaves_others_alone() -> None:
    world = World()
    one, other = pair(world)
    slow, full, own = other.subscribe("#", max_rate=1), other.subscribe("b"), one.subscribe("#", max_rate=1)
    gaps: list[object] = []
    other.on_gap = gaps.append
    world.run(0.1)
    for number in range(5):
        one.publish("a", number)
        one.publish("b", number)
    world.run(3.0)
    for heard in (slow, own):
        found = [(message.topic, message.payload) for message in heard.received]
        assert sorted(found) == [("a", 0), ("a", 4), ("b", 0), ("b", 4)]
    assert payloads(full.received) == [0, 1, 2, 3, 4]
    assert gaps == []


def test_a_limited_subscription_gets_retained_values_and_what_clears_them() -> None:
    world = World()
    one, other = pair(world)
    one.publish("a", "old", retain=True)
    first = other.subscribe("a", max_rate=5)
    world.run(0.3)
    one.publish("a", "new", retain=True)
    world.run(0.3)
    third = world.endpoint("third")
    assert world.run_until(lambda: len(third.peers) == 2, 5)
    late = third.subscribe("a", max_rate=5)
    world.run(0.3)
    assert [(message.payload, message.retained) for message in first.received] == [("old", True), ("new", False)]
    assert [(message.payload, message.retained) for message in late.received] == [("new", True)]
    for heard in (first, late):
        heard.close()
    world.run(0.3)
    one.publish("a", "", retain=True)
    again = third.subscribe("a", max_rate=5)
    world.run(0.3)
    assert again.received == []


def test_a_value_that_expires_while_it_waits_is_not_sent() -> None:
    world = World()
    one, other = pair(world)
    heard = other.subscribe("a", max_rate=1)
    world.run(0.1)
    for number in range(3):
        one.publish("a", number, lifespan=0.5)
        world.run(0.01)
    world.run(2.0)
    assert payloads(heard.received) == [0]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_rate": 0}, "max_rate=0: expected messages a second"),
        ({"max_rate": 2000}, "max_rate=2000"),
        ({"max_rate": True}, "max_rate=True"),
        ({"local": None}, "local=None: expected True or False"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], complaint: str) -> None:
    endpoint = World().endpoint()
    with pytest.raises(ConfigurationError, match=complaint):
        endpoint.subscribe("a", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="subscribe\\(\\) has no option 'rate'"):
        endpoint.subscribe("a", rate=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("pattern", [[], ["a", ""], ["a", 1], {"a": 1}, ["$glue/limited/10/a"]])
def test_wrong_patterns_are_refused(pattern: list[str]) -> None:
    with pytest.raises(TopicError):
        World().endpoint().subscribe(pattern)
