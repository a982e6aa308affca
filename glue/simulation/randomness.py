"""Random numbers from one seed, with a separate stream for each purpose.

Streams are independent: another host, or another fault on the same link, does not change the other streams. Therefore a
failing seed can be shrunk. A stream is seeded with text, and `random.Random` hashes the text with SHA-512. Nothing
depends on PYTHONHASHSEED.
"""

from __future__ import annotations

import random
from collections.abc import Callable


def stream(seed: int, purpose: str) -> random.Random:
    """Return a new random generator for one purpose. The same seed and purpose give the same numbers."""
    return random.Random(f"{seed}/{purpose}")


class RandomStreams:
    """Random streams of one link, one for each kind of fault. A stream is made at its first use (2.5 kB each)."""

    __slots__ = ("_draws", "_owner", "_seed")

    def __init__(self, seed: int, owner: str) -> None:
        self._seed = seed
        self._owner = owner
        self._draws: dict[str, Callable[[], float]] = {}

    def draw(self, purpose: str) -> float:
        """Return the next number of the stream, uniform in [0, 1)."""
        draw = self._draws.get(purpose)
        if draw is None:
            draw = self._draws[purpose] = stream(self._seed, f"{self._owner}/{purpose}").random
        return draw()

    def strikes(self, purpose: str, probability: float) -> bool:
        """Decide whether an event of this probability happens now. Probability 0 draws no number."""
        return probability > 0.0 and self.draw(purpose) < probability
