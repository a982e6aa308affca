"""The model of programs that only publish and subscribe: everything passes through unchanged.

It holds nothing, so it has no limits, no timers and nothing to count; a model with replicated state takes its
place by one constructor argument.
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

    def commit(self) -> None:
        """Nothing is deferred."""

    def fit(self, size: int) -> int:
        """Adds no bytes: what the layer below takes, this one takes."""
        return size

    def receive(self, now: float, items: list[Event]) -> tuple[list[Event], list[Request]]:
        """What comes from below goes up."""
        return items, []

    def send(self, now: float, items: list[Request]) -> list[Request]:
        """What comes from above goes down."""
        return items
