"""A storage that forgets everything at the end of the process: each start is a new life."""

from __future__ import annotations

from random import Random

from glue.model.consensus.items import Stored, Vital, Write

LIFE_BITS = 64
"""A life is 16 hex digits at random: two are the same once in 2^64 starts."""


def new_life(luck: Random) -> str:
    """The name of a new storage's life."""
    return f"{luck.getrandbits(LIFE_BITS):016x}"


class MemoryStorage:
    """A `Storage` without durability. A replica on it rejoins as a learner after a restart."""

    def __init__(self, luck: Random) -> None:
        self._life = new_life(luck)

    def load(self) -> Stored:
        """Only a new life."""
        return Stored(Vital(self._life))

    def write(self, write: Write) -> None:
        """The replica itself holds all that it needs in memory."""

    def sync(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to let go of."""
