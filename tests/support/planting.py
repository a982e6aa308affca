"""Planted bugs: how many seeds a swarm takes to find one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def seeds_to_find(run: Callable[[int], object], seeds: range, *plants: Plant) -> int | None:
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
