"""Where the messages of a subscription with history wait for its reader: a queue that never stops a publisher.

A queue as those of `queues.py`. What finds no room is read from the publisher's history when there is room again.
"""

from __future__ import annotations

from collections import deque
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from glue.contract import CodedDelivery, Delivery, Missed
from glue.endpoint.message import Message
from glue.endpoint.queues import Clock, PokedRoom, QueueOwner
from glue.history.source import weight

if TYPE_CHECKING:
    from glue.history import Reader


class Parts(Protocol):
    """The part of an endpoint's history that a room uses."""

    lock: RLock

    def arrived(self, count: int) -> None:
        """Count messages to a subscription; a negative number is for those that come another way."""

    def opened(self, coded: Any) -> list[Delivery | Missed]:
        """Decode a delivery with payloads in a codec."""

    def ended(self, room: HistoryRoom) -> None:
        """A subscription was closed."""

    def wake(self) -> None:
        """Have a turn soon."""


class HistoryRoom(PokedRoom):
    """Messages of one subscription, from history and live, in order."""

    def __init__(self, reader: Reader, parts: Parts, owner: QueueOwner, clock: Clock) -> None:
        super().__init__()
        self.reader = reader
        self._parts = parts
        self._owner = owner
        self._clock = clock
        self._closed = False
        self._delivery: Delivery | None = None  # the one that is being read
        self._opened: deque[Delivery | Missed] = deque()  # what was decoded and comes next
        self._weight = 0  # bytes of the delivery that this came from
        self._read = self._expired = 0  # messages of it

    def __bool__(self) -> bool:
        """Whether anything can be taken."""
        return self._delivery is not None or bool(self._opened or self.reader.ready)

    def put(self, delivery: Delivery) -> int:
        """Take what came live; returns 0, as nothing is lost."""
        with self._parts.lock:
            before = self.reader.pushed
            self.reader.live(self._clock(), delivery)
            self._parts.arrived(self.reader.pushed - before - len(delivery.payloads))
            is_due = self.reader.deadline <= self._clock()
        if is_due:
            self._parts.wake()
        return 0

    def put_gap(self, missed: Missed) -> None:
        """Take news of a gap in what comes live."""
        with self._parts.lock:
            self.reader.missed(missed)

    def take(self) -> Message | Missed | None:
        """The next message that has not expired, or what is missing before it; None if there is neither."""
        while True:
            delivery = self._delivery
            if delivery is None:
                first = self._opened.popleft() if self._opened else self._next()
                if first is None or isinstance(first, Missed):
                    return first
                delivery = self._delivery = first
                self._read = self._expired = 0
            place = self._read
            self._read = place + 1
            expired = delivery.expires < inf and delivery.expires < self._clock()
            self._expired += expired
            if place + 1 == len(delivery.payloads):
                self._finish(delivery)
            if not expired:
                return Message(delivery.payloads[place], delivery.sequence + place, delivery)

    def _next(self) -> Delivery | Missed | None:
        """Take what comes next; decode it if history gave it in a codec."""
        with self._parts.lock:
            first = self.reader.ready.popleft() if self.reader.ready else None
        if first.__class__ is not CodedDelivery:
            return first
        self._opened += self._parts.opened(first)
        self._weight = weight(first)
        lost = sum(found.count for found in self._opened if isinstance(found, Missed))
        self._parts.arrived(-lost)
        if not self._has_unread:
            self._make_room(self._weight)
        return self._opened.popleft()

    @property
    def _has_unread(self) -> bool:
        """Whether more messages come that were decoded from the same delivery."""
        return any(isinstance(found, Delivery) for found in self._opened)

    def _finish(self, delivery: Delivery) -> None:
        self._delivery = None
        if self._closed:
            return
        self._settle_read()
        if not self._has_unread:
            self._make_room(self._weight or weight(delivery))

    def _make_room(self, size: int) -> None:
        """Give the room of a delivery back, once."""
        self._weight = 0
        with self._parts.lock:
            has_room = self.reader.read(size)
        if has_room:
            self._parts.wake()

    def _settle_read(self) -> None:
        self._owner.settled("handled", self._read - self._expired)
        self._owner.settled("expired", self._expired)

    def close(self) -> None:
        """Close the queue: account for waiting messages as unread; they can still be taken."""
        self._parts.ended(self)
        self._closed = True
        if self._delivery is not None:
            self._settle_read()
            self._owner.settled("unread", len(self._delivery.payloads) - self._read)
        with self._parts.lock:
            left = [*self._opened, *self.reader.ready]
        waiting = [len(found.payloads) for found in left if isinstance(found, Delivery)]
        self._owner.settled("unread", sum(waiting))
