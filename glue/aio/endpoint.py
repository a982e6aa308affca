"""The endpoint of an event loop.

Everything runs in the event loop's thread. What is published in one pass of the loop leaves together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from glue.aio.callbacks import Callbacks
from glue.aio.subscription import Subscription
from glue.contract import Delivery, Event, Leave, Missed, Publication, Subscribe, Train, Unsubscribe
from glue.drivers.lifetime import Life
from glue.endpoint.admission import Admission
from glue.endpoint.base import CLOSED, LINGER, BaseEndpoint, PublishOptions
from glue.endpoint.core import EARLY, FIRST_ROUND, STREAM_SHARE, check_not_reserved
from glue.endpoint.handlers import Handler, check_payload_only
from glue.endpoint.message import Gap
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.queues import waiting_room
from glue.endpoint.receipt import AwaitableReceipt
from glue.errors import ClosedError
from glue.model import OpenModel, Wish
from glue.settings import Keywords
from glue.topics import check_pattern

if TYPE_CHECKING:
    from glue.aio.model import Model

GATHERED = 64 << 10  # bytes published in one pass of the loop, after which publish lets it go round
PATIENCE = 0.02  # seconds until the next turn after one that failed

logger = logging.getLogger("glue")


class Endpoint(BaseEndpoint, Life):
    """One participant on the network, for asyncio; settings and methods as those of `glue.Endpoint`.

    All of it is to be used from one event loop. `on_peer_added` and its like may be coroutine functions.
    """

    AWAITS_CALLBACKS = True

    def __init__(self, name: str | None = None, **settings: Unpack[Keywords]) -> None:
        """Raises ConfigurationError for a wrong setting; touches no network before `start`."""
        BaseEndpoint.__init__(self, name, **settings)
        Life.__init__(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._maintain_at = 0.0
        self._changed: set[asyncio.Future[None]] = set()
        self._subscriptions: set[Subscription] = set()
        core = self._core
        self._owner = OwnerFunctions(
            core.keep, self._handled, core.settled, core.failed, self._tell_gap, self.unsubscribe
        )
        self.models: dict[str, Model] = {}
        self._callbacks = Callbacks(self._callback_failed)
        self._admission = Admission(self.settings.queue_limit)
        self._closed = False

    # ------------------------------------------------------------------------------------ life and death

    async def start(self) -> Endpoint:
        """As `glue.Endpoint.start`: it returns once the peers that are there have answered."""
        if self._loop is None:
            loop = asyncio.get_running_loop()
            self._network = self._open_network()
            try:
                self._core.stack.fit(self._network.datagram_size)
            except BaseException:  # a layer put in place of ours may fail
                self._network.close()
                self._network = None
                raise
            self._loop = loop
            for fileno in self._network.filenos():
                self._loop.add_reader(fileno, self._turn, True)
            self._turn(False)
            try:
                await self._until(lambda: self._core.is_first_round_over, FIRST_ROUND)
            except BaseException:  # cancelled: nobody else would close it
                self._leave()
                raise
        self._running()
        return self

    async def close(self, timeout: float = LINGER) -> None:
        """Leave the network: wait `timeout` seconds at most for acknowledgements, say goodbye, end.

        Subscriptions end, too; what they have received can still be read, what waits for a handler is dropped.
        A coroutine handler that is running is left to end by itself. A second time, or before `start`, does nothing.
        """
        if self._loop is None or self.closed:
            return
        try:
            await self._until(lambda: self._core.is_done, timeout)
        finally:  # also if cancelled meanwhile
            self._leave()

    def _leave(self) -> None:
        if self.closed:
            return
        assert self._network is not None
        assert self._loop is not None
        for model in list(self.models.values()):
            model.close()
        self._core.outbox.order(Leave())
        self._turn(False)
        self._closed = True
        for fileno in self._network.filenos():
            self._loop.remove_reader(fileno)
        for handle in filter(None, (self._timer, self._soon)):
            handle.cancel()
        self._network.close()
        for subscription in self._subscriptions.copy():
            subscription.close()
        self._notify()

    async def __aenter__(self) -> Endpoint:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise ClosedError("the endpoint was not started; await start(), or use it in an async with block")
        if self.closed:
            raise ClosedError(CLOSED)
        return self._loop

    # --------------------------------------------------------------------------------------------- turns

    def _turn(self, receive: bool) -> None:
        """One turn, also in the event loop's callbacks; a fault of ours must not end the endpoint in silence."""
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
        assert self._network is not None
        if now >= self._maintain_at - EARLY:
            self._maintain_at = self._network.maintain(now)
            self._core.stack.fit(self._network.datagram_size)
        if self._exchange(now, self._network.receive() if receive else []):
            self._exchange(now, self._network.receive())  # our announcement: it is back already, and wakes nobody then

    def _exchange(self, now: float, trains: Iterable[Train]) -> bool:
        """Take trains, send what there is to send; whether the last of it went to all."""
        assert self._network is not None
        events, out = self._core.turn(now, trains)
        if out:
            self._network.send(out)
        for event in events:
            if isinstance(event, Delivery | Missed):
                for token in event.tokens:
                    cast(Subscription, token).deliver(event)
            else:
                self._announce(event)
        self._admission.update(self._core.backlog)
        return bool(out) and out[-1].address is None

    def _arm(self, delay: float) -> None:
        """Come back when the stack, or the network, wants to."""
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, delay), self._turn, False)
        if self._core.outbox.requests:
            self._turn_soon()

    def _turn_soon(self) -> None:
        """Run one turn for everything that is published in this pass of the loop."""
        if self._soon is None and self._loop is not None and not self.closed:
            self._soon = self._loop.call_soon(self._run_soon)

    def _run_soon(self) -> None:
        self._soon = None
        self._turn(False)

    def _notify(self) -> None:
        waiters, self._changed = self._changed, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _announce(self, event: Event) -> None:
        self._callbacks.run(self._tell, event)

    def _tell_gap(self, gap: Gap) -> None:
        """Call the callback of gaps."""
        if self.on_gap is not None:
            self._callbacks.run(self.on_gap, gap)

    async def _until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        loop = self._running()
        until = None if timeout is None else loop.time() + timeout
        while not condition() and not self.closed:
            waiter: asyncio.Future[None] = loop.create_future()
            self._changed.add(waiter)
            try:
                async with asyncio.timeout_at(until):  # wait_for of Python 3.11 may lose a cancellation
                    await waiter
            except TimeoutError:
                break
            finally:
                self._changed.discard(waiter)
        return condition()

    # ------------------------------------------------------------------------------ publish and subscribe

    @overload
    async def publish(
        self, topic: str, payload: Any, *, receipt: Literal[True], **options: Unpack[PublishOptions]
    ) -> AwaitableReceipt: ...

    @overload
    async def publish(
        self, topic: str, payload: Any, *, receipt: Literal[False] = False, **options: Unpack[PublishOptions]
    ) -> None: ...

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: str = "reliable",
        priority: str = "normal",
        block: bool = True,
        receipt: bool = False,
    ) -> AwaitableReceipt | None:
        """As `glue.Endpoint.publish`; where that blocks, this awaits. If cancelled, nothing was published.

        The receipt is to be awaited: `receipt = await publish(…, receipt=True)`, then `await receipt`.
        """
        self._running()
        ticket = AwaitableReceipt(self._until) if receipt else None
        publication = self._core.publication(
            topic, payload, time.time(), type, retain, lifespan, reliability, ticket, priority
        )
        if block:
            await self._room(publication.priority)
        elif self._is_full(publication.priority):
            raise self._core.would_block(self._core.backlog)
        self._add(publication)
        return ticket

    async def publish_many(self, topic: str, payloads: Iterable[Any], *, priority: str = "normal") -> None:
        """Publish a stream of payloads on one topic, as `publish` with its other defaults would; faster."""
        self._running()
        source, count = iter(payloads), 1
        while chunk := list(islice(source, count)):
            publications = self._core.publications(topic, chunk, time.time(), priority)
            await self._room(publications[0].priority)
            for publication in publications:
                self._add(publication)
            count = self._core.chunk_count(count, publications)

    async def _room(self, priority: int) -> None:
        """Wait while the queue is full; and let the loop go round when this pass of it has gathered enough."""
        if self._core.outbox.size >= GATHERED:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        while self._is_full(priority, task):
            await self._until(lambda: not self._is_full(priority, task), None)
        self._running()

    def _is_full(self, priority: int, task: asyncio.Task[Any] | None = None) -> bool:
        """Too much is unacknowledged; or, unless a handler's task asks, too much of one's own is not yet handled."""
        full = priority >= self._admission.closed_from
        if full or not self._core.overfed:
            return full
        return not any(subscription.worker is task for subscription in self._subscriptions if task is not None)

    def _add(self, publication: Publication) -> None:
        outbox = self._core.outbox
        outbox.add(publication)
        if outbox.size >= self.settings.queue_limit // STREAM_SHARE:
            self._turn(False)
        else:
            self._turn_soon()

    def subscribe(
        self,
        pattern: str,
        handler: Handler | None = None,
        *,
        payload_only: bool = False,
        policy: str = "block",
        limit: int | None = None,
    ) -> Subscription:
        """As `glue.Endpoint.subscribe`; what the handler returns may be awaitable, and is awaited before the next."""
        self._running()
        check_pattern(pattern)
        check_payload_only(payload_only, handler)
        check_not_reserved(pattern)
        waiting = waiting_room(policy, limit, self.settings.receive_limit, self._owner, time.monotonic)
        subscription = Subscription(pattern, handler, self._owner, waiting, payload_only)
        self._subscriptions.add(subscription)
        self._core.outbox.order(Subscribe(subscription, pattern))
        self._turn_soon()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """The same as closing the subscription."""
        subscription.close()
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            self._core.outbox.order(Unsubscribe(subscription))
            self._turn_soon()

    def _handled(self, delivery: Delivery) -> None:
        """Note that a subscription is done with a delivery; the senders are told if they were waiting for that."""
        if self._core.handled(delivery):
            self._notify()
        if self._core.outbox.requests:
            self._turn_soon()

    # ---------------------------------------------------------------------------------------- shared state

    def model(
        self,
        name: str,
        *,
        voters: int | None = None,
        members: Sequence[str] | None = None,
        observer: bool = False,
        mergeable: Mapping[str, str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        election_timeout: float = 1.0,
    ) -> Model:
        """As `glue.Endpoint.model`."""
        from glue.aio.model import Model  # consensus is loaded by those who use it
        from glue.drivers.directory import open_directory
        from glue.endpoint.model import model_options

        self._running()
        options = model_options(
            self._core, name, voters=voters, members=members, observer=observer,
            mergeable=mergeable,
            directory=open_directory(data_dir), election_timeout=election_timeout,
        )  # fmt: skip
        self._core.outbox.order(OpenModel(name, options, time.time()))
        self._turn(False)
        self.models[name] = Model(name, self, self._core, options.mergeable)
        return self.models[name]

    def order(self, wish: Wish) -> None:
        """For models: pass this to the stack in this pass of the loop."""
        self._running()
        self._core.outbox.order(wish)
        self._turn_soon()

    def adopt(self, subscription: Subscription) -> None:
        """For watches: a subscription that ends with the endpoint."""
        self._subscriptions.add(subscription)

    def disown(self, subscription: Subscription) -> None:
        """For watches: one that has ended."""
        self._subscriptions.discard(subscription)

    async def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """For models: wait for something that turns bring about; whether it came true in time."""
        return await self._until(condition, timeout)

    # --------------------------------------------------------------------------------- peers and progress

    async def wait_for_peers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers are known; whether they were in time."""
        return await self._until(lambda: len(self._core.peers) >= count, timeout)

    async def wait_for_subscribers(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers subscribe to the topic; whether they did in time."""
        return await self._until(lambda: len(self._core.subscribers(topic)) >= count, timeout)

    async def flush(self, timeout: float | None = None) -> bool:
        """As `glue.Endpoint.flush`."""
        return await self._until(lambda: self._core.is_done, timeout) and self._core.has_found_all()
