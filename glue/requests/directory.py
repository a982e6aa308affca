"""The patterns that responders answer, by endpoint, as discovery tells.

Each entry is an interest that a peer announced, or a responder of this endpoint. The number of entries is bounded,
because peers may announce any number of patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from glue.contract import PeerInterest
from glue.errors import TopicError
from glue.requests.wire import ANNOUNCED
from glue.topics import check_pattern
from glue.topics.index import Index

PEER_PATTERNS = 4096
"""Patterns of one peer, at some 600 bytes each: 2.5 MB."""
PATTERNS = 32_768
"""Patterns of all peers: 20 MB."""


class Directory:
    """The responders' patterns. `name` of an endpoint is what discovery calls it."""

    __slots__ = ("_count", "_index", "_patterns", "_statistics")

    def __init__(self, statistics: Counter[str]) -> None:
        self._index: Index[str] = Index()
        self._patterns: dict[str, dict[str, int]] = {}  # of each endpoint, with how many responders have it
        self._count = 0
        self._statistics = statistics

    def change(self, news: PeerInterest) -> bool:
        """Take a change of a peer's interests; returns whether it answers anything new."""
        for interest in news.removed:
            if interest.startswith(ANNOUNCED):
                self.remove(news.peer, interest[len(ANNOUNCED) :])
        is_new = False
        for interest in news.added:
            if interest.startswith(ANNOUNCED):
                is_new |= self._announce(news.peer, interest[len(ANNOUNCED) :])
        return is_new

    def _announce(self, peer: str, pattern: str) -> bool:
        known = self._patterns.get(peer, {})
        if pattern in known:
            return False
        try:
            check_pattern(pattern)
        except TopicError:
            self._statistics["malformed responder"] += 1
            return False
        if len(known) >= PEER_PATTERNS or self._count >= PATTERNS:
            self._statistics["responders refused: too many"] += 1
            return False
        self.add(peer, pattern)
        return True

    def add(self, endpoint: str, pattern: str) -> None:
        """Add a responder of an endpoint; its pattern is well-formed."""
        patterns = self._patterns.setdefault(endpoint, {})
        users = patterns[pattern] = patterns.get(pattern, 0) + 1
        if users == 1:
            self._index.add(pattern, endpoint)
            self._count += 1

    def remove(self, endpoint: str, pattern: str) -> None:
        """Remove a responder of an endpoint; one that is not there is let be."""
        patterns = self._patterns.get(endpoint, {})
        if pattern not in patterns:
            return
        patterns[pattern] -= 1
        if not patterns[pattern]:
            del patterns[pattern]
            self._index.remove(pattern, endpoint)
            self._count -= 1
            if not patterns:
                del self._patterns[endpoint]

    def forget(self, endpoint: str) -> None:
        """Remove all responders of an endpoint."""
        for pattern in self._patterns.pop(endpoint, {}):
            self._index.remove(pattern, endpoint)
            self._count -= 1

    def patterns(self) -> Iterator[str]:
        """The patterns with a responder; some may come twice."""
        return chain.from_iterable(self._patterns.values())

    def find(self, topic: str) -> tuple[str, ...]:
        """Ids of the endpoints that answer a well-formed topic, sorted."""
        return self._index.match(topic)


def matches(pattern: str, topic: str) -> bool:
    """Tell whether a well-formed pattern matches a topic."""
    index: Index[str] = Index()
    index.add(pattern, pattern)
    return bool(index.find(topic))
