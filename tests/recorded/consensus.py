"""Runs of the consensus alone, under faults drawn from seeds: how each ended, a line each.

The number at the end of a line stands for all messages of the run and their times: a seed gives the same run as ever.
"""

from __future__ import annotations

from glue.simulation.consensus import run_seed

SEEDS = 10  # in each record
FORGED = range(200, 210)


def consensus(part: int) -> str:
    """Return what became of each seed of a part."""
    return "".join(map(line, range(part * SEEDS, (part + 1) * SEEDS)))


def forged() -> str:
    """Return what became of groups beside which a forger sends impossible numbers."""
    return "".join(line(seed, forged=True) for seed in FORGED)


def line(seed: int, forged: bool = False) -> str:
    """Return what became of one seed."""
    run = run_seed(seed, forged=forged)
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in run.outcomes.items())
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(run.faults.items()))
    return (
        f"{seed}: {run.violation or 'well'}, {run.elections} elections, {run.commit_index} entries; "
        f"{outcomes}; {faults}; {run.trace_hash[:8]}\n"
    )
