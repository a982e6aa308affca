"""The watches of one endpoint: each gets what matches at its start, then every change once and in order.

A replica that was cut off for long continues from a snapshot, which does not tell single changes. Its watches get the
difference between the old state and the new one, marked as not `live`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from glue.contract import Delivery
from glue.model.state import Change, Pattern, State

WATCHES = 4096
"""Watches of one model at one endpoint: each change is compared with every pattern, 0.3 µs each."""


class Watches:
    """The watches of one model at one endpoint. Events are deliveries with `Change` objects as payloads."""

    def __init__(self, model: str, peer: str, incarnation: int = 0) -> None:
        self._model = model
        self._peer = peer
        self._incarnation = incarnation
        self._patterns: dict[Hashable, Pattern] = {}
        self._told: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, token: Hashable, pattern: Pattern, now: Iterable[Change]) -> list[Delivery]:
        """Begin a watch; `now` holds the entries that match at this moment."""
        self._patterns[token] = pattern
        self._told[token] = 0
        return self._deliver(token, [change.past for change in now])

    def remove(self, token: Hashable) -> None:
        """End a watch. A token without a watch is ignored."""
        self._patterns.pop(token, None)
        self._told.pop(token, None)

    def tell(self, changes: Sequence[Change]) -> list[Delivery]:
        """Return the deliveries of these changes to the watches that match."""
        deliveries: list[Delivery] = []
        if changes:
            for token, pattern in self._patterns.items():
                deliveries += self._deliver(token, [change for change in changes if pattern.matches(change.key)])
        return deliveries

    def _deliver(self, token: Hashable, changes: list[Change]) -> list[Delivery]:
        if not changes:
            return []
        sequence = self._told[token] + 1
        self._told[token] += len(changes)
        source = (self._model, self._peer, self._incarnation)
        return [Delivery(changes[0].key, changes, None, *source, sequence, 0.0, False, (token,))]


def difference(before: State, after: State) -> list[Change]:
    """Return the changes from one state to a later one, in order of index."""
    everything = Pattern("#")
    old = {change.key: change.index for change in before.match(everything)}
    changes = [change.past for change in after.match(everything) if old.pop(change.key, 0) != change.index]
    changes += [Change(key, None, after.index, False) for key in old]
    return sorted(changes, key=lambda change: change.index)
