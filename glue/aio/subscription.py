"""A subscription of an asyncio endpoint: a handler that is called or awaited, or an asynchronous iterator."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Any

from glue.contract import Delivery, Missed
from glue.endpoint.callbacks import Failures
from glue.endpoint.handlers import Handler, is_awaited
from glue.endpoint.message import Gap, Message, messages, rest
from glue.endpoint.options import waiting_time
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.queues import Kept, PokedRoom
from glue.endpoint.wanted import Queue
from glue.errors import ClosedError, SlowReaderError

BREATH = 64
"""Messages after which a plain handler that finds more waiting lets the loop go round: some 0.1 ms."""

logger = logging.getLogger("glue")


class Subscription:
    """Messages on the topics that match one pattern; also an asynchronous context manager.

    The handler is called for one message at a time, in order. An awaitable result is awaited before the next call.
    Without a handler, iterate: `async for` waits for the next message, and ends when the subscription or its
    endpoint is closed.
    """

    def __init__(
        self,
        pattern: str,
        handler: Handler | None,
        owner: SubscriptionOwner,
        waiting: Queue,
        payload_only: bool = False,
    ) -> None:
        self.pattern = pattern
        self.closed = False
        self._payload_only = payload_only
        self._handler = handler
        # Or turned out to return something to await; or has to, as what comes from history waits for its turn.
        self._awaits = is_awaited(handler) or (handler is not None and isinstance(waiting, PokedRoom))
        self._owner = owner
        self._waiting = waiting
        self._overrun = False
        self._failures = Failures(f"the handler of {pattern!r}")
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None  # awaits what the handler returns
        self._takes_copies = isinstance(waiting, PokedRoom)
        if isinstance(waiting, PokedRoom):
            waiting.poke = self._look_again

    # --------------------------------------------------------------------------------------- by the driver

    def _look_again(self) -> None:
        """Have the reader look again, after messages came from history."""
        self._arrived.set()
        if self._handler is not None and self._worker is None and not self.closed:
            self._start(self._handler)

    def _deliver(self, event: Delivery | Missed) -> None:
        """Take a delivery, or news of a gap: plain handlers are called at once, the others take their turn."""
        if isinstance(event, Delivery):
            if self._handler is not None and not self._awaits:
                self._call(self._handler, event)
            else:
                self._put(event)
        elif self._handler is not None and not self._awaits:
            self._owner.tell_gap(Gap.of(event, self.pattern))
        elif not self.closed:
            self._waiting.put_gap(event)
            self._arrived.set()

    def _call(self, handler: Handler, delivery: Delivery) -> None:
        """Call a plain handler for each message; should it want to be awaited, the rest takes its turn."""
        stop = delivery.sequence + len(delivery.payloads)
        for message in messages(delivery):
            if self.closed:
                stop = message.sequence
                self._owner.settled("unread", delivery.sequence + len(delivery.payloads) - stop)
                break
            try:
                result = handler(message.payload if self._payload_only else message)
            except (Exception, asyncio.CancelledError):  # the handler's own affair; the next message may be better
                self._failed(message)
                continue
            if result is not None and inspect.isawaitable(result):
                stop = message.sequence + 1
                self._awaits = True
                self._start(handler, (result, message))
                if stop < delivery.sequence + len(delivery.payloads):
                    self._owner.keep(rest(delivery, stop))
                    self._put(rest(delivery, stop))
                break
        self._owner.settled("handled", stop - delivery.sequence)
        self._owner.handled(delivery)

    def _put(self, delivery: Delivery) -> None:
        """Let it wait; whatever the policy makes of that."""
        if self.closed:
            self._owner.settled("unread", len(delivery.payloads))
            self._owner.handled(delivery)
            return
        if not isinstance(self._waiting, Kept):
            self._owner.handled(delivery)
        dropped = self._waiting.put(delivery)
        self._arrived.set()
        if self._handler is not None and self._worker is None:
            self._start(self._handler)
        if dropped and self._waiting.cause == "disconnected":
            self._overrun = True
            logger.error("%r is disconnected: more messages wait than its limit", self)
            self.close()

    def _start(self, handler: Handler, first: tuple[Awaitable[Any], Message] | None = None) -> None:
        self._worker = asyncio.create_task(self._work(handler, first), name=f"glue {self.pattern}")

    async def _work(self, handler: Handler, first: tuple[Awaitable[Any], Message] | None) -> None:
        """Await the handler's results, one message at a time, beginning with the result and message in `first`."""
        if first is not None:
            await self._await(*first)
        while True:
            try:
                message = await self._next()
            except (ClosedError, SlowReaderError):
                return
            if self.closed:
                continue  # of what waits only the gaps still matter
            try:
                result = handler(message.payload if self._payload_only else message)
            except (Exception, asyncio.CancelledError):  # as above, such as the result of a task that was cancelled
                self._failed(message)
                continue
            if inspect.isawaitable(result):
                await self._await(result, message)
            elif message.sequence % BREATH == 0:
                await asyncio.sleep(0)

    async def _await(self, result: Awaitable[Any], message: Message) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            await result
        except (Exception, asyncio.CancelledError):
            if me.cancelling():
                raise
            self._failed(message)

    def _failed(self, message: Message) -> None:
        self._failures.note(message)
        self._owner.failed()

    # --------------------------------------------------------------------------------------- by the reader

    async def get(self, timeout: float | None = None) -> Message:
        """The next message; raises TimeoutError after `timeout` seconds (None: waits for ever).

        Raises ClosedError once closed and empty, SlowReaderError instead if it was disconnected, TypeError if there is
        a handler, and ConfigurationError.
        """
        self._check_reader()
        try:
            async with asyncio.timeout(waiting_time(timeout)):
                return await self._next()
        except TimeoutError:
            raise TimeoutError(f"no message on {self.pattern!r} in {timeout} s") from None

    def _check_reader(self) -> None:
        if self._handler is not None:
            raise TypeError(f"the subscription to {self.pattern!r} has a handler; iterate over one without")

    async def _next(self) -> Message:
        while True:
            found = self._waiting.take()
            if isinstance(found, Message):
                return found
            if found is not None:
                self._owner.tell_gap(Gap.of(found, self.pattern))
            elif self._overrun:
                raise SlowReaderError(f"the subscription to {self.pattern!r} was disconnected: its reader is too slow")
            elif self.closed:
                raise ClosedError(f"the subscription to {self.pattern!r} is closed, and all was read")
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def __aiter__(self) -> Subscription:
        self._check_reader()
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
        self._waiting.close()

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Subscription {self.pattern!r}{' closed' if self.closed else ''}>"
