"""Whole endpoints with a model, in virtual time under faults: every history must be linearizable, nothing lost.

Consensus alone is hunted with many more seeds in its own simulation; here everything is in between: topics,
transport, discovery, sessions and retries.
"""

from __future__ import annotations

from random import Random

import pytest

from glue.simulation import Conditions, World
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.linearizability import Operation, check
from glue.simulation.model import SimulatedModel, SimulatedQuestion

pytestmark = pytest.mark.slow

KEYS = ("a", "b", "c")


class Plant:
    """Some endpoints that share a model, each with a client that asks at random."""

    def __init__(self, seed: int, voters: int = 3, observers: int = 1, durable: bool = True) -> None:
        self.world = World(seed)
        self.rng = Random(seed)
        self.history: list[Operation] = []
        self.voters = voters
        self.endpoints = [self.world.endpoint(f"e{number}") for number in range(voters + observers)]
        self.disks = {e: SimulatedDisk(Random(seed + n)) for n, e in enumerate(self.endpoints)} if durable else {}
        self.models = {endpoint: self.open(endpoint) for endpoint in self.endpoints}
        self.is_asking = True
        self.values = 0
        self.asked: dict[SimulatedEndpoint, SimulatedQuestion] = {}  # what each client waits for
        for endpoint in self.endpoints:
            self._ask_again(endpoint)

    def open(self, endpoint: SimulatedEndpoint) -> SimulatedModel:
        observer = endpoint in self.endpoints[self.voters :] if hasattr(self, "endpoints") else False
        return endpoint.model("plant", voters=self.voters, observer=observer, directory=self.disks.get(endpoint))

    def _ask_again(self, endpoint: SimulatedEndpoint) -> None:
        self.world.after(self.rng.uniform(0.02, 0.4), lambda: self._ask(endpoint))

    def _ask(self, endpoint: SimulatedEndpoint) -> None:
        if not self.is_asking:
            return
        self._ask_again(endpoint)
        if not endpoint.is_running or endpoint.host.is_paused:
            return
        waits_for = self.asked.get(endpoint)
        if waits_for is not None and waits_for.ending is None:
            return
        model, key, client = self.models[endpoint], self.rng.choice(KEYS), endpoint.name
        self.values += 1
        kind = self.rng.random()
        if kind < 0.4:
            asked = model.read(self.history, client, key)
        elif kind < 0.8:
            asked = model.write(self.history, client, key, self.values)
        else:
            expected = self.rng.randrange(max(1, self.values - 10), self.values + 1)
            asked = model.compare_and_set(self.history, client, key, expected, self.values)
        self.asked[endpoint] = asked

    def restart(self, endpoint: SimulatedEndpoint) -> None:
        endpoint.crash()
        self.asked.pop(endpoint, None)
        if endpoint in self.disks:
            self.disks[endpoint].crash()
        endpoint.restart()
        self.models[endpoint] = self.open(endpoint)

    def faults(self, seconds: float) -> None:
        """Loss, doubles and jitter all the time; crashes, pauses and partitions now and then."""
        rng, end = self.rng, self.world.time + seconds
        self.world.network.set_conditions(
            Conditions(loss=rng.choice([0.0, 0.05, 0.2]), duplicate=rng.choice([0.0, 0.3]), jitter=0.005)
        )
        while self.world.time < end:
            self.world.run(rng.uniform(0.5, 4.0))
            victim = rng.choice(self.endpoints)
            what = rng.random()
            if what < 0.35:
                self.restart(victim)
            elif what < 0.6:
                victim.pause()
                self.world.run(rng.uniform(0.1, 3.0))
                victim.resume()
            elif what < 0.9:
                side = rng.sample(self.endpoints, rng.randrange(1, len(self.endpoints)))
                rest = [endpoint for endpoint in self.endpoints if endpoint not in side]
                self.world.network.partition([e.host for e in side], [e.host for e in rest])
                self.world.run(rng.uniform(0.5, 6.0))
                self.world.network.heal()

    def heal(self) -> None:
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()

    def answers(self) -> int:
        return sum(not operation.is_unknown for operation in self.history)


@pytest.mark.parametrize(("seed", "durable"), [(1, True), (2, True), (3, True), (0, False), (4, False), (5, False)])
def test_histories_under_faults_are_linearizable(seed: int, durable: bool) -> None:
    plant = Plant(seed, voters=3 + 2 * (seed % 2), durable=durable)
    assert plant.world.run_until(lambda: plant.answers() > 5, timeout=30)
    if durable:
        plant.faults(30.0)
    else:  # without disks the lives of a majority must not end together
        plant.world.network.set_conditions(Conditions(loss=0.1, duplicate=0.2, jitter=0.005))
        for _ in range(4):
            plant.world.run(8.0)
            plant.restart(plant.rng.choice(plant.endpoints))
    plant.heal()
    before = plant.answers()
    assert plant.world.run_until(lambda: plant.answers() > before + 20, timeout=30), "no progress after the heal"
    plant.is_asking = False
    plant.world.run(8.0)
    verdict = check(plant.history)
    assert verdict.linearizable, verdict
    digests = {model.group.state.digest for model in plant.models.values()}
    assert len(digests) == 1, "the replicas differ"


def test_the_same_seed_gives_the_same_run() -> None:
    hashes = set()
    for _ in range(2):
        plant = Plant(7)
        plant.world.run(5.0)
        plant.faults(5.0)
        hashes.add(plant.world.trace_hash)
    assert len(hashes) == 1


def test_a_group_at_rest_says_little_and_acknowledges_nothing() -> None:
    plant = Plant(3, observers=0)
    assert plant.world.run_until(lambda: plant.answers() > 5, timeout=30)
    plant.is_asking = False
    plant.world.run(5.0)
    crossings: set[bytes] = set()
    plant.world.network.observer = lambda crossing: crossings.add(crossing.data)
    plant.world.run(10.0)
    said = [data for data in crossings if b'"transport":["best"' in data]
    assert 80 <= len(said) <= 105, "three heartbeats a second, and two answers to each"
    assert not any(b'"ack"' in data for data in crossings)
