"""How long a model of three voters takes to commit again after the death of one, in virtual time, over many seeds.

    python -m benchmarks.model_takeover --seeds 400

Each seed has three endpoints with disks, and a steady load of writes. One endpoint after the other is killed, and
started again 2.5 s later; 2 s after that the next one dies. A start is slow, as on a busy machine: the endpoint is
stopped now and then in its first second. The figure is the time from a death until a write that each survivor asked
for then is committed. It has the whole stack in it, but no processor, and disks that sync at once.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from statistics import median, quantiles

from glue.model.questions import Committed, Write
from glue.model.state import Set
from glue.simulation import Conditions, World
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.model import SimulatedModel, SimulatedQuestion

ELECTION_TIMEOUT = 0.7
"""As for `glue mqtt --shared`."""
PACE = 0.03
"""Seconds between two writes of an endpoint."""
LIMIT = 30.0
"""Seconds after which a death counts as one that nothing follows."""


class Group:
    """Three endpoints, their disks and models, and what is written."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(seed)
        self.world.network.set_conditions(Conditions(delay=0.0001, jitter=0.002))
        self.disks = [SimulatedDisk(Random(f"{seed} {number}")) for number in range(3)]
        self.endpoints = [self.world.endpoint(f"e{number}") for number in range(3)]
        self.models: list[SimulatedModel | None] = [None] * 3
        for number in range(3):
            self._open(number)
        self.world.run(5.0)

    def _open(self, number: int) -> None:
        self.models[number] = self.endpoints[number].model(
            "plant", voters=3, directory=self.disks[number], election_timeout=ELECTION_TIMEOUT
        )

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with writes at all endpoints that live."""
        until = self.world.time + seconds
        while self.world.time < until:
            for number, model in enumerate(self.models):
                if model is not None:
                    model.ask(Write([Set(f"k{number}", bytes(200).hex())]), timeout=2.0)
            self.world.run(PACE)

    def kill(self) -> float:
        """Kill one endpoint; returns after how many seconds each of the others has committed a write."""
        victim = self.random.randrange(3)
        self.models[victim] = None
        self.endpoints[victim].crash()
        self.disks[victim].crash()
        at = self.world.time
        asked: list[SimulatedQuestion] = []
        for number, model in enumerate(self.models):
            if model is not None:
                asked.append(model.ask(Write([Set(f"a{number}", at)]), timeout=LIMIT))
        while not all(isinstance(one.ending, Committed) for one in asked) and self.world.time < at + LIMIT:
            self.pass_time(0.01)
        took = self.world.time - at
        self.pass_time(max(0.0, 2.5 - took))
        self._start(victim)
        return took

    def _start(self, victim: int) -> None:
        endpoint = self.endpoints[victim]
        endpoint.restart()
        self._open(victim)
        for _ in range(self.random.randrange(4)):
            self.pass_time(self.random.random() * 0.2)
            endpoint.pause()
            self.pass_time(self.random.random() * 0.4)
            endpoint.resume()
        self.pass_time(2.0)


def main() -> int:
    """Run; prints the distribution."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_takeover", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--kills", type=int, default=5, help="in each seed (default: %(default)s)")
    options = parser.parse_args()
    times: list[tuple[float, int, int]] = []
    for seed in range(options.first, options.first + options.seeds):
        group = Group(seed)
        times += [(group.kill(), seed, number) for number in range(options.kills)]
        if (seed + 1) % 20 == 0 or seed + 1 == options.first + options.seeds:
            values = [one[0] for one in times]
            cuts = quantiles(values, n=1000) if len(values) > 1 else values
            print(f"{len(values)} deaths: median {median(values):.2f} s, 95 % within {cuts[949]:.2f} s, 99 % "
                  f"{cuts[989]:.2f} s, 99.9 % {cuts[998]:.2f} s, longest {max(values):.2f} s", flush=True)  # fmt: skip
    print("longest, with seed and number:", *(f"{took:.2f} ({seed}, {number})" for took, seed, number in
                                              sorted(times, reverse=True)[:5]))  # fmt: skip
    return int(max(times)[0] >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
