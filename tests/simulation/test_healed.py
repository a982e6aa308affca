"""When a split network has healed, each program is told once: what was missed, recovered, gone, and in conflict."""

from __future__ import annotations

from typing import Any

import pytest

from glue.endpoint.healed import Healed, RetainedConflict, RetainedVersion
from glue.simulation import SimulatedEndpoint, World


def party(*names: str, **options: Any) -> tuple[World, list[SimulatedEndpoint], dict[str, list[Healed]]]:
    """Endpoints that know each other, and what each is told."""
    world, told = World(options.pop("seed", 0)), {}
    endpoints = [world.endpoint(name, **options) for name in names]
    for endpoint in endpoints:
        told[endpoint.name] = list[Healed]()
        endpoint.on_heal = told[endpoint.name].append
    world.run(3.0)
    return world, endpoints, told


def split(world: World, here: list[SimulatedEndpoint], there: list[SimulatedEndpoint], seconds: float = 10.0) -> None:
    world.network.partition([one.host for one in here], [one.host for one in there])
    world.run(seconds)


def heal(world: World) -> None:
    world.network.heal()
    world.run(8.0)


def test_what_was_missed_is_told_once_with_what_came_back_and_what_is_gone() -> None:
    world, (publisher, reader, plain), told = party("publisher", "reader", "plain")
    publisher.remember("log/#", last=5)
    received = reader.subscribe("log/#", start="latest")
    live = plain.subscribe("log/#")
    world.run(1.0)
    publisher.publish("log/a", 0)
    world.run(1.0)
    split(world, [publisher], [reader, plain])
    for number in range(1, 9):
        publisher.publish("log/a", number)
    world.run(1.0)
    heal(world)
    publisher.publish("log/a", 9)
    world.run(5.0)
    assert [message.payload for message in received.received] == [0, 4, 5, 6, 7, 8, 9]
    (healed,) = told["reader"]
    assert (healed.peers, healed.missed, healed.recovered, healed.gone) == (("publisher",), 8, 5, 3)
    assert 5 < healed.seconds < 15
    (other,) = told["plain"]
    assert (other.recovered, other.conflicts) == (0, ())
    assert [one.peers for one in told["publisher"]] == [("plain", "reader")]
    assert [message.payload for message in live.received] == [0, 9]


def test_a_keeper_tells_what_it_fetched() -> None:
    world, (publisher, one, two), told = party("publisher", "one", "two")
    for keeper in (one, two):
        keeper.keep("log/#")
    world.run(3.0)
    split(world, [publisher, one], [two])
    for number in range(20):
        publisher.publish("log/a", number)
    world.run(1.0)
    heal(world)
    (healed,) = told["two"]
    assert (healed.peers, healed.fetched) == (("one", "publisher"), 20)


@pytest.mark.parametrize("chooses", [False, True])
def test_a_retained_topic_written_on_both_sides_is_a_conflict_with_both_versions(chooses: bool) -> None:
    world, (here, there, reader), told = party("here", "there", "reader")
    asked: list[RetainedConflict] = []

    def choose(conflict: RetainedConflict) -> RetainedVersion | None:
        asked.append(conflict)
        return conflict.versions[0] if chooses else None

    reader.on_conflict = choose
    reader.subscribe("state/#")
    world.run(1.0)
    for topic in ("state/both", "state/one", "state/none"):
        here.publish(topic, "before", retain=True)
        there.publish(topic, "before", retain=True)
    world.run(10.0)
    split(world, [here, reader], [there])
    there.publish("state/both", "there", retain=True)
    there.publish("state/one", "there", retain=True)
    world.run(1.0)
    here.publish("state/both", "here", retain=True)
    world.run(1.0)
    heal(world)
    (healed,) = told["reader"]
    (conflict,) = healed.conflicts
    assert conflict.topic == "state/both"
    assert [(version.payload, version.publisher) for version in conflict.versions] == [
        ("there", "there"),
        ("here", "here"),
    ]
    assert conflict.stands.payload == ("there" if chooses else "here")
    assert [one.topic for one in asked] == ["state/both"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [False, True])
