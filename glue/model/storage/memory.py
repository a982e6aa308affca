"""A storage in memory, which is lost at the end of the process: each start is a new life."""

from __future__ import annotations

from random import Random

from glue.model.consensus.items import DurableWrite, Stored, Vital

LIFE_BITS = 64
"""Bits of a life, drawn at random and written as 16 hex digits: two starts have the same one with 2^-64."""


def new_life(rng: Random) -> str:
    """Draw the life of a new storage."""
    return f"{rng.getrandbits(LIFE_BITS):016x}"


class MemoryStorage:
    """A `Storage` without durability. A replica on it rejoins as a learner after a restart."""

    def __init__(self, rng: Random) -> None:
        self._life = new_life(rng)

    def load(self) -> Stored:
        """Return a new life and nothing else."""
        return Stored(Vital(self._life))

    def write(self, write: DurableWrite) -> None:
        """Do nothing: the replica itself holds its state in memory."""

    def sync(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
