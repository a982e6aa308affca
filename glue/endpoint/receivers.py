"""Receivers of what comes for an endpoint itself: deliveries, and alarms, at which they act."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from glue.contract import Delivery, Event, Publication


class Receiver:
    """A receiver of deliveries that is never busy: long work is queued here."""

    def __init__(self) -> None:
        self._mailbox: deque[Event] = deque()

    @property
    def _busy(self) -> bool:
        """For the driver."""
        return False

    @_busy.setter
    def _busy(self, busy: bool) -> None:
        """For the driver, which would queue for a receiver that is busy."""


class Announcement(Receiver):
    """The interest by which peers learn of a responder; nothing is to be published there."""

    def __init__(self, drop: Callable[[Delivery], None]) -> None:
        super().__init__()
        self._drop = drop

    def _deliver(self, event: Event) -> None:
        """Drop what a peer published all the same."""
        if isinstance(event, Delivery):
            self._drop(event)


class AlarmReceiver(Receiver):
    """A token of alarms. `rung` runs in the turn in which the time has come, `_deliver` where handlers run."""

    def rung(self, now: float) -> Sequence[Publication]:
        """The time has come; returns what to publish."""
        return ()

    def _deliver(self, event: Event) -> None:
        """Act where handlers run."""
