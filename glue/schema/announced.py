"""Types announced by interests: publishers and subscribers, with patterns and types.

The interest is `$glue/typed/WAY/NAME/HASH/PATTERN`, where WAY is `publish` or `subscribe`. Nothing is published there.
Any peer may announce anything, so the table is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from glue.contract import PeerInterest
from glue.contract.frozen import Frozen
from glue.contract.pattern import LazyPattern
from glue.errors import TopicError
from glue.topics.names import check_pattern

TYPED: Final = "$glue/typed/"
PUBLISH, SUBSCRIBE = "publish", "subscribe"
NAME: Final = LazyPattern(r"(?a:[\w.\[\], -]{1,128})")
"""Names of types as they are announced."""

PEER_TYPES: Final = 1024
"""Announced types of one peer, at some 400 bytes each: 400 kB."""
TYPES: Final = 16_384
"""Announced types of all peers: 7 MB."""


class AnnouncedType(Frozen):
    """A pattern that an endpoint publishes or subscribes to as a type."""

    way: str
    name: str
    hash: str
    pattern: str

    @property
    def label(self) -> str:
        """Name and hash."""
        return f"{self.name}#{self.hash}"


def type_interest(way: str, name: str, hash: str, pattern: str) -> str:
    """The interest that announces a type."""
    return f"{TYPED}{way}/{name}/{hash}/{pattern}"


def type_of_interest(interest: str) -> AnnouncedType | None:
    """Return the type that an interest below TYPED announces; None if malformed."""
    parts = interest.removeprefix(TYPED).split("/", 3)
    if len(parts) != 4:
        return None
    way, name, hash, pattern = parts
    is_hash = len(hash) == 8 and all(digit in "0123456789abcdef" for digit in hash)
    if way not in (PUBLISH, SUBSCRIBE) or not is_hash or not NAME.fullmatch(name):
        return None
    try:
        check_pattern(pattern)
    except TopicError:
        return None
    return AnnouncedType(way, name, hash, pattern)


class TypeDirectory:
    """The types that peers announce."""

    def __init__(self, statistics: Counter[str]) -> None:
        self._statistics = statistics
        self._types: dict[str, dict[AnnouncedType, None]] = {}
        self._count = 0

    def change(self, news: PeerInterest) -> list[AnnouncedType]:
        """Take a change of a peer's interests; returns the types that are new."""
        for interest in news.removed:
            if interest.startswith(TYPED) and (told := type_of_interest(interest)) is not None:
                self._remove(news.peer, told)
        return [told for one in news.added if one.startswith(TYPED) and (told := self._add(news.peer, one))]

    def _add(self, peer: str, interest: str) -> AnnouncedType | None:
        told = type_of_interest(interest)
        if told is None:
            self._statistics["malformed types"] += 1
            return None
        types = self._types.setdefault(peer, {})
        if told in types:
            return None
        if len(types) >= PEER_TYPES or self._count >= TYPES:
            self._statistics["types refused: too many"] += 1
            return None
        types[told] = None
        self._count += 1
        return told

    def _remove(self, peer: str, told: AnnouncedType) -> None:
        types = self._types.get(peer, {})
        if told in types:
            del types[told]
            self._count -= 1

    def forget(self, peer: str) -> None:
        """Forget the types of a peer."""
        self._count -= len(self._types.pop(peer, {}))

    def __iter__(self) -> Iterator[tuple[str, AnnouncedType]]:
        """Peers (endpoint ids) and their types."""
        return iter([(peer, told) for peer, types in self._types.copy().items() for told in types.copy()])
