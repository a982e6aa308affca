"""The delivery machine under a swarm of troubles, and its planted bugs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gateway.http import swarm
from tests.gateway.http.planted_bugs import BUGS

SEEDS = 25
NEEDED = 300
"""Seeds within which each planted bug is found."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_promise_breaks(seed: int) -> None:
    swarm.run(seed)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(NEEDED):
        try:
            swarm.run(seed)
        except AssertionError:
            return
    pytest.fail(f"not found within {NEEDED} seeds")
