"""Recorded runs of shared models: clients at several endpoints, told what each of their questions came to."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from glue.model.questions import Ending, Found, Question, Read, Remove, Synchronize, Transfer, Write
from glue.model.state import ABSENT, AcquireLock, Delete, Expect, ExpectRevision, ReleaseLock, Set, Update
from glue.simulation import Conditions, SimulatedEndpoint
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.model import SimulatedModel
from tests.recorded.story import Story

KEYWORD = re.compile(r"\b(operations|key|value|owner|lease_ms|revision|patch|index|reason|pattern|peer|unreachable)=")
LONG = re.compile(r"\d+\.\d{4,}")


class Plant:
    """Endpoints that share a model, whose questions and answers are written down."""

    def __init__(self, seed: int, voters: int, observers: int = 0, durable: bool = True, **options: Any) -> None:
        self.story = Story(seed, announce_interval=0.5)
        self.options = {"voters": voters, **options}
        self.models: dict[str, SimulatedModel] = {}
        self._told: dict[str, str] = {}
        self.disks: dict[str, SimulatedDisk] = {}
        for number in range(voters + observers):
            name = "abcdefgh"[number]
            if durable:
                self.disks[name] = SimulatedDisk(Random(seed + number))
            self.open(self.story.endpoint(name), number >= voters)

    def open(self, endpoint: SimulatedEndpoint, observer: bool = False) -> None:
        """Take part, and watch everything."""
        name = endpoint.name
        directory = self.disks.get(name)
        self.models[name] = endpoint.model("plant", observer=observer, directory=directory, **self.options)

    def ask(self, name: str, question: Question, timeout: float = 3.0) -> None:
        """Ask at one endpoint; the answer is written down when it comes."""
        self.models[name].ask(question, timeout, partial(self._answered, name, question))

    def write(self, name: str, *operations: Any, patient: bool = False) -> None:
        self.ask(name, Write(list(operations), patient))

    def _answered(self, name: str, question: Question, ending: Ending) -> None:
        told: object = ending
        if isinstance(ending, Found):
            told = [(entry.key, entry.value, entry.index) for entry in ending.entries]
        self.story.say(f"{name} {self._words(question)[:90]}: {self._words(told)[:300]}")

    def _words(self, what: object) -> str:
        text = KEYWORD.sub("", str(what).replace(repr(ABSENT), "nothing").replace(", patient=False", ""))
        for name, endpoint in self.story.endpoints.items():
            text = text.replace(endpoint.id, name)
        return LONG.sub(lambda number: f"{float(number[0]):.4f}", text)

    def step(self, seconds: float, times: int = 1) -> None:
        """Let time pass, and write down who leads and what all know."""
        for _ in range(times):
            self.story.step(seconds)
            now = {n: self._status(model) for n, model in self.models.items() if self.story.endpoints[n].is_running}
            changed = [f"{name} {status}" for name, status in now.items() if status != self._told.get(name)]
            self._told = now
            if changed:
                self.story.say("; ".join(changed))

    def _status(self, model: SimulatedModel) -> str:
        status = model.group.status
        return self._words(f"{status.role.value} of {status.leader or 'none'} in {status.term}, {status.commit_index}")

    def end(self) -> str:
        """Return all lines, with what every watch was told."""
        for name, watch in self.watches.items():
            told = [f"{c.key} {c.value!r:.40} {c.index} {c.live:d}{c.is_conflict:d}" for c in watch.changes]
            self.story.lines += [
                f"{name} was told of {len(told)}: {'; '.join(told[-12:])} [{crc32(repr(told).encode()):08x}]"
            ]
        return self.story.end()

    def watch(self) -> None:
        """Watch everything at every endpoint."""
        self.watches = {name: model.watch("#") for name, model in self.models.items()}


def agreed() -> str:
    """Three voters and an observer: writes, conditions, locks, a leader that crashes, and a cut."""
    plant = Plant(21, voters=3, observers=1)
    plant.watch()
    plant.step(1.0, 3)
    plant.write("a", Set("k/1", {"x": 1, "y": [1, 2]}))
    plant.write("b", Set("k/2", "two"), Set("k/3", None))
    plant.step(0.2)
    plant.write("c", Update("k/1", {"x": None, "z": {"w": 2}}))
    plant.write("a", Expect("k/2", "two"), Set("k/2", "three"))
    plant.write("b", Expect("k/2", "two"), Set("k/2", "four"))
    plant.write("d", Expect("k/9"), Set("k/9", 9))
    plant.write("c", ExpectRevision("k/3", 999), Set("k/3", 1))
    plant.write("a", AcquireLock("door", "a", 800))
    plant.write("b", AcquireLock("door", "b", 800), patient=True)
    plant.step(0.2)
    plant.write("a", ReleaseLock("door", "a"))
    plant.write("c", Delete("k/3"), Delete("nothing"))
    plant.ask("d", Read("k/+"))
    plant.ask("b", Read("k/1"))
    plant.step(0.5, 2)
    leader = next(n for n, m in plant.models.items() if m.group.status.role.value == "leader")
    other = next(n for n in "abc" if n != leader)
    plant.write(other, AcquireLock("door", other, 5000), patient=True)
    plant.ask(leader, Transfer(plant.story.endpoints[other].id))
    plant.step(1.0, 2)
    plant.story.endpoints[other].crash()
    plant.write(leader, Set("k/after", 1))
    plant.step(1.0, 4)
    plant.story.endpoints[other].restart()
    plant.open(plant.story.endpoints[other])
    plant.step(1.0, 2)
    plant.story.world.network.partition([plant.story.endpoints[leader].host])
    plant.write(leader, Set("k/cut", 1))
    plant.write(other, Set("k/cut", 2))
    plant.step(1.0, 4)
    plant.story.world.network.heal()
    plant.step(1.0, 3)
    plant.ask("d", Read("#"))
    plant.ask(other, Remove(plant.story.endpoints[leader].id))
    plant.step(1.0, 3)
    return plant.end()


def busy() -> str:
    """Many writes at a time on a bad network, values of all sizes, and a voter that sleeps meanwhile."""
    plant = Plant(22, voters=3, durable=False)
    plant.watch()
    plant.step(1.0, 2)
    plant.story.world.network.set_conditions(Conditions(loss=0.05, delay=0.003, jitter=0.002))
    for number in range(60):
        name = "abc"[number % 3]
        plant.write(name, Set(f"n/{number % 7}", number), Update("sum", {name: number}))
        if number % 10 == 0:
            plant.write(name, Set(f"large/{number}", "x" * 400 * number))
        if number == 30:
            plant.story.endpoints["c"].pause()
        plant.story.world.run(0.03)
    plant.ask("a", Read("n/#"))
    plant.step(1.0, 4)
    plant.story.endpoints["c"].resume()
    plant.step(1.0, 3)
    plant.ask("c", Read("sum"))
    plant.step(1.0)
    return plant.end()


KINDS = {"count/": "counter", "set/": "set", "reg/": "register", "multi/": "multi"}


def merged() -> str:
    """Keys that need no majority: written on both sides of a cut, and merged behind it."""
    plant = Plant(23, voters=1, mergeable=KINDS)
    plant.open(plant.story.endpoint("x"), observer=True)
    plant.open(plant.story.endpoint("y"), observer=True)
    plant.watch()
    plant.step(1.0, 2)
    plant.write("a", Update("count/1", 3))
    plant.write("x", Set("set/1", ["p", "q"]))
    plant.write("y", Set("reg/1", {"v": 1}), Set("multi/1", "one"))
    plant.step(0.5, 2)
    plant.story.world.network.partition([plant.story.endpoints["x"].host])
    plant.story.endpoints["x"].host.wall_offset = -5.0
    plant.write("a", Update("count/1", -1), Update("set/1", {"q": None, "r": True}), Set("multi/1", "A"))
    plant.write("x", Update("count/1", 10), Update("set/1", {"q": True}), Set("multi/1", "X"), Set("reg/1", "x"))
    plant.write("y", Set("reg/1", "y"), Delete("set/1"))
    plant.ask("x", Read("#"))
    plant.ask("x", Synchronize(), 1.0)
    plant.step(1.0, 3)
    plant.story.world.network.heal()
    plant.ask("x", Synchronize())
    plant.step(1.0, 3)
    for name in "axy":
        plant.ask(name, Read("#"))
    plant.write("a", Set("multi/1", "settled"), Delete("reg/1"))
    plant.step(1.0, 2)
    plant.story.endpoints["y"].crash()
    plant.write("x", Update("count/1", 1), Set("count/1", 1))
    plant.step(1.0)
    plant.story.endpoints["y"].restart()
    plant.open(plant.story.endpoints["y"], observer=True)
    plant.step(1.0, 2)
    plant.ask("y", Read("#"))
    plant.step(1.0)
    return plant.end()


MODELS: dict[str, Callable[[], str]] = {"agreed": agreed, "busy": busy, "merged": merged}
