"""Presence and deadlines in virtual time: what comes and goes, and publishers that break their promise."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint.deadlines import Silence
from glue.endpoint.presence import Presence
from glue.simulation import SimulatedEndpoint, World


def endpoints(world: World, *names: str) -> list[SimulatedEndpoint]:
    """Endpoints that know each other."""
    made = [world.endpoint(name) for name in names]
    assert world.run_until(lambda: all(len(one.peers) == len(made) - 1 for one in made), 5)
    return made


def told(changes: list[Presence]) -> list[tuple[str, str, str, bool]]:
    found: list[tuple[str, str, str, bool]] = [
        (change.kind, change.name, change.pattern, change.present) for change in changes
    ]
    changes.clear()
    return found


def test_endpoints_and_their_roles_come_and_go() -> None:
    world = World()
    a, b = endpoints(world, "a", "b")
    b.subscribe("home/+/lamp")
    world.run(0.1)
    changes: list[Presence] = []
    watch = a.watch_presence("home/#", changes.append)
    world.run(0.1)
    assert told(changes) == [("endpoint", "b", "", True), ("subscriber", "b", "home/+/lamp", True)]
    announcement = b.announce("home/kitchen/lamp", publish_every=2)
    responder = b.respond("#", lambda request: None)
    other = b.announce("garden/#")
    member = b.subscribe("home/jobs", group="workers")
    world.run(0.1)
    assert told(changes) == [
        ("publisher", "b", "home/kitchen/lamp", True),
        ("responder", "b", "#", True),
        ("subscriber", "b", "home/jobs", True),
    ]
    announcement.close()
    announcement.close()
    responder.close()
    other.close()
    member.close()
    c = world.endpoint("c")
    world.run(0.5)
    assert sorted(told(changes)) == [
        ("endpoint", "c", "", True),
        ("publisher", "b", "home/kitchen/lamp", False),
        ("responder", "b", "#", False),
        ("subscriber", "b", "home/jobs", False),
    ]
    b.crash()
    c.close()
    world.run(10)
    assert [(change.name, change.kind, change.reason) for change in changes] == [
        ("c", "endpoint", "goodbye"), ("b", "subscriber", "expired"), ("b", "endpoint", "expired"),
    ]  # fmt: skip
    watch.close()
    changes.clear()
    world.endpoint("d")
    world.run(1)
    assert changes == []
    assert not a._core.observers


def test_a_watch_without_a_handler_gives_messages_and_a_restart_is_both() -> None:
    world = World()
    a, b = endpoints(world, "a", "b")
    watch = a.watch_presence()
    world.run(0.1)
    b.restart()
    world.run(1)
    changes = [message.payload for message in watch.received]
    assert [(change.name, change.present, change.reason) for change in changes] == [
        ("b", True, ""), ("b", False, "restarted"), ("b", True, ""),
    ]  # fmt: skip


def test_several_interests_of_one_pattern_are_one_role() -> None:
    world = World()
    a, b = endpoints(world, "a", "b")
    changes: list[Presence] = []
    a.watch_presence("t", changes.append)
    subscriptions = [b.subscribe("t"), b.subscribe("t", max_rate=5)]
    world.run(0.1)
    subscriptions[0].close()
    world.run(0.1)
    assert told(changes) == [("endpoint", "b", "", True), ("subscriber", "b", "t", True)]
    subscriptions[1].close()
    world.run(0.1)
    assert told(changes) == [("subscriber", "b", "t", False)]


def pair_with_deadline(world: World, **options: Any) -> tuple[SimulatedEndpoint, SimulatedEndpoint, list[Any]]:
    """A subscriber with a deadline of two seconds, a publisher, and what the subscriber is told."""
    a, b = endpoints(world, "a", "b")
    silences: list[tuple[str, str, float]] = []

    def note(silence: Silence) -> None:
        silences.append((silence.topic, silence.publisher, world.time))

    a.on_deadline = note
    a.subscribe("home/#", deadline=2, **options)
    world.run(0.1)
    return a, b, silences


def test_a_publisher_that_falls_silent_is_told_once_within_one_and_a_half_deadlines() -> None:
    world = World()
    _, b, silences = pair_with_deadline(world)
    b.announce("home/boiler", publish_every=2)
    for _ in range(5):
        b.publish("home/boiler", 1)
        world.run(2.0)
    assert silences == []
    last = world.time - 2.0
    world.run(20)
    ((topic, publisher, at),) = silences
    assert (topic, publisher) == ("home/boiler", "b")
    assert 2.0 <= at - last <= 3.0
    b.publish("home/boiler", 1)
    last = world.time
    world.run(20)
    assert len(silences) == 2
    assert 2.0 <= silences[1][2] - last <= 3.0


def test_a_promise_that_is_never_kept_or_ends_with_a_crash_is_told() -> None:
    world = World()
    _, b, silences = pair_with_deadline(world)
    b.announce("home/boiler", publish_every=1)
    begun = world.time
    world.run(5)
    assert [topic for topic, _, _ in silences] == ["home/boiler"]
    assert silences[0][2] - begun <= 3.1
    b.publish("home/boiler", 1)
    world.run(0.1)
    b.crash()
    world.run(20)
    assert len(silences) == 2


def test_without_a_fitting_promise_or_after_a_goodbye_nothing_is_told() -> None:
    world = World()
    a, b, silences = pair_with_deadline(world)
    b.publish("home/other", 1)
    b.announce("home/slow", publish_every=5)
    b.announce("home/none")
    b.announce("garden/x", publish_every=1)
    kept = b.announce("home/+", publish_every=1)
    for topic in ("home/slow", "home/none", "garden/x"):
        b.publish(topic, 1)
    kept.close()
    world.run(10)
    assert silences == []
    b.announce("home/#", publish_every=1)
    world.run(0.1)
    b.publish("home/a", 1)
    world.run(1)
    b.close()
    world.run(20)
    assert silences == []
    for subscription in list(a._subscriptions):
        subscription.close()
    assert not a._core.observers


def test_a_topic_under_a_promise_with_a_wildcard_is_watched_from_its_first_message() -> None:
    world = World()
    _, b, silences = pair_with_deadline(world, max_rate=100)
    b.announce("home/#", publish_every=1)
    world.run(10)
    assert silences == []
    b.publish("home/a", 1)
    world.run(10)
    assert [topic for topic, _, _ in silences] == ["home/a"]


@pytest.mark.parametrize("deadline", [0, -1, True, "2", float("inf")])
def test_wrong_deadlines_and_promises_are_refused(deadline: Any) -> None:
    endpoint = World().endpoint()
    with pytest.raises(glue.ConfigurationError, match="deadline="):
        endpoint.subscribe("t", deadline=deadline)
    with pytest.raises(glue.ConfigurationError, match="publish_every="):
        endpoint.announce("t", publish_every=deadline)
    with pytest.raises(glue.TopicError):
        endpoint.announce("$glue/x")
