"""The recent messages of a door, for streams: one ring for all clients, in which each client has a place.

No client has a buffer. A client that reads too slowly is overtaken by the end of the ring, and is told how many
messages it missed. Pure: no clock, socket or task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from glue.gateway.http.lanes import matcher
from glue.topics.index import Index

ENTRY_COST: Final = 200
"""Estimated bytes of an entry beside its text."""


class Entry(NamedTuple):
    """A message, as JSON text without its offset."""

    topic: str
    text: bytes
    stream: str = ""
    """Which publisher and topic it is of; `sequence` is its number there."""
    sequence: int = 0
    place: int = 0
    """An offset of the door's log, at or below that of each later message."""


class Place:
    """How far a client has read."""

    __slots__ = ("_matches", "cursor", "is_idle", "missed", "wake")

    def __init__(self, patterns: Sequence[str], cursor: int, wake: Callable[[], None]) -> None:
        self.cursor = cursor
        self.wake = wake
        self.is_idle = False
        self.missed = 0
        self._matches = [matcher(pattern) for pattern in patterns]

    def wants(self, topic: str) -> bool:
        """Whether the client reads a topic."""
        return any(matches(topic) for matches in self._matches)


class Tail:
    """A ring of entries with offsets from 0. Bounded in bytes."""

    def __init__(self, id: str, limit: int) -> None:
        """`id` tells this ring from those of other doors and lives."""
        self.id = id
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._size = 0
        self._places: Index[Place] = Index(key=id_of)
        self.end = 0

    @property
    def first(self) -> int:
        """The offset of the oldest entry."""
        return self.end - len(self._entries)

    def append(self, entry: Entry) -> None:
        """Add a message, and wake the clients that wait for such."""
        offset, topic, text = self.end, entry.topic, entry.text
        self._entries.append(entry)
        self.end += 1
        self._size += len(text) + ENTRY_COST
        while self._size > self._limit and len(self._entries) > 1:
            self._size -= len(self._entries.popleft().text) + ENTRY_COST
        for place in self._places.match(topic):
            if place.is_idle:
                place.is_idle = False
                place.cursor = offset
                place.wake()

    def open(self, patterns: Sequence[str], cursor: int | None, wake: Callable[[], None]) -> Place:
        """Return a place from a cursor on, by default at the end. `wake` is called when there is something to read."""
        place = Place(patterns, self.end if cursor is None else min(max(cursor, 0), self.end), wake)
        for pattern in patterns:
            self._places.add(pattern, place)
        return place

    def close(self, patterns: Sequence[str], place: Place) -> None:
        """Forget a place that was opened with these patterns."""
        for pattern in patterns:
            self._places.remove(pattern, place)

    def read(self, place: Place, most: int) -> list[tuple[int, Entry]]:
        """Return up to `most` messages for a place and move it; empty if the place has to wait.

        `place.missed` counts messages, of all topics, that left the ring unread.
        """
        first = self.first
        if place.cursor < first:
            place.missed += first - place.cursor
            place.cursor = first
        found: list[tuple[int, Entry]] = []
        for entry in islice(self._entries, place.cursor - first, None):
            if place.wants(entry.topic):
                found.append((place.cursor, entry))
            place.cursor += 1
            if len(found) >= most:
                break
        place.is_idle = not found and place.cursor >= self.end
        return found

    def skip(self, place: Place) -> None:
        """Let a place that has got older messages elsewhere miss none of those that left the ring."""
        place.cursor = max(place.cursor, self.first)


def id_of(place: Place) -> int:
    """Order places in any way that stays."""
    return id(place)
