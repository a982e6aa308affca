"""Runs of the consensus alone, under faults drawn from seeds: how each ended, a line each.

The number at the end of a line stands for all messages of the run and their times: a seed gives the same run as ever.
The last lines have what the replicas counted in their last lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from unittest import mock

from glue.simulation.consensus import RunResult, run_seed, swarm

SEEDS = 10  # in each record
FORGED = range(200, 210)


def consensus(part: int) -> str:
    """Return what became of each seed of a part."""
    return lines(range(part * SEEDS, (part + 1) * SEEDS), run_seed)


def forged() -> str:
    """Return what became of groups beside which a forger sends impossible numbers."""
    return lines(FORGED, lambda seed: run_seed(seed, forged=True))


def lines(seeds: range, run: Callable[[int], RunResult]) -> str:
    """Return what became of these seeds, and what was counted."""
    swarms: list[swarm.Swarm] = []

    class Kept(swarm.Swarm):
        """A swarm that is looked at after its run."""

        def run(self) -> None:
            swarms.append(self)
            super().run()

    with mock.patch.object(swarm, "Swarm", Kept):
        told = [line(run(seed)) for seed in seeds]
    counted = Counter[str]()
    for one in swarms:
        for node in one.cluster.nodes.values():
            counted.update(node.replica.statistics if node.replica else {})
    return "".join(told) + "".join(f"{what}: {count}\n" for what, count in sorted(counted.items()))


def line(run: RunResult) -> str:
    """Return what became of one seed."""
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in run.outcomes.items())
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(run.faults.items()))
    return (
        f"{run.seed}: {run.violation or 'well'}, {run.elections} elections, {run.commit_index} entries; "
        f"{outcomes}; {faults}; {run.trace_hash[:8]}\n"
    )
