"""Endpoints talk on while a stranger sends what it likes: see `attack`."""

from __future__ import annotations

import os

import pytest

from tests.simulation.attack import Attack

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("GLUE_ATTACK_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_honest_streams_lose_nothing_whatever_a_stranger_sends(seed: int) -> None:
    Attack(seed).run()


def test_the_same_seed_is_the_same_attack() -> None:
    assert Attack(3).run() == Attack(3).run()
