"""Runs of the consensus alone, under faults drawn from seeds: how each ended, a line each."""

from __future__ import annotations

from glue.simulation.consensus import run_seed

SEEDS = 10  # in each record


def consensus(part: int) -> str:
    """Return what became of each seed of a part."""
    lines = []
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        run = run_seed(seed)
        outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in run.outcomes.items())
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(run.faults.items()))
        lines.append(
            f"{seed}: {run.violation or 'well'}, {run.elections} elections, {run.commit_index} entries; "
            f"{outcomes}; {faults}"
        )
    return "\n".join(lines) + "\n"
