"""A subscription of a threaded endpoint: a handler that is called, or an iterator that waits."""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from glue.contract import Delivery, Event
from glue.errors import ClosedError, ConfigurationError
from glue.messages import Message, messages

Handler = Callable[[Message], Any] | Callable[[Any], Any]
"""Called with each message, or with its payload alone if the subscription says so."""

logger = logging.getLogger("glue")


def check_payload_only(payload_only: bool, handler: Handler | None) -> None:
    """Raises ConfigurationError for `payload_only` without a handler."""
    if payload_only and handler is None:
        raise ConfigurationError("payload_only=True: that is for a handler; an iterator gives whole messages")


def is_coroutine_function(handler: Handler | None) -> bool:
    """Whether calling the handler, a function or an object, gives something to await.

    Raises ConfigurationError for what cannot be called.
    """
    if handler is not None and not callable(handler):
        raise ConfigurationError(f"handler={handler!r}: expected something to call with each message, or None")
    return any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))


class Owner(Protocol):
    """What a subscription asks of its endpoint."""

    def keep(self, delivery: Delivery) -> None:
        """The delivery goes on waiting, although the driver has handed it over."""

    def handled(self, delivery: Delivery) -> None:
        """The delivery was read, or will never be."""

    def expired(self, count: int) -> None:
        """Messages were too old when their turn came."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """The subscription was closed."""


class Subscription:
    """Messages on the topics that match one pattern; also a context manager.

    With a handler, it is called for each message, one at a time and in order. Without, iterate: `next` waits
    for the next message, and the iteration ends when the subscription or its endpoint is closed.
    """

    def __init__(self, pattern: str, handler: Handler | None, owner: Owner, payload_only: bool = False) -> None:
        self.pattern = pattern
        self._closed = False
        self._payload_only = payload_only
        self.busy = False  # these two are the driver's
        self.mailbox: deque[Event] = deque()
        self._handler = handler
        self._owner = owner
        self._arrived = threading.Condition()
        self._waiting: deque[Delivery] = deque()
        self._current: Iterator[Message] = iter(())
        self._delivery: Delivery | None = None

    @property
    def closed(self) -> bool:
        """Whether it was closed, or its endpoint was."""
        return self._closed

    def deliver(self, event: Event) -> None:
        """Take a delivery from the driver; a handler is called, an iterator will find it waiting."""
        assert isinstance(event, Delivery)
        if self._handler is not None:
            self._call(self._handler, event)
            return
        with self._arrived:
            if not self._closed:
                self._owner.keep(event)
                self._waiting.append(event)
                self._arrived.notify(len(event.payloads))

    def _call(self, handler: Handler, delivery: Delivery) -> None:
        """Call the handler for each message of a delivery. What is done here is done for each message: kept flat."""
        payload_only, expires = self._payload_only, delivery.expires < math.inf
        for sequence, payload in enumerate(delivery.payloads, delivery.sequence):
            if self._closed:
                return
            if expires and delivery.expires < time.monotonic():
                self._owner.expired(1)
                continue
            try:
                handler(payload if payload_only else Message(payload, sequence, delivery))
            except BaseException:  # the handler's own affair, sys.exit too; the next message may be better
                logger.exception("the handler of %r failed on %r", self.pattern, Message(payload, sequence, delivery))

    def get(self, timeout: float | None = None) -> Message:
        """The next message; raises TimeoutError after `timeout` seconds (None: waits for ever).

        Raises ClosedError once closed and empty, and TypeError if there is a handler.
        """
        if self._handler is not None:
            raise TypeError(f"the subscription to {self.pattern!r} has a handler; iterate over one without")
        with self._arrived:
            found = self._take() or self._arrived.wait_for(lambda: self._take() or self._closed, timeout)
        if isinstance(found, Message):
            return found
        if found:
            raise ClosedError(f"the subscription to {self.pattern!r} is closed, and all was read")
        raise TimeoutError(f"no message on {self.pattern!r} in {timeout} s")

    def _take(self) -> Message | None:
        """The next message, if there is one. A delivery that was open when closing has been settled then."""
        while True:
            delivery = self._delivery
            if delivery is None:
                if not self._waiting:
                    return None
                delivery = self._delivery = self._waiting.popleft()
                self._current = messages(delivery)
            message = next(self._current)
            if message.sequence + 1 == delivery.sequence + len(delivery.payloads):  # it is the last
                self._delivery = None
                if not self._closed:
                    self._owner.handled(delivery)
            if delivery.expires == math.inf or not message.expired(time.monotonic()):
                return message
            self._owner.expired(1)

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        try:
            return self.get()
        except ClosedError:
            raise StopIteration from None

    def close(self) -> None:
        """End the subscription; messages already waiting can still be read. A second time does nothing."""
        with self._arrived:
            if self._closed:
                return
            self._closed = True
            unread = [*self._waiting] if self._delivery is None else [self._delivery, *self._waiting]
            self._arrived.notify_all()
        self._owner.unsubscribe(self)
        for delivery in unread:  # it may never be read; no sender shall wait for that
            self._owner.handled(delivery)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Subscription {self.pattern!r}{' closed' if self._closed else ''}>"
