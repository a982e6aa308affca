"""A subscription of an asyncio endpoint: a handler that is called or awaited, or an asynchronous iterator."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from glue.contract import Delivery
from glue.errors import ClosedError
from glue.messages import Message, messages
from glue.subscription import is_coroutine_function

Handler = Callable[[Message], Any | Coroutine[Any, Any, Any]] | Callable[[Any], Any | Coroutine[Any, Any, Any]]

logger = logging.getLogger("glue")


class Owner(Protocol):
    """What a subscription asks of its endpoint."""

    def handled(self, delivery: Delivery) -> None:
        """The delivery was read, or will never be."""

    def expired(self, count: int) -> None:
        """Messages were too old when their turn came."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """The subscription was closed."""


class Subscription:
    """Messages on the topics that match one pattern; also an asynchronous context manager.

    With a handler, it is called, or awaited if it is a coroutine function, for each message, one at a time and in
    order. Without, iterate: `async for` waits for the next message, and ends when the subscription or its endpoint
    is closed.
    """

    def __init__(self, pattern: str, handler: Handler | None, owner: Owner, payload_only: bool = False) -> None:
        self.pattern = pattern
        self.closed = False
        self._payload_only = payload_only
        self._handler = handler
        self._awaits = is_coroutine_function(handler)
        self._owner = owner
        self._waiting: deque[tuple[Message, Delivery | None]] = deque()  # with the delivery that a message ends
        self._arrived = asyncio.Event()
        self.worker: asyncio.Task[None] | None = None  # awaits a coroutine handler

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery from the driver; plain handlers are called at once, the others take their turn."""
        if self._handler is not None and not self._awaits:
            for message in messages(delivery):
                if not self.closed:
                    self._call(self._handler, message)
            self._owner.handled(delivery)
        elif self.closed:
            self._owner.handled(delivery)
        else:
            *waiting, last = messages(delivery)
            self._waiting.extend((message, None) for message in waiting)
            self._waiting.append((last, delivery))
            self._arrived.set()
            if self._awaits and self.worker is None:
                self.worker = asyncio.create_task(self._work(), name=f"glue {self.pattern}")

    def _call(self, handler: Handler, message: Message) -> None:
        try:
            handler(message.payload if self._payload_only else message)
        except Exception:  # the handler's own affair; the next message may be better
            logger.exception("the handler of %r failed on %r", self.pattern, message)

    async def _work(self) -> None:
        """Await a coroutine handler, one message at a time."""
        handler, me = self._handler, asyncio.current_task()
        assert handler is not None
        assert me is not None
        async for message in self:
            if self.closed:
                return
            try:
                await handler(message.payload if self._payload_only else message)
            except (Exception, asyncio.CancelledError):
                if me.cancelling():
                    raise
                logger.exception("the handler of %r failed on %r", self.pattern, message)

    async def get(self, timeout: float | None = None) -> Message:
        """The next message; raises TimeoutError after `timeout` seconds (None: waits for ever).

        Raises ClosedError once closed and empty, and TypeError if there is a handler.
        """
        if self._handler is not None:
            raise TypeError(f"the subscription to {self.pattern!r} has a handler; iterate over one without")
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise TimeoutError(f"no message on {self.pattern!r} in {timeout} s") from None

    async def _next(self) -> Message:
        while (message := self._take()) is None:
            if self.closed:
                raise ClosedError(f"the subscription to {self.pattern!r} is closed, and all was read")
            self._arrived.clear()
            await self._arrived.wait()
        return message

    def _take(self) -> Message | None:
        """The first that waits and is not too old. A delivery that was open when closing has been settled then."""
        while self._waiting:
            message, finished = self._waiting.popleft()
            if finished is not None and not self.closed:
                self._owner.handled(finished)
            if not message.expired(time.monotonic()):
                return message
            self._owner.expired(1)
        return None

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self._next()
        except ClosedError:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """End the subscription; messages already waiting can still be read. A second time does nothing."""
        if self.closed:
            return
        self.closed = True
        self._arrived.set()
        self._owner.unsubscribe(self)
        for _, finished in self._waiting:  # it may never be read; no sender shall wait for that
            if finished is not None:
                self._owner.handled(finished)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Subscription {self.pattern!r}{' closed' if self.closed else ''}>"
