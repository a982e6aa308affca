"""The observers of an endpoint: they are told the news of discovery, as for presence and deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from glue.contract import Delivery, Event, PeerAdded, PeerInterest, PeerRemoved, Surveyed

OBSERVED: Final = frozenset({PeerAdded, PeerInterest, PeerRemoved, Surveyed})
"""The news that observers are told."""


class Observer(Protocol):
    """The statements of peers in their interests."""

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        """Take a piece of news, within a turn; returns what follows from it."""


class Observers:
    """The observers of one endpoint. They may be added and removed from any thread."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: dict[Observer, None] = {}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._all)

    def add(self, observer: Observer) -> None:
        """Begin to tell an observer."""
        self._all[observer] = None

    def remove(self, observer: Observer) -> None:
        """Tell it no more."""
        self._all.pop(observer, None)

    def note(self, now: float, event: Event) -> list[Delivery]:
        """Tell all observers."""
        return [result for observer in list(self._all) for result in observer.note(now, event)]
