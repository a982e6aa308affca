"""A subscription of a threaded endpoint: a handler that is called, or an iterator that waits.

With the policy "block" handlers are called by the driver. With any other, each has a thread of its own, which reads
what waits as an iterator does (see `waiting.py`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from operator import length_hint
from typing import Any

from glue.contract import Delivery, Event, Missed
from glue.contract.logs import lazy_logger
from glue.drivers.lifetime import Lifetime
from glue.endpoint.callbacks import Failures
from glue.endpoint.handlers import Handler
from glue.endpoint.message import Gap, Message
from glue.endpoint.options import waiting_time
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.queues import Kept, PokedRoom
from glue.endpoint.wanted import Queue
from glue.errors import ClosedError, SlowReaderError

logger = lazy_logger("glue")


class Subscription(Lifetime):
    """Messages on the topics that match one pattern; also a context manager.

    With a handler, it is called for each message, one at a time and in order. Without, iterate: `next` waits
    for the next message, and the iteration ends when the subscription or its endpoint is closed.
    """

    def __init__(
        self,
        pattern: str,
        handler: Handler | None,
        owner: SubscriptionOwner,
        waiting: Queue,
        payload_only: bool = False,
    ) -> None:
        self._leave_rest: Callable[[], None] = _nothing  # makes a running delivery leave its further messages unread
        super().__init__()
        self.pattern = pattern
        self._closed = False
        self._payload_only = payload_only
        self._busy = False  # these two are the driver's
        self._mailbox: deque[Event] = deque()
        self._handler = handler
        self._owner = owner
        self._waiting = waiting
        self._overrun = False
        self._failures = Failures(f"the handler of {pattern!r}")
        self._is_called = handler is not None and isinstance(waiting, Kept)  # by the driver
        self._delivered: Callable[[Delivery], None] | None = getattr(waiting, "delivered", None)  # of a group's member
        self._thread: threading.Thread | None = None
        self._takes_copies = isinstance(waiting, PokedRoom)
        if isinstance(waiting, PokedRoom):
            waiting.poke = self._look_again
        if handler is not None and not self._is_called:
            self._thread = threading.Thread(target=self._work, args=(handler,), name=f"glue {pattern}", daemon=True)
            self._thread.start()

    def _renew_locks(self) -> None:
        """Make the lock."""
        self._arrived = threading.Condition()

    def _after_fork(self) -> None:
        """Close in a forked child, where the fork may have happened in the handler."""
        super()._after_fork()
        self._leave_rest()

    # --------------------------------------------------------------------------------------- by the driver

    def _look_again(self) -> None:
        """Have the reader look again, after messages came from history."""
        with self._arrived:
            self._arrived.notify_all()

    def _deliver(self, event: Event) -> None:
        """Take a delivery, or news of a gap, from the driver: call the handler, or let it wait."""
        if isinstance(event, Delivery):
            if self._is_called:
                self._call(event)
                if self._delivered is not None and not self._closed:
                    self._delivered(event)
            else:
                self._put(event)
            return
        assert isinstance(event, Missed)
        if self._is_called:
            self._owner.tell_gap(Gap.of(event, self.pattern))
        else:
            with self._arrived:
                if not self._closed:
                    self._waiting.put_gap(event)

    def _call(self, delivery: Delivery) -> None:
        """Call the handler for each message of a delivery."""
        handler, payloads = self._handler, delivery.payloads
        assert handler is not None
        count, expired = len(payloads), 0
        if self._payload_only and delivery.expires == inf:
            if count == 1 and not self._closed:
                try:
                    handler(payloads[0])
                except BaseException:
                    self._failed(Message(payloads[0], delivery.sequence, delivery))
                self._owner.settled("handled", 1)
                return
            done = self._call_plainly(handler, delivery)
        else:
            done, expired = self._call_each(handler, delivery)
        if done < count:
            self._owner.settled("unread", count - done)
        self._owner.settled("handled", done - expired)
        if expired:
            self._owner.settled("expired", expired)

    def _call_plainly(self, handler: Callable[[Any], Any], delivery: Delivery) -> int:
        """Call the handler with payloads without a lifespan, until the subscription closes; returns their number.

        The loop runs for each message, so it has no check for the close: the close replaces the called function.
        """
        payloads, payload = delivery.payloads, None
        unread: list[Any] = []

        def leave_rest() -> None:
            nonlocal handler
            handler = unread.append

        self._leave_rest = leave_rest
        if self._closed:
            leave_rest()
        left, fails = iter(payloads), False
        try:
            while True:
                try:
                    for payload in left:
                        handler(payload)
                    return len(payloads) - len(unread)
                except BaseException:
                    if not fails:
                        left, fails = iter([*left]), True  # which can tell how many they are
                    done = len(payloads) - length_hint(left)
                    self._failed(Message(payload, delivery.sequence + done - 1, delivery))
        finally:
            self._leave_rest = _nothing  # as the other holds on to payloads

    def _call_each(self, handler: Callable[[Any], Any], delivery: Delivery) -> tuple[int, int]:
        """Call the handler with each message that has not expired; returns the numbers of read and of expired ones."""
        payload_only, expires, expired = self._payload_only, delivery.expires < inf, 0
        for sequence, payload in enumerate(delivery.to_owned(), delivery.sequence):
            if self._closed:
                return sequence - delivery.sequence, expired
            if expires and delivery.expires < time.monotonic():
                expired += 1
                continue
            try:
                handler(payload if payload_only else Message(payload, sequence, delivery))
            except BaseException:
                self._failed(Message(payload, sequence, delivery))
        return len(delivery.payloads), expired

    def _failed(self, message: Message) -> None:
        """Log and count an exception of the handler, SystemExit too; the next message is handled all the same."""
        self._failures.note(message)
        self._owner.failed()

    def _put(self, delivery: Delivery) -> None:
        """Put a delivery into the queue, as the policy allows."""
        count = len(delivery.payloads)
        with self._arrived:
            if self._closed:
                self._owner.settled("unread", count)
                return
            if isinstance(self._waiting, Kept):
                self._owner.keep(delivery)
            dropped = self._waiting.put(delivery)
            self._arrived.notify(count)
            self._overrun = dropped > 0 and self._waiting.cause == "disconnected"
        if self._overrun:
            logger.error("%r is disconnected: more messages wait than its limit", self)
            self.close()

    def _work(self, handler: Handler) -> None:
        """Call the handler for what is in the buffer; the life of a thread of its own."""
        while True:
            try:
                message = self._next(None)
            except (ClosedError, SlowReaderError):
                return
            if self._closed:
                continue  # of what waits only the gaps still matter
            try:
                handler(message.payload if self._payload_only else message)
            except BaseException:
                self._failed(message)

    # --------------------------------------------------------------------------------------- by the reader

    def get(self, timeout: float | None = None) -> Message:
        """The next message; raises TimeoutError after `timeout` seconds (None: waits for ever).

        Raises ClosedError once closed and empty, SlowReaderError instead if it was disconnected, TypeError if there is
        a handler, and ConfigurationError.
        """
        if self._handler is not None:
            raise TypeError(f"the subscription to {self.pattern!r} has a handler; iterate over one without")
        return self._next(timeout)

    def _next(self, timeout: float | None) -> Message:
        seconds = None if timeout is None else waiting_time(timeout)
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._arrived:
                left = None if until is None else until - time.monotonic()
                found = self._waiting.take() or self._arrived.wait_for(
                    lambda: self._waiting.take() or self._closed, left
                )
            if isinstance(found, Message):
                return found
            if isinstance(found, Missed):
                self._owner.tell_gap(Gap.of(found, self.pattern))
            elif not found:
                raise TimeoutError(f"no message on {self.pattern!r} in {timeout} s")
            elif self._overrun:
                raise SlowReaderError(f"the subscription to {self.pattern!r} was disconnected: its reader is too slow")
            else:
                raise ClosedError(f"the subscription to {self.pattern!r} is closed, and all was read")

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
            self._closed, was_closed = True, self._closed
            self._leave_rest()  # again, if it was closed: Ctrl-C may have come between the two
            if was_closed:
                return
            self._arrived.notify_all()
        self._owner.unsubscribe(self)
        with self._arrived:
            self._waiting.close()

    def _join(self, timeout: float) -> None:
        """Once closed: wait for the thread of the handler, if there is one, `timeout` seconds at most."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Subscription {self.pattern!r}{' closed' if self._closed else ''}>"


def _nothing() -> None:
    """There is no rest."""
