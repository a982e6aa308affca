"""The keepers that a reader knows: what each keeps, and which one to ask.

Each reader and pattern ranks the keepers anew (rendezvous hashing, Thaler and Ravishankar 1998), so readers spread over
the keepers. The designated keepers of a topic (`placement.py`) are asked first for its messages.
"""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

from glue.history.placement import chosen
from glue.history.source import Keeper
from glue.topics.index import Index

EVER = 4096
"""Patterns of lost keepers that are remembered, at some 300 bytes: 1.2 MB."""


class KnownKeepers:
    """The keepers of one reader, by their ids."""

    __slots__ = ("_by_id", "_ever", "_ever_patterns", "_salt")

    def __init__(self, mine: str, pattern: str) -> None:
        self._salt = f"{mine} {pattern}"
        self._by_id: dict[str, Keeper] = {}
        self._ever: Index[str] = Index()  # of what keepers keep, or kept before they were lost
        self._ever_patterns: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, peer: str) -> Keeper:
        return self._by_id[peer]

    def of_life(self, peer: str, life: int) -> Keeper | None:
        """Return a keeper in this life; None if it is not known."""
        keeper = self._by_id.get(peer)
        return keeper if keeper is not None and keeper.life == life else None

    def meet(self, peer: str, life: int) -> Keeper:
        """Add a keeper, which takes the place of its former life."""
        keeper = self._by_id[peer] = Keeper(life)
        return keeper

    def remove(self, peer: str) -> None:
        """Forget a keeper, but not what it kept."""
        del self._by_id[peer]

    def offer(self, keeper: Keeper, pattern: str, place: str, replicas: int) -> None:
        """Note that a keeper keeps a pattern in a place, such as "disk"."""
        if pattern not in keeper.patterns:
            keeper.index.add(pattern, pattern)
            if len(self._ever_patterns) < EVER and pattern not in self._ever_patterns:
                self._ever_patterns.add(pattern)
                self._ever.add(pattern, pattern)
        keeper.patterns[pattern] = place, replicas

    def withdraw(self, peer: str, pattern: str) -> bool:
        """Note that a keeper keeps a pattern no more; returns whether it keeps nothing now."""
        keeper = self._by_id.get(peer)
        if keeper is None or pattern not in keeper.patterns:
            return False
        del keeper.patterns[pattern]
        keeper.index.remove(pattern, pattern)
        return not keeper.patterns

    def cover(self, topic: str) -> bool:
        """Whether a keeper keeps this topic."""
        return any(keeper.index.match(topic) for keeper in self._by_id.values())

    def covered(self, topic: str) -> bool:
        """Whether a keeper keeps this topic, or one that may come back did."""
        return bool(self._ever.match(topic))

    def whole(self) -> list[str]:
        """The keepers that leave no topic to others, the one to ask first at the beginning."""
        return [peer for peer in self.ranked() if not self._by_id[peer].is_partial]

    def others(self, peer: str) -> list[Keeper]:
        """The keepers but this one."""
        return [keeper for other, keeper in self._by_id.items() if other != peer]

    def ranked(self) -> list[str]:
        """All keepers, the one to ask first at the beginning."""
        return sorted(self._by_id, key=lambda peer: crc32(f"{peer} {self._salt}".encode()))

    def target(self, now: float, tried: Collection[str] = (), topic: str | None = None) -> str:
        """The keeper to ask for something that some have tried in vain; "" if all have."""
        left = [peer for peer in self.ranked() if peer not in tried]
        if topic is not None and any(self._by_id[peer].is_partial for peer in left):
            first = self._chosen(topic)
            left.sort(key=lambda peer: peer not in first)
        return (self._speaking(now, left) or left or [""])[0]

    def _speaking(self, now: float, peers: list[str]) -> list[str]:
        """Return the peers among these that are not silent."""
        return [peer for peer in peers if self._by_id[peer].silent_until <= now]

    def _chosen(self, topic: str) -> set[str]:
        """The keepers that are to keep a topic."""
        found: set[str] = set()
        for place in {place for keeper in self._by_id.values() for place, _ in keeper.patterns.values()}:
            wanted = {peer: keeper.keeps(topic, place) for peer, keeper in self._by_id.items()}
            found.update(chosen({peer: number for peer, number in wanted.items() if number is not None}, topic))
        return found

    def next_to_list(self, now: float, to_list: Collection[str]) -> str:
        """The keeper to ask next for its streams, one of those that are to list theirs if there are any."""
        left = [peer for peer in self.ranked() if peer in to_list] or self.whole()
        speaking = self._speaking(now, left) or left
        speaking.sort(key=lambda peer: self._by_id[peer].lacks_until)  # none does, usually
        return (speaking or [self.target(now)])[0]

    def in_turn(self, now: float, turn: int) -> str:
        """The keeper to compare with in this turn: another one each time, as none may have everything."""
        peer = self.ranked()[turn % len(self._by_id)]
        return peer if self._by_id[peer].silent_until <= now else self.target(now)
