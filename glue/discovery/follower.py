"""A peer's interests, followed through its log of operations (see `interests`).

A follower that finds a gap asks for the operations from its own version on. A follower with a complete previous epoch
knows the base of a new epoch already. Any other follower builds the new set beside the old set. The old set stays valid
until the base is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from glue.discovery.interests import EVERYTHING
from glue.discovery.wire import Announcement, Operations

PATTERN_COST = 128  # bytes that a pattern in a set takes beside its text: string object and slot
PEER_LIMIT = 8 << 20
"""Bytes of patterns kept for one peer: 53,000 of them with 30 characters each."""
ALL_LIMIT = 32 << 20
"""The same for all peers: 1,024 peers with 200 patterns each, or four at their limit."""

Change = tuple[Sequence[str], Sequence[str]]
"""Patterns added and patterns removed."""

NOTHING: Change = ((), ())

LEAP = 1 << 16
"""Operations by which one announcement may be ahead of the one before. More than an endpoint records between two of its
announcements, 10 ms apart; who missed many of them asks once more than necessary."""

FITS, BEHIND, AHEAD = "fits", "behind", "ahead"
"""What an announcement is beside what is known: its sequel; older, or at odds with it; too far ahead."""


class Budget:
    """Bytes left for the patterns of all peers; `statistics` counts the peers beyond the limit."""

    __slots__ = ("left", "statistics")

    def __init__(self, statistics: Counter[str]) -> None:
        self.left = ALL_LIMIT
        self.statistics = statistics


class InterestFollower:
    """The interests of one peer, as far as they are known.

    `is_behind` until version `target` is reached; then `want` says what to ask for. With more patterns than
    the limits allow it `is_overflowed`: it takes the peer to want everything and stops following this epoch.
    """

    __slots__ = ("_base", "_budget", "_building", "_cost", "_epoch", "_target", "_version", "is_overflowed", "patterns")

    def __init__(self, budget: Budget) -> None:
        self.patterns: dict[str, None] = {}
        self.is_overflowed = False
        self._budget = budget
        self._cost = 0
        self._building: dict[str, None] | None = None  # the base of this epoch, until it is complete
        self._epoch = -1
        self._base = 0
        self._version = 0
        self._target = 0

    @property
    def is_behind(self) -> bool:
        """Whether operations are missing."""
        return self._version < self._target and not self.is_overflowed

    @property
    def want(self) -> tuple[int, int]:
        """The epoch and the version from which on operations are missing."""
        return self._epoch, self._version

    def announced(self, news: Announcement) -> Change:
        """The owner is at this version of this epoch; returns what that changes."""
        if news.epoch < self._epoch:
            return NOTHING  # overtaken by a later announcement
        if news.epoch > self._epoch:
            self._enter(news.epoch, news.previous, news.base)
        self._target = max(self._target, news.version)
        return self._apply(news.version - len(news.operations), news.operations)

    def judge(self, news: Announcement) -> str:
        """Whether an announcement can follow what is known (FITS), or is BEHIND it, or too far AHEAD of it."""
        if self._epoch < 0:
            return FITS
        if news.epoch != self._epoch:
            return FITS if news.epoch == self._epoch + 1 else BEHIND if news.epoch < self._epoch else AHEAD
        known = max(self._version, self._target)
        if news.version > known + LEAP:
            return AHEAD
        return BEHIND if news.version < known or self._contradicts(news) else FITS

    def _contradicts(self, news: Announcement) -> bool:
        """Whether the newest operations of a log that is known as a whole led to another set than this one."""
        if news.version != self._version or self._building is not None or self.is_overflowed:
            return False
        newest = {operation[1:]: operation[0] == "+" for operation in news.operations}
        return any((pattern in self.patterns) != is_there for pattern, is_there in newest.items())

    def restart(self, news: Announcement) -> Change:
        """Follow anew from this announcement; the old set is valid until the new set is complete."""
        self._free(self._building or ())
        self._building = {}
        self._epoch = news.epoch
        self._base = self._target = news.version
        self._version = 0
        self.is_overflowed = False
        return self._apply(news.version - len(news.operations), news.operations)

    def received(self, news: Operations) -> Change:
        """The owner sent a stretch of its log; returns what that changes."""
        return self._apply(news.first, news.operations) if news.epoch == self._epoch else NOTHING

    def release(self) -> None:
        """Give everything back to the budget: the peer is gone."""
        self._budget.left += self._cost
        self._cost = 0
        self.patterns = {}

    def _enter(self, epoch: int, previous: int, base: int) -> None:
        had_all = (
            epoch == self._epoch + 1 and self._version == previous and self._building is None and not self.is_overflowed
        )
        self._epoch = epoch
        self._base = base
        self._target = base
        if had_all:
            self._version = base
            return
        self._free(self._building or ())
        self._building = {}
        self._version = 0
        self.is_overflowed = False

    def _apply(self, first: int, operations: Sequence[str]) -> Change:
        if self.is_overflowed or first > self._version:
            return NOTHING
        news = operations[self._version - first :]
        self._version += len(news)
        self._target = max(self._target, self._version)
        change = NOTHING
        if news:
            change = self._operate(self.patterns if self._building is None else self._building, news)
        if self._building is None:
            return change
        return self._replace() if self._version >= self._base or self.is_overflowed else NOTHING

    def _operate(self, patterns: dict[str, None], operations: Sequence[str]) -> Change:
        """Carry the operations out; returns what they come to."""
        changed: dict[str, bool] = {}  # by pattern: whether it was there before
        for operation in operations:
            pattern = operation[1:]
            if (pattern in patterns) == (operation[0] == "+"):
                continue
            changed.setdefault(pattern, pattern in patterns)
            if operation[0] == "-":
                del patterns[pattern]
                self._free((pattern,))
            else:
                self.is_overflowed = not self._can_afford(pattern)
                if self.is_overflowed:
                    self._budget.statistics["interests over the limit"] += 1
                    pattern = EVERYTHING
                    changed.setdefault(pattern, pattern in patterns)
                if pattern not in patterns:
                    self._charge(pattern)
                    patterns[pattern] = None
                if self.is_overflowed:
                    break
        added = [pattern for pattern, was_there in changed.items() if not was_there and pattern in patterns]
        removed = [pattern for pattern, was_there in changed.items() if was_there and pattern not in patterns]
        return added, removed

    def _replace(self) -> Change:
        """The base is complete: it replaces the set of the epoch before."""
        old, new = self.patterns, self._building or {}
        self.patterns, self._building = new, None
        self._free(old)
        return [pattern for pattern in new if pattern not in old], [pattern for pattern in old if pattern not in new]

    def _can_afford(self, pattern: str) -> bool:
        cost = _cost(pattern)
        return self._cost + cost <= PEER_LIMIT and cost <= self._budget.left

    def _charge(self, pattern: str) -> None:
        self._cost += _cost(pattern)
        self._budget.left -= _cost(pattern)

    def _free(self, patterns: Iterable[str]) -> None:
        cost = sum(map(_cost, patterns))
        self._cost -= cost
        self._budget.left += cost


def _cost(pattern: str) -> int:
    return PATTERN_COST + (len(pattern) if pattern.isascii() else 4 * len(pattern))
