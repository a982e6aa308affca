"""Doors that announce their clients to each other: who keeps a session after a door was dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from glue.aio import Endpoint
from glue.endpoint.message import Message
from glue.endpoint.request import Request
from glue.gateway.mqtt import moving
from glue.gateway.mqtt.neighbours import Neighbours
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench

HOUR = b"\x11\x00\x00\x0e\x10"


class Network:
    """Doors that get what each of them announces and asks, at once; a door is an endpoint for its `Neighbours`."""

    def __init__(self) -> None:
        self.doors: dict[str, Door] = {}

    def run(self) -> None:
        """Announce and ask until nobody has anything to say."""
        while any(door.neighbours.has_news or door.spawned for door in self.doors.values()):
            for door in list(self.doors.values()):
                asyncio.run(door.neighbours.announce())
                while door.spawned:
                    asyncio.run(door.spawned.pop())


class Door:
    """A door with its disk."""

    def __init__(self, network: Network, id: str, disk: SimulatedDisk | None = None) -> None:
        self.network, self.id = network, id
        self.bench = Bench(directory=disk or SimulatedDisk(Random(1)))
        self.spawned: list[Coroutine[Any, Any, None]] = []
        self._core = SimpleNamespace(requests=SimpleNamespace(responders=lambda _: list(network.doors)))
        self.neighbours = Neighbours(cast(Endpoint, self), self.bench.broker)
        self.neighbours.spawn = self.spawned.append
        self.bench.broker.watchers = [self.neighbours]
        network.doors[id] = self
        self.neighbours.begin()
        self.bench.broker.may_be_elsewhere = lambda: False

    def die(self) -> SimulatedDisk:
        """End without a word; returns the disk."""
        self.bench.sync()
        del self.network.doors[self.id]
        return cast(SimulatedDisk, self.bench.store.directory)  # type: ignore[union-attr]

    def subscribe(self, *_: object, **__: object) -> None: ...

    def respond(self, *_: object) -> None: ...

    def subscribers(self, _: str) -> list[str]:
        return [id for id in self.network.doors if id != self.id]

    async def publish(self, _: str, value: Any) -> None:
        told = SimpleNamespace(payload=orjson.loads(orjson.dumps(value)), publisher=self.id, publisher_id=self.id)
        message = cast(Message, told)
        for id in self.subscribers(""):
            self.network.doors[id].neighbours._other_connected(message)

    async def request_all(self, _: str, value: Any, timeout: float) -> AsyncIterator[Any]:
        request = cast(Request, SimpleNamespace(payload=value, caller=self.id, caller_id=self.id))
        for door in list(self.network.doors.values()):
            yield SimpleNamespace(payload=door.neighbours._answer(request))


def waiting_at_a_dead_door(network: Network) -> SimulatedDisk:
    """The disk of a door whose client connected many times, and for which a message waits."""
    door = Door(network, "old")
    for _ in range(5):
        device = door.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
        device.leave()
    network.run()
    door.bench.connect("p").send(mqtt.publish("t", b"waits", 1, 1))
    return door.die()


@pytest.mark.parametrize("is_known", [False, True])
def test_a_door_that_was_dead_hands_over_to_a_door_that_never_met_it(is_known: bool) -> None:
    network = Network()
    new = Door(network, "new") if is_known else None
    disk = waiting_at_a_dead_door(network)
    new = new or Door(network, "new")
    device = new.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
    old = Door(network, "old", disk)
    network.run()
    new.bench.sync()
    assert device.payloads() == [b"waits"]
    assert list(old.bench.broker.sessions) == []
    assert not new.bench.broker.statistics["connections taken over"]
    assert not old.bench.broker.statistics["messages dropped"], "they are not lost"
    assert old.bench.broker.subscriptions.count == 0


@pytest.mark.parametrize("meanwhile", ["the other door forgets it", "its client comes back", "nothing"])
def test_what_waits_is_handed_over_once_and_stays_until_it_is_taken(meanwhile: str) -> None:
    network = Network()
    disk = waiting_at_a_dead_door(network)
    new = Door(network, "new")
    device = new.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
    old = Door(network, "old", disk)
    flushes: list[bool] = []
    old.neighbours.flush = lambda: flushes.append(True)
    told: Any = SimpleNamespace(payload=[["s", 9]], publisher="new", publisher_id="new")
    for _ in range(2):
        old.neighbours._other_connected(told)
    assert len(old.spawned) == 1, "it is under way"
    if meanwhile == "the other door forgets it":
        new.bench.broker.end_session(new.bench.now, new.bench.broker.sessions["s"])
    elif meanwhile == "its client comes back":
        old.bench.connect("s", 5, clean=False, raw=HOUR)
    asyncio.run(old.spawned.pop())
    assert ("s" in old.bench.broker.sessions, bool(flushes)) == (meanwhile != "nothing", meanwhile == "nothing")
    new.bench.sync()
    assert device.payloads() == ([] if "forgets" in meanwhile else [b"waits"])
    if meanwhile == "the other door forgets it":
        old.neighbours._other_connected(told)
        assert len(old.spawned) == 1, "it is tried again"
        old.spawned.pop().close()


def test_what_is_too_much_to_move_stays_at_the_door_that_was_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    disk = waiting_at_a_dead_door(network)
    new = Door(network, "new")
    device = new.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR)
    old = Door(network, "old", disk)
    monkeypatch.setattr(moving, "MOVED_BYTES", 1)
    network.run()
    assert device.payloads() == []
    device.leave()
    back = old.bench.connect("s", 5, clean=False, raw=HOUR)
    old.bench.sync()
    assert back.payloads() == [b"waits"]


def test_doors_that_were_both_dead_keep_what_they_have_until_the_client_says_where_it_is() -> None:
    network = Network()
    disk = waiting_at_a_dead_door(network)
    other = Door(network, "other")
    other.bench.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    other_disk = other.die()
    old, other = Door(network, "old", disk), Door(network, "other", other_disk)
    network.run()
    assert [list(door.bench.broker.sessions) for door in (old, other)] == [["s"], ["s"]]
    device = other.bench.connect("s", 5, clean=False, raw=HOUR)
    network.run()
    other.bench.sync()
    assert device.payloads() == [b"waits"]
    assert list(old.bench.broker.sessions) == []
