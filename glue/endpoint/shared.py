"""A member's side of a shared subscription: acknowledges the messages that its reader is done with.

A message is done when the handler returned, or raised, or when the iterating program asks for the next one. Messages
of one delivery are acknowledged together, but every PERIOD at least, unless the handler gets payloads alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from math import inf
from typing import Any, Final

from glue.contract import Acknowledge, Delivery, Missed
from glue.endpoint.handlers import Handler
from glue.endpoint.message import Message
from glue.endpoint.queues import Clock, Kept, QueueOwner

PERIOD: Final = 0.01
"""Seconds between two acknowledgements of a delivery that takes longer: short beside the time that credit aims at."""

Order = Callable[[Acknowledge], None]
"""Passes an acknowledgement to the stack; drops it if the endpoint is closed."""


class Acknowledger:
    """Acknowledges what a reader is done with. A reader is one thread at a time."""

    __slots__ = ("_clock", "_delivery", "_due", "_final", "_first", "_last", "_order", "_topic")

    def __init__(self, order: Order, clock: Clock) -> None:
        self._order = order
        self._clock = clock
        self._topic = ""
        self._first = self._last = 0
        self._due = -inf  # when the next acknowledgement is due
        self._delivery: Delivery | None = None  # of which some messages are done, and the next ones may wait
        self._final = 0  # its last message

    def done(self, message: Message) -> None:
        """Note that the reader is done with a message."""
        delivery, sequence = message.delivery, message.sequence
        if delivery is self._delivery and sequence == self._last + 1 != self._final and self._clock() < self._due:
            self._last = sequence
            return
        topic = getattr(delivery, "wrapped", delivery.topic)
        if topic != self._topic or sequence != self._last + 1 or not self._first:
            self._topic, self._first = topic, sequence
        self._last = sequence
        self._final = delivery.sequence + len(delivery.payloads) - 1
        self._delivery = delivery if sequence != self._final and delivery.expires == inf else None
        if self._delivery is None or self._clock() >= self._due:
            self._order(Acknowledge(topic, delivery.publisher_id, self._first, sequence))
            self._first = 0
            self._due = self._clock() + PERIOD
            self._delivery = None

    def done_with(self, delivery: Delivery) -> None:
        """Note that the reader is done with a whole delivery."""
        last = delivery.sequence + len(delivery.payloads) - 1
        topic = getattr(delivery, "wrapped", delivery.topic)
        self._order(Acknowledge(topic, delivery.publisher_id, delivery.sequence, last))

    def around(self, handler: Handler, payload_only: bool) -> Handler:
        """A handler of messages that calls this one, and then acknowledges."""

        def handle(message: Message) -> Any:
            try:
                result = handler(message.payload if payload_only else message)
            except BaseException:
                self.done(message)
                raise
            if result is not None and isawaitable(result):
                return self._finish(result, message)
            self.done(message)
            return result

        return handle

    async def _finish(self, result: Awaitable[Any], message: Message) -> None:
        from asyncio import CancelledError, current_task  # imported here: threads await nothing

        me = current_task()
        try:
            await result
        except (Exception, CancelledError):
            if me is None or not me.cancelling():  # else the reader itself ends, and others get the message
                self.done(message)
            raise
        self.done(message)


class SharedDeliveries(Kept):
    """The queue of a member with a handler of payloads alone; acknowledges whole deliveries, which is faster."""

    __slots__ = ("_acknowledger",)

    def __init__(self, owner: QueueOwner, clock: Clock, acknowledger: Acknowledger) -> None:
        super().__init__(owner, clock)
        self._acknowledger = acknowledger

    def delivered(self, delivery: Delivery) -> None:
        """Take note that the handler is done with a delivery."""
        self._acknowledger.done_with(delivery)


class SharedMessages(Kept):
    """The queue of an iterating member: a message is done when the next one is asked for."""

    __slots__ = ("_acknowledger", "_in_hand")

    def __init__(self, owner: QueueOwner, clock: Clock, acknowledger: Acknowledger) -> None:
        super().__init__(owner, clock)
        self._acknowledger = acknowledger
        self._in_hand: Message | None = None

    def take(self) -> Message | Missed | None:
        """The next message that has not expired; None if there is none yet."""
        if self._in_hand is not None:
            self._acknowledger.done(self._in_hand)
        found = super().take()
        self._in_hand = found if isinstance(found, Message) else None
        return found
