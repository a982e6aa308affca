"""Drives an endpoint from an event loop.

Everything runs in the event loop's thread. What is published in one pass of the loop leaves together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from glue._lazy import preload
from glue.aio.subscription import Subscription
from glue.contract import Delivery, Event, Leave, Missed, Network, Publication, Rung, Train
from glue.drivers.lifetime import Lifetime
from glue.endpoint.admission import Admission
from glue.endpoint.base import CLOSED
from glue.endpoint.core import EARLY, STREAM_SHARE, EndpointCore
from glue.endpoint.options import waiting_time
from glue.errors import ClosedError
from glue.model import StackRequest

GATHERED = 64 << 10  # bytes published in one pass of the event loop, after which publish yields to the loop
PATIENCE = 0.02  # seconds from a failed turn to the next turn

logger = logging.getLogger("glue")


class LoopDriver(Lifetime):
    """Turns for one core over one network, in callbacks of the event loop running on creation."""

    def __init__(
        self, core: EndpointCore, network: Network, announce: Callable[[Event], None], subscriptions: set[Subscription]
    ) -> None:
        """`announce` takes each event for no subscription; `subscriptions` are all subscriptions of the endpoint."""
        super().__init__()
        self._core = core
        self._network = network
        self._announce = announce
        self._subscriptions = subscriptions
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._maintain_at = 0.0
        self._changed: set[asyncio.Future[None]] = set()
        self._admission = Admission(core.settings.queue_limit)
        self._closed = False

    def start(self) -> None:
        """Fit the stack to the network and begin."""
        self._core.stack.fit(self._network.datagram_size)
        for fileno in self._network.filenos():
            self._loop.add_reader(fileno, self._turn, True)
        self._turn(False)

    def leave(self) -> None:
        """Say goodbye and end. A second time does nothing."""
        if self.closed:
            return
        self._core.outbox.order(Leave())
        self._turn(False)
        self._closed = True
        for fileno in self._network.filenos():
            self._loop.remove_reader(fileno)
        for handle in filter(None, (self._timer, self._soon)):
            handle.cancel()
        self._network.close()
        self._notify()

    # --------------------------------------------------------------------------------------------- turns

    def _turn(self, receive: bool) -> None:
        """Run one turn, also in the event loop's callbacks; a fault of ours must not end the endpoint in silence."""
        if self.closed:
            return
        now = time.monotonic()
        try:
            self._advance(now, receive)
        except Exception:
            logger.exception("turn failed")
            self._arm(PATIENCE)
        else:
            self._arm(min(self._core.deadline, self._maintain_at) - now)
        self._notify()

    def _advance(self, now: float, receive: bool) -> None:
        if now >= self._maintain_at - EARLY:
            if self._maintain_at:
                preload.load_next()
            self._maintain_at = self._network.maintain(now)
            self._core.stack.fit(self._network.datagram_size)
        if self._exchange(now, self._network.receive() if receive else []):
            self._exchange(now, self._network.receive())  # our looped back announcement: read now, without a wakeup

    def _exchange(self, now: float, trains: Iterable[Train]) -> bool:
        """Take trains, send what there is to send; returns whether the last of it went to all."""
        events, out = self._core.turn(now, trains)
        if out:
            self._network.send(out)
        for event in events:
            if isinstance(event, Delivery | Missed | Rung):
                for token in event.tokens:
                    _hand_over(cast(Any, token)._deliver, event)
            else:
                _hand_over(self._announce, event)
        self._core.stack.commit()
        self._admission.update(self._core.backlog)
        return bool(out) and out[-1].address is None

    def _arm(self, delay: float) -> None:
        """Come back when the stack, or the network, wants to."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, delay), self._turn, False)
        if self._core.outbox.requests:
            self._turn_soon()

    def wake(self) -> None:
        """Run a turn in this pass of the loop."""
        self._turn_soon()

    def _turn_soon(self) -> None:
        """Run one turn for everything that is published in this pass of the loop."""
        if self._soon is None and not self.closed:
            self._soon = self._loop.call_soon(self._run_soon)

    def _run_soon(self) -> None:
        self._soon = None
        self._turn(False)

    def _notify(self) -> None:
        waiters, self._changed = self._changed, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ------------------------------------------------------------------------------------ of the endpoint

    async def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that turns bring about; returns whether it came true in time.

        Raises ClosedError, ConfigurationError.
        """
        self._check_open()
        seconds = waiting_time(timeout)
        until = None if seconds is None else self._loop.time() + seconds
        while not condition() and not self.closed:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._changed.add(waiter)
            try:
                async with asyncio.timeout_at(until):  # wait_for of Python 3.11 may lose a cancellation
                    await waiter
            except TimeoutError:
                break
            finally:
                self._changed.discard(waiter)
        return condition()

    def order(self, request: StackRequest, wait: bool = False) -> None:
        """Pass a request to the stack: in this pass of the loop, or with `wait` at once."""
        self._check_open()
        self._core.outbox.order(request)
        if wait:
            self._turn(False)
        else:
            self._turn_soon()

    async def publish(self, publications: Sequence[Publication], block: bool = True) -> None:
        """Queue publications of one class, which leave in this pass of the loop.

        Waits for room, and lets the loop go round when this pass of it has gathered enough; or raises WouldBlockError
        if `block` is false and there is no room.
        """
        priority = publications[0].priority
        if block:
            await self._wait_for_room(priority)
        elif self._is_full(priority):
            raise self._core.would_block(self._core.backlog)
        for publication in publications:
            self._add(publication)

    async def _wait_for_room(self, priority: int) -> None:
        if self._core.outbox.size >= GATHERED:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        while self._is_full(priority, task):
            await self.wait_until(lambda: not self._is_full(priority, task), None)
        self._check_open()

    def _is_full(self, priority: int, task: asyncio.Task[Any] | None = None) -> bool:
        """Tell whether too much is unacknowledged or, unless a handler's task asks, too much of one's own unhandled."""
        full = priority >= self._admission.closed_from
        if full or not self._core.overfed:
            return full
        return not any(subscription._worker is task for subscription in self._subscriptions if task is not None)

    def call_threadsafe(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, from any thread; a closed endpoint or loop drops it."""

        def call() -> None:
            if not self.closed:
                function()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)

    def add(self, publications: Sequence[Publication]) -> None:
        """Queue publications without waiting for room."""
        for publication in publications:
            self._add(publication)

    def notify(self) -> None:
        """Let all that wait for a condition look again."""
        self._notify()

    def _add(self, publication: Publication) -> None:
        outbox = self._core.outbox
        outbox.add(publication)
        if outbox.size >= self._core.settings.queue_limit // STREAM_SHARE:
            self._turn(False)
        else:
            self._turn_soon()

    def handled(self, delivery: Delivery) -> None:
        """Note that a subscription has finished a delivery; tell waiting senders."""
        if self._core.handled(delivery):
            self._notify()
        if self._core.outbox.requests:
            self._turn_soon()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(CLOSED)


def _hand_over(take: Callable[[Any], object], event: Event) -> None:
    """Give an event to a receiver of it; one that fails takes nothing from the others."""
    try:
        take(event)
    except (Exception, asyncio.CancelledError):
        logger.exception("a receiver failed on %r", event)
