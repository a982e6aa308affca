"""The model layer of programs without shared state: everything passes through unchanged.

The layer has no limits, no timers and no counters. One constructor argument replaces it by a layer with models.
"""

from __future__ import annotations

from collections import Counter
from math import inf

from glue.contract import Event, Request


class Direct:
    """A `Layer[Event, Event, Request, Request]` that adds nothing."""

    deadline = inf
    backlog = unfinished = 0

    def __init__(self) -> None:
        self.statistics: Counter[str] = Counter()

    def fit(self, size: int) -> int:
        """Return `size`: this layer adds no bytes."""
        return size

    def receive(self, now: float, items: list[Event]) -> tuple[list[Event], list[Request]]:
        """Pass on what comes from below."""
        return items, []

    def send(self, now: float, items: list[Request]) -> list[Request]:
        """Pass on what comes from above."""
        return items
