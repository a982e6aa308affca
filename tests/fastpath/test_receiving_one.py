"""What comes alone takes the fast path; what becomes of it, and of all that follows, is what it would be without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from glue.contract import Address, Inbound, Subscribe, Train, Unsubscribe
from glue.contract import train_buffer as buffers
from glue.contract.borrowed import Borrowed
from glue.contract.train_buffer import Arrived, TrainBuffer
from glue.fastpath.stack import FAST_PATHS, fast_path_of
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.stack import LAYERS, Factory, Identity
from glue.topics import plain
from glue.topics.fastpath import TopicsFastPath
from tests.support.endpoints import OPTIONS, Endpoints, Heeding, Plain, Wrapped, address, damaged, wrapped
from tests.support.first_round import met

BUFFER = TrainBuffer()  # where trains arrive that come behind each other
TOPICS = ("t", "room/1", 'b/"quoted"', "mixed")


COUNTERS = {"ann": 9_900, "bob": 10**15 - 200, "cid": 0}  # two soon have another digit


class Apart(Serialization):
    """It makes no run of several trains, as the fast path cannot: when to acknowledge depends on the runs."""

    def __init__(self, who: Identity) -> None:
        super().__init__(
            endpoint_id=who.endpoint_id,
            incarnation=who.incarnation,
            network_id=who.settings.network_id,
            counter=COUNTERS[who.name],
        )

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Inbound], list[Train]]:
        return [frame for train in items for frame in super(Apart, self).receive(now, [train])[0]], []


class Upwards(Plain):
    """A layer that has a fast path up only."""


class UpwardPath:
    """The fast path up of such a layer."""

    def __init__(self, layer: Upwards) -> None:
        path = fast_path_of(layer._layer)
        assert path is not None
        self.receive_one = path.receive_one

    def send_one(self, now: float, item: Any) -> None:
        return None

    def session_part(self) -> None:
        return None


FAST_PATHS[Apart] = SerializationFastPath
FAST_PATHS[Upwards] = UpwardPath


def step(rng: Random, now: float, pairs: tuple[Endpoints, Endpoints]) -> None:
    """The same happens to both pairs, and some of what is on the wire arrives."""
    choice, index = rng.random(), rng.randrange(2)
    if choice < 0.25:
        payload = rng.choice((b"x" * rng.randrange(100), b"y", b"", {"a": 1}, 5, b"large" * rng.randrange(1000)))
        topic = rng.choice(TOPICS)
        options = rng.choice(OPTIONS) if topic == "mixed" else {}
        for pair in pairs:
            pair.publish(now, index, topic, payload, options)
    elif choice < 0.26:
        request = rng.choice((Subscribe("late", rng.choice((*TOPICS, "#"))), Unsubscribe("late")))
        for pair in pairs:
            pair.order(now, 1, request)  # what one receives of oneself goes no fast path
    elif choice < 0.27:
        for pair in pairs:
            pair.wire.rotate(1)
    some_arrive(rng, now, pairs, deliver)


def some_arrive(
    rng: Random,
    now: float,
    pairs: tuple[Endpoints, Endpoints],
    deliver: Callable[[Random, float, Endpoints], None],
) -> None:
    """Some of what is on the wire arrives, and the same becomes of it with both."""
    seed, count = rng.random(), rng.choice((0, 1, 5, 5))
    for pair in pairs:
        dice = Random(seed)
        for _ in range(count):
            if pair.wire:
                deliver(dice, now, pair)


def deliver(rng: Random, now: float, pair: Endpoints) -> None:
    """The next datagram arrives: most likely whole and once."""
    to, source, data, segment = pair.wire.popleft()
    choice = rng.random()
    if choice < 0.005:
        return
    if choice < 0.01:
        pair.wire.append((to, source, data, segment))
    elif choice < 0.04:
        data = damaged(rng, data)
    buffer = memoryview(bytearray(data))  # wiped afterwards: whoever kept a view of it shall notice
    pair.turn(now, to, (Train(address(source), buffer, segment),))
    buffer[:] = bytes(len(buffer))


def misread(rng: Random, data: bytes) -> bytes:
    """A datagram whose header tells another counter, or does not end where it did."""
    at = data.index(b"]") - 1 if rng.random() < 0.7 else data.index(b"\n")
    return data[:at] + rng.choice((b"0", b"1", b"7", b" ", b"]", b"x")) + data[at + 1 :]


def stirred(rng: Random, data: bytes, segment: int) -> bytes:
    """A train in which, by some chance, datagrams were lost, doubled, swapped, damaged or cut; but all of one size.

    Those in the middle are damaged in what is read of them: see `tests/serialization/test_awaited.py`.
    """
    parts = [data[start : start + segment] for start in range(0, len(data), segment)]
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        at, choice = rng.randrange(len(parts)), rng.randrange(5)
        is_last = at == len(parts) - 1
        if choice == 0 and len(parts) > 1:
            del parts[at]
        elif choice == 1 and not is_last:
            parts.insert(at, parts[at])
        elif choice == 2 and at + 2 < len(parts):
            parts[at], parts[at + 1] = parts[at + 1], parts[at]
        elif choice == 3:
            spoiled = (damaged if is_last or not at else misread)(rng, parts[at])
            parts[at] = spoiled if is_last else (spoiled + b"!!")[: len(parts[at])]
        elif choice == 4:
            parts[-1] = parts[-1][: rng.randrange(1, len(parts[-1]) + 1)]
    return b"".join(parts)


def deliver_several(rng: Random, now: float, pair: Endpoints) -> None:
    """What is on the wire to one of them arrives in one turn, as trains that are valid one after the other."""
    to = pair.wire[0][0]
    trains: list[tuple[Address, bytes, int]] = []
    for _ in range(rng.choice((1, 1, 2, 3, 5, 9))):
        if not pair.wire or pair.wire[0][0] != to:
            break
        _, source, data, segment = pair.wire.popleft()
        trains.append((address(source), stirred(rng, data, segment), segment))
    if rng.random() < 0.02:
        trains.insert(rng.randrange(len(trains) + 1), (address(9), b"%d\n" % rng.randrange(10**9), 1000))
    if rng.random() < 0.3:
        pair.turn(now, to, tuple(Train(source, memoryview(data), segment) for source, data, segment in trains))
        return

    def arriving() -> Iterator[Train]:
        for source, data, segment in trains:
            BUFFER.memory[: len(data)] = data
            yield Arrived(source, BUFFER, len(data), segment)
            BUFFER.memory[: len(data)] = bytes(len(data))

    pair.turn(now, to, arriving())


def publish_something(rng: Random, now: float, pairs: tuple[Endpoints, Endpoints]) -> None:
    """One of them publishes, the same in both pairs: a stream, a large message, or a small one."""
    index, choice = rng.randrange(len(pairs[0].cores)), rng.random()
    topic = rng.choice(TOPICS[:3])
    if choice < 0.5:
        size, count = rng.choice((0, 1, 16, 100, 1000, 1279, 1280, 5000)), rng.choice((1, 2, 7, 60, 600))
        payloads = [rng.randbytes(size)] * min(count, 100_000 // (size + 1))
        if rng.random() < 0.2:
            payloads.append(b"another length")
        for pair in pairs:
            pair.stream(now, index, topic, payloads)
    elif choice < 0.8:
        large = rng.randbytes(rng.choice((1500, 2560, 3000, 20_000, 50_000, 90_000, 200_000)))
        for pair in pairs:
            pair.publish(now, index, topic, large, {})
    else:
        options, payload = rng.choice(OPTIONS), rng.choice((b"x", {"a": 1}))
        for pair in pairs:
            pair.publish(now, index, "mixed" if options else topic, payload, options)


def noted(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[bool]:
    """Whether each call of this method let something pass."""
    passes: list[bool] = []
    method = getattr(kind, name)

    def call(self: Any, *args: Any) -> Any:
        passed = method(self, *args)
        passes.append(passed is not None)
        return passed

    monkeypatch.setattr(kind, name, call)
    return passes


@pytest.mark.parametrize("seed", range(8))
def test_whatever_comes_it_becomes_the_same_with_the_fast_path_as_without(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [noted(monkeypatch, TopicsFastPath, "receive_one"), noted(monkeypatch, SerializationFastPath, "send_one")]
    rng, now = Random(seed), 100.0
    pairs = Endpoints({}), Endpoints(wrapped(Plain, LAYERS))
    for pair in pairs:
        for index in (0, 1):
            pair.order(now, index, Subscribe("first", "#" if index else "room/+"))
    for _ in range(1000):
        now += rng.choice((*[1e-4] * 20, 1e-3, 0.05))
        for pair in pairs:
            for index in (0, 1):
                if pair.cores[index].deadline <= now:
                    pair.turn(now, index)
        step(rng, now, pairs)
        assert pairs[0].state() == pairs[1].state()
    assert all(map(any, passed))


@pytest.mark.parametrize("made", [Heeding, Wrapped])
def test_nothing_passes_by_a_layer_that_alters_one_with_a_fast_path(made: Factory) -> None:
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
def test_whatever_becomes_of_a_train_it_brings_the_same_on_the_fast_path_as_without(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between three, downwards it may differ in time: an ordinary call of `send` repairs on all channels at once."""
    runs, copies = noted(monkeypatch, SerializationFastPath, "receive_one"), noted(monkeypatch, Borrowed, "copies")
    monkeypatch.setattr(buffers, "BORROWED", 2000)
    monkeypatch.setattr(plain, "ALONE", 1000)
    monkeypatch.setattr(plain, "CHUNK_SIZE", 3000)
    rng, now = Random(seed), 100.0
    layers: dict[str, Factory] = {**LAYERS, "serialization": Apart}
    replaced, others = (wrapped(Upwards, layers), ("cid",)) if seed % 2 else (layers, ())
    pairs = Endpoints(replaced, *others), Endpoints(wrapped(Plain, layers), *others)
    indexes = range(len(pairs[0].cores))
    for pair in pairs:
        for index in indexes:
            pair.order(now, index, Subscribe("first", "#" if index else "room/+"))
    now = max([met(pair, now) for pair in pairs])
    for _ in range(400):
        now += rng.choice((*[1e-4] * 20, 1e-3, 0.05))
        for pair in pairs:
            for index in indexes:
                if pair.cores[index].deadline <= now:
                    pair.turn(now, index)
        if rng.random() < 0.2:
            publish_something(rng, now, pairs)
        some_arrive(rng, now, pairs, deliver_several)
        assert pairs[0].state() == pairs[1].state()
    assert any(runs)
    assert copies
