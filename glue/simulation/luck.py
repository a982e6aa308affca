"""Randomness from one seed, split into a stream for each purpose.

No stream is shared: another host, or another fault on the same link, leaves the luck of the rest as it was.
That is what makes a failing seed shrinkable. A stream is seeded with text, which `random.Random` digests
with SHA-512, so nothing depends on PYTHONHASHSEED.
"""

from __future__ import annotations

import random
from collections.abc import Callable


def stream(seed: int, purpose: str) -> random.Random:
    """The random numbers for one purpose: the same seed and purpose give the same numbers, from the start."""
    return random.Random(f"{seed}/{purpose}")


class Luck:
    """The streams of one link, one per kind of fault, each made when first drawn from (2.5 kB each)."""

    __slots__ = ("_draws", "_owner", "_seed")

    def __init__(self, seed: int, owner: str) -> None:
        self._seed = seed
        self._owner = owner
        self._draws: dict[str, Callable[[], float]] = {}

    def draw(self, purpose: str) -> float:
        """The next number of the stream, uniform in [0, 1)."""
        draw = self._draws.get(purpose)
        if draw is None:
            draw = self._draws[purpose] = stream(self._seed, f"{self._owner}/{purpose}").random
        return draw()

    def strikes(self, purpose: str, probability: float) -> bool:
        """Whether something of this probability happens now; what cannot happen draws no number."""
        return probability > 0.0 and self.draw(purpose) < probability
