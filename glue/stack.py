"""The layers on top of each other, as one state machine, and how a stack is put together.

A *turn* is one sweep up and one down: datagrams enter at the bottom, events leave at the top; requests enter
at the top, datagrams leave at the bottom. Whoever drives a stack (a thread, asyncio, the simulator) does
nothing but feed turns and obey `deadline`. What is published may also go down by itself, at once, between two turns.

Whatever is not out of the ordinary takes the express way (`glue.contract.express`) where the layers let it: up while
nothing is due, down where there is one item only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from random import Random
from typing import Any

from glue.contract import Event, Inbound, Layer, Train
from glue.contract.express import offered
from glue.discovery import Discovery, ServiceDiscovery
from glue.fastpath.session import Rally
from glue.fragmentation import Fragmentation
from glue.model import Replicated
from glue.serialization import Serialization
from glue.settings import Settings
from glue.topics import BUNDLE_SIZE, Topics
from glue.transport import Transport

INDEX_ROOM = 400 << 10  # bytes that topics may add to a message: a topic of 65,535 bytes, each as "\\u0001", is 384 KiB


@dataclass(frozen=True)
class Identity:
    """Who an endpoint is, for the layers: handed to each layer's factory."""

    name: str
    endpoint_id: str
    incarnation: int
    settings: Settings
    random: Random


Factory = Callable[[Identity], Layer[Any, Any, Any, Any]]
"""Makes a layer for an endpoint; a class or function that takes an `Identity`."""


def _serialization(who: Identity) -> Serialization:
    return Serialization(endpoint_id=who.endpoint_id, incarnation=who.incarnation, network_id=who.settings.network_id)


def _discovery(who: Identity) -> Discovery | ServiceDiscovery:
    kind = ServiceDiscovery if who.settings.discovery == "dns-sd" else Discovery
    layer = kind(
        endpoint_id=who.endpoint_id,
        incarnation=who.incarnation,
        name=who.name,
        announce_interval=who.settings.announce_interval,
        lease_intervals=who.settings.lease_intervals,
        random=who.random,
    )
    for address in who.settings.contacts:
        layer.contact(address)
    return layer


def _transport(who: Identity) -> Transport:
    return Transport(endpoint_id=who.endpoint_id, parity=who.settings.parity)


def _fragmentation(who: Identity) -> Fragmentation:
    return Fragmentation(message_limit=bundle_limit(who.settings.message_limit))


def bundle_limit(message_limit: int) -> int:
    """The most that topics make of messages up to a limit: of one that is large, or of many small ones together."""
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


LAYERS: dict[str, Factory] = {
    "serialization": _serialization,
    "discovery": _discovery,
    "transport": _transport,
    "fragmentation": _fragmentation,
    "topics": _topics,
    "model": _model,
}
"""The default layers, bottom up (network, below them all, is not pure and belongs to the driver)."""

PLAYERS = "discovery", "transport"
"""Those whose timers stand still in a rally, though what passes would set them anew (see `Rally.due`)."""


