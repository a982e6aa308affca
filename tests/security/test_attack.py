"""Sealed endpoints talk on whatever an attacker without the key sends, and planted mistakes are found: see `attack`."""

from __future__ import annotations

import os
from collections.abc import Callable
from unittest import mock

import pytest

from glue.security import lives, sealer
from glue.security.window import ReplayWindow
from tests.security.attack import BlockAttack, SealedAttack

SEEDS = int(os.environ.get("GLUE_ATTACK_SEEDS", "3"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_attacker_without_the_key_changes_nothing(seed: int) -> None:
    SealedAttack(seed).run()


@pytest.mark.parametrize("seed", [0, 40, 48])  # of two parties, and with attacks that reach blocks
def test_an_attacker_without_the_key_changes_nothing_of_blocks(seed: int) -> None:
    attack = BlockAttack(seed)
    attack.run()
    assert attack.in_blocks > 1000


def _renew_with_old_bytes(self: sealer.Sealer) -> None:
    """The mistake: each life begins with the same bytes."""
    self.salt = bytes(16)
    self.numbers = [0, 0]
    self.exchange = None
    self.use(self.epoch)


def _trust(self: lives.Life, salt: bytes) -> None:
    """The mistake: a life is trusted when it is first heard."""
    original(self, salt)
    self.is_fresh = True


original = lives.Life.__init__

PLANTED: dict[str, Callable[[], object]] = {
    "lives share a key": lambda: mock.patch.object(sealer.Sealer, "renew", _renew_with_old_bytes),
    "trust on first use": lambda: mock.patch.object(lives.Life, "__init__", _trust),
    "no replay window": lambda: mock.patch.object(ReplayWindow, "is_new", return_value=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str) -> None:
    patch: mock._patch[object] = PLANTED[name]()  # type: ignore[assignment]
    with patch:
        for seed in range(20):
            try:
                SealedAttack(seed).run()
            except AssertionError:
                return
    pytest.fail(f"{name}: not found in 20 seeds")
