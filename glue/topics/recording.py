"""Gives a recorder what this endpoint publishes on the patterns that are to be remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glue.contract import Record
from glue.topics.bundle import LIVE, MessageGroup
from glue.topics.index import Changes, Index


class Recording:
    """The recorded patterns, all with the same recorder; None while there is none."""

    __slots__ = ("index", "recorder")

    def __init__(self, changes: Changes) -> None:
        """`changes` is told of each change to a pattern: recorded topics do not take the fast path."""
        self.index: Index[str] = Index(changes=changes)
        self.recorder: Callable[[float, Any, float], None] | None = None

    def change(self, item: Record) -> None:
        """Begin or end to record a pattern."""
        (pattern,) = item.patterns
        if item.recorder is None:
            self.index.remove(pattern, pattern)
        else:
            self.recorder = item.recorder
            self.index.add(pattern, pattern)

    def record(self, now: float, group: MessageGroup, expires: float) -> None:
        """Give the recorder a copy of numbered messages if their topic is recorded."""
        if self.recorder is not None and self.index.match(group.topic):
            copied = group.part(0, len(group.payloads))  # a list of its own: that of the group may grow in the outbox
            copied.retain = LIVE
            self.recorder(now, copied, expires)
