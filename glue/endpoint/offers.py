"""The endpoints that serve history, as their interests tell."""

from __future__ import annotations

from collections import Counter

from glue.contract import PeerInterest
from glue.errors import TopicError
from glue.history.names import KEEPER, OWN
from glue.topics import check_pattern

OFFERS = 4096
"""Patterns of history that one peer may offer, at some 300 bytes: 1.2 MB."""
ALL_OFFERS = 32_768
"""Patterns of all peers: 10 MB."""

SERVING = (OWN, KEEPER)
"""What the interests of publishers and keepers that serve history begin with."""


def served_by(interest: str) -> tuple[str, str, int]:
    """The place of a keeper, "" for a publisher; the pattern that is served, "" if malformed; a keeper's replicas."""
    if interest.startswith(OWN):
        return "", interest[len(OWN) :], 0
    place, replicas, pattern = [*interest[len(KEEPER) :].split("/", 2), "", "", ""][:3]
    return place or "?", pattern, int(replicas) if replicas.isascii() and replicas.isdecimal() else 0


class Offers:
    """The endpoints that serve history, by pattern, as discovery tells."""

    def __init__(self, statistics: Counter[str]) -> None:
        self.interests: dict[str, dict[str, None]] = {}  # by peer
        self._count = 0
        self._statistics = statistics

    def change(self, news: PeerInterest) -> tuple[list[str], list[str]]:
        """Take a change of a peer's interests; return its new offers of history, and the ended ones."""
        added = [name for name in news.added if name.startswith(SERVING)]
        removed = [name for name in news.removed if name.startswith(SERVING)]
        offered = [interest for interest in added if self.add(news.peer, interest)]
        return offered, [interest for interest in removed if self.remove(news.peer, interest)]

    def add(self, peer: str, interest: str) -> bool:
        """Add an offer; False if it is known, malformed, or one too many."""
        known = self.interests.get(peer, {})
        if interest in known:
            return False
        try:
            check_pattern(served_by(interest)[1])
        except TopicError:
            self._statistics["malformed offers of history"] += 1
            return False
        if len(known) >= OFFERS or self._count >= ALL_OFFERS:
            self._statistics["offers of history refused: too many"] += 1
            return False
        self.interests.setdefault(peer, {})[interest] = None
        self._count += 1
        return True

    def remove(self, peer: str, interest: str) -> bool:
        """Remove an offer; False if there is none."""
        known = self.interests.get(peer, {})
        if interest not in known:
            return False
        del known[interest]
        self._count -= 1
        if not known:
            del self.interests[peer]
        return True

    def forget(self, peer: str) -> None:
        """Remove all offers of a peer."""
        self._count -= len(self.interests.pop(peer, ()))
