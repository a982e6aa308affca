"""Whole endpoints in virtual time: mergeable keys are written on every side of a partition, and are alike after it.

Loss, doubles, reordering, crashes with and without disks, late joiners, prefixes that differ, and what it costs to be
idle.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.model.questions import Committed, Found, Read, Refused, Synchronize, Write
from glue.model.state import Delete, Operation, Set, Update
from glue.simulation import Conditions, Crossing, World
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.model import SimulatedModel, SimulatedQuestion

pytestmark = pytest.mark.slow

MERGEABLE = {"count/": "counter", "set/": "set", "last/": "register", "multi/": "multi"}
CONVERGENCE = 15.0
"""Virtual seconds after a heal; it takes as long as discovery and some digests do."""


class Plant:
    """Endpoints that share a model; each writes at random, and all that was acknowledged is noted."""

    def __init__(self, seed: int, size: int = 4, durable: bool = False) -> None:
        self.world = World(seed)
        self.rng = Random(seed)
        self.endpoints = [self.world.endpoint(f"e{number}") for number in range(size)]
        self.disks = {e: SimulatedDisk(Random(seed + n)) for n, e in enumerate(self.endpoints)} if durable else {}
        self.models = {endpoint: self.open(endpoint) for endpoint in self.endpoints}
        self.watches = {endpoint: model.watch("#") for endpoint, model in self.models.items()}
        self.added = Counter[str]()  # acknowledged, by counter
        self.tried = Counter[str]()
        self.elements: set[str] = set()  # acknowledged, and never removed
        self.writes = 0

    def open(self, endpoint: SimulatedEndpoint) -> SimulatedModel:
        disk = self.disks.get(endpoint)
        return endpoint.model("plant", voters=3, mergeable=MERGEABLE, directory=disk, election_timeout=3.0)

    def write(self, endpoint: SimulatedEndpoint, *operations: Operation) -> SimulatedQuestion:
        return self.models[endpoint].ask(Write(operations))

    def scribble(self, endpoint: SimulatedEndpoint) -> None:
        """Write something."""
        self.writes += 1
        kind, number, amount = self.rng.choice(list(MERGEABLE)), self.rng.randrange(3), self.rng.randrange(1, 9)
        key, model = f"{kind}{number}", self.models[endpoint]
        if kind == "count/":
            self.tried[key] += amount
            model.ask(Write([Update(key, amount)]), then=lambda e: self._added(e, key, amount))
        elif kind == "set/":
            element = f"{self.writes}"
            model.ask(Write([Update("set/kept", {element: True})]), then=lambda e: self._kept(e, element))
            self.write(endpoint, Update(key, {self.rng.choice("xyz"): self.rng.choice([True, None])}))
        else:
            self.write(endpoint, Set(key, self.writes) if self.rng.random() < 0.7 else Delete(key))

    def _added(self, ending: object, key: str, amount: int) -> None:
        assert isinstance(ending, Committed), "a mergeable key refuses no write"
        self.added[key] += amount

    def _kept(self, ending: object, element: str) -> None:
        assert isinstance(ending, Committed)
        self.elements.add(element)

    def everyone_writes(self, seconds: float) -> None:
        end = self.world.time + seconds
        while self.world.time < end:
            endpoint = self.rng.choice(self.endpoints)
            if endpoint.is_running and not endpoint.host.is_paused:
                self.scribble(endpoint)
            self.world.run(self.rng.uniform(0.0, 0.2))

    def split(self) -> None:
        side = self.rng.sample(self.endpoints, self.rng.randrange(1, len(self.endpoints)))
        rest = [endpoint for endpoint in self.endpoints if endpoint not in side]
        self.world.network.partition([e.host for e in side], [e.host for e in rest])

    def restart(self, endpoint: SimulatedEndpoint) -> None:
        endpoint.crash()
        if endpoint in self.disks:
            self.disks[endpoint].crash()
        endpoint.restart()
        self.models[endpoint] = self.open(endpoint)
        self.watches[endpoint] = self.models[endpoint].watch("#")

    def reads(self, endpoint: SimulatedEndpoint) -> dict[str, Any]:
        """All mergeable keys, as this endpoint reads them."""
        part = self.models[endpoint].group.mergeable
        return {change.key: change.value for change in self.models[endpoint].group.local("#") if part is not None}

    @property
    def is_alike(self) -> bool:
        marks = {
            (part.store.mark, str(sorted(part.store.context.bounds.items())))
            for model in self.models.values() if (part := model.group.mergeable) is not None
        }  # fmt: skip
        return len(marks) == 1

    def check_converged(self) -> dict[str, Any]:
        """All become alike in time, and read alike; watchers know what is read."""
        self.world.network.heal()
        self.world.network.set_conditions(Conditions())
        self.world.run(0.1)
        assert self.world.run_until(lambda: self.is_alike, timeout=CONVERGENCE), "they did not converge"
        self.world.run(0.1)
        first, *others = [self.reads(endpoint) for endpoint in self.endpoints]
        assert all(other == first for other in others)
        for watch in self.watches.values():
            told = {change.key: change.value for change in watch.changes}
            assert {key: value for key, value in told.items() if value is not None} == first
        return first


@pytest.mark.parametrize("seed", range(4))
def test_every_side_of_a_partition_goes_on_writing_and_nothing_acknowledged_is_lost(seed: int) -> None:
    plant = Plant(seed)
    rng = plant.rng
    for _ in range(4):
        loss, duplicate = rng.choice([0.0, 0.1, 0.3]), rng.choice([0.0, 0.3])
        plant.world.network.set_conditions(Conditions(loss=loss, duplicate=duplicate, reorder=0.1, jitter=0.005))
        plant.everyone_writes(rng.uniform(0.5, 3.0))
        plant.split()
        plant.everyone_writes(rng.choice([1.0, 12.0]))  # shorter and longer than the leases of peers
        victim = rng.choice(plant.endpoints)
        victim.pause()
        plant.everyone_writes(rng.uniform(0.1, 2.0))
        victim.resume()
        plant.world.network.heal()
    found = plant.check_converged()
    assert {key: value for key, value in found.items() if key.startswith("count/")} == dict(plant.added)
    assert set(found["set/kept"]) == plant.elements


@pytest.mark.parametrize("seed", range(4))
def test_with_disks_what_was_acknowledged_survives_every_crash(seed: int) -> None:
    plant = Plant(seed, durable=True)
    for _ in range(5):
        plant.everyone_writes(plant.rng.uniform(0.5, 3.0))
        plant.split()
        plant.everyone_writes(plant.rng.uniform(0.5, 3.0))
        for victim in plant.rng.sample(plant.endpoints, plant.rng.randrange(1, 5)):
            plant.restart(victim)
        plant.world.network.heal()
    found = plant.check_converged()
    for key, added in plant.added.items():
        assert added <= found[key] <= plant.tried[key]
    assert plant.elements <= set(found["set/kept"])


@pytest.mark.parametrize("seed", range(4))
def test_without_disks_a_crash_loses_only_what_had_not_left_and_a_life_uses_no_number_twice(seed: int) -> None:
    plant = Plant(seed)
    for _ in range(5):
        plant.everyone_writes(2.0)
        plant.world.run(1.0)  # so that the others have heard
        plant.restart(plant.rng.choice(plant.endpoints))
    found = plant.check_converged()
    assert {key: value for key, value in found.items() if key.startswith("count/")} == dict(plant.added)


def test_a_minority_writes_and_reads_at_once_and_sees_the_conflict_after_the_heal() -> None:
    plant = Plant(1, size=3)
    alone, *others = plant.endpoints
    plant.world.run(5.0)
    plant.world.network.partition([alone.host], [other.host for other in others])
    plant.world.run(10.0)
    written = plant.write(alone, Set("multi/0", "left"), Set("last/0", 1), Update("count/0", 5))
    read = plant.models[alone].ask(Read("count/#"))
    elsewhere = plant.models[alone].ask(Write([Set("other", 1)]), timeout=1.0)
    lonely = plant.models[alone].ask(Synchronize(), timeout=1.0)
    plant.world.run(0.01)  # so that this is later
    plant.write(others[0], Set("multi/0", "right"), Set("last/0", 2), Update("count/0", 6))
    assert isinstance(written.ending, Committed)
    assert isinstance(read.ending, Found)
    assert [change.value for change in read.ending.entries] == [5]
    plant.world.run(2.0)
    assert isinstance(elsewhere.ending, Refused)
    assert isinstance(lonely.ending, Refused)
    assert lonely.ending.unreachable
    assert plant.check_converged() == {"multi/0": ["left", "right"], "last/0": 2, "count/0": 11}
    part = plant.models[alone].group.mergeable
    assert part is not None
    assert part.conflicts("#") == {"multi/0": [b'"left"', b'"right"'], "last/0": [b"2", b"1"]}
    plant.write(alone, Set("multi/0", "decided"))
    assert plant.check_converged()["multi/0"] == "decided"


def test_a_newcomer_and_one_behind_a_chain_learn_everything() -> None:
    plant = Plant(2, size=3)
    a, _, c = plant.endpoints
    plant.world.run(3.0)
    plant.world.network.block(a.host, c.host)  # both hear the one between them
    plant.world.network.block(c.host, a.host)
    plant.write(a, Update("count/0", 1))
    plant.world.run(3.0)
    assert plant.reads(c) == {"count/0": 1}
    newcomer = plant.world.endpoint("late")
    plant.endpoints.append(newcomer)
    plant.models[newcomer] = plant.open(newcomer)
    asked = plant.models[newcomer].ask(Synchronize())
    assert plant.world.run_until(lambda: asked.ending is not None, timeout=3.0)
    assert isinstance(asked.ending, Found)
    assert plant.reads(newcomer) == {"count/0": 1}


def test_one_with_other_prefixes_is_told_nothing_and_counted() -> None:
    plant = Plant(3, size=2)
    stranger = plant.world.endpoint("stranger")
    model = stranger.model("plant", voters=3, mergeable={"count/": "set"})
    plant.write(plant.endpoints[0], Update("count/0", 1))
    plant.world.run(5.0)
    assert model.group.local("#") == []
    assert stranger.statistics["model"]["messages of replicas with other mergeable prefixes"] > 0
    assert plant.reads(plant.endpoints[1]) == {"count/0": 1}


def test_one_with_other_prefixes_that_waits_for_another_is_told_what_is_wrong() -> None:
    plant = Plant(1, size=2)
    stranger = plant.world.endpoint("stranger")
    model = stranger.model("plant", voters=3, mergeable={"count/": "multi"}, election_timeout=3.0)
    asked = model.ask(Synchronize(), timeout=5.0)
    plant.world.run(10.0)
    assert isinstance(asked.ending, Refused)
    assert "another mergeable=" in asked.ending.reason


@pytest.mark.parametrize("others", [None, {"count/": "set"}, {"count/": "counter"}])
def test_without_the_same_prefixes_nothing_gets_into_the_log_beside_them(others: dict[str, str] | None) -> None:
    plant = Plant(4, size=3)
    plant.world.run(1.0)
    assert plant.world.run_until(lambda: plant.models[plant.endpoints[0]].group.status.leader, timeout=20.0)
    stranger = plant.world.endpoint("stranger").model("plant", voters=3, mergeable=others)
    asked = stranger.ask(Write([Set("elsewhere/x", 1)]))
    assert plant.world.run_until(lambda: asked.ending is not None, timeout=20.0)
    assert isinstance(asked.ending, Refused)
    assert "another mergeable=" in asked.ending.reason
    assert stranger.group.replica.is_among_strangers
    written = plant.write(plant.endpoints[1], Set("elsewhere/x", 2))
    assert plant.world.run_until(lambda: written.ending is not None, timeout=5.0)
    assert isinstance(written.ending, Committed)
    assert not any(model.group.replica.is_among_strangers for model in plant.models.values())


@pytest.mark.parametrize(("prefixes", "voters"), [(None, 1), (MERGEABLE, 1), (MERGEABLE, 3)])
def test_a_directory_of_another_model_or_of_other_prefixes_is_not_taken(
    prefixes: dict[str, str] | None, voters: int
) -> None:
    world, disk = World(5), SimulatedDisk(Random(1))
    endpoint = world.endpoint("alone")  # so with three voters, there is never a log

    def opened(name: str = "plant", mergeable: dict[str, str] | None = prefixes) -> SimulatedModel:
        return endpoint.model(name, voters=voters, mergeable=mergeable, directory=disk)

    opened().ask(Write([Update("count/0", 1)]))
    world.run(5.0)
    for other in ({"count/": "multi"}, {**MERGEABLE, "more/": "set"}, None if prefixes else MERGEABLE):
        endpoint.crash()
        endpoint.restart()
        with pytest.raises(ConfigurationError, match="data_dir holds"):
            opened(mergeable=other)
    if voters == 1:
        with pytest.raises(ConfigurationError, match="data_dir holds state of a model of another name"):
            opened(name="garden")
    model = opened()
    world.run(5.0)
    assert [change.value for change in model.group.local("#")] == [1]


def test_at_rest_the_whole_network_hears_a_digest_now_and_then() -> None:
    plant = Plant(4, size=6)
    plant.write(plant.endpoints[0], *[Update(f"count/{number}", 1) for number in range(200)])
    plant.world.run(60.0)
    before = messages(plant)
    plant.world.run(128.0)
    digests = (messages(plant) - before) / (len(plant.endpoints) - 1)
    assert 5 <= digests <= 25, "one in 12.8 s, or two where two spoke at the same moment"


def messages(plant: Plant) -> int:
    """Messages about mergeable keys that arrived so far, anywhere."""
    return sum(endpoint.statistics["model"]["messages of mergeable keys"] for endpoint in plant.endpoints)


def test_a_disk_that_fails_stops_the_replica_and_no_write_is_called_done() -> None:
    plant = Plant(5, durable=True)
    plant.world.run(1.0)
    victim = plant.endpoints[0]
    plant.disks[victim].fails_to_sync = True
    written = plant.write(victim, Update("count/0", 1))
    plant.world.run(0.1)
    assert not isinstance(written.ending, Committed)
    assert "disk" in plant.models[victim].group.failure(plant.world.time)
    refused = plant.write(victim, Update("count/0", 1))
    plant.world.run(0.1)
    assert isinstance(refused.ending, Refused)


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = set()
    for _ in range(2):
        plant = Plant(6, durable=True)
        plant.everyone_writes(3.0)
        plant.split()
        plant.everyone_writes(3.0)
        plant.check_converged()
        hashes.add(plant.world.trace_hash)
    assert len(hashes) == 1


def test_a_lone_write_is_one_multicast() -> None:
    plant = Plant(7, size=3)
    plant.world.run(60.0)
    crossings: list[Crossing] = []
    plant.world.network.observer = crossings.append
    plant.write(plant.endpoints[0], Update("count/0", 1))
    plant.world.run(0.01)
    assert len({crossing.data for crossing in crossings if b"/merge" in crossing.data}) == 1
    assert plant.reads(plant.endpoints[2]) == {"count/0": 1}
