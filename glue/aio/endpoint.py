"""The endpoint for asyncio: publish, subscribe, peers; driven by the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from glue.aio.callbacks import Callbacks
from glue.aio.consumers import AioConsumers
from glue.aio.driver import LoopDriver
from glue.aio.publishing import AioPublishing
from glue.aio.receiving import AioReceiving
from glue.aio.requests import AioRequests
from glue.aio.sleeping import AioSleeping
from glue.aio.subscription import Subscription
from glue.aio.typed import AioTyped
from glue.contract import Acknowledge, Event, Unsubscribe
from glue.endpoint.base import CLOSED, LINGER, BaseEndpoint
from glue.endpoint.core import FIRST_ROUND
from glue.endpoint.handlers import Handler, MessageHandler, PayloadHandler, check_payload_only
from glue.endpoint.history_methods import HistoryMethods
from glue.endpoint.message import Gap
from glue.endpoint.options import Policy
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.presence_methods import PresenceMethods
from glue.endpoint.qos_methods import QoSMethods
from glue.endpoint.queues import Kept
from glue.endpoint.wanted import Asking, Pattern, Queue, Wanted
from glue.endpoint.will_methods import WillMethods
from glue.errors import ClosedError
from glue.model import OpenModel
from glue.topics import check_pattern

if TYPE_CHECKING:
    from glue.aio.model import Model
    from glue.endpoint.deadlines import Silence
    from glue.endpoint.keywords import Keywords
    from glue.endpoint.presence import Presence
    from glue.endpoint.qos_matching import QoSMismatch


PresenceHandler = Callable[["Presence"], Any]


class Endpoint(
    AioRequests,
    AioPublishing,
    AioTyped,
    AioReceiving,
    AioConsumers,
    AioSleeping,
    HistoryMethods,
    PresenceMethods,
    QoSMethods,
    WillMethods,
    BaseEndpoint,
):
    """One participant on the network, for asyncio; settings and methods as those of `glue.Endpoint`.

    Use each endpoint from one event loop only. Callbacks such as `on_peer_added` may be coroutine functions.
    """

    _AWAITS_CALLBACKS = True

    def __init__(self, name: str | None = None, **settings: Unpack[Keywords]) -> None:
        """Raises ConfigurationError for a wrong setting; touches no network before `start`."""
        super().__init__(name, **settings)
        self._driver: LoopDriver | None = None
        self._subscriptions: set[Subscription] = set()
        self._owner: OwnerFunctions  # of the subscriptions; set by the start
        self._models: dict[str, Model] = {}
        self._openings = {}
        self._callbacks = Callbacks(self._callback_failed)

    # ------------------------------------------------------------------------------------ life and death

    async def start(self) -> Endpoint:
        """Join the network, as `glue.Endpoint.start` does; returns once the peers that are there have answered."""
        if self._driver is None:
            core, network = self._core, self._open_network()
            driver = LoopDriver(core, network, self._announce, self._subscriptions)
            try:
                driver.start()
            except BaseException:  # a layer put in place of ours may fail
                network.close()
                self._network = None
                raise
            self._driver = driver
            core.wills.handled = driver.handled
            self._owner = OwnerFunctions(
                core.keep, driver.handled, core.settled, core.failed, self._tell_gap, self.unsubscribe
            )
            try:
                await driver.wait_until(lambda: core.is_first_round_over, FIRST_ROUND)
            except BaseException:  # cancelled: the caller has no endpoint to close
                self._leave(driver)
                raise
        self._running()
        return self

    @property
    def closed(self) -> bool:
        """Whether the endpoint was closed."""
        return self._driver is not None and self._driver.closed

    async def close(self, timeout: float = LINGER) -> None:
        """Leave the network: wait `timeout` seconds at most for acknowledgements, say goodbye, end.

        Subscriptions end, too; what they have received can still be read, what waits for a handler is dropped.
        A coroutine handler that is running is left to end by itself. A second time, or before `start`, does nothing.
        """
        driver = self._driver
        if driver is None or driver.closed:
            return
        try:
            try:
                if self._receiving is not None:
                    await self.close_receivers(timeout)
            finally:
                self._core.requests.close(ClosedError(CLOSED))
            if self._consuming is not None:
                self._end_consuming()
                await asyncio.sleep(0)  # so that it is under way, and waited for
            if self._writers:
                await asyncio.to_thread(self._end_keeping, max(timeout, LINGER))
            await driver.wait_until(lambda: self._core.is_done, timeout)
        finally:  # also if cancelled meanwhile
            self._leave(driver)

    def _leave(self, driver: LoopDriver) -> None:
        if driver.closed:
            return
        for model in list(self._models.values()):
            model.close()
        self._end_keeping(0.0)
        driver.leave()
        for subscription in self._subscriptions.copy():
            subscription.close()

    async def __aenter__(self) -> Endpoint:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _running(self) -> LoopDriver:
        if self._driver is None:
            raise ClosedError("the endpoint was not started; await start(), or use it in an async with block")
        if self._driver.closed:
            raise ClosedError(CLOSED)
        return self._driver

    def _driver_or_none(self) -> LoopDriver | None:
        return self._driver

    def _wake_soon(self) -> None:
        if self._driver is not None:
            self._driver.wake()

    def _announce(self, event: Event) -> None:
        """Call the callback of a piece of news."""
        self._callbacks.run(self._tell, event)

    def _tell_gap(self, gap: Gap) -> None:
        """Tell of a gap."""
        if self._heals is not None:
            self._heals.gap(gap)
        self._call_on_gap(gap)

    def _call_on_gap(self, gap: Gap) -> None:
        """Call the callback of gaps."""
        if self.on_gap is not None:
            self._callbacks.run(self.on_gap, gap)

    def _tell_silence(self, silence: Silence) -> None:
        """Call `on_deadline`."""
        if self.on_deadline is not None:
            self._callbacks.run(self.on_deadline, silence)

    def _tell_qos_mismatch(self, mismatch: QoSMismatch) -> bool:
        """Call `on_qos_mismatch`; returns whether there is one."""
        if self.on_qos_mismatch is not None:
            self._callbacks.run(self.on_qos_mismatch, mismatch)
        return self.on_qos_mismatch is not None

    # ------------------------------------------------------------------------------ publish and subscribe

    @overload
    def subscribe(
        self,
        pattern: Pattern,
        handler: MessageHandler | None = None,
        *,
        payload_only: Literal[False] = False,
        policy: Policy = "block",
        limit: int | None = None,
        **asking: Unpack[Asking],
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        pattern: Pattern,
        handler: PayloadHandler,
        *,
        payload_only: Literal[True],
        policy: Policy = "block",
        limit: int | None = None,
        **asking: Unpack[Asking],
    ) -> Subscription: ...

    def subscribe(
        self,
        pattern: Pattern,
        handler: Handler | None = None,
        *,
        payload_only: bool = False,
        policy: Policy = "block",
        limit: int | None = None,
        **asking: Unpack[Asking],
    ) -> Subscription:
        """Receive the messages of the topics that match a pattern.

        pattern: a topic in which `+` matches any single level, and a last `#` all further levels; or a list of such.
        handler: called with each `Message`; an awaitable result is awaited. None: iterate with `async for`.
        payload_only: call the handler with the payload alone, which is faster for streams of small messages.
        policy: what happens when the handler or the iterating program is slow, as for `glue.Endpoint.subscribe`.
        limit: how many messages wait at most with a policy other than "block"; the default is 1,024.
        start, last: begin with history, as described in docs/history.md.
        local: False leaves out what this endpoint itself publishes.
        max_rate: at most so many messages a second of each topic, always the latest; publishers leave out the others.
        group: the name of a group; each message goes to one of its members. docs/shared-subscriptions.md describes it.
        deadline: seconds after which `on_deadline` is called for a publisher that promised to publish as often.
        qos: a quality of service, such as `glue.EVENT`, instead of several of these options; see docs/qos.md.

        Raises TopicError, and ConfigurationError for a wrong policy or limit.
        """
        driver = self._running()
        wanted = Wanted(pattern, asking, self._core)
        check_payload_only(payload_only, handler)
        handler, payload_only, waiting = wanted.reader(
            handler, payload_only, self._waiting_room(wanted, policy, limit), self._acknowledge, time.monotonic
        )
        subscription = self._open(wanted.name, handler, waiting, payload_only)
        if wanted.qos is not None:
            self._begin_request(wanted, subscription, waiting)
        driver.order(wanted.subscribe(subscription))
        self._begin_deadline(wanted, subscription)
        return subscription

    def watch_presence(self, pattern: str = "#", handler: PresenceHandler | None = None) -> Subscription:
        """Be told which endpoints come and go, and which publish to, subscribe to or answer topics of a pattern.

        The handler is called with each `Presence`; without one, iterate: the payload of each message is a `Presence`.
        What is there already comes first. Publishers are known if they call `announce`. docs/presence.md describes it.

        Raises TopicError, ConfigurationError, ClosedError.
        """
        check_pattern(pattern)
        driver = self._running()
        waiting = Kept(self._owner, time.monotonic)
        subscription = self._open(pattern, handler, waiting, handler is not None)
        driver.order(self._begin_watch(pattern, subscription))
        return subscription

    def _open(self, name: str, handler: Handler | None, waiting: Queue, payload_only: bool) -> Subscription:
        subscription = Subscription(name, handler, self._owner, waiting, payload_only)
        self._subscriptions.add(subscription)
        return subscription

    def _acknowledge(self, done: Acknowledge) -> None:
        with contextlib.suppress(ClosedError):  # then others get what is not acknowledged
            self._running().order(done, False)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Close a subscription of this endpoint."""
        subscription.close()
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            if self._deadlines:
                self._end_deadline(subscription)
            if self._requested:
                self._end_request(subscription)
            with contextlib.suppress(ClosedError):  # then all of them end
                self._running().order(Unsubscribe(subscription))

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
        from glue.aio.model import Model  # imported here: most programs use no consensus
        from glue.drivers.directory import open_directory
        from glue.endpoint.model import EndpointParts
        from glue.endpoint.model_options import model_options

        driver = self._running()
        options = model_options(
            self._core, name, voters=voters, members=members, observer=observer,
            mergeable=mergeable,
            open_directory=lambda: open_directory(data_dir), election_timeout=election_timeout,
        )  # fmt: skip
        driver.order(OpenModel(name, options, time.time()), wait=True)
        parts = EndpointParts(self, self._core, self._owner, self._subscriptions, self._models)
        self._models[name] = Model(name, options.mergeable, parts, driver)
        return self._models[name]

    # --------------------------------------------------------------------------------- peers and progress

    async def wait_for_peers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers are known; whether they were in time."""
        return await self._running().wait_until(lambda: len(self._core.peers) >= count, timeout)

    async def wait_for_subscribers(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers subscribe to the topic; whether they did in time."""
        return await self._running().wait_until(lambda: len(self._core.subscribers(topic)) >= count, timeout)

    async def flush(self, timeout: float | None = None) -> bool:
        """As `glue.Endpoint.flush`."""
        return await self._running().wait_until(lambda: self._core.is_done, timeout) and self._core.has_found_all()
