"""What is told of publications with a receipt: to whom they went, and answers to surveys.

The peers of a message matter to its receipt only with the first acknowledgement. So this news waits for the next turn,
which an acknowledgement brings, and asks for none of its own: a lone message with a receipt costs one turn less.
"""

from __future__ import annotations

from math import inf

from glue.contract import Event

DELAY = 0.002
"""Seconds that this news waits for another turn at most."""


class ReceiptNews:
    """Events for the next turn, and when that is due."""

    __slots__ = ("due", "events")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.due = inf

    def add(self, event: Event, can_wait: bool = False) -> None:
        """Tell an event in the next turn; at once, unless it `can_wait`."""
        self.events.append(event)
        if not can_wait:
            self.due = -inf

    def settle(self, now: float) -> None:
        """Note the time of what was added."""
        if self.events and self.due == inf:
            self.due = now + DELAY

    def take(self) -> list[Event]:
        """What is to be told."""
        events, self.events, self.due = self.events, [], inf
        return events
