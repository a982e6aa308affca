"""The known peers, their names and interests.

Interests come from the network. Therefore each is checked, and the memory for them is bounded.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from glue.contract import PeerAdded, PeerInterest, PeerRemoved, Surveyed
from glue.errors import TopicError
from glue.topics.asking import Asking
from glue.topics.index import Changes, Index
from glue.topics.names import check_pattern, is_wildcard

NODE_SIZE = 512
"""Bytes that a pattern occupies beside its text; one with wildcards, for each of its levels at most."""

PEER_INTEREST_SIZE = 8 << 20
"""Bytes for the interests of one peer: some 15,000 patterns without wildcards, 5,000 of three levels with."""

INTEREST_SIZE = 64 << 20
"""Bytes for the interests of all peers: eight that go to the limit, or a thousand with a hundred patterns each."""


class SubscribingPeer:
    """One life of a peer; `interests` maps each pattern to its accounted size in bytes."""

    __slots__ = ("incarnation", "interests", "name", "size")

    def __init__(self, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.interests: dict[str, int] = {}
        self.size = 0


class Peers:
    """The table of peers, updated by discovery's news; `index` finds the peers interested in a topic."""

    __slots__ = ("_asking", "_changes", "_size", "_statistics", "index", "table")

    def __init__(self, changes: Changes, statistics: Counter[str], asking: Asking) -> None:
        self._changes = changes
        self._asking = asking
        self.index: Index[str] = Index(changes=changes)
        self.table: dict[str, SubscribingPeer] = {}
        self._size = 0
        self._statistics = statistics

    def name(self, peer: str) -> str:
        """A peer's name, or its id if the peer is unknown."""
        known = self.table.get(peer)
        return peer if known is None else known.name

    def knows(self, peer: str, incarnation: int, pattern: str) -> bool:
        """Whether this life of a peer is known to subscribe to this very pattern."""
        known = self.table.get(peer)
        return known is not None and known.incarnation == incarnation and pattern in known.interests

    def add(self, news: PeerAdded) -> None:
        """Begin a life of a peer, without interests."""
        self._forget(news.peer)
        self._changes.note()
        self.table[news.peer] = SubscribingPeer(news.name, news.incarnation)

    def remove(self, news: PeerRemoved) -> None:
        """End a life of a peer; news of a former life changes nothing."""
        peer = self.table.get(news.peer)
        if peer is not None and peer.incarnation == news.incarnation:
            self._forget(news.peer)

    def change(self, news: PeerInterest) -> list[str]:
        """Take a change of a peer's interests; returns those that are new."""
        peer = self.table.get(news.peer)
        if peer is None:
            self._statistics["interest of an unknown peer"] += 1
            return []
        for pattern in news.removed:
            if pattern in peer.interests:
                self._withdraw(news.peer, peer, pattern)
        return [pattern for pattern in news.added if self._announce(news.peer, peer, pattern)]

    def survey(self, token: Any) -> Surveyed:
        """All peers with their interests."""
        return Surveyed(token, [(id, peer.name, list(peer.interests)) for id, peer in self.table.items()])

    def _announce(self, peer_id: str, peer: SubscribingPeer, pattern: str) -> bool:
        if pattern in peer.interests:
            return False
        try:
            check_pattern(pattern)
        except TopicError:
            self._statistics["malformed interest"] += 1
            return False
        size = len(pattern) + NODE_SIZE * (pattern.count("/") + 1 if is_wildcard(pattern) else 1)
        if peer.size + size > PEER_INTEREST_SIZE or self._size + size > INTEREST_SIZE:
            self._statistics["interest refused: too many"] += 1
            return False
        peer.interests[pattern] = size
        peer.size += size
        self._size += size
        self.index.add(pattern, peer_id)
        self._asking.add(peer_id, pattern)
        return True

    def _withdraw(self, peer_id: str, peer: SubscribingPeer, pattern: str) -> None:
        size = peer.interests.pop(pattern)
        peer.size -= size
        self._size -= size
        self.index.remove(pattern, peer_id)
        self._asking.remove(peer_id, pattern)

    def _forget(self, peer_id: str) -> None:
        peer = self.table.pop(peer_id, None)
        if peer is not None:
            self._changes.note()
            for pattern in list(peer.interests):
                self._withdraw(peer_id, peer, pattern)
