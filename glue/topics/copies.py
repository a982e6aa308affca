"""Second copies of delayed messages: released by the publisher and by a keeper, or by two keepers, in a split.

Both copies have the same property `$delayed`. The first one goes to all subscriptions. The second one goes only to
those that put histories together, as it has a number in the history of its publisher; they leave it out themselves.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable

from glue.contract.metadata import DELAYED, Metadata
from glue.topics.bundle import KEPT, MessageGroup

SEEN = 16_384
"""Delayed messages that are remembered, at some 200 bytes: 3 MB."""


class Copies:
    """The delayed messages that came to this endpoint."""

    __slots__ = ("_seen", "_statistics")

    def __init__(self, statistics: Counter[str]) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._statistics = statistics

    def wanted_by(self, group: MessageGroup, tokens: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Return those of the subscriptions `tokens` that get messages with metadata."""
        tag = tag_of(group.metadata)
        if tag is None or not tokens or group.retain == KEPT or is_new(self._seen, tag):
            return tokens
        self._statistics["copies of delayed messages dropped"] += len(group.payloads)
        return tuple([token for token in tokens if getattr(token, "_takes_copies", False)])


def tag_of(metadata: Metadata | None) -> str | None:
    """The identity of a delayed message; None for any other."""
    return None if metadata is None or metadata.properties is None else metadata.properties.get(DELAYED)


def is_new(seen: OrderedDict[str, None], tag: str) -> bool:
    """Whether a message is none of those that were seen; remember it."""
    if tag in seen:
        return False
    seen[tag] = None
    if len(seen) > SEEN:
        seen.popitem(last=False)
    return True
