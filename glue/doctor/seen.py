"""The facts seen, as plain data: they can be written as JSON, kept, and judged again. Sizes are bytes, times seconds.

The defaults are those of a healthy machine that has seen nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class InterfaceSeen:
    """A network interface of this machine.

    * `kind`: "bridge", "veth", "wireless" or "" for any other.
    * `power_saving`: None where it cannot be read.
    * `heard`: datagrams of other endpoints that came to the group there.
    * `errors`: what the card counted as damaged while the doctor looked.
    """

    name: str
    up: bool = True
    carrier: bool | None = True
    multicast: bool = True
    loopback: bool = False
    virtual: bool = False
    kind: str = ""
    mtu: int = 1500
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    power_saving: bool | None = None
    heard: int = 0
    errors: int = 0


@dataclass(frozen=True, kw_only=True)
class MachineSeen:
    """This machine.

    * `wanted`: the interface that the settings name; `chosen`: the one in use, for `reason`.
    * `failure`: why no endpoint could be started here; empty if it could. `port_taken`: because of a port.
    * `looped`: whether the doctor's own announcements came back; None if it did not listen.
    * `blocking`: rules of the firewall that drop what glue sends or gets; `firewall_read`: whether they could be read.
    * `unsent`: datagrams of the doctor that the system refused, by cause.
    """

    host: str = "here"
    interfaces: tuple[InterfaceSeen, ...] = ()
    wanted: str | None = None
    chosen: str | None = None
    reason: str = ""
    is_ipv6: bool = False
    group: str = "239.192.137.1"
    port: int = 37320
    failure: str = ""
    port_taken: bool = False
    in_container: bool = False
    looped: bool | None = True
    blocking: tuple[str, ...] = ()
    firewall_read: bool = True
    strict_reverse_path: bool = False
    snooping_without_querier: bool = False
    may_capture: bool = True
    unsent: Mapping[str, int] = field(default_factory=dict)

    def interface(self, name: str | None) -> InterfaceSeen | None:
        """The interface of this name."""
        return next((one for one in self.interfaces if one.name == name), None)


@dataclass(frozen=True, kw_only=True)
class SenderSeen:
    """Who sent to the group, as far as a datagram tells without a key. `port` 0: several.

    * `network_id`, `version`, `id`: None for what is no datagram of glue; a sealed one tells no id.
    * `lives`: how often datagrams of another life of the same id came after one of this life.
    """

    address: str
    port: int
    count: int = 1
    interface: str = ""
    ttl: int | None = 1
    network_id: int | None = 1
    version: int | None = 1
    sealed: bool = False
    key_id: int | None = None
    id: str | None = None
    name: str = ""
    lives: int = 0


@dataclass(frozen=True, kw_only=True)
class PathSeen:
    """A path from an endpoint with several interfaces (`link`) to the peer with this name; `carries`: its data.

    `answers`: whether the peer answers there. `loss` is between 0 and 1.
    """

    peer: str
    link: str
    carries: bool = False
    answers: bool = True
    round_trip: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EndpointSeen:
    """An endpoint: the doctor itself (`is_doctor`), or a peer, which may have `answered`.

    * `load`: programs of its machine that are ready to run, for each processor.
    * `here`: it runs on this machine. `proven`: it receives what the doctor sends by unicast.
    * `clock_offset`: its wall clock less the doctor's; None if unknown. `clock_moved`: how far its clock was set.
    * `links`: its interfaces, if it has several, and whether each is up; `paths`: how it reaches its peers by them.
    """

    name: str
    id: str
    address: str = ""
    is_doctor: bool = False
    answered: bool = True
    here: bool = False
    proven: bool = True
    version: str = ""
    interface: str = ""
    reason: str = ""
    mtu: int = 1500
    buffer_asked: int = 32 << 20
    buffer_granted: int = 32 << 20
    network_id: int = 1
    sealed: bool = False
    epoch: int | None = None
    announce_interval: float = 1.0
    load: float = 0.0
    clock_offset: float | None = 0.0
    clock_moved: float = 0.0
    waiting: int = 0
    receive_limit: int = 32 << 20
    counters: Counters = field(default_factory=dict)
    links: Mapping[str, bool] = field(default_factory=dict)
    paths: tuple[PathSeen, ...] = ()

    def counted(self, layer: str, *causes: str) -> int:
        """The sum of what a layer counted under these causes."""
        found = self.counters.get(layer, {})
        return sum(found.get(cause, 0) for cause in causes)


@dataclass(frozen=True, kw_only=True)
class Way:
    """What came of the pings from one endpoint (`source`) to another (`target`), both ids: [came, sent].

    * `unicast` and `large_unicast` are None if none were sent.
    * `announced`: seconds since the target last got an announcement of the source by multicast; None: never.
    * `known`: whether the target knows the source.
    """

    source: str
    target: str
    multicast: tuple[int, int] = (0, 0)
    large_multicast: tuple[int, int] = (0, 0)
    unicast: tuple[int, int] | None = None
    large_unicast: tuple[int, int] | None = None
    round_trip: float | None = None
    announced: float | None = None
    known: bool = True


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that the doctor has seen. `contacts`: addresses that were given; `met`: those of them that answered.

    `busy`: this machine had too little of its processor to tell what is lost from what is late.
    """

    machine: MachineSeen = field(default_factory=MachineSeen)
    network_id: int = 1
    sealed: bool = False
    senders: tuple[SenderSeen, ...] = ()
    endpoints: tuple[EndpointSeen, ...] = ()
    ways: tuple[Way, ...] = ()
    contacts: tuple[str, ...] = ()
    met: tuple[str, ...] = ()
    busy: bool = False
    seconds: float = 0.0

    def endpoint(self, id: str) -> EndpointSeen | None:
        """The endpoint with this id."""
        return next((one for one in self.endpoints if one.id == id), None)

    @property
    def doctor(self) -> EndpointSeen | None:
        """The doctor's own endpoint."""
        return next((one for one in self.endpoints if one.is_doctor), None)

    @property
    def others(self) -> tuple[EndpointSeen, ...]:
        """All endpoints but the doctor."""
        return tuple(one for one in self.endpoints if not one.is_doctor)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Seen:
        """From what `as_dict` made, also after a way through JSON."""
        parts: dict[str, Any] = {
            **value,
            "machine": _machine(value.get("machine", {})),
            "senders": tuple(_made(SenderSeen, one) for one in value.get("senders", ())),
            "endpoints": tuple(_endpoint(one) for one in value.get("endpoints", ())),
            "ways": tuple(_made(Way, one) for one in value.get("ways", ())),
        }
        made: Seen = _made(cls, parts)
        return made


def _machine(value: Mapping[str, Any]) -> MachineSeen:
    interfaces = tuple(_made(InterfaceSeen, one) for one in value.get("interfaces", ()))
    made: MachineSeen = _made(MachineSeen, {**value, "interfaces": interfaces})
    return made


def _endpoint(value: Mapping[str, Any]) -> EndpointSeen:
    paths = tuple(_made(PathSeen, one) for one in value.get("paths", ()))
    made: EndpointSeen = _made(EndpointSeen, {**value, "paths": paths})
    return made


def _made(kind: Any, value: Mapping[str, Any]) -> Any:
    known = {one.name for one in fields(kind)}
    return kind(**{name: tuple(one) if isinstance(one, list) else one for name, one in value.items() if name in known})
