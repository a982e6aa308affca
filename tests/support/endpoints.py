"""Whole stacks in virtual time, with the fast path or without, and what tests of it have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from glue.contract import Address, Delivery, Event, Train
from glue.endpoint.core import EndpointCore
from glue.fastpath.stack import FastStack
from glue.settings import Settings
from glue.stack import Factory, Identity
from glue.topics import Topics

FRAME = 1472
OPTIONS: tuple[dict[str, Any], ...] = (
    *[{}] * 5, {"retain": True}, {"type": "t"}, {"lifespan": 9.0}, {"reliability": "best-effort"},
    {"priority": "high"},
)  # fmt: skip
SPLICES = (b"0", b"9", b"-", b".", b" ", b",", b'"', b"\\u0031", b"]", b"\n", b"true", b"\xff")


class Machine(FastStack):
    """A stack that commits at the end of each turn, as the machines of the simulator do."""

    def turn(self, now: float, trains: Iterable[Train], requests: list[Any]) -> tuple[list[Event], list[Train]]:
        result = super().turn(now, trains, requests)
        self.commit()
        return result


class Plain:
    """A layer that has no fast path."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def wrapped(kind: type[Plain], layers: dict[str, Factory]) -> dict[str, Factory]:
    """Factories of these layers, each in one of this kind."""

    def made(make: Factory) -> Factory:
        return lambda who: kind(make(who))

    return {name: made(make) for name, make in layers.items()}


class Heeding(Topics):
    """A layer derived from one with a fast path, that looks at what passes."""

    def __init__(self, who: Identity) -> None:
        super().__init__(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name)
        self.received = self.sent = 0

    def receive(self, now: float, items: list[Any]) -> Any:
        up, down = super().receive(now, items)
        self.received += sum(isinstance(item, Delivery) for item in up)
        return up, down

    def send(self, now: float, items: list[Any]) -> Any:
        self.sent += len(items)
        return super().send(now, items)


class Wrapped:
    """A layer around one with a fast path, that looks at what passes."""

    def __init__(self, who: Identity) -> None:
        self._layer = Heeding(who)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def receive(self, now: float, items: list[Any]) -> Any:
        return self._layer.receive(now, items)

    def send(self, now: float, items: list[Any]) -> Any:
        return self._layer.send(now, items)


def address(index: int) -> Address:
    """Where an endpoint is."""
    return "10.0.0.1", 1 + index


def turns(core: EndpointCore, now: float, trains: Iterable[Train]) -> Iterator[tuple[list[Event], list[Train]]]:
    """What a turn gives, and those that are due after it."""
    yield core.turn(now, trains)
    for _ in range(100):
        core.stack.commit()
        if core.deadline > now:
            return
        yield core.turn(now, ())
    raise AssertionError("it is never done")


class Endpoints:
    """The layers of some endpoints, two at first, who sends what, and what they tell, in virtual time."""

    def __init__(self, replaced: dict[str, Factory], *others: str) -> None:
        names = ("ann", "bob", *others)
        self.cores = [EndpointCore(Settings(name=name), Random(name), 1e9, replaced) for name in names]
        self.wire: deque[tuple[int, int, bytes, int]] = deque()  # to whom, from whom: datagrams of one size
        self.told: list[Any] = []
        for core in self.cores:
            core.stack.fit(FRAME)

    def turn(self, now: float, index: int, trains: Iterable[Train] = ()) -> None:
        """A turn of one of them, and those that are due then."""
        core = self.cores[index]
        core.stack.commit()
        assert core.deadline > now or trains == ()
        for events, out in turns(core, now, trains):
            self._take(index, events, out)

    def publish(self, now: float, index: int, topic: str, payload: Any, options: dict[str, Any]) -> None:
        core = self.cores[index]
        self._take(index, [], core.send(now, [core.publication(topic, payload, 1e9 + now, **options)]))
        self.turn(now, index)

    def stream(self, now: float, index: int, topic: str, payloads: list[bytes]) -> None:
        core = self.cores[index]
        self._take(index, [], core.send(now, core.publications(topic, payloads, 1e9 + now)))
        self.turn(now, index)

    def order(self, now: float, index: int, request: Any) -> None:
        self.cores[index].outbox.order(request)
        self.turn(now, index)

    def _take(self, index: int, events: list[Event], trains: list[Train]) -> None:
        for event in events:
            if isinstance(event, Delivery):
                event.to_owned()
                self.cores[index].handled(event)
            self.told.append(
                (event.__class__, [0.0 if slot == "age" else getattr(event, slot, None) for slot in event.__slots__])
            )
        for train in trains:
            step = FRAME * 40 // train.segment * train.segment  # as much as one train brings
            for start in range(0, len(train.data), step):
                data = bytes(train.data[start : start + step])
                for to in range(len(self.cores)):
                    if (train.address or address(to)) == address(to) and to != index:
                        self.wire.append((to, index, data, train.segment))

    def state(self) -> tuple[Any, ...]:
        """Everything that is to be seen from outside, and that was told since the last time."""
        told, self.told = self.told, []
        for core in self.cores:
            core.stack.commit()
        counted = [core.stack.statistics for core in self.cores]
        return told, list(self.wire), counted, [(core.deadline, core.backlog) for core in self.cores]


def damaged(rng: Random, data: bytes) -> bytes:
    """A few bytes at the beginning of a datagram, where its header and index are, exchanged for others."""
    at = rng.randrange(min(len(data), 230))
    part = rng.choice(SPLICES) if rng.random() < 0.6 else b"%d" % rng.randrange(10)
    return data[:at] + part + data[at + rng.choice((0, 1, 1, 1, 2)) :]
