"""Seeds of a swarm: run many of them, or count how many it takes to find a planted bug."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def seeds_to_find(run: Callable[[int], object], seeds: Iterable[int], *plants: Plant) -> int | None:
    """Return how many seeds it takes until `run(seed)` raises with these changes to the code; None: it does not."""
    for count, seed in enumerate(seeds, 1):
        with pytest.MonkeyPatch.context() as patch:
            for plant in plants:
                plant(patch)
            try:
                run(seed)
            except Exception:  # an assertion, or what the bug leads to
                return count
    return None


def sum_of_seeds(run: Callable[[int], int], seeds: range) -> int:
    """Run these seeds; returns the sum of what `run(seed)` counts. An exception gets a note with its seed."""
    total = 0
    for seed in seeds:
        try:
            total += run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return total


def command(
    hunt: Callable[[int, int], int], run: Callable[[int], object], bugs: Iterable[Plant], *always: Plant
) -> None:
    """Run a swarm as a command: `FIRST LAST` hunts through these seeds, `bugs COUNT` tells what each bug takes.

    `always`: changes to the code that hold for each bug.
    """
    if sys.argv[1] != "bugs":
        print(hunt(int(sys.argv[1]), int(sys.argv[2])), "counted")
        return
    for bug in bugs:
        print(f"{seeds_to_find(run, range(int(sys.argv[2])), *always, bug)} seeds: {bug.__doc__}", flush=True)
