"""The endpoint for programs that block: publish, subscribe, peers; driven by a background thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from glue.contract import Acknowledge, Event, Unsubscribe
from glue.drivers.leader import ThreadDriver
from glue.drivers.lifetime import FAREWELL
from glue.endpoint.base import CLOSED, LINGER, BaseEndpoint
from glue.endpoint.core import FIRST_ROUND
from glue.endpoint.handlers import Handler, MessageHandler, PayloadHandler, check_payload_only, is_awaited
from glue.endpoint.history_methods import HistoryMethods
from glue.endpoint.message import Gap
from glue.endpoint.options import Policy
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.presence_methods import PresenceMethods
from glue.endpoint.qos_methods import QoSMethods
from glue.endpoint.queues import Kept
from glue.endpoint.wanted import Asking, Pattern, Queue, Wanted
from glue.endpoint.will_methods import WillMethods
from glue.errors import ClosedError, ConfigurationError
from glue.model import OpenModel
from glue.sync.consumers import SyncConsumers
from glue.sync.publishing import SyncPublishing
from glue.sync.receiving import SyncReceiving
from glue.sync.requests import SyncRequests
from glue.sync.sleeping import SyncSleeping
from glue.sync.subscription import Subscription
from glue.sync.typed_methods import SyncTyped
from glue.topics import check_pattern

if TYPE_CHECKING:
    from glue.endpoint.deadlines import Silence
    from glue.endpoint.keywords import Keywords
    from glue.endpoint.presence import Presence
    from glue.endpoint.qos_matching import QoSMismatch
    from glue.sync.model import Model


PresenceHandler = Callable[["Presence"], Any]


class Endpoint(
    SyncRequests,
    SyncPublishing,
    SyncTyped,
    SyncReceiving,
    SyncConsumers,
    SyncSleeping,
    HistoryMethods,
    PresenceMethods,
    QoSMethods,
    WillMethods,
    BaseEndpoint,
):
    """One participant on the network; a context manager that starts on enter and closes on exit.

    Settings and layers are keywords, as `BaseEndpoint` describes. Its methods may be called from any thread,
    handlers included; from the handler of a signal `publish` alone, as the others may wait for what it interrupted.
    Errors derive from `glue.GlueError`.
    """

    def __init__(self, name: str | None = None, **settings: Unpack[Keywords]) -> None:
        """Raises ConfigurationError for a wrong setting; touches no network before `start`."""
        super().__init__(name, **settings)
        self._news = _News(self._announce)
        self._driver: ThreadDriver | None = None
        self._subscriptions: set[Subscription] = set()
        self._owner: OwnerFunctions  # of the subscriptions; set by the start
        self._models: dict[str, Model] = {}
        self._keeping_lock = threading.RLock()

    # ------------------------------------------------------------------------------------ life and death

    def start(self) -> Endpoint:
        """Join the network; returns the endpoint itself. Starting twice does nothing.

        The call waits until present peers have answered and their interests are known. This takes a round trip, or
        0.04 seconds without peers. Therefore the next publication reaches all peers that subscribed before.

        Raises InterfaceError, PortInUseError or ConfigurationError; ClosedError if the endpoint was closed.
        """
        if self._driver is None:
            self._network = self._open_network()
            core, driver = self._core, ThreadDriver(self._core, self._network, self._news)
            self._driver = driver
            self._owner = OwnerFunctions(
                core.keep, driver.handled, core.settled, core.failed, self._tell_gap, self.unsubscribe
            )
            try:
                self._driver.start()
            except BaseException:  # a layer put in place of ours may fail
                self._network.close()
                self._network = self._driver = None
                raise
            try:
                self._driver.wait_until(lambda: self._core.is_first_round_over, FIRST_ROUND)
            except BaseException:  # Ctrl-C: the caller has no endpoint to close
                self.close(0.0)
                raise
        self._running()
        return self

    def close(self, timeout: float = LINGER) -> None:
        """Leave the network: wait `timeout` seconds at most for acknowledgements, say goodbye, end.

        Subscriptions end, too; what they have received can still be read, what waits for a handler is dropped.
        A handler that is running is left to end by itself. A second time, or before `start`, does nothing.
        """
        if self._driver is None or self._driver.closed:
            return
        if self._receiving is not None:
            self.close_receivers(timeout)
        self._core.requests.close(ClosedError(CLOSED))
        for model in list(self._models.values()):
            model.close()
        self._end_consuming()
        self._end_keeping(max(timeout, LINGER))
        self._driver.close(timeout)
        self._end_keeping(FAREWELL)  # of keepers that began meanwhile
        subscriptions = self._subscriptions.copy()
        for subscription in subscriptions:
            subscription.close()
        for subscription in subscriptions:
            subscription._join(FAREWELL)

    def __enter__(self) -> Endpoint:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> ThreadDriver:
        if self._driver is None:
            raise ClosedError("the endpoint was not started; call start(), or use it in a with block")
        if self._driver.closed:
            raise ClosedError(CLOSED)
        return self._driver

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
        handler: called with each `Message` from a background thread; None: iterate over the subscription.
        payload_only: call the handler with the payload alone, which is faster for streams of small messages.
        policy: what happens when the handler or the iterating program is slow; see below.
        limit: how many messages wait at most with a policy other than "block"; the default is 1,024.
        start, last: begin with history, as described in docs/history.md.
        local: False leaves out what this endpoint itself publishes.
        max_rate: at most so many messages a second of each topic, always the latest; publishers leave out the others.
        group: the name of a group; each message goes to one of its members. docs/shared-subscriptions.md describes it.
        consumer: the name of a durable consumer; docs/consumers.md describes it, `ordered` and `by_hand`.
        deadline: seconds after which `on_deadline` is called for a publisher that promised to publish as often.
        qos: a quality of service, such as `glue.EVENT`, instead of several of these options; see docs/qos.md.

        A message that several patterns match comes once; several subscriptions each get it. With the policy "block"
        nothing is dropped: publishers wait once `receive_limit` bytes wait here. With any other policy, publishers
        never wait for it and the handler has its own thread. At most `limit` messages and `receive_limit` bytes wait.
        Beyond this limit, "drop_oldest" drops the oldest waiting message and "drop_newest" drops the new one.
        "disconnect" ends the subscription, and the reader gets SlowReaderError. `on_gap` tells what was dropped.

        With `start` ("earliest", "latest", "-10m", a datetime, a message's number) or `last` (messages of each topic),
        publishers that remember serve old messages, and live ones follow. No publisher waits for such a subscription.

        Raises TopicError, and ConfigurationError for a wrong policy or limit, or a coroutine function as the handler.
        """
        wanted = Wanted(pattern, asking, self._core)
        check_payload_only(payload_only, handler)
        if is_awaited(handler):
            raise ConfigurationError(f"handler={handler!r}: a coroutine function is for glue.aio.Endpoint")
        driver = self._running()
        handler, payload_only, waiting = wanted.reader(
            handler, payload_only, self._waiting_room(wanted, policy, limit), self._acknowledge, time.monotonic, True
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
        if is_awaited(handler):
            raise ConfigurationError(f"handler={handler!r}: a coroutine function is for glue.aio.Endpoint")
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

    def _wake_soon(self) -> None:
        driver = self._driver
        if driver is not None:
            driver.wake()

    def _announce(self, event: Event) -> None:
        """Call the callback of a piece of news."""
        try:
            self._tell(event)
        except BaseException:  # as above
            self._callback_failed(event)

    def _tell_gap(self, gap: Gap) -> None:
        """Tell of a gap."""
        if self._heals is not None:
            self._heals.gap(gap)
        self._call_on_gap(gap)

    def _call_on_gap(self, gap: Gap) -> None:
        """Call the callback of gaps."""
        if self.on_gap is not None:
            try:
                self.on_gap(gap)
            except BaseException:  # the handler's own affair, as that of messages
                self._callback_failed(gap)

    def _tell_silence(self, silence: Silence) -> None:
        """Call `on_deadline`."""
        if self.on_deadline is not None:
            try:
                self.on_deadline(silence)
            except BaseException:  # as above
                self._callback_failed(silence)

    def _tell_qos_mismatch(self, mismatch: QoSMismatch) -> bool:
        """Call `on_qos_mismatch`; returns whether there is one."""
        if self.on_qos_mismatch is None:
            return False
        try:
            self.on_qos_mismatch(mismatch)
        except BaseException:  # as above
            self._callback_failed(mismatch)
        return True

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
        """Take part in the shared state of this name; `docs/model.md` describes the guarantees.

        voters: the number of voting endpoints, which are found by discovery.
        members: the names of the voting endpoints, instead of their number.
        observer: follow without a vote; an observer may leave out `voters` and `members`.
        mergeable: a kind ("counter", "set", "register" or "multi") for each prefix of keys that need no majority.
        data_dir: a directory for this model at this endpoint alone; acknowledged writes then survive a power cut.
        election_timeout: seconds without a leader after which voters elect another one.

        All endpoints give the same voters or members, and the same `mergeable`. An endpoint outside the voters
        follows. Without `data_dir`, a restarted endpoint votes only after it has learned the lost state again.
        Mergeable keys are written locally at once, and the replicas converge when the endpoints reach each other.

        Raises ConfigurationError, ModelError, StorageError.
        """
        from glue.drivers.directory import open_directory
        from glue.endpoint.model import EndpointParts
        from glue.endpoint.model_options import model_options  # imported here: most programs use no consensus
        from glue.sync.model import Model

        driver = self._running()
        options = model_options(
            self._core, name, voters=voters, members=members, observer=observer,
            mergeable=mergeable,
            open_directory=lambda: open_directory(data_dir), election_timeout=election_timeout,
        )  # fmt: skip
        driver.order(OpenModel(name, options, time.time()))
        parts = EndpointParts(self, self._core, self._owner, self._subscriptions, self._models)
        self._models[name] = Model(name, options.mergeable, parts, driver)
        return self._models[name]

    # --------------------------------------------------------------------------------- peers and progress

    def wait_for_peers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers are known; whether they were in time."""
        return self._running().wait_until(lambda: len(self._core.peers) >= count, timeout)

    def wait_for_subscribers(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` peers subscribe to the topic; whether they did in time.

        What is published to the topic after that reaches each of them.
        """
        return self._running().wait_until(lambda: len(self._core.subscribers(topic)) >= count, timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until every subscriber has acknowledged every reliable message; whether all did in time.

        Subscribers that are gone no longer count. Returns False once if a message found no subscriber within
        0.05 seconds of the start, because a subscriber may not have been known yet.
        """
        return self._running().wait_until(lambda: self._core.is_done, timeout) and self._core.has_found_all()

    @property
    def statistics(self) -> dict[str, Counter[str]]:
        """A copy of all counters by layer; the counters of no layer are under "endpoint". A missing counter is 0."""
        return self._read_statistics() if self._driver is None else self._driver.inspect(self._read_statistics)


class _News:
    """Receives from the driver what is no message: peers that come and go, clashes."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._busy = False
        self._mailbox: deque[Event] = deque()
        self._deliver = tell
