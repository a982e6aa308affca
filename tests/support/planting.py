"""Seeds of a swarm: run many of them, or count how many it takes to find a planted bug."""

from __future__ import annotations

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
