"""What an endpoint forgets or keeps no more, in virtual time: who is served then, and what goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import glue
from glue.endpoint.offers import served_by
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.consensus import SimulatedDisk

SECOND = 1.0


def got(world: World, name: str, pattern: str = "#") -> list[Any]:
    """What a newcomer gets of the past."""
    endpoint = world.endpoint(name)
    late = endpoint.subscribe(pattern, start="earliest")
    world.run(SECOND)
    endpoint.close()
    return sorted(message.payload for message in late.received)


def test_what_is_forgotten_is_served_no_more_and_the_rest_is() -> None:
    world = World()
    publisher = world.endpoint("publisher")
    with pytest.raises(glue.ConfigurationError, match=r"^'a/#' is not remembered; what is: nothing$"):
        publisher.forget("a/#")
    publisher.remember("a/#")
    publisher.remember("b/#")
    for number in range(3):
        publisher.publish("a/x", number)
        publisher.publish("b/x", 10 + number)
    world.run(SECOND)
    assert got(world, "early") == [0, 1, 2, 10, 11, 12]
    publisher.forget("a/#")
    with pytest.raises(glue.ConfigurationError, match=r"^'a/#' is not remembered; what is: b/#$"):
        publisher.forget("a/#")
    publisher.publish("a/x", 3)
    publisher.publish("b/x", 13)
    world.run(SECOND)
    assert got(world, "late") == [10, 11, 12, 13]
    publisher.remember("a/#")
    assert got(world, "again", "a/#") == [], "what is forgotten does not come back"
    publisher.remember("a/#", last=2)
    publisher.remember("a/#", last=1)  # a second call changes its limits
    for number in (4, 5):
        publisher.publish("a/x", number)
    world.run(SECOND)
    assert got(world, "later") == [5, 10, 11, 12, 13]
    with pytest.raises(glue.ConfigurationError, match="what is: b/#, a/#"):
        publisher.forget("c")


def test_history_of_this_endpoint_itself_begins_and_ends_with_what_it_remembers() -> None:
    world = World()
    endpoint = world.endpoint("alone")
    endpoint.remember("a/#")
    endpoint.publish("a/x", 1)
    world.run(SECOND)
    first = endpoint.subscribe("a/#", start="earliest")
    world.run(SECOND)
    endpoint.forget("a/#")
    second = endpoint.subscribe("a/#", start="earliest")
    world.run(SECOND)
    endpoint.publish("a/x", 2)
    world.run(SECOND)
    assert [message.payload for message in first.received] == [1, 2]
    assert [message.payload for message in second.received] == [2]


def keepers_of(endpoint: SimulatedEndpoint, topic: str) -> list[str]:
    return [*endpoint._core.durability.keepers(topic)]


def test_a_keeper_that_has_ended_acknowledges_and_serves_no_more() -> None:
    world = World()
    publisher, keeping = world.endpoint("publisher"), world.endpoint("keeper")
    disk = SimulatedDisk(Random(1))
    keeper, twin, other = (keeping.keep(pattern, directory=disk) for pattern in ("a/#", "a/#", "b/#"))
    assert keeper.log is twin.log is other.log
    assert (keeper.failure, keeper.replicas, keeper.pattern) == ("", None, "a/#")
    world.run(SECOND)
    assert keepers_of(publisher, "a/x") == keepers_of(publisher, "b/x") == [keeping.id]
    first = publisher.publish("a/x", 1, acks=1, receipt=True)
    world.run(SECOND)
    assert len(first.durable) == 1
    keeper.close()
    keeper.close()
    world.run(SECOND)
    assert keepers_of(publisher, "a/x") == keepers_of(keeping, "a/x") == [keeping.id], "its twin goes on"
    second = publisher.publish("a/x", 2, acks=1, receipt=True)
    world.run(SECOND)
    assert len(second.durable) == 1
    assert got(world, "early", "a/#") == [1, 2]
    with twin:
        pass
    world.run(SECOND)
    assert keepers_of(publisher, "a/x") == keepers_of(keeping, "a/x") == []
    assert keepers_of(publisher, "b/x") == [keeping.id]
    third = publisher.publish("a/x", 3, acks=1, receipt=True)
    world.run(SECOND)
    assert third.durable == []
    assert got(world, "late", "a/#") == []
    again = keeping.keep("a/#", directory=disk)
    world.run(SECOND)
    assert got(world, "later", "a/#") == [1, 2], "what was stored stays"
    assert again.log is other.log


def test_a_keeper_in_memory_has_a_log_of_its_own() -> None:
    world = World()
    keeping = world.endpoint("keeper")
    in_memory, on_disk = keeping.keep("a/#"), keeping.keep("a/#", directory=SimulatedDisk(Random(1)))
    assert in_memory.log is not on_disk.log
    assert in_memory.log is keeping.keep("b/#").log
    in_memory.close()
    world.run(SECOND)
    assert keepers_of(keeping, "a/x") == [keeping.id]
    on_disk.close()
    assert keepers_of(keeping, "a/x") == []
    with pytest.raises(glue.ConfigurationError, match="acks=1: it is the receipt that tells; say receipt=True, too"):
        keeping.publish("a/x", 1, acks=1)  # type: ignore[call-overload]


def offered_by(endpoint: SimulatedEndpoint, at: SimulatedEndpoint) -> list[str]:
    """The patterns that an endpoint serves, as another one, or it itself, knows."""
    return sorted(served_by(one)[1] for one in at._core.offers.interests.get(endpoint.id, ()))


def test_who_serves_what_is_known_to_others_and_to_itself() -> None:
    world = World()
    publisher, other = world.endpoint("publisher"), world.endpoint("other")
    world.run(SECOND)
    for remembered in ("a/#", "b/#"):
        publisher.remember(remembered)
    world.run(SECOND)
    assert offered_by(publisher, publisher) == offered_by(publisher, other) == ["a/#", "b/#"]
    publisher.forget("a/#")
    assert offered_by(publisher, publisher) == ["b/#"]
    world.run(SECOND)
    assert offered_by(publisher, other) == ["b/#"]
    keeper = publisher.keep("c/#")
    world.run(SECOND)
    assert offered_by(publisher, publisher) == offered_by(publisher, other) == ["b/#", "c/#"]
    keeper.close()
    world.run(SECOND)
    assert offered_by(publisher, publisher) == offered_by(publisher, other) == ["b/#"]


def test_a_subscription_of_the_keeper_itself_gets_what_a_log_holds_that_is_opened_later() -> None:
    world, disk = World(), SimulatedDisk(Random(1))
    keeping = world.endpoint("keeper")
    keeper = keeping.keep("a/#", directory=disk)
    world.run(SECOND)
    keeping.publish("a/x", 1)
    world.run(SECOND)
    keeper.close()
    early = keeping.subscribe("a/#", start="earliest")
    world.run(SECOND)
    assert early.received == []
    keeping.keep("a/#", directory=disk)
    world.run(SECOND)
    assert [message.payload for message in early.received] == [1]


@pytest.mark.parametrize("acks", [0, -1, True, 1.0, "memory", 65])
def test_other_acknowledgements_are_refused(acks: Any) -> None:
    endpoint = World().endpoint("publisher")
    with pytest.raises(glue.ConfigurationError, match=r'expected "disk", "replicas" or a number of keepers from 1 to'):
        endpoint.publish("a", 1, acks=acks, receipt=True)
    with pytest.raises(glue.TopicError):
        endpoint.publish("a/#", 1, acks=1, receipt=True)
