"""What comes alone takes the express way; what becomes of it, and of all that follows, is what it would be without."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from glue.contract import Address, Delivery, Event, Inbound, Subscribe, Train, Unsubscribe
from glue.contract.borrowed import Lent
from glue.endpoint.core import Core
from glue.network import buffer as buffers
from glue.network.buffer import Arrived, Buffer
from glue.serialization import Serialization
from glue.settings import Settings
from glue.stack import LAYERS, Factory, Identity
from glue.topics import Topics
from glue.topics import express as topics_express
from tests.support.first_round import met

FRAME = 1472
BUFFER = Buffer()  # where trains arrive that come behind each other
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


class Upwards(Plain):
    """A layer that offers the express way up only."""

    def lift(self, now: float, item: Any) -> Any:
        return self._layer.lift(now, item)


def wrapped(kind: type[Plain], layers: dict[str, Factory]) -> dict[str, Factory]:
    """Factories of these layers, each in one of this kind."""

    def made(make: Factory) -> Factory:
        return lambda who: kind(make(who))

    return {name: made(make) for name, make in layers.items()}


COUNTERS = {"ann": 9_900, "bob": 10**15 - 200, "cid": 0}  # two soon have another digit


class Apart(Serialization):
    """It makes no run of several trains, as the express way cannot: when to acknowledge depends on the runs."""

    def __init__(self, who: Identity) -> None:
        super().__init__(
            endpoint_id=who.endpoint_id,
            incarnation=who.incarnation,
            network_id=who.settings.network_id,
            counter=COUNTERS[who.name],
        )

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Inbound], list[Train]]:
        return [frame for train in items for frame in super(Apart, self).receive(now, [train])[0]], []

    def lift(self, now: float, item: Train) -> Inbound | tuple[()] | None:
        return super().lift(now, item)


def address(index: int) -> Address:
    """Where an endpoint is."""
    return "10.0.0.1", 1 + index


def turns(core: Core, now: float, trains: Iterable[Train]) -> Iterator[tuple[list[Event], list[Train]]]:
    """What a turn gives, and those that are due after it."""
    yield core.turn(now, trains)
    for _ in range(100):
        if core.deadline > now:
            return
        yield core.turn(now, ())
    raise AssertionError("it is never done")


class Endpoints:
    """The layers of some endpoints, two at first, who sends what, and what they tell, in virtual time."""

    def __init__(self, replaced: dict[str, Factory], *others: str) -> None:
        names = ("ann", "bob", *others)
        self.cores = [Core(Settings(name=name), Random(name), 1e9, replaced) for name in names]
        self.wire: deque[tuple[int, int, bytes, int]] = deque()  # to whom, from whom: datagrams of one size
        self.told: list[Any] = []
        for core in self.cores:
            core.stack.fit(FRAME)

    def turn(self, now: float, index: int, trains: Iterable[Train] = ()) -> None:
        """A turn of one of them, and those that are due then."""
        core = self.cores[index]
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
                event.own()
                self.cores[index].handled(event)
            self.told.append(
                (event.__class__, [0.0 if slot == "age" else getattr(event, slot) for slot in event.__slots__])
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
        counted = [core.stack.statistics for core in self.cores]
        return told, list(self.wire), counted, [(core.deadline, core.backlog) for core in self.cores]


def damaged(luck: Random, data: bytes) -> bytes:
    """A few bytes at the beginning of a datagram, where its header and index are, exchanged for others."""
    at = luck.randrange(min(len(data), 230))
    part = luck.choice(SPLICES) if luck.random() < 0.6 else b"%d" % luck.randrange(10)
    return data[:at] + part + data[at + luck.choice((0, 1, 1, 1, 2)) :]


def step(luck: Random, now: float, pairs: tuple[Endpoints, Endpoints]) -> None:
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
    some_arrive(luck, now, pairs, deliver)


def some_arrive(
    luck: Random,
    now: float,
    pairs: tuple[Endpoints, Endpoints],
    deliver: Callable[[Random, float, Endpoints], None],
) -> None:
    """Some of what is on the wire arrives, and the same becomes of it with both."""
    seed, count = luck.random(), luck.choice((0, 1, 5, 5))
    for pair in pairs:
        dice = Random(seed)
        for _ in range(count):
            if pair.wire:
                deliver(dice, now, pair)


def deliver(luck: Random, now: float, pair: Endpoints) -> None:
    """The next datagram arrives: most likely whole and once."""
    to, source, data, segment = pair.wire.popleft()
    choice = luck.random()
    if choice < 0.005:
        return
    if choice < 0.01:
        pair.wire.append((to, source, data, segment))
    elif choice < 0.04:
        data = damaged(luck, data)
    buffer = memoryview(bytearray(data))  # wiped afterwards: whoever kept a view of it shall notice
    pair.turn(now, to, (Train(address(source), buffer, segment),))
    buffer[:] = bytes(len(buffer))


def misread(luck: Random, data: bytes) -> bytes:
    """A datagram whose header tells another counter, or does not end where it did."""
    at = data.index(b"]") - 1 if luck.random() < 0.7 else data.index(b"\n")
    return data[:at] + luck.choice((b"0", b"1", b"7", b" ", b"]", b"x")) + data[at + 1 :]


def stirred(luck: Random, data: bytes, segment: int) -> bytes:
    """A train in which, by some chance, datagrams were lost, doubled, swapped, damaged or cut; but all of one size.

    Those in the middle are damaged in what is read of them: see `tests/serialization/test_awaited.py`.
    """
    parts = [data[start : start + segment] for start in range(0, len(data), segment)]
    for _ in range(luck.choice((0, 0, 0, 0, 1, 2))):
        at, choice = luck.randrange(len(parts)), luck.randrange(5)
        is_last = at == len(parts) - 1
        if choice == 0 and len(parts) > 1:
            del parts[at]
        elif choice == 1 and not is_last:
            parts.insert(at, parts[at])
        elif choice == 2 and at + 2 < len(parts):
            parts[at], parts[at + 1] = parts[at + 1], parts[at]
        elif choice == 3:
            spoiled = (damaged if is_last or not at else misread)(luck, parts[at])
            parts[at] = spoiled if is_last else (spoiled + b"!!")[: len(parts[at])]
        elif choice == 4:
            parts[-1] = parts[-1][: luck.randrange(1, len(parts[-1]) + 1)]
    return b"".join(parts)


def deliver_several(luck: Random, now: float, pair: Endpoints) -> None:
    """What is on the wire to one of them arrives in one turn, as trains that are valid one after the other."""
    to = pair.wire[0][0]
    trains: list[tuple[Address, bytes, int]] = []
    for _ in range(luck.choice((1, 1, 2, 3, 5, 9))):
        if not pair.wire or pair.wire[0][0] != to:
            break
        _, source, data, segment = pair.wire.popleft()
        trains.append((address(source), stirred(luck, data, segment), segment))
    if luck.random() < 0.02:
        trains.insert(luck.randrange(len(trains) + 1), (address(9), b"%d\n" % luck.randrange(10**9), 1000))
    if luck.random() < 0.3:
        pair.turn(now, to, tuple(Train(source, memoryview(data), segment) for source, data, segment in trains))
        return

    def arriving() -> Iterator[Train]:
        for source, data, segment in trains:
            BUFFER.memory[: len(data)] = data
            yield Arrived(source, BUFFER, len(data), segment)
            BUFFER.memory[: len(data)] = bytes(len(data))

    pair.turn(now, to, arriving())


def publish_something(luck: Random, now: float, pairs: tuple[Endpoints, Endpoints]) -> None:
    """One of them publishes, the same in both pairs: a stream, a large message, or a small one."""
    index, choice = luck.randrange(len(pairs[0].cores)), luck.random()
    topic = luck.choice(TOPICS[:3])
    if choice < 0.5:
        size, count = luck.choice((0, 1, 16, 100, 1000, 1279, 1280, 5000)), luck.choice((1, 2, 7, 60, 600))
        payloads = [luck.randbytes(size)] * min(count, 100_000 // (size + 1))
        if luck.random() < 0.2:
            payloads.append(b"another length")
        for pair in pairs:
            pair.stream(now, index, topic, payloads)
    elif choice < 0.8:
        large = luck.randbytes(luck.choice((1500, 2560, 3000, 20_000, 50_000, 90_000, 200_000)))
        for pair in pairs:
            pair.publish(now, index, topic, large, {})
    else:
        options, payload = luck.choice(OPTIONS), luck.choice((b"x", {"a": 1}))
        for pair in pairs:
            pair.publish(now, index, "mixed" if options else topic, payload, options)


def noted(monkeypatch: pytest.MonkeyPatch, layer: type, name: str) -> list[bool]:
    """Whether each call of this method of a layer let something pass."""
    passes: list[bool] = []
    method = getattr(layer, name)

    def call(self: Any, *args: Any) -> Any:
        passed = method(self, *args)
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
    pairs = Endpoints({}), Endpoints(wrapped(Plain, LAYERS))
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
    pair, now = Endpoints({"topics": made}), 100.0
    pair.order(now, 1, Subscribe("all", "t"))
    layers: list[Any] = [core.stack.layers["topics"] for core in pair.cores]
    for turn in range(100):
        now += 1e-3  # the first round of discovery, during which messages are held, is over before the first
        if turn >= 50:
            pair.publish(now, 0, "t", b"x", {})
        for index in (0, 1):
            pair.turn(now, index)
        while pair.wire:
            to, source, data, segment = pair.wire.popleft()
            pair.turn(now, to, (Train(address(source), data, segment),))
    assert layers[1].received == layers[0].sent == 50


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 15])
def test_whatever_becomes_of_a_train_it_brings_the_same_on_the_express_way_as_without(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between three, downwards it may differ in time: an ordinary call of `send` repairs on all channels at once."""
    runs, copies = noted(monkeypatch, Serialization, "lift"), noted(monkeypatch, Lent, "copies")
    monkeypatch.setattr(buffers, "LENT", 2000)
    monkeypatch.setattr(topics_express, "ALONE", 1000)
    monkeypatch.setattr(topics_express, "PORTION", 3000)
    luck, now = Random(seed), 100.0
    layers: dict[str, Factory] = {**LAYERS, "serialization": Apart}
    express, others = (wrapped(Upwards, layers), ("cid",)) if seed % 2 else (layers, ())
    pairs = Endpoints(express, *others), Endpoints(wrapped(Plain, layers), *others)
    indexes = range(len(pairs[0].cores))
    for pair in pairs:
        for index in indexes:
            pair.order(now, index, Subscribe("first", "#" if index else "room/+"))
    now = max([met(pair, now) for pair in pairs])
    for _ in range(400):
        now += luck.choice((*[1e-4] * 20, 1e-3, 0.05))
        for pair in pairs:
            for index in indexes:
                if pair.cores[index].deadline <= now:
                    pair.turn(now, index)
        if luck.random() < 0.2:
            publish_something(luck, now, pairs)
        some_arrive(luck, now, pairs, deliver_several)
        assert pairs[0].state() == pairs[1].state()
    assert any(runs)
    assert copies