class Stack:
    """The pure layers of one endpoint, bottom up, as one state machine."""

    def __init__(self, layers: dict[str, Layer[Any, Any, Any, Any]]) -> None:
        """`layers` by name, in their order from serialization to model."""
        self.layers = layers
        _acquaint(layers)
        self._upwards: Sequence[Layer[Any, Any, Any, Any]] = tuple(layers.values())
        self._downwards = self._upwards[::-1]
        self._lifts = [_express(layer, "lift", "receive") for layer in self._upwards]
        lowers = [_express(layer, "lower", "send") for layer in self._downwards]
        self._lowers = [lowers[place:] for place in range(len(lowers))]  # from each layer on
        self.rally = _rally(layers)
        self._bystanders = [layer for name, layer in layers.items() if name not in PLAYERS]
        self._earliest: float | None = None  # when something is due, if that was asked since the latest turn

    @classmethod
    def build(cls, who: Identity, replaced: dict[str, Factory]) -> Stack:
        """The default layers, but those of `replaced` made by these factories."""
        return cls({name: replaced.get(name, make)(who) for name, make in LAYERS.items()})

    def fit(self, datagram_size: int) -> None:
        """Tell the layers, bottom up, how large a datagram may be (bytes)."""
        self.settle()
        size = datagram_size
        for layer in self._upwards:
            size = layer.fit(size)

    @property
    def deadline(self) -> float:
        """When the next turn is due even if nothing arrives (monotonic seconds)."""
        if self.rally.is_open:
            self.settle()
        earliest = self._earliest
        if earliest is None:
            earliest = inf
            for layer in self._upwards:  # no generator: this is asked after every turn
                at = layer.deadline
                if at < earliest:
                    earliest = at
            self._earliest = earliest
        return earliest

    @property
    def backlog(self) -> int:
        """Bytes of published data that the layers are not done with."""
        if self.rally.is_open:
            self.settle()
        total = 0
        for layer in self._upwards:
            total += layer.backlog
        return total

    @property
    def statistics(self) -> dict[str, Counter[str]]:
        """The counters of each layer by its name."""
        self.settle()
        return {name: layer.statistics for name, layer in self.layers.items()}

    def turn(self, now: float, trains: Iterable[Train], requests: list[Any]) -> tuple[list[Event], list[Train]]:
        """Take datagrams from the network and requests from the application; return events and datagrams.

        Datagrams go the express way until one cannot; it and the rest make an ordinary turn. What the layer on top adds
        to the contract's requests and events passes likewise (see `glue.model.requests`).
        """
        if self.rally.is_open:
            self.settle()
        due, self._earliest = self._earliest, None
        if due is None or now >= due:
            return self._turn(now, 0, [], trains, requests)
        events: list[Event] = []
        waiting = iter(trains)
        item: Any
        for item in waiting:
            for lift in self._lifts:
                lifted = lift(now, item)
                if not lifted:
                    if lifted is None:
                        if isinstance(item, Inbound):
                            item.own()
                        up, out = self._turn(now, self._lifts.index(lift), [item], waiting, requests)
                        return [*events, *up], out
                    break
                item = lifted
            else:
                events.append(item)
        is_awaited = events and trains.__class__ is tuple  # somebody may wait for the answer; what is due can
        if not requests and is_awaited:
            return events, []
        is_due = self.deadline <= now
        if not (requests or is_due):
            return events, []
        self._earliest = None
        if not is_due:
            return events, self._descend(now, requests, 0)
        up, out = self._turn(now, 0, [], (), requests)
        return [*events, *up], out

    def _turn(
        self, now: float, level: int, lifted: list[Any], trains: Iterable[Train], requests: list[Any]
    ) -> tuple[list[Event], list[Train]]:
        """An ordinary turn; `lifted` came up to the layer of this `level` before."""
        returned: list[tuple[int, list[Any]]] = []
        items: Any = trains if level or not lifted else chain(lifted, trains)  # each train is valid until the next
        for place, layer in enumerate(self._upwards):
            if place and place == level:
                items = [*lifted, *items]
            if items or layer.deadline <= now:
                items, down = layer.receive(now, items)
                if down:
                    returned.append((place, down))
        going: list[Any] = requests
        level = 0  # of the layers downwards, from now on
        for place, down in reversed(returned):
            below = len(self._downwards) - place
            for layer in self._downwards[level:below]:
                if going:
                    going = layer.send(now, going)
            going, level = down + going, below
        return items, self._descend(now, going, level) if going else []

    def send(self, now: float, requests: list[Any]) -> list[Train]:
        """The sweep down alone, of what cannot wait for a turn; return datagrams."""
        if self.rally.is_open:
            self.settle()
        self._earliest = None
        return self._descend(now, requests, 0)

    def prolong(self, now: float) -> float:
        """Until when the rally goes on with nothing booked (monotonic seconds); no later than now if it cannot."""
        if not self.rally.is_open:
            return -inf
        return min([self.rally.due(now), *[layer.deadline for layer in self._bystanders]])

    def settle(self) -> None:
        """End the rally, if there is one; nobody else is to find the layers as they were before it."""
        if self.rally.is_open:
            self.rally.settle()
            self._earliest = None

    def _descend(self, now: float, going: list[Any], level: int) -> list[Train]:
        """What goes down from this level on, and what is alone by the express way; return datagrams."""
        levels = len(self._downwards)
        while going and level < levels:
            if len(going) == 1:
                lone, passed = going[0], 0
                for passed, lower in enumerate(self._lowers[level]):  # noqa: B007  # it is, where one does not take it
                    lowered = lower(now, lone)
                    if lowered is None:
                        break
                    lone = lowered
                else:
                    return [lone]
                going = [lone]
                level += passed
            going = self._downwards[level].send(now, going)
            level += 1
        return going


def _acquaint(layers: dict[str, Layer[Any, Any, Any, Any]]) -> None:
    """Tell layers of what others offer, if these are not replaced by layers that do not.

    Serialization asks what is known of a run before it is read, topics hold what is published during the first round.
    """
    offers = [offered(layers.get(name), "awaits", "receive", "lift") for name in ("fragmentation", "transport")]
    awaited_by = [awaits for awaits in offers if awaits is not None]
    serialization, discovery = layers.get("serialization"), offered(layers.get("discovery"), "lift", "receive")
    if isinstance(serialization, Serialization) and discovery is not None and len(awaited_by) == len(offers):
        serialization.awaited_by = awaited_by
    expect = getattr(layers.get("topics"), "expect_first_round", None)
    if expect is not None and hasattr(layers.get("discovery"), "is_first_round_over"):
        expect()


def _express(layer: Layer[Any, Any, Any, Any], short: str, ordinary: str) -> Callable[[float, Any], Any]:
    """The express way that a layer offers."""
    return offered(layer, short, ordinary) or _none_offered


def _rally(layers: dict[str, Layer[Any, Any, Any, Any]]) -> Rally:
    """What all layers offer for lone messages; nothing, if one of them is not made for that."""
    parts = {name: offered(layer, "rally", "receive", "send", "lift", "lower") for name, layer in layers.items()}
    return Rally(parts if parts.keys() == LAYERS.keys() and all(parts.values()) else None)


def _none_offered(now: float, item: Any) -> None:
    """The express way past a layer that offers none."""