def test_all_subscribers_end_with_the_version_that_stands(seed: int, first: bool) -> None:
    world, (here, there, one, two, both), _ = party("here", "there", "one", "two", "both", seed=seed)
    for endpoint in (one, two, both, here):
        endpoint.on_conflict = lambda conflict: conflict.versions[0] if first else None
    live = [endpoint.subscribe("state") for endpoint in (one, two, both, here)]
    world.run(1.0)
    split(world, [here, one], [there, two, both])
    writers = [here, there]
    world.random("writers").shuffle(writers)
    for writer in writers:
        writer.publish("state", writer.name, retain=True)
        world.run(0.5)
    heal(world)
    stands = writers[0 if first else 1].name
    assert [reader.received[-1].payload for reader in live] == [stands] * 4
    before = [len(reader.received) for reader in live]
    world.run(30.0)
    assert [len(reader.received) for reader in live] == before


def test_a_version_that_stands_is_not_handed_over_after_a_later_value() -> None:
    world, (here, there, reader), _ = party("here", "there", "reader")
    live = reader.subscribe("state")
    world.run(1.0)
    split(world, [here, reader], [there])
    there.publish("state", "there", retain=True)
    world.run(1.0)
    here.publish("state", "here", retain=True)
    world.network.heal()

    reader.on_conflict = lambda conflict: here.publish("state", "later", retain=True)
    world.run(10.0)
    assert live.received[-1].payload == "later"


def test_a_side_that_wrote_itself_is_told_of_the_conflict() -> None:
    world, (here, there), told = party("here", "there")
    for endpoint in (here, there):
        endpoint.subscribe("state")
    world.run(1.0)
    split(world, [here], [there])
    for endpoint in (here, there):
        endpoint.publish("state", endpoint.name, retain=True)
        world.run(0.5)
    heal(world)
    for name in ("here", "there"):
        (conflict,) = told[name][0].conflicts
        assert [version.publisher for version in conflict.versions] == ["here", "there"]
        assert conflict.stands.publisher == "there"


def test_a_writer_with_a_slow_clock_writes_later_than_what_it_has_received() -> None:
    world = World()
    fast, slow = world.endpoint("fast"), world.endpoint("slow", offset=-20.0)
    received = fast.subscribe("state")
    slow.subscribe("state")
    world.run(3.0)
    for endpoint in (fast, slow, fast, slow):
        endpoint.publish("state", endpoint.name, retain=True)
        world.run(1.0)
    times = [message.published_at for message in received.received]
    assert times == sorted(times)
    assert len({*times}) == 4


def test_a_restart_and_a_goodbye_are_no_split() -> None:
    world, (_, there), told = party("here", "there")
    there.crash()
    world.run(10.0)
    there.restart()
    world.run(5.0)
    there.close()
    world.run(5.0)
    assert told["here"] == []


def test_a_handler_that_fails_is_counted_and_the_later_version_stands() -> None:
    world, (here, there), told = party("here", "there")
    here.subscribe("state")

    def fail(conflict: RetainedConflict) -> None:
        raise ValueError(conflict)

    here.on_conflict = fail
    world.run(1.0)
    split(world, [here], [there])
    for endpoint in (here, there):
        endpoint.publish("state", endpoint.name, retain=True)
        world.run(0.5)
    heal(world)
    assert told["here"][0].conflicts[0].stands.payload == "there"
    assert here.statistics["endpoint"]["handler failed"] == 1


def test_without_a_callback_the_log_names_the_topics_in_conflict(caplog: pytest.LogCaptureFixture) -> None:
    world, (one, other), _ = party("one", "other")
    one.on_heal = other.on_heal = None
    other.subscribe("mode/#")
    split(world, [one], [other])
    for number in range(7):
        one.publish(f"mode/{number}", "day", retain=True)
        world.run(0.1)
        other.publish(f"mode/{number}", "night", retain=True)
        world.run(0.1)
    caplog.clear()
    heal(world)
    told = [record.getMessage() for record in caplog.records if "in conflict" in record.message]
    assert any("7 topics in conflict: mode/0 (that of other stands), mode/1" in line for line in told)
    assert all(line.endswith("stands) …") for line in told)
