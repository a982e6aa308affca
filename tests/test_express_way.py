"""What comes alone takes the express way; what becomes of it, and of all that follows, is what it would be without."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Event, Subscribe, Train, Unsubscribe
from glue.core import Core
from glue.serialization import Serialization
from glue.settings import Settings
from glue.stack import LAYERS, Factory, Identity
from glue.topics import Topics

FRAME = 1472
TOPICS = ("t", "room/1", 'b/"quoted"', "mixed")
OPTIONS: tuple[dict[str, Any], ...] = (
    *[{}] * 5, {"retain": True}, {"type": "t"}, {"lifespan": 9.0}, {"reliability": "best-effort"},
    {"priority": "high"},
)  # fmt: skip
SPLICES = (b"0", b"9", b"-", b".", b" ", b",", b'"', b"\\u0031", b"]", b"\n", b"true", b"\xff")


class Plain:
    """A layer that offers no express way."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        if name in ("lift", "lower"):
            raise AttributeError(name)
        return getattr(self._layer, name)


def plain(make: Factory) -> Factory:
    def made(who: Identity) -> Any:
        return Plain(make(who))

    return made


class Pair:
    """The layers of two endpoints, who sends what, and what they tell, in virtual time."""

    def __init__(self, replaced: dict[str, Factory]) -> None:
        self.cores = [Core(Settings(name=name), Random(name), 1e9, replaced) for name in ("ann", "bob")]
        self.wire: deque[tuple[int, bytes, int]] = deque()  # to whom: a datagram, or several of one size
        self.told: list[Any] = []
        for core in self.cores:
            core.stack.fit(FRAME)

    def turn(self, now: float, index: int, *trains: Train) -> None:
        """A turn of one of them, and those that are due then."""
        core = self.cores[index]
        assert core.deadline > now or not trains
        self._take(index, *core.turn(now, trains))
        for _ in range(100):
            if core.deadline > now:
                return
            self._take(index, *core.turn(now, ()))
        raise AssertionError("it is never done")

    def publish(self, now: float, index: int, topic: str, payload: Any, options: dict[str, Any]) -> None:
        core = self.cores[index]
        self._take(index, [], core.send(now, [core.publication(topic, payload, 1e9 + now, **options)]))
        self.turn(now, index)

    def order(self, now: float, index: int, request: Any) -> None:
        self.cores[index].outbox.order(request)
        self.turn(now, index)

    def _take(self, index: int, events: list[Event], trains: list[Train]) -> None:
        for event in events:
            self.told.append((event.__class__, [getattr(event, slot) for slot in event.__slots__]))
            if isinstance(event, Delivery):
                self.cores[index].handled(event)
        for train in trains:
            step = FRAME * 40 // train.segment * train.segment  # as much as one train brings
            for start in range(0, len(train.data), step):
                self.wire.append((1 - index, bytes(train.data[start : start + step]), train.segment))

    def state(self) -> tuple[Any, ...]:
        """Everything that is to be seen from outside, and that was told since the last time."""
        told, self.told = self.told, []
        counted = [core.stack.statistics for core in self.cores]
        return told, list(self.wire), counted, [(core.deadline, core.backlog) for core in self.cores]


def damaged(luck: Random, data: bytes) -> bytes:
    """A few bytes at the beginning of a datagram, where its header and index are, exchanged for others."""
    at = luck.randrange(min(len(data), 230))
    part = luck.choice(SPLICES) if luck.random() < 0.6 else b"%d" % luck.randrange(10)
    return data[:at] + part + data[at + luck.choice((0, 1, 1, 1, 2)) :]


