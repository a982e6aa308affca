"""The hosts and ports that deliveries go to, and when each may be contacted. Pure.

* A destination that has not answered yet gets one attempt, and the lanes beside it wait for its end. When it answers,
  all of them go on at once.
* A destination that cannot be connected to is tried once a second at most, however many lanes wait for it.
* Attempts whose end is uncertain begin one after the other, `CONTACTS` a second: a thousand dead subscribers must not
  take the processor from a live one when a message wakes them all.
"""

from __future__ import annotations

from math import inf
from typing import Final

PAUSE: Final = 1.0
"""Seconds between two attempts at a destination that has not answered yet or cannot be reached."""
LONGEST_WAIT: Final = 300.0
"""Seconds after which a waiting lane looks again."""
CONTACTS: Final = 500.0
"""Uncertain attempts that begin in a second: one takes some 0.3 ms of the processor."""
REMEMBERED: Final = 10_000
"""Destinations known to answer; the one that answered first is forgotten first, which costs it a wait."""

Key = tuple[str, str, int]
"""Scheme, host and port."""


class Destination:
    """A host and port that has not answered yet, or that could not be connected to."""

    __slots__ = ("is_down", "next_at", "reserved", "waiting")

    def __init__(self) -> None:
        self.next_at = self.reserved = -inf
        self.is_down = False
        self.waiting: dict[str, None] = {}

    def reserve(self, now: float) -> float:
        """Return when a lane may look again: one a second, so that a thousand lanes do not look each second."""
        self.reserved = max(self.reserved, self.next_at - PAUSE) + PAUSE
        return min(self.reserved, now + LONGEST_WAIT)


class Destinations:
    """All destinations of a door. Bounded by its lanes and by `REMEMBERED`."""

    def __init__(self) -> None:
        self._open: dict[Key, Destination] = {}
        self._answering: dict[Key, None] = {}
        self._contact_at = -inf

    def is_answering(self, key: Key) -> bool:
        """Whether the last attempt to connect succeeded."""
        return key in self._answering

    def turn(self, now: float, key: Key, lane: str) -> tuple[float, bool]:
        """Ask for an uncertain attempt; returns when it may begin, or when to ask again, and whether it may begin."""
        place = self._open.get(key)
        if place is not None and place.next_at > now:
            place.waiting[lane] = None
            return place.reserve(now), False
        if place is None and key not in self._answering:
            place = self._open[key] = Destination()
        self._contact_at = max(self._contact_at + 1.0 / CONTACTS, now)
        if place is not None:
            place.next_at = self._contact_at + PAUSE
        return self._contact_at, True

    def holds(self, key: Key, turn_at: float) -> bool:
        """Whether a turn that was given still counts: it does not when another attempt came between."""
        place = self._open.get(key)
        return place is None or place.next_at == turn_at + PAUSE

    def unreached(self, now: float, key: Key, lane: str) -> None:
        """An attempt could not connect."""
        self._answering.pop(key, None)
        place = self._open.setdefault(key, Destination())
        place.is_down = True
        place.next_at = max(place.next_at, now + PAUSE)
        place.waiting[lane] = None

    def reached(self, key: Key) -> tuple[list[str], bool]:
        """An attempt has connected. Returns the lanes that waited, in order, and whether the destination was down."""
        if key not in self._answering:
            self._answering[key] = None
            if len(self._answering) > REMEMBERED:
                del self._answering[next(iter(self._answering))]
        place = self._open.pop(key, None)
        return ([*place.waiting], place.is_down) if place is not None else ([], False)
