"""Dispatch of events to receivers: the subscriptions of a delivery, or the receiver of news."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from glue.contract import Delivery, Event, Missed, Rung


class EventReceiver(Protocol):
    """A receiver of events: a subscription (the `token` of `Subscribe`), or the endpoint itself for news."""

    _busy: bool
    _mailbox: deque[Event]

    def _deliver(self, event: Event) -> None:
        """Hand over one event; may raise what a handler raised."""


def addressed(events: Sequence[Event], news: EventReceiver) -> list[tuple[EventReceiver, Event]]:
    """Each event with each receiver of it, in order; `news` is given what is no delivery, no gap and no alarm."""
    found: list[tuple[EventReceiver, Event]] = []
    for event in events:
        if event.__class__ is Delivery or event.__class__ is Missed or event.__class__ is Rung:
            token: Any
            for token in event.tokens:  # which are receivers
                found.append((token, event))  # noqa: PERF401
        else:
            found.append((news, event))
    return found