def step(luck: Random, now: float, pairs: tuple[Pair, Pair]) -> None:
    """The same happens to both pairs, and some of what is on the wire arrives."""
    choice, index = luck.random(), luck.randrange(2)
    if choice < 0.25:
        payload = luck.choice((b"x" * luck.randrange(100), b"y", b"", {"a": 1}, 5, b"large" * luck.randrange(1000)))
        topic = luck.choice(TOPICS)
        options = luck.choice(OPTIONS) if topic == "mixed" else {}
        for pair in pairs:
            pair.publish(now, index, topic, payload, options)
    elif choice < 0.26:
        request = luck.choice((Subscribe("late", luck.choice((*TOPICS, "#"))), Unsubscribe("late")))
        for pair in pairs:
            pair.order(now, 1, request)  # what one hears of oneself goes no express way
    elif choice < 0.27:
        for pair in pairs:
            pair.wire.rotate(1)
    seed, count = luck.random(), luck.choice((0, 1, 5, 5))
    for pair in pairs:
        dice = Random(seed)
        for _ in range(count):
            if pair.wire:
                deliver(dice, now, pair)


def deliver(luck: Random, now: float, pair: Pair) -> None:
    """The next datagram arrives: most likely whole and once."""
    to, data, segment = pair.wire.popleft()
    choice = luck.random()
    if choice < 0.005:
        return
    if choice < 0.01:
        pair.wire.append((to, data, segment))
    elif choice < 0.04:
        data = damaged(luck, data)
    buffer = memoryview(bytearray(data))  # wiped afterwards: whoever kept a view of it shall notice
    pair.turn(now, to, Train(("10.0.0.1", 2 - to), buffer, segment))
    buffer[:] = bytes(len(buffer))


def noted(monkeypatch: pytest.MonkeyPatch, layer: type, name: str) -> list[bool]:
    """Whether each call of this method of a layer let something pass."""
    passes: list[bool] = []
    method = getattr(layer, name)

    def call(self: Any, now: float, item: Any) -> Any:
        passed = method(self, now, item)
        passes.append(passed is not None)
        return passed

    monkeypatch.setattr(layer, name, call)
    return passes


@pytest.mark.parametrize("seed", range(8))
def test_whatever_comes_it_becomes_the_same_with_the_express_way_as_without(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [noted(monkeypatch, Topics, "lift"), noted(monkeypatch, Serialization, "lower")]
    luck, now = Random(seed), 100.0
    pairs = Pair({}), Pair({name: plain(make) for name, make in LAYERS.items()})
    for pair in pairs:
        for index in (0, 1):
            pair.order(now, index, Subscribe("first", "#" if index else "room/+"))
    for _ in range(1000):
        now += luck.choice((*[1e-4] * 20, 1e-3, 0.05))
        for pair in pairs:
            for index in (0, 1):
                if pair.cores[index].deadline <= now:
                    pair.turn(now, index)
        step(luck, now, pairs)
        assert pairs[0].state() == pairs[1].state()
    assert all(map(any, passed))


class Heeding(Topics):
    """A layer derived from one with an express way, that looks at what passes."""

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
    """A layer around one with an express way, that looks at what passes."""

    def __init__(self, who: Identity) -> None:
        self._layer = Heeding(who)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def receive(self, now: float, items: list[Any]) -> Any:
        return self._layer.receive(now, items)

    def send(self, now: float, items: list[Any]) -> Any:
        return self._layer.send(now, items)


@pytest.mark.parametrize("made", [Heeding, Wrapped])
def test_nothing_passes_by_a_layer_that_alters_one_with_an_express_way(made: Factory) -> None:
    pair, now = Pair({"topics": made}), 100.0
    pair.order(now, 1, Subscribe("all", "t"))
    layers: list[Any] = [core.stack.layers["topics"] for core in pair.cores]
    for turn in range(100):
        now += 1e-4
        if turn >= 50:
            pair.publish(now, 0, "t", b"x", {})
        for index in (0, 1):
            pair.turn(now, index)
        while pair.wire:
            to, data, segment = pair.wire.popleft()
            pair.turn(now, to, Train(("10.0.0.1", 2 - to), data, segment))
    assert layers[1].received == layers[0].sent == 50
