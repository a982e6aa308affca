"""The base class of all endpoints: identity, peers, counters and callbacks, independent of the driver."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from glue.contract import Awake, Event, LinkChanged, NameClash, Network, PeerAdded, PeerRemoved, Undelivered
from glue.contract.logs import lazy_logger
from glue.discovery import ServiceDiscovery
from glue.endpoint.accounting import Accounting, account
from glue.endpoint.callbacks import PREFIX, Callback, Failures, check_name
from glue.endpoint.core import EndpointCore
from glue.endpoint.fork import heirs
from glue.endpoint.message import Gap, Peer
from glue.endpoint.type_news import Mismatch
from glue.errors import ConfigurationError
from glue.network import MulticastNetwork
from glue.settings import SETTINGS, Settings, effective
from glue.stack import LAYERS
from glue.topics import check_topic

if TYPE_CHECKING:  # imported when used: most programs name no quality of service, and keep nothing
    from glue.consumers.home import ConsumerAlert
    from glue.endpoint.deadlines import Silence
    from glue.endpoint.healed import Healed, HealWatch, RetainedConflict, RetainedVersion
    from glue.endpoint.keywords import Keywords
    from glue.endpoint.qos_matching import QoSMismatch
    from glue.endpoint.sleep_methods import Woke
    from glue.network.linked import LinkedNetwork

CLOSED = "the endpoint is closed and does not start again; make a new one (after a fork, one in each process)"

LINGER = 1.0  # seconds that close waits for published messages to be acknowledged

NetworkFactory = Callable[[Settings], Network]
PeerHandler = Callable[[Peer], Any]

logger = lazy_logger("glue")


def multicast_network(settings: Settings) -> Network:
    """The default network layer, as the settings want it: over one interface or several."""
    options: dict[str, Any] = {
        name: getattr(settings, name)
        for name in ("multicast_address", "listen_port", "receive_buffer", "offload", "spin", "sched_batch")
    }
    network: MulticastNetwork | LinkedNetwork
    if isinstance(settings.interface, tuple):
        from glue.network.linked import LinkedNetwork  # imported here: most programs use one interface

        network = LinkedNetwork(interfaces=settings.interface, **options)
    else:
        network = MulticastNetwork(interface=settings.interface, **options)
    heirs.add(network)
    return network


class BaseEndpoint:
    """The part of an endpoint that does not depend on its driver.

    Settings are keywords, listed in `glue.settings.Settings`; an environment variable GLUE_… can set each of them.
    The keyword of a layer's name (`transport=…`) replaces the layer by a factory, called with a
    `glue.stack.Identity`. The factory of `network=…` is called with the `Settings`.
    """

    on_peer_added: Callback[PeerHandler] = Callback("peer")
    """Called with each `Peer` that appears; set it before the start to be told of all."""
    on_peer_removed: Callback[PeerHandler] = Callback("peer")
    """Called with each `Peer` that is gone; its `reason` says why."""
    on_name_clash: Callback[PeerHandler] = Callback("peer")
    """Called with the other `Peer` that uses this endpoint's name; it is logged in any case."""
    on_gap: Callback[Callable[[Gap], Any]] = Callback("gap")
    """Called with each `Gap` in what a subscription receives: before the message that follows, by its reader."""
    on_deadline: Callback[Callable[[Silence], Any]] = Callback("silence")
    """Called with a `Silence` when a publisher that promised a rate falls silent (`subscribe(..., deadline=…)`)."""
    on_lost: Callback[Callable[[str, int], Any]] = Callback("cause", "count")
    """Called with the cause and the number of messages that this endpoint published and a peer will not get."""

    on_mismatch: Callback[Callable[[Mismatch], Any]] = Callback("mismatch")
    """Called with each `Mismatch` of types, between an endpoint and a typed topic of this one."""
    on_consumer_alert: Callback[Callable[[ConsumerAlert], Any]] = Callback("alert")
    """Called at a keeper, in the thread that stores, with each `ConsumerAlert`, such as a stuck consumer."""
    on_qos_mismatch: Callback[Callable[[QoSMismatch], Any]] = Callback("mismatch")
    """Called with a `QoSMismatch` when a publisher offers less than a subscriber requests, at both ends."""

    on_wake: Callback[Callable[[Woke], Any]] = Callback("woke")
    """Called with a `Woke` when the endpoint has slept, and what waited for it has come (`sleep`)."""
    on_heal: Callback[Callable[[Healed], Any]] = Callback("healed")
    """Called with a `Healed` after peers that were cut off are back: what was missed, recovered, gone, in conflict."""
    on_conflict: Callback[Callable[[RetainedConflict], Any]] = Callback("conflict")
    """Called with each `RetainedConflict` after a split; it may return the `RetainedVersion` that stands."""

    _heals: HealWatch | None = None  # set when the first peer falls silent
    _AWAITS_CALLBACKS = False
    """Whether callbacks may be coroutine functions."""

    _clock_origin: float | None = None  # the wall clock at the start, less the monotonic clock

    _environment: Mapping[str, str] | None = None  # where settings are looked up; None: that of the process

    def __init__(self, name: str | None = None, **settings: Unpack[Keywords]) -> None:
        """Raises ConfigurationError for a wrong setting; touches no network before `start`."""
        keywords: dict[str, Any] = {**settings}
        self._factories = _take_factories(keywords)
        self._network_factory: NetworkFactory = self._factories.pop("network", multicast_network)
        self.settings = effective({"name": name, **keywords}, self._environment)
        self._core = self._new_core()
        self._network: Network | None = None
        self._open_exam()
        self._failures = Failures("a callback")

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:3] == PREFIX:
            check_name(type(self), name)
        object.__setattr__(self, name, value)

    def _new_core(self) -> EndpointCore:
        """Make the core for one life of this endpoint."""
        return EndpointCore(self.settings, random.Random(), time.time(), self._factories)

    def _open_exam(self) -> None:
        """Let discovery answer the questions of peers, unless the setting `doctor` forbids it."""
        examined = getattr(self._core.stack.layers["discovery"], "examined", None)  # not of a layer in place of ours
        if examined is not None:
            examined.let(self.settings.doctor, self._section)

    def _section(self, name: str) -> Any:
        from glue.endpoint.sections import section_of  # imported here: few programs are asked

        return section_of(self, name)

    def _open_network(self) -> Network:
        """Open the network and, with DNS-SD, register its address."""
        network = self._network = self._network_factory(self.settings)
        self._clock_origin = time.time() - time.monotonic()
        if (follow := getattr(network, "follow_links", None)) is not None:
            follow(partial(self._link_changed, network))
        discovery = self._core.stack.layers["discovery"]
        if isinstance(discovery, ServiceDiscovery):
            from glue.discovery.zeroconf_registry import ZeroconfRegistry

            network.maintain(time.monotonic())
            try:
                discovery.attach(
                    ZeroconfRegistry(
                        endpoint_id=self.id,
                        incarnation=self.incarnation,
                        network_id=self.settings.network_id,
                        name=self.name,
                        address=network.unicast_address,
                        interfaces=[network.unicast_address[0]],
                    )
                )
            except BaseException:
                network.close()
                raise
        return network

    def _link_changed(self, network: Network, link: str, is_up: bool) -> None:
        """Tell discovery of a link in the next turn, which is to come at once."""
        self._core.outbox.order(LinkChanged(link, is_up))
        network.wake()

    @property
    def name(self) -> str:
        """The name of this endpoint."""
        return self._core.identity.name

    @property
    def id(self) -> str:
        """The id of this endpoint: 16 hex digits that depend on the name alone."""
        return self._core.identity.endpoint_id

    @property
    def incarnation(self) -> int:
        """The number of this life of the endpoint."""
        return self._core.identity.incarnation

    @property
    def peers(self) -> list[Peer]:
        """The endpoints now known, by name."""
        return sorted(self._core.peers.copy().values(), key=lambda peer: peer.name)

    def subscribers(self, topic: str) -> list[str]:
        """Names of the peers that are known to subscribe to a topic, sorted. Raises TopicError."""
        check_topic(topic)
        peers = self._core.peers
        return sorted(peers[found].name for found in self._core.subscribers(topic) if found in peers)

    @property
    def statistics(self) -> dict[str, Counter[str]]:
        """A copy of all counters by layer; "endpoint" holds those of no layer. What never happened counts 0."""
        return self._read_statistics()

    @property
    def accounting(self) -> Accounting:
        """The outcomes of all messages published and received so far, summed for both directions."""
        return account(self.statistics)

    def describe(self) -> str:
        """The effective configuration, one line a setting, with where each value came from.

        Once started, followed by what the network made of it: the interface and why it was chosen, and so on.
        """
        lines = [f"endpoint {self.name} ({self.id}, incarnation {self.incarnation})", self.settings.describe()]
        if (security := self._core.security) is not None:
            lines.append(
                f"security {'cipher':14}  {security.suite.name}, sealing with {security.key.newest.described()}"
            )
        if self._network is not None:
            from glue.endpoint.paths import told_of_paths

            lines += [f"network {name:15}  {value}" for name, value in self._network.describe().items()]
            lines += [f"peer {name:18}  {text}" for name, text in told_of_paths(self._core.stack.layers["discovery"])]
        return "\n".join(lines)

    def _callback_failed(self, event: object) -> None:
        """Log and count a callback of news that raised; to be called where the error is handled."""
        self._failures.note(event)
        self._core.failed()

    def _heal_watch(self) -> HealWatch:
        """Return the watch for peers that come back after a silence."""
        if self._heals is None:
            from glue.endpoint.healed import HealWatch

            core, settings = self._core, self.settings
            lease = settings.announce_interval * settings.lease_intervals
            retained = getattr(core.stack.layers["topics"], "retained", list)  # a layer in place of ours has none
            self._heals = HealWatch(
                retained, core.statistics.__getitem__, core.requests.clock, cast(Any, self)._order_quietly,
                self._tell_healed, self._decide, core.requests.unix_time, lease,
            )  # fmt: skip
        return self._heals

    def _tell_healed(self, healed: Healed) -> None:
        """Call `on_heal`, or log what is not well."""
        if healed.gone or healed.conflicts or self.on_heal is not None:
            log = logger.info if self.on_heal is not None else logger.warning
            log("%s", healed)
        if self.on_heal is not None:
            try:
                self.on_heal(healed)
            except Exception:  # the program's own affair
                self._callback_failed(healed)

    def _decide(self, conflict: RetainedConflict) -> RetainedVersion | None:
        """Ask `on_conflict` which version stands; None: the later one."""
        if self.on_conflict is None:
            return None
        try:
            return self.on_conflict(conflict)  # type: ignore[no-any-return]  # anything else is no version
        except Exception:  # as above
            self._callback_failed(conflict)
            return None

    def _read_statistics(self) -> dict[str, Counter[str]]:
        network = Counter() if self._network is None else self._network.statistics
        counted = {"network": network, **self._core.stack.statistics, "endpoint": self._core.statistics}
        return {layer: Counter(counter) for layer, counter in counted.items()}

    def _tell(self, event: Event) -> Any:
        """Call the handler of a piece of news and return its result; may raise what the handler raises."""
        handler: PeerHandler | None = None
        if event.__class__ is Undelivered:
            return None if self.on_lost is None else self.on_lost(event.cause, event.count)
        if event.__class__ is Awake:
            woke = cast(Any, self)._rise(event)
            return None if self.on_wake is None or woke is None else self.on_wake(woke)
        if isinstance(event, PeerAdded):
            handler = self.on_peer_added
            peer = Peer(event.name, event.peer, event.incarnation, event.address, event.restarted)
            if self._heals is not None:
                self._heals.found(event)
        elif isinstance(event, PeerRemoved):
            handler = self.on_peer_removed
            if event.reason == "expired":
                self._heal_watch().lost(event)
            peer = Peer(event.name, event.peer, event.incarnation, (), False, event.reason)
        elif isinstance(event, NameClash):
            handler = self.on_name_clash
            peer = Peer(event.name, self.id, event.incarnation, event.address)
            logger.error(
                "another endpoint, at %s, uses the name %r; give each endpoint a name of its own",
                event.address,
                self.name,
            )
        return None if handler is None else handler(peer)

    def __repr__(self) -> str:
        return f"<Endpoint {self.name}>"


def _take_factories(keywords: dict[str, Any]) -> dict[str, Any]:
    """Take the factories of layers out of an endpoint's keywords; ConfigurationError for a layer without one."""
    layers = ("network", *LAYERS)
    factories = {name: keywords.pop(name) for name in layers if callable(keywords.get(name))}
    settings = {*SETTINGS, "sources"}  # "discovery" is both a layer and a setting
    for name, value in keywords.items():
        if name in layers and name not in settings:
            raise ConfigurationError(f"{name}={value!r}: expected a factory of that layer, such as its class")
        if name not in settings:
            raise ConfigurationError(
                f"unknown setting or layer {name!r}; the settings are {', '.join(sorted(settings - {'sources'}))}; "
                f"the layers are {', '.join(layers)}"
            )
    return factories
