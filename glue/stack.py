"""The layers on top of each other, as one state machine, and how a stack is put together.

A *turn* is one sweep up and one down: datagrams enter at the bottom, events leave at the top; requests enter
at the top, datagrams leave at the bottom. The driver of a stack (a thread, asyncio, the simulator) only feeds turns,
calls `commit` after each, and obeys `deadline`. Between two turns, `send` passes publications down at once.
`glue.fastpath.stack` adds short cuts with the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING, Any, Self

from glue.contract import Deferring, Event, Layer, Train
from glue.contract.frozen import Frozen
from glue.contract.sealed import Tell
from glue.discovery import Discovery, ServiceDiscovery
from glue.fragmentation import Fragmentation
from glue.model import Replicated
from glue.serialization import Serialization
from glue.settings import Settings
from glue.topics import BUNDLE_SIZE, Topics
from glue.transport import Transport

if TYPE_CHECKING:
    from glue.security import Key, MemberIdentity, Suite
    from glue.security.guard import Policy

INDEX_ROOM = 448 << 10
"""Bytes that topics may add to a message: 384 KiB for a topic of 65,535 bytes, each as "\\u0001", and 50 KiB for a
type, a codec and properties of such bytes."""


class Secrets(Frozen):
    """The key of an endpoint: `entropy` returns that many random bytes, `suite` is the cipher to seal with.

    The other fields are arguments of `glue.security.Sealing`.
    """

    key: Key
    suite: Suite
    entropy: Callable[[int], bytes]
    on_key: Callable[[Key], None] | None = None
    new_key: Callable[[], Key | None] | None = None
    identity: MemberIdentity | None = None
    policy: Policy | None = None
    on_policy: Callable[[Policy], None] | None = None
    unix_time: Callable[[], float] = lambda: 0.0


class Identity(Frozen):
    """The identity and settings of an endpoint, given to each layer's factory.

    * `secrets`: the key; None for an endpoint without security.
    * `tell`: called with the cause and the address of an endpoint that this one cannot talk to.
    """

    name: str
    endpoint_id: str
    incarnation: int
    settings: Settings
    random: Random
    secrets: Secrets | None = None
    tell: Tell | None = None


Factory = Callable[[Identity], Layer[Any, Any, Any, Any]]
"""Makes a layer for an endpoint; a class or function that takes an `Identity`."""


def _serialization(who: Identity) -> Serialization:
    return Serialization(
        endpoint_id=who.endpoint_id,
        incarnation=who.incarnation,
        network_id=who.settings.network_id,
        on_sealed=None if who.secrets else who.tell,
    )


def _security(who: Identity) -> dict[str, Layer[Any, Any, Any, Any]]:
    """The security layer; none for an endpoint without a key."""
    if who.secrets is None:
        return {}
    from glue.security import Sealing  # imported here: most programs use no key

    secrets = who.secrets
    layer = Sealing(
        key=secrets.key,
        network_id=who.settings.network_id,
        suite=secrets.suite,
        entropy=secrets.entropy,
        on_key=secrets.on_key,
        new_key=secrets.new_key,
        identity=secrets.identity,
        unix_time=secrets.unix_time,
        incarnation=who.incarnation,
        tell=who.tell or (lambda cause, address: None),
    )
    return {SECURITY: layer}


def _discovery(who: Identity) -> Discovery | ServiceDiscovery:
    options: dict[str, Any] = {
        "endpoint_id": who.endpoint_id,
        "incarnation": who.incarnation,
        "name": who.name,
        "announce_interval": who.settings.announce_interval,
        "lease_intervals": who.settings.lease_intervals,
        "random": who.random,
        "rest": ceil(who.settings.sleep or 0),
    }
    is_registered = who.settings.discovery == "dns-sd"
    layer = ServiceDiscovery(**options) if is_registered else Discovery(**options, links=who.settings.links)
    for address in who.settings.contacts:
        layer.contact(address)
    return layer


def _transport(who: Identity) -> Transport:
    return Transport(endpoint_id=who.endpoint_id, parity=who.settings.parity)


def _fragmentation(who: Identity) -> Fragmentation:
    return Fragmentation(message_limit=bundle_limit(who.settings.message_limit))


def bundle_limit(message_limit: int) -> int:
    """Return the bytes of the largest bundle of topics. It holds one message at its limit, or many small ones."""
    return max(message_limit, BUNDLE_SIZE) + INDEX_ROOM


def _topics(who: Identity) -> Topics:
    return Topics(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name)


def _model(who: Identity) -> Replicated:
    return Replicated(
        endpoint_id=who.endpoint_id,
        incarnation=who.incarnation,
        network_id=who.settings.network_id,
        random=who.random,
    )


def _guarded(who: Identity, layers: dict[str, Layer[Any, Any, Any, Any]]) -> dict[str, Layer[Any, Any, Any, Any]]:
    """The layers, with a gate below topics and one above where members have identities."""
    if who.secrets is None or who.secrets.identity is None:
        return layers
    from glue.security.gates import guarded  # imported here: most programs use no identities

    security: Any = layers[SECURITY]
    gates = guarded(who, security)
    if isinstance(model := layers["model"], Replicated):
        model.rights = gates[1].guard
    found: dict[str, Layer[Any, Any, Any, Any]] = {}
    for name, layer in layers.items():
        if name == "topics":
            found |= {INTEREST_GATE: gates[0], name: layer, DELIVERY_GATE: gates[1]}
        else:
            found[name] = layer
    return found


LAYERS: dict[str, Factory] = {
    "serialization": _serialization,
    "discovery": _discovery,
    "transport": _transport,
    "fragmentation": _fragmentation,
    "topics": _topics,
    "model": _model,
}
"""The default layers, bottom up. The network below them is not pure and belongs to the driver."""

INTEREST_GATE, DELIVERY_GATE = "interest gate", "delivery gate"
"""The names of two layers that enforce rules, below and above topics, where members have identities."""

SECURITY = "security"
"""The name of the layer below serialization that an endpoint with a key has."""

Returned = tuple[int, list[Any]]
"""The place of a layer, counted from the bottom, and the items that it sends down in a sweep up."""


class Stack:
    """The pure layers of one endpoint, bottom up, as one state machine."""

    def __init__(self, layers: dict[str, Layer[Any, Any, Any, Any]]) -> None:
        """`layers` by name, in their order from serialization to model."""
        self.layers = layers
        _introduce(layers)
        self._upwards: Sequence[Layer[Any, Any, Any, Any]] = tuple(layers.values())
        self._downwards = self._upwards[::-1]
        self._deferring = [layer for layer in self._upwards if isinstance(layer, Deferring)]
        self._deadline = -inf

    @classmethod
    def build(cls, who: Identity, replaced: dict[str, Factory]) -> Self:
        """The default layers, but those of `replaced` made by these factories."""
        layers = _security(who) | {name: replaced.get(name, make)(who) for name, make in LAYERS.items()}
        return cls(_guarded(who, layers))

    def fit(self, datagram_size: int) -> None:
        """Tell the layers, bottom up, how large a datagram may be (bytes)."""
        size = datagram_size
        for layer in self._upwards:
            size = layer.fit(size)

    # --------------------------------------------------------------------------------- what is to be read

    def commit(self) -> None:
        """Let the layers do the work that they deferred; what is read below holds until the next turn or `send`."""
        for deferring in self._deferring:
            deferring.commit()
        earliest = inf
        for layer in self._upwards:  # no generator: this is called after every turn
            at = layer.deadline
            if at < earliest:
                earliest = at
        self._deadline = earliest

    @property
    def deadline(self) -> float:
        """When the next turn is due even if nothing arrives (monotonic seconds); at once before `commit`."""
        return self._deadline

    @property
    def backlog(self) -> int:
        """Bytes of published data that the layers are not done with, as of `commit`."""
        total = 0
        for layer in self._upwards:
            total += layer.backlog
        return total

    @property
    def unfinished(self) -> int:
        """Reliable messages on their way, once for each receiver, as of `commit`."""
        return sum([layer.unfinished for layer in self._upwards])

    @property
    def statistics(self) -> dict[str, Counter[str]]:
        """The counters of each layer by its name, as of `commit`."""
        return {name: layer.statistics for name, layer in self.layers.items()}

    # ----------------------------------------------------------------------------------------- the sweeps

    def turn(self, now: float, trains: Iterable[Train], requests: list[Any]) -> tuple[list[Event], list[Train]]:
        """Take datagrams from the network and requests from the application; return events and datagrams.

        What the layer on top adds to the contract's requests and events passes likewise (see `glue.model.requests`).
        """
        self._deadline = -inf
        events, returned = self._sweep_up(now, trains, 0, len(self._upwards))
        return events, self._return(now, requests, returned)

    def send(self, now: float, requests: list[Any]) -> list[Train]:
        """The sweep down alone, of what cannot wait for a turn; return datagrams."""
        self._deadline = -inf
        return self._descend(now, requests, 0)

    def _sweep_up(self, now: float, items: Any, start: int, stop: int) -> tuple[Any, list[Returned]]:
        """Pass items up through the layers from `start` to `stop`; return what comes out, and what each sends back."""
        returned: list[Returned] = []
        for place, layer in enumerate(self._upwards[start:stop], start):
            if items or layer.deadline <= now:
                items, down = layer.receive(now, items)
                if down:
                    returned.append((place, down))
        return items, returned

    def _return(self, now: float, requests: list[Any], returned: list[Returned]) -> list[Train]:
        """Pass requests down; what a layer sent back on the way up goes before them, from there on."""
        going, level = requests, 0
        for place, down in reversed(returned):
            below = len(self._downwards) - place
            going, level = down + self._sweep_down(now, going, level, below), below
        return self._descend(now, going, level) if going else []

    def _sweep_down(self, now: float, going: list[Any], start: int, stop: int) -> list[Any]:
        """Pass items down through the layers from `start` to `stop`, counted from the top."""
        for layer in self._downwards[start:stop]:
            if going:
                going = layer.send(now, going)
        return going

    def _descend(self, now: float, going: list[Any], level: int) -> list[Train]:
        """Pass items down from this level to the network."""
        return self._sweep_down(now, going, level, len(self._downwards))


def _introduce(layers: dict[str, Layer[Any, Any, Any, Any]]) -> None:
    """Let topics hold what is published during the first round, if discovery has one; either may be replaced."""
    expect = getattr(layers.get("topics"), "expect_first_round", None)
    if expect is not None and hasattr(layers.get("discovery"), "is_first_round_over"):
        expect()
