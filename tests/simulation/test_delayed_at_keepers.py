"""Delayed messages survive their publisher where their topic is kept."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.delayed import store as module
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.simulation.delayed_swarm import BUGS, run
from tests.support.planting import seeds_to_find


def place(world: World, keepers: int = 1) -> tuple[list[SimulatedEndpoint], SimulatedEndpoint, SimulatedEndpoint]:
    """Keepers with disks, a publisher and a subscriber that know each other."""
    made = [world.endpoint(f"keeper{number}") for number in range(keepers)]
    for keeper in made:
        keeper.keep("t/#", directory=SimulatedDisk(world.random(keeper.name)))
    publisher, ear = world.endpoint("publisher"), world.endpoint("ear")
    world.run(2)
    return made, publisher, ear


def hear(world: World, ear: SimulatedEndpoint, **options: Any) -> list[tuple[Any, str, float]]:
    """What comes: payload, publisher and time."""
    came: list[tuple[Any, str, float]] = []
    ear.subscribe("t/#", lambda it: came.append((it.payload, it.publisher, world.time)), **options)
    world.run(0.5)
    return came


@pytest.mark.parametrize("end", ["crash", "close", "restart"])
def test_one_keeper_publishes_what_a_gone_publisher_left(end: str) -> None:
    world = World()
    keepers, publisher, ear = place(world, 3)
    came, begin = hear(world, ear), world.time
    delayed = publisher.publish("t/a", "x", delay=20, receipt=True, acks=3, properties={"unit": "K"})
    world.run(1)
    assert delayed.receipt
    assert sorted(delayed.receipt.durable) == ["keeper0", "keeper1", "keeper2"]
    getattr(publisher, end)()
    world.run(60)
    ((payload, who, at),) = came
    assert (payload, who) in [("x", keeper.name) for keeper in keepers]
    assert at - begin == pytest.approx(20, abs=0.1)
    late = world.endpoint("late").subscribe("t/#", start="earliest")
    world.run(5)
    (message,) = late.received
    assert message.properties["unit"] == "K"
    assert message.properties["$delayed"].startswith(publisher.id)


def test_a_living_publisher_publishes_itself_and_keepers_hold_nothing_afterwards() -> None:
    world = World()
    keepers, publisher, ear = place(world, 2)
    came = hear(world, ear)
    publisher.publish("t/a", "x", delay=2)
    assert [writer.keeping.delayed.store.size for writer in (keepers[0]._writers or {}).values()] == [0]
    world.run(1)
    early = hear(world, world.endpoint("early"), start="earliest")
    assert not early  # history has nothing that is not due
    world.run(10)
    publisher.crash()
    world.run(30)
    assert [one[:2] for one in came] == [("x", "publisher")]
    assert [one[:2] for one in early] == [("x", "publisher")]
    for keeper in keepers:
        assert all(not writer.keeping.delayed.store.held for writer in (keeper._writers or {}).values())


def test_what_was_cancelled_does_not_come_from_keepers() -> None:
    world = World()
    _, publisher, ear = place(world, 2)
    came = hear(world, ear)
    delayed = publisher.publish("t/a", "x", delay=5)
    world.run(1)
    assert delayed.cancel()
    world.run(1)
    publisher.crash()
    world.run(30)
    assert came == []


def test_a_keeper_that_restarts_or_comes_late_has_them() -> None:
    world = World()
    (keeper,), publisher, ear = place(world)
    came, begin = hear(world, ear), world.time
    publisher.publish("t/a", "x", delay=40)
    world.run(1)
    keeper.crash()
    world.run(1)
    late = world.endpoint("late")
    late.keep("t/#")  # in memory; from the publisher
    world.run(1)
    publisher.crash()
    world.run(1)
    keeper.restart()
    keeper.keep("t/#", directory=SimulatedDisk(world.random("another disk")))  # it lost its disk; from the late one
    world.run(2)
    late.crash()
    world.run(60)
    ((payload, who, at),) = came
    assert (payload, who) == ("x", "keeper0")
    assert at - begin == pytest.approx(40, abs=0.1)


def test_a_keeper_that_missed_the_publication_publishes_it_for_those_who_missed_it_too() -> None:
    world = World()
    (keeper,), publisher, ear = place(world)
    other = world.endpoint("other")
    came, heard = hear(world, ear), hear(world, other)
    publisher.publish("t/a", "x", delay=12)
    world.run(1)
    world.network.partition([keeper.host, ear.host])
    world.run(7)  # the publisher is lost to them, and back before it is due
    world.network.heal()
    world.run(3)
    world.network.partition([keeper.host, ear.host])
    world.run(2)  # it is due, and not yet lost
    assert (came, [one[:2] for one in heard]) == ([], [("x", "publisher")])
    world.run(10)
    assert [one[:2] for one in came] == [("x", "keeper0")]
    world.network.heal()
    world.run(30)
    assert (len(came), len(heard)) == (1, 1)
    assert other.statistics["topics"]["copies of delayed messages dropped"] == 0


def test_a_keeper_that_was_away_for_a_moment_as_it_was_published_publishes_it_again() -> None:
    world = World()
    (keeper,), publisher, ear = place(world)
    came = hear(world, ear)
    publisher.publish("t/a", "x", delay=3)
    world.run(1)
    keeper.host.pause()
    world.run(9)  # it is lost, and misses the message
    keeper.host.resume()
    world.run(20)
    assert [one[:2] for one in came] == [("x", "publisher")]
    late = world.endpoint("late").subscribe("t/#", start="earliest")
    world.run(5)
    assert [message.payload for message in late.received] == ["x"]


def test_clocks_of_other_machines_do_not_count() -> None:
    world = World()
    keeper = world.endpoint("keeper", offset=5000.0)
    keeper.keep("t/#", directory=SimulatedDisk(world.random("disk")))
    publisher, ear = world.endpoint("publisher"), world.endpoint("ear")
    world.run(2)
    came, begin = hear(world, ear), world.time
    publisher.publish("t/a", "x", delay=20)
    world.run(1)
    publisher.crash()
    world.run(60)
    assert came[0][2] - begin == pytest.approx(20, abs=0.1)


def test_a_keeper_refuses_what_is_too_much_and_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    (keeper,), publisher, _ = place(world)
    monkeypatch.setattr(module, "MESSAGES", 2)
    sent = [publisher.publish("t/a", number, delay=60, receipt=True, acks="disk") for number in range(3)]
    world.run(1)
    receipts = [one.receipt for one in sent]
    assert [bool(receipt) for receipt in receipts] == [True, True, False]
    assert receipts[2] is not None
    assert "2 delayed messages of 2 bytes" in receipts[2].failure or "delayed messages" in receipts[2].failure
    assert keeper.statistics["endpoint"]["delayed messages refused: too many"] == 1


def test_without_keepers_a_receipt_with_acks_is_false_at_once() -> None:
    world = World()
    delayed = world.endpoint("alone").publish("t/a", 1, delay=1, receipt=True, acks="disk")
    assert delayed.receipt is not None
    assert delayed.receipt.complete
    assert not delayed.receipt
    assert "'t/a'" in delayed.receipt.failure


def test_forged_messages_about_delayed_ones_are_counted() -> None:
    world = World()
    (keeper,), publisher, ear = place(world)
    came = hear(world, ear)
    publisher.publish("t/a", "x", delay=5)
    world.run(1)
    topic = f"$glue/delayed/{keeper.id}"
    identity = publisher._core.identity
    for payload in (b"{", b'{"put":[[1]]}\n', b'{"gone":7}\n', b'{"gone":[["short",1,1]]}\n', b"[]\n"):
        publication = publisher._core.publication("x", payload, 0.0)
        publication.topic = topic
        ear._core.outbox.add(publication)
    gone = publisher._core.publication(
        "x", b'{"gone":[["%b",%d,1]]}\n' % (identity.endpoint_id.encode(), identity.incarnation), 0.0
    )
    gone.topic = topic
    ear._core.outbox.add(gone)  # it is neither the publisher nor a keeper
    ear._wake()
    world.run(1)
    assert keeper.statistics["endpoint"]["malformed messages about delayed messages"] == 5
    publisher.crash()
    world.run(20)
    assert [one[0] for one in came] == ["x"]


def test_the_identity_that_a_program_sets_is_left_out() -> None:
    world = World()
    _, publisher, ear = place(world)
    messages: list[glue.Message] = []
    ear.subscribe("t/#", messages.append)
    world.run(0.5)
    publisher.publish("t/a", 1, properties={"$delayed": "x", "a": "b"})
    publisher.publish("t/a", 2, properties={"$delayed": "x"})
    world.run(1)
    assert [dict(message.properties) for message in messages] == [{"a": "b"}, {}]


@pytest.mark.parametrize("seed", range(3))
def test_seeds(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: Any) -> None:
    assert seeds_to_find(run, range(BUGS[bug], BUGS[bug] + 1), bug), bug.__doc__
