"""A stack with short cuts for what is not out of the ordinary; `glue.stack` works without them, with the same result.

Up, each train goes through the layers by itself (`glue.contract.fastpath`) while nothing is due; the first that a layer
does not take, and all behind it, make an ordinary turn. Down, an item that is the only one does so. A session
(`glue.fastpath.session`) takes whole datagrams past the layers, until anything else is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from math import inf
from typing import Any

from glue.contract import Event, FastPath, Inbound, Layer, Train
from glue.discovery import Discovery, ServiceDiscovery
from glue.discovery.fastpath import DiscoveryFastPath
from glue.fastpath.session import FastSession
from glue.fragmentation import Fragmentation
from glue.fragmentation.fastpath import FragmentationFastPath
from glue.model import Replicated
from glue.model.fastpath import ModelFastPath
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.stack import DELIVERY_GATE, INTEREST_GATE, LAYERS, SECURITY, Stack
from glue.topics import Topics
from glue.topics.fastpath import TopicsFastPath
from glue.transport import Transport
from glue.transport.fastpath import TransportFastPath

FAST_PATHS: dict[type, Callable[[Any], FastPath]] = {
    Serialization: SerializationFastPath,
    Discovery: DiscoveryFastPath,
    ServiceDiscovery: lambda layer: DiscoveryFastPath(layer.discovery, has_part=False),  # its registry is to be polled
    Transport: TransportFastPath,
    Fragmentation: FragmentationFastPath,
    Topics: TopicsFastPath,
    Replicated: ModelFastPath,
}
"""The fast paths by their layers, which know nothing of them."""

ABOUT = SECURITY, INTEREST_GATE, DELIVERY_GATE
"""Layers about the default ones, which endpoints with a key have."""

DEFERRED = "discovery", "transport"
"""Those whose timers stand still in a session, though what passes would set them anew (see `FastSession.due`)."""


class FastStack(Stack):
    """The pure layers of one endpoint, and the short cuts through them."""

    def __init__(self, layers: dict[str, Layer[Any, Any, Any, Any]]) -> None:
        """`layers` by name, in their order from serialization to model."""
        super().__init__(layers)
        found = {name: fast_path_of(layer) for name, layer in layers.items() if name not in ABOUT}
        found |= {name: layers[name] for name in (INTEREST_GATE, DELIVERY_GATE) if name in layers}  # type: ignore[misc]
        if SECURITY in layers:
            from glue.security.fastpath import SealingFastPath  # imported here: most programs use no key

            found[SECURITY] = SealingFastPath(layers[SECURITY])  # type: ignore[arg-type]
        self.paths = paths = {name: path for name, path in found.items() if path is not None}
        self._receivers = [paths[name].receive_one if name in paths else _refuse for name in layers]
        senders = [paths[name].send_one if name in paths else _refuse for name in reversed(layers)]
        self._senders = [senders[place:] for place in range(len(senders))]  # from each layer on
        self._others = [layer for name, layer in layers.items() if name not in DEFERRED]
        _introduce(paths)
        parts = {name: path.session_part() for name, path in paths.items() if name not in ABOUT}
        if INTEREST_GATE in layers:
            parts.clear()  # a session would pass the gates by
        self.session = FastSession(parts if parts.keys() == LAYERS.keys() and None not in parts.values() else {})

    def fit(self, datagram_size: int) -> None:
        """Tell the layers, bottom up, how large a datagram may be (bytes)."""
        self._end_session()
        super().fit(datagram_size)

    def commit(self) -> None:
        """End any session, and let the layers do their deferred work."""
        self._end_session()
        super().commit()

    def session_until(self, now: float) -> float:
        """Until when the session may go on without a commit (monotonic seconds); -inf if none is open."""
        if not self.session.is_open:
            return -inf
        return min([self.session.due(now), *[layer.deadline for layer in self._others]])

    def _end_session(self) -> None:
        """Commit the session, so that the layers are consistent for any other caller."""
        if self.session.is_open:
            self.session.commit()
            self._deadline = -inf

    def turn(self, now: float, trains: Iterable[Train], requests: list[Any]) -> tuple[list[Event], list[Train]]:
        """Take datagrams from the network and requests from the application; return events and datagrams."""
        self._end_session()
        if now >= self._deadline:
            return super().turn(now, trains, requests)
        self._deadline = -inf
        events: list[Event] = []
        waiting = iter(trains)
        item: Any
        for item in waiting:
            for receive_one in self._receivers:
                received = receive_one(now, item)
                if not received:
                    if received is None:
                        return self._turn_from(now, receive_one, item, waiting, requests, events)
                    break
                item = received
            else:
                events.append(item)
        is_awaited = events and trains.__class__ is tuple  # a caller may wait for the answer; what is due can
        if not requests and is_awaited:
            return events, []
        super().commit()
        is_due = self._deadline <= now
        if not (requests or is_due):
            return events, []
        self._deadline = -inf
        if not is_due:
            return events, self._descend(now, requests, 0)
        up, out = super().turn(now, (), requests)
        return [*events, *up], out

    def _turn_from(
        self, now: float, refused_by: Any, item: Any, trains: Iterable[Train], requests: list[Any], events: list[Event]
    ) -> tuple[list[Event], list[Train]]:
        """An ordinary turn of these trains behind an item that one of the fast paths refused, after these events."""
        level, top = self._receivers.index(refused_by), len(self._upwards)
        if isinstance(item, Inbound):
            item.to_owned()
        elif level and isinstance(item, Train):
            item = item.to_owned()  # it was opened in memory that the next train takes
        if level:
            below, returned = self._sweep_up(now, trains, 0, level)
            up, answers = self._sweep_up(now, [item, *below], level, top)
            returned += answers
        else:
            up, returned = self._sweep_up(now, chain((item,), trains), 0, top)  # each train is valid until the next
        return [*events, *up], self._return(now, requests, returned)

    def send(self, now: float, requests: list[Any]) -> list[Train]:
        """The sweep down alone, of what cannot wait for a turn; return datagrams."""
        self._end_session()
        return super().send(now, requests)

    def _descend(self, now: float, going: list[Any], level: int) -> list[Train]:
        """Pass items down from this level to the network; one that is alone by the fast paths."""
        levels = len(self._downwards)
        while going and level < levels:
            if len(going) == 1:
                lone, passed = going[0], 0
                for passed, send_one in enumerate(self._senders[level]):  # noqa: B007  # where one does not take it
                    sent = send_one(now, lone)
                    if sent is None:
                        break
                    lone = sent
                else:
                    return [lone]
                going = [lone]
                level += passed
            going = self._downwards[level].send(now, going)
            level += 1
        return going


def fast_path_of(layer: Layer[Any, Any, Any, Any]) -> FastPath | None:
    """The fast path of a layer; None if there is none, or if a subclass overrides `receive` or `send`."""
    for kind in layer.__class__.__mro__:
        if kind in FAST_PATHS:
            return FAST_PATHS[kind](layer)
        if not {"receive", "send"}.isdisjoint(vars(kind)):
            break
    return None


def _introduce(paths: dict[str, FastPath]) -> None:
    """Let serialization ask what is known of a run before it is read, if the layers above it know."""
    serialization = paths.get("serialization")
    awaited_by = [getattr(paths.get(name), "awaits", None) for name in ("fragmentation", "transport")]
    if isinstance(serialization, SerializationFastPath) and "discovery" in paths and None not in awaited_by:
        serialization.awaited_by = [awaits for awaits in awaited_by if awaits is not None]


def _refuse(now: float, item: Any) -> None:
    """Stand for a layer that offers no fast path."""
