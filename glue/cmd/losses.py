"""How much is lost between endpoints, as they tell it, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from glue.endpoint.facts import paths_of
from glue.endpoint.inquiring import Answered

ENDPOINTS: Final = 1000
"""Endpoints whose paths are kept, at some 200 paths of 100 bytes each: 20 MB."""


class Losses:
    """The latest loss from each endpoint to each other one; of endpoints with the same name, the worst."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, float]] = {}  # by sender and receiver

    def take(self, told: Iterable[Answered]) -> None:
        """Take what endpoints told of their activity, in place of what they told before."""
        told = list(told)[:ENDPOINTS]
        names = {one.id: one.name for one in told}
        found: dict[str, dict[str, float]] = {}
        for one in told:
            losses = found.setdefault(one.name, {})
            for path in paths_of(one.id, one.sections.get("activity")):
                if path.loss is not None and path.receiver in names:
                    name = names[path.receiver]
                    losses[name] = max(losses.get(name, 0.0), path.loss)
        self._of = found

    def worst(self, publishers: Iterable[str], subscribers: Iterable[str]) -> float | None:
        """Return the worst loss from one of these to one of those, between 0 and 1; None if none was measured."""
        receivers = set(subscribers)
        told = [losses for publisher in publishers if (losses := self._of.get(publisher))]
        return max((losses[name] for losses in told for name in losses.keys() & receivers), default=None)
