"""Subscriptions of this endpoint's application, and the patterns announced to peers.

Several subscriptions may share a pattern. Peers learn of a pattern when its first subscription begins and when its last
subscription ends. Changes gather until the next call of `interest`, which announces them together. A pattern added and
removed in between is not announced.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from glue.contract import Interest
from glue.topics.asking import Asking
from glue.topics.index import Changes, Index


class Subscriptions:
    """Tokens and their patterns; `index` answers which tokens a topic goes to, in the order of subscribing."""

    __slots__ = (
        "_announced",
        "_asking",
        "_changed",
        "_endpoint_id",
        "_numbers",
        "_patterns",
        "_remote",
        "_users",
        "index",
        "mark",
    )

    def __init__(self, changes: Changes, asking: Asking, endpoint_id: str) -> None:
        self._asking = asking
        self._endpoint_id = endpoint_id
        self._patterns: dict[Hashable, tuple[str, ...]] = {}
        self._remote: set[Hashable] = set()  # those that want nothing of this endpoint itself
        self._numbers: dict[Hashable, int] = {}
        self.mark = 0  # how many subscriptions there have been
        self._users: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._announced: set[str] = set()
        self.index: Index[Hashable] = Index(self._numbers.__getitem__, changes)

    def add(self, token: Hashable, patterns: Sequence[str], local: bool = True) -> None:
        """Begin a subscription; a token in use moves to the new patterns. `local`: with what is published here."""
        self.remove(token)
        self.mark += 1
        self._numbers[token] = self.mark
        self._patterns[token] = patterns = tuple(dict.fromkeys(patterns))
        if not local:
            self._remote.add(token)
        for pattern in patterns:
            self._users[pattern] = users = self._users.get(pattern, 0) + 1
            self._changed[pattern] = None
            self.index.add(pattern, token)
            if users == 1:
                self._asking.add(self._endpoint_id, pattern)

    def remove(self, token: Hashable) -> None:
        """End a subscription; an unknown token has no effect."""
        patterns = self._patterns.pop(token, None)
        if patterns is None:
            return
        for pattern in patterns:
            self.index.remove(pattern, token)
            self._users[pattern] -= 1
            if not self._users[pattern]:
                del self._users[pattern]
                self._asking.remove(self._endpoint_id, pattern)
            self._changed[pattern] = None
        del self._numbers[token]
        self._remote.discard(token)

    def own(self, topic: str) -> tuple[Hashable, ...]:
        """Tokens that get what this endpoint itself publishes to a topic."""
        tokens = self.index.match(topic)
        return tuple([token for token in tokens if token not in self._remote]) if self._remote else tokens

    def since(self, mark: int, topic: str) -> tuple[Hashable, ...]:
        """Tokens of subscriptions that match a topic and existed at this value of `mark`."""
        return tuple(token for token in self.index.match(topic) if self._numbers[token] <= mark)

    def interest(self) -> Interest | None:
        """Changes of interest since the last call; None if there are none."""
        if not self._changed:
            return None
        added = [p for p in self._changed if p in self._users and p not in self._announced]
        removed = [p for p in self._changed if p not in self._users and p in self._announced]
        self._changed.clear()
        self._announced.update(added)
        self._announced.difference_update(removed)
        return Interest(added, removed) if added or removed else None
