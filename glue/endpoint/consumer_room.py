"""Where the messages of a durable consumer wait for their reader, and what the reader says about them.

A message is done when the handler returned, when the iterating program asks for the next one, or when the program calls
`acknowledge`; with `by_hand=True` only then. If the handler raises, the message comes again later. What a home has
taken back is not handed to the program any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from threading import RLock
from typing import Any, Protocol

from glue.consumers.membership import Membership, Taken
from glue.contract import Delivery, Missed
from glue.endpoint.handlers import Handler
from glue.endpoint.message import Message
from glue.endpoint.queues import PokedRoom, QueueOwner


class Parts(Protocol):
    """The part of an endpoint's consumers that a room uses."""

    lock: RLock

    def finished(self, room: ConsumerRoom, taken: Taken, place: int, is_done: bool) -> None:
        """The program is done with a message of a share, or failed to handle it."""

    def ended(self, room: ConsumerRoom) -> None:
        """A subscription was closed."""


class ConsumerMessage(Message):
    """A message of a durable consumer."""

    __slots__ = ("_place", "_room", "_taken")

    def __init__(self, payload: Any, sequence: int, delivery: Delivery, room: ConsumerRoom, taken: Taken) -> None:
        super().__init__(payload, sequence, delivery)
        self._room = room
        self._taken = taken
        self._place = sequence - taken.group.sequence + 1

    @property
    def redelivered(self) -> bool:
        """Whether it may have been handled before, in part or as a whole."""
        return self._taken.is_again

    def acknowledge(self) -> None:
        """Tell the consumer's home that this message is done. A second call does nothing. From any thread."""
        self._room.finished(self._taken, self._place, True)

    def refuse(self) -> None:
        """Have this message come again later, to any member. Nothing once it is acknowledged. From any thread."""
        self._room.finished(self._taken, self._place, False)


class ConsumerRoom(PokedRoom):
    """Messages that a consumer's home has given to this member, in order."""

    def __init__(self, membership: Membership, parts: Parts, owner: QueueOwner, by_hand: bool) -> None:
        super().__init__()
        self.membership = membership
        self._parts = parts
        self._owner = owner
        self._by_hand = by_hand
        self._is_iterated = True  # until a handler is set
        self._closed = False
        self._waiting: deque[tuple[Delivery, Taken]] = deque()
        self._reading: tuple[Delivery, Taken] | None = None
        self._read = 0
        self._in_hand: ConsumerMessage | None = None

    def __bool__(self) -> bool:
        """Whether anything can be taken."""
        return self._reading is not None or bool(self._waiting)

    # ------------------------------------------------------------------------------------- from the home

    def push(self, taken: Taken, deliveries: list[Delivery]) -> None:
        """Take messages from the home. What is missing between them could not be decoded, and comes again later."""
        for place in _missing(taken, deliveries):
            self.finished(taken, place, False)
        self._waiting.extend((delivery, taken) for delivery in deliveries)

    def void(self) -> None:
        """Forget what waits: the home has given it to others."""
        with self._parts.lock:
            if self._reading is not None:
                delivery, self._reading = self._reading[0], None
                self._owner.settled("unread", len(delivery.payloads) - self._read)
            self._owner.settled("unread", sum(len(delivery.payloads) for delivery, _ in self._waiting))
            self._waiting.clear()

    def put(self, delivery: Delivery) -> int:
        """Drop what was published to the member's interest, where nothing belongs."""
        self._owner.settled("unread", len(delivery.payloads))
        return 0

    def put_gap(self, missed: Missed) -> None:
        """Nothing is missing in what a home gives."""

    # --------------------------------------------------------------------------------------- by the reader

    def take(self) -> Message | Missed | None:
        """The next message; the one before counts as done, if the program iterates."""
        before, self._in_hand = self._in_hand, None
        if before is not None:
            before.acknowledge()
        with self._parts.lock:
            if self._reading is None:
                if not self._waiting:
                    return None
                self._reading, self._read = self._waiting.popleft(), 0
            (delivery, taken), place = self._reading, self._read
            self._read += 1
            if self._read == len(delivery.payloads):
                self._reading = None
            self._owner.settled("handled", 1)
        message = ConsumerMessage(delivery.payloads[place], delivery.sequence + place, delivery, self, taken)
        if self._is_iterated and not self._by_hand:
            self._in_hand = message
        return message

    def finished(self, taken: Taken, place: int, is_done: bool) -> None:
        """The program is done with a message, or failed."""
        self._parts.finished(self, taken, place, is_done)

    def around(self, handler: Handler | None, payload_only: bool) -> Handler | None:
        """Wrap a handler: acknowledge on return, unless by hand; refuse on an error."""
        if handler is None:
            return None
        self._is_iterated = False
        call: Callable[[Any], Any] = handler

        def handle(message: ConsumerMessage) -> Any:
            try:
                result = call(message.payload if payload_only else message)
            except BaseException:
                message.refuse()
                raise
            if result is not None and isawaitable(result):
                return self._finish(result, message)
            self._returned(message)
            return result

        return handle

    def _returned(self, message: ConsumerMessage) -> None:
        if not self._by_hand:
            message.acknowledge()

    async def _finish(self, result: Awaitable[Any], message: ConsumerMessage) -> None:
        try:
            await result
        except BaseException:
            message.refuse()
            raise
        self._returned(message)

    def close(self) -> None:
        """Leave the consumer: others get what is not done."""
        if not self._closed:
            self._closed = True
            self.void()
            self._parts.ended(self)


def _missing(taken: Taken, deliveries: list[Delivery]) -> list[int]:
    """The messages of a share that are in no delivery, counted from 1."""
    count = len(taken.group.payloads)
    if sum(len(delivery.payloads) for delivery in deliveries) == count:
        return []
    first = taken.group.sequence
    found: set[int] = set()
    for one in deliveries:
        found.update(range(one.sequence - first + 1, one.sequence - first + 1 + len(one.payloads)))
    return [place for place in range(1, count + 1) if place not in found]
