"""Hosts of receivers in virtual time, with losses, pauses, splits and crashes; callers add tokens to lists.

python -m tests.receivers.swarm 0 1000    # hunt through these seeds
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from glue.endpoint.receiver_methods import BaseReceivers
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.model import SimulatedModel
from tests.support.planting import sum_of_seeds

OUTCOME_KNOWN = 1.5
"""Seconds until an outcome of the model counts as unknown: few, so that it happens often."""
AFTERWARDS = 3.0
"""Seconds from the last repair to the look at what is left: those who were away have come back, and tried to write."""
IDS = [f"r{number}" for number in range(5)]
PARTITIONS = 4


class Tokens:
    """A receiver that keeps the tokens it was given."""

    idle = 3.0

    def receive(self, context: Any, message: Any) -> Any:
        """Add a token, or show all."""
        tokens = context.state.get("tokens", [])
        if message is None:
            return tokens
        context.state["tokens"] = [*tokens, message]
        return len(tokens)


class Swarm:
    """Three hosts, which are the voters of the model, and two callers."""

    def __init__(self, seed: int, factory: type = Tokens, store: Any = None) -> None:
        self.world = World(seed)
        self.chance = self.world.random("swarm of receivers")
        self.factory = factory
        self.store = store
        self.hosts = [self.world.endpoint(f"host{number}") for number in range(3)]
        self.callers = [self.world.endpoint(f"caller{number}") for number in range(2)]
        self.acknowledged: dict[str, list[int]] = {id: [] for id in IDS}
        self.sent: dict[str, list[int]] = {id: [] for id in IDS}
        self.numbers = 0
        self.down: SimulatedEndpoint | None = None
        self.models: dict[str, SimulatedModel] = {}
        self.repaired_at = 0.0  # when the last pause, split or crash of so far ends
        self.kinds: dict[str, BaseReceivers] = {}
        for host in self.hosts:
            self.serve(host)

    def serve(self, host: SimulatedEndpoint) -> None:
        """Host the kind in a new life."""
        self.models[host.name] = model = host.model("plant", voters=3)
        host.model_timeout = OUTCOME_KNOWN
        receivers = host.receivers("tokens", self.factory, model, partitions=PARTITIONS, store=self.store)
        self.kinds[host.name] = receivers

    def add(self) -> None:
        """Send a token to a receiver."""
        self.numbers += 1
        number, id = self.numbers, self.chance.choice(IDS)
        self.sent[id].append(number)

        def note(error: BaseException | None, answer: Any) -> None:
            if error is None and answer is not None:
                self.acknowledged[id].append(number)

        self.chance.choice(self.callers).ask(f"tokens/{id}", number, 30.0, note)

    def disturb(self) -> None:
        """Make the network worse or better, stop or kill a host, or cut hosts off."""
        chance, world = self.chance, self.world
        what = chance.random()
        if what < 0.3:
            world.network.set_conditions(
                Conditions(
                    loss=chance.choice((0.0, 0.1, 0.3)),
                    duplicate=chance.choice((0.0, 0.1)),
                    delay=chance.choice((0.0005, 0.02)),
                    jitter=chance.choice((0.0, 0.01)),
                )
            )
        elif what < 0.55:
            everyone = [*self.hosts, *self.callers]
            side = [one.host for one in everyone if chance.random() < 0.5]
            world.network.partition(side, [one.host for one in everyone if one.host not in side])
            self.later(chance.uniform(0.5, 6.0), world.network.heal)
        elif what < 0.8:
            host = chance.choice(self.hosts)
            if host.is_running:
                host.pause()
                core = host._core
                self.later(chance.uniform(0.2, 5.0), lambda: host.resume() if host._core is core else None)
        elif self.down is None and all(model.group.is_voter for model in self.models.values()):
            self.down = host = chance.choice(self.hosts)
            host.crash()
            self.later(chance.uniform(0.5, 4.0), lambda: self.revive(host))

    def later(self, seconds: float, repair: Callable[[], object]) -> None:
        """Repair something after a while."""
        self.repaired_at = max(self.repaired_at, self.world.time + seconds)
        self.world.after(seconds, repair)

    def revive(self, host: SimulatedEndpoint) -> None:
        """Start a crashed host again; another one may crash once this one is a voter again, as it lost what it had."""
        host.restart()
        self.serve(host)
        self.down = None

    def run(self) -> None:
        """Disturb and add for a while, then heal, and compare. Raises AssertionError."""
        world = self.world
        assert world.run_until(lambda: sum(kind.owned for kind in self.kinds.values()) == PARTITIONS, 10.0)
        for _ in range(40):
            world.run(self.chance.uniform(0, 0.4))
            if self.chance.random() < 0.25:
                self.disturb()
            for _ in range(self.chance.randint(0, 3)):
                self.add()
        world.network.set_conditions(Conditions())
        world.network.heal()
        world.run(max(0.0, self.repaired_at - world.time))
        for host in self.hosts:
            host.resume()
        world.run(AFTERWARDS)
        told = {id: set(numbers) for id, numbers in self.acknowledged.items()}  # others may follow while it reads
        found = self.read()
        for id in IDS:
            tokens = found[id]
            twice = [token for token, times in Counter(tokens).items() if times > 1]
            assert not twice, f"{id}: handled twice: {twice}"
            lost = told[id] - set(tokens)
            assert not lost, f"{id}: acknowledged and lost: {sorted(lost)}"
            assert set(tokens) <= set(self.sent[id])

    def read(self) -> dict[str, list[int]]:
        """What each receiver has at the end."""
        found: dict[str, list[int]] = {}

        def ask(id: str) -> None:
            def note(error: BaseException | None, answer: Any) -> None:
                if error is None:
                    found[id] = answer
                else:
                    ask(id)

            self.callers[0].ask(f"tokens/{id}", None, 5.0, note)

        for id in IDS:
            ask(id)
        assert self.world.run_until(lambda: len(found) == len(IDS), 60.0), f"no answer of {set(IDS) - set(found)}"
        return found


def counted(seed: int) -> int:
    """Run a seed; returns how many tokens were acknowledged."""
    swarm = Swarm(seed)
    swarm.run()
    return sum(map(len, swarm.acknowledged.values()))


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many tokens were acknowledged."""
    return sum_of_seeds(counted, range(first, last))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(hunt(int(sys.argv[1]), int(sys.argv[2])), "acknowledged")
