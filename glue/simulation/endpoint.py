"""A whole endpoint in virtual time: the stack and the core of `glue.Endpoint`, on a host of a world.

A call between two runs takes effect at the present virtual time, when the next run starts. Handlers run during
`World.run`, after the turn that delivered their messages. They may publish, subscribe and close. An exception in a
handler comes out of `run`, so an assertion in a handler fails its test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack, cast

from glue.contract import (
    Acknowledge,
    Address,
    Delivery,
    Event,
    Leave,
    Missed,
    Request,
    Rung,
    Train,
    Unsubscribe,
)
from glue.endpoint.base import CLOSED, LINGER, BaseEndpoint, multicast_network
from glue.endpoint.consumer_methods import ConsumerMethods
from glue.endpoint.core import EndpointCore
from glue.endpoint.deadlines import Silence
from glue.endpoint.handlers import Handler
from glue.endpoint.history_methods import HistoryMethods
from glue.endpoint.message import Gap
from glue.endpoint.model_options import model_options
from glue.endpoint.options import Policy
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.presence import Presence
from glue.endpoint.presence_methods import PresenceMethods
from glue.endpoint.qos_methods import QoSMethods
from glue.endpoint.queues import Kept
from glue.endpoint.wanted import Asking, Pattern, Queue, Wanted
from glue.endpoint.will_methods import WillMethods
from glue.errors import ClosedError, ConfigurationError
from glue.model import OpenModel, Replicated, StackRequest
from glue.simulation.host import EPOCH
from glue.simulation.hosts import Hosts
from glue.simulation.model import SimulatedModel
from glue.simulation.publishing import SimulatedPublishing
from glue.simulation.receivers import SimulatedReceiving
from glue.simulation.requests import SimulatedRequests
from glue.simulation.sleeping import SimulatedSleeping
from glue.simulation.subscription import SimulatedSubscription
from glue.simulation.typed import SimulatedTyped
from glue.storage import Directory
from glue.topics import check_pattern

if TYPE_CHECKING:
    from glue.consumers.home import ConsumerAlert
    from glue.endpoint.qos_matching import QoSMismatch

RUNNING, CLOSING, LEAVING = "running", "closing", "leaving"
"""States of a life that has not ended: in use; waiting for acknowledgements; sending the goodbye."""


class SimulatedEndpoint(
    SimulatedRequests,
    SimulatedPublishing,
    SimulatedTyped,
    SimulatedReceiving,
    SimulatedSleeping,
    ConsumerMethods,
    HistoryMethods,
    PresenceMethods,
    QoSMethods,
    WillMethods,
    BaseEndpoint,
):
    """One endpoint of a world, made by `World.endpoint` and running from the start.

    Settings and layers are keywords, as for `glue.Endpoint`. Environment variables are ignored, because every run must
    follow from the seed. `host` is the endpoint's machine, and `world` is the world of that host.
    """

    _environment = MappingProxyType({})

    def __init__(
        self, world: Hosts, name: str, address: Address | None, offset: float, drift: float, **settings: Any
    ) -> None:
        """Internal. Call `World.endpoint` instead."""
        self.world = world
        self._number = len(world.hosts)
        self._lives = 0
        self._state: str | None = RUNNING
        self._subscriptions: dict[SimulatedSubscription, None] = {}
        self._owner = OwnerFunctions(  # reads self._core at each call, because each life has a new core
            lambda delivery: self._core.keep(delivery),
            self._handled,
            lambda outcome, count: self._core.settled(outcome, count),
            lambda: self._core.failed(),
            self._tell_gap,
            self.unsubscribe,
        )
        super().__init__(name, **settings)
        if self._network_factory is not multicast_network:
            raise ConfigurationError("network=…: a simulated endpoint is on its world's network; leave it out")
        if self.settings.discovery != "multicast" and "discovery" not in self._factories:
            raise ConfigurationError(f"discovery={self.settings.discovery!r}: a simulated endpoint has multicast only")
        self.host = world.add(
            self,
            address,
            offset=offset,
            drift=drift,
            receive_buffer=self.settings.receive_buffer,
            on_events=self._take,
        )

    def _new_core(self) -> EndpointCore:
        self._lives += 1
        unix_time = self.host.unix_time if self._lives > 1 else EPOCH + self.world.time
        random = self.world.random(f"life {self._lives} of endpoint {self._number}")
        core = EndpointCore(self.settings, random, unix_time, self._factories, entropy=random.randbytes)
        core.stack.fit(self.world.network.datagram_size)
        core.requests.use_clocks(lambda: self.host.now, lambda: self.host.unix_time)
        self._replies = self._responders = self._served = self._reads = self._asked = None
        self._delays = self._deadlines = self._wills = self._will_flag = self._will_numbers = None
        core.wills.handled = self._handled
        self._acknowledgements, self._writers, self._keepers = None, None, ()
        self._consuming, self._is_asked, self._delayed_receiver = None, False, None
        self._cycle, self._slept, self._falling = 0, None, None
        self._matching = self._stated = self._requested = self._heals = None
        return core

    # ------------------------------------------------------------------------------------ life and death

    @property
    def is_running(self) -> bool:
        """Whether the endpoint is in use: not closed and not crashed."""
        return self._state == RUNNING

    def close(self, timeout: float = LINGER) -> None:
        """Leave the network: wait for acknowledgements, say goodbye, and end.

        The wait takes at most `timeout` seconds of virtual time. The call returns at once, and the endpoint refuses to
        publish or subscribe from now on.
        """
        if self._state != RUNNING:
            return
        core = self._core
        core.requests.close(ClosedError(CLOSED))
        self._end_consuming()
        self._end_keeping(timeout)
        self._state = CLOSING
        if core.is_done and not core.outbox.requests:
            self._leave(core)
        else:
            self.world.after(timeout, lambda: self._leave(core))

    def _leave(self, core: EndpointCore) -> None:
        if self._core is core and self._state == CLOSING:
            self._state = LEAVING
            core.outbox.order(Leave())
            self._wake()

    def crash(self) -> None:
        """End at once, as by SIGKILL or a power cut. Messages that have not been sent are lost."""
        self._state = None
        self.host.crash()
        for subscription in list(self._subscriptions):
            subscription.close()

    def restart(self) -> None:
        """Begin another life with the same name and host, without subscriptions. A running endpoint crashes first.

        Callbacks such as `on_peer_added` stay.
        """
        self.crash()
        self._core = self._new_core()
        self._open_exam()
        self._state = RUNNING
        if self._radio_is_off:
            self._switch_on()
        self.host.restart(self)

    def pause(self) -> None:
        """Stop the process and its handlers (SIGSTOP). Arriving data waits in the receive buffers of the sockets."""
        self.host.pause()

    def resume(self) -> None:
        """Continue the process (SIGCONT)."""
        self.host.resume()

    def _is_alive(self) -> bool:
        return self._state is not None

    def _running(self) -> EndpointCore:
        if self._state != RUNNING:
            raise ClosedError(f"{self} was closed or has crashed; restart() begins another life")
        return self._core

    # ---------------------------------------------------------------------------- as a machine of the world

    @property
    def deadline(self) -> float:
        """When the next turn is due, by the host's clock. For the host."""
        return self._core.deadline

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        """Run one turn with the host's requests and all waiting publications. For the host."""
        for request in requests:
            self._core.outbox.order(request)
        events, out = self._core.turn(now, tuple(trains))  # one turn reads all of them
        self._core.stack.commit()
        if self._core.outbox.requests:  # a turn may leave requests of its own; every driver looks after each
            self._wake()
        if self._state == LEAVING:
            core = self._core
            self.world.after(0.0, lambda: self._end(core))
        elif self._state == CLOSING and self._core.is_done:
            self._leave(self._core)
        else:
            self._look_to_sleep(self._core)
        return events, out

    def _end(self, core: EndpointCore) -> None:
        if self._core is core and self._state == LEAVING:
            self.crash()

    def _take(self, events: list[Event]) -> None:
        """Deliver the events of a turn until this life ends."""
        core = self._core
        for event in events:
            if self._core is not core or self._state is None:
                return
            if isinstance(event, Delivery | Missed | Rung):
                for token in event.tokens:
                    cast(Any, token)._deliver(event)
            else:
                self._tell(event)

    # ------------------------------------------------------------------------------ publish and subscribe

    def subscribe(
        self,
        pattern: Pattern,
        handler: Handler | None = None,
        *,
        handling_time: float = 0.0,
        policy: Policy = "block",
        limit: int | None = None,
        **asking: Unpack[Asking],
    ) -> SimulatedSubscription:
        """Subscribe as `glue.Endpoint.subscribe` does. Without a handler, `received` of the subscription lists the
        messages.

        `handling_time` is the duration of the handler for each message, in seconds of virtual time. Later messages
        wait.
        """
        core = self._running()
        wanted = Wanted(pattern, asking, core)
        queue = self._waiting_room(wanted, policy, limit)
        handler, _, waiting = wanted.reader(handler, False, queue, self._acknowledge, lambda: self.host.now)
        subscription = self._open(wanted.name, handler, handling_time, waiting)
        if wanted.qos is not None:
            self._begin_request(wanted, subscription, waiting)
        self._order(wanted.subscribe(subscription))
        self._begin_deadline(wanted, subscription)
        return subscription

    def watch_presence(
        self, pattern: str = "#", handler: Callable[[Presence], Any] | None = None
    ) -> SimulatedSubscription:
        """As `glue.Endpoint.watch_presence`; without a handler, `received` of the subscription lists the messages."""
        check_pattern(pattern)
        self._running()
        call = None if handler is None else lambda message: handler(message.payload)
        subscription = self._open(pattern, call, 0.0, Kept(self._owner, lambda: self.host.now))
        self._order(self._begin_watch(pattern, subscription))
        return subscription

    def _open(self, name: str, handler: Handler | None, handling_time: float, waiting: Queue) -> SimulatedSubscription:
        subscription = SimulatedSubscription(name, handler, handling_time, self._owner, waiting, self.host, self.world)
        self._subscriptions[subscription] = None
        return subscription

    def _acknowledge(self, done: Acknowledge) -> None:
        if self._state is not None:
            self._core.outbox.order(done)
            self._wake()

    def unsubscribe(self, subscription: SimulatedSubscription) -> None:
        """Close the subscription."""
        subscription.close()
        if subscription in self._subscriptions:
            del self._subscriptions[subscription]
            if self._deadlines:
                self._end_deadline(subscription)
            if self._requested:
                self._end_request(subscription)
            self._core.outbox.order(Unsubscribe(subscription))
            self._wake()

    def _handled(self, delivery: Delivery) -> None:
        """Tell the core that a delivery was handled. Schedule a turn if requests follow from that."""
        self._core.handled(delivery)
        if self._core.outbox.requests:
            self._wake()

    def _tell_gap(self, gap: Gap) -> None:
        """Tell of a gap."""
        if self._heals is not None:
            self._heals.gap(gap)
        self._call_on_gap(gap)

    def _call_on_gap(self, gap: Gap) -> None:
        """Call `on_gap`, if the program has set it."""
        if self.on_gap is not None:
            self.on_gap(gap)

    def _tell_silence(self, silence: Silence) -> None:
        """Call `on_deadline`, if the program has set it."""
        if self.on_deadline is not None:
            self.on_deadline(silence)

    def _tell_qos_mismatch(self, mismatch: QoSMismatch) -> bool:
        """Call `on_qos_mismatch`, if the program has set it."""
        if self.on_qos_mismatch is not None:
            self.on_qos_mismatch(mismatch)
        return self.on_qos_mismatch is not None

    def _tell_alert(self, alert: ConsumerAlert) -> None:
        """Call `on_consumer_alert`, if the program has set it."""
        if self.on_consumer_alert is not None:
            self.on_consumer_alert(alert)

    def _wake_soon(self) -> None:
        self._wake()

    def _wake(self) -> None:
        """Schedule a turn at this instant, unless this life is over."""
        if self._state is not None:
            self.host.submit()

    # ---------------------------------------------------------------------------------------- shared state

    def model(
        self,
        name: str,
        *,
        voters: int | None = None,
        members: Sequence[str] | None = None,
        observer: bool = False,
        mergeable: Mapping[str, str] | None = None,
        directory: Directory | None = None,
        election_timeout: float = 1.0,
    ) -> SimulatedModel:
        """Open a model as `glue.Endpoint.model` does. `directory` holds the stored data, such as a `SimulatedDisk`."""
        core = self._running()
        options = model_options(
            core, name, voters=voters, members=members, observer=observer, mergeable=mergeable,
            open_directory=lambda: directory, election_timeout=election_timeout,
        )  # fmt: skip
        self._order(OpenModel(name, options, self.host.unix_time))
        return SimulatedModel(
            name, self._order, self._handled, self.host, self.world,
            lambda: cast(Replicated, self._core.stack.layers["model"]).groups[name],
        )  # fmt: skip

    def _order(self, request: StackRequest) -> None:
        """Hand a request to the stack at this instant."""
        self._running().outbox.order(request)
        self._wake()

    # --------------------------------------------------------------------------------- peers and progress

    def subscribers(self, topic: str) -> list[str]:
        """Return the ids of known peers that subscribe to this topic."""
        return self._core.subscribers(topic)

    @property
    def backlog(self) -> int:
        """Published bytes that at least one receiver has not acknowledged."""
        return self._core.backlog

    @property
    def statistics(self) -> dict[str, Counter[str]]:
        """A copy of this life's counters by layer. The network's counters are in `World.network.counters`."""
        return self._read_statistics()
