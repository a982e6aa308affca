"""Publishers, subscribers and types of topics, as endpoints announce them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from glue.topics.index import Index


class Announced(NamedTuple):
    """One announcement of an endpoint."""

    pattern: str
    kind: str
    """ "publisher", "subscriber" or "responder"."""
    name: str
    """The name of the endpoint."""
    type: str = ""
    """The type of the messages, if it is announced."""


class Roles:
    """The announcements that are present, and those that fit a topic."""

    def __init__(self) -> None:
        self._present: dict[Announced, None] = {}
        self._index: Index[Announced] = Index()

    def __iter__(self) -> Iterator[Announced]:
        return iter([*self._present])

    def change(self, one: Announced, is_present: bool) -> None:
        """Note that an announcement came or went."""
        if is_present and one not in self._present:
            self._present[one] = None
            self._index.add(one.pattern, one)
        elif not is_present and one in self._present:
            del self._present[one]
            self._index.remove(one.pattern, one)

    def types(self, told: Iterable[Announced]) -> None:
        """Take all announcements of types there are now."""
        now = dict.fromkeys(told)
        for one in [one for one in self._present if one.type and one not in now]:
            self.change(one, False)
        for one in now:
            self.change(one, True)

    def of(self, topic: str) -> tuple[Announced, ...]:
        """The announcements whose pattern fits a topic."""
        return self._index.match(topic)

    def names(self, topic: str, kind: str) -> list[str]:
        """Sorted names of the endpoints with this role for a topic."""
        return sorted({one.name for one in self.of(topic) if one.kind == kind})

    def type_of(self, topic: str) -> str:
        """The announced types of a topic, with commas between them."""
        return ", ".join(sorted({one.type for one in self.of(topic) if one.type}))
