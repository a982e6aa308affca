"""Cases of the micro benchmark: calls of one layer, with everything around the layer prepared beforehand.

A *scene* is a function that prepares a case and returns a timer (see `benchmarks.timers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from random import Random
from typing import Any, NamedTuple, TypeVar
from weakref import finalize

from benchmarks.joined import DATAGRAM, Joined, arrived
from benchmarks.timers import Timer, batches, repeated
from glue.contract import (
    Downward,
    Header,
    Inbound,
    Outbound,
    PeerAdded,
    PeerInterest,
    Publication,
    Request,
    Subscribe,
    Train,
    Upward,
)
from glue.contract.pieces import Pieces
from glue.contract.train_buffer import TrainBuffer
from glue.discovery import Discovery
from glue.fragmentation import Fragmentation
from glue.network import MulticastNetwork
from glue.serialization import MAX_HEADER, Serialization
from glue.topics import Topics
from glue.topics.bundle import MessageGroup, decode, encode
from glue.topics.index import Index
from glue.transport import Transport
from tests.support.loopback import loopback_environment

HERE, THERE = "0" * 15 + "1", "0" * 15 + "2"
ADDRESS = ("127.0.0.1", 37321)
NOW = 100.0
AT = 1_700_000_000.0  # wall clock
BODY = DATAGRAM - MAX_HEADER

Item = TypeVar("Item")


class Case(NamedTuple):
    """A case of the benchmark. One call handles `units` datagrams or messages."""

    layer: str
    what: str
    units: int
    unit: str
    scene: Callable[[], Timer]

    @property
    def name(self) -> str:
        """Name of the case in pyperf."""
        return f"{self.layer}: {self.what}"


# -------------------------------------------------------------------------------------------------- the lower layers


def network(count: int, receiving: bool) -> Timer:
    """Send or receive `count` datagrams from a socket to itself over loopback, system calls included."""
    environment = loopback_environment()
    made = MulticastNetwork(
        interface=environment["GLUE_INTERFACE"],
        multicast_address=environment["GLUE_MULTICAST_ADDRESS"],
        listen_port=0,
        receive_buffer=4 << 20,
        offload=True,
    )
    made.maintain(NOW)
    trains = [Train(made.unicast_address, bytes(count * DATAGRAM), DATAGRAM)]

    def ready(_: int) -> list[None]:
        made.send(trains)
        return [None]

    def drain(_: list[Any]) -> None:
        while list(made.receive()):
            pass

    if receiving:
        timer = batches(ready, lambda _: list(made.receive()), drain, batch=1)
    else:
        timer = batches(lambda calls: [trains] * calls, made.send, drain, batch=4)
    finalize(timer, made.close)
    return timer


def header(sequence: int = 1000) -> Header:
    """Return transport's part of a header."""
    return {"transport": ["data", 0, 0, 0, 0, 0, 7, sequence]}


def serialization(count: int, receiving: bool) -> Timer:
    """Turn a run of frames into a train, or back."""
    writer, reader = (Serialization(endpoint_id=id, incarnation=1, network_id=1) for id in (HERE, THERE))
    run = [Outbound((THERE,), [bytes(BODY)] * count, header(), address=ADDRESS)]
    (train,) = writer.send(NOW, run)
    trains = [arrived(train, ADDRESS, TrainBuffer())]
    return repeated((lambda: reader.receive(NOW, trains)) if receiving else (lambda: writer.send(NOW, run)))


def discovery(count: int, receiving: bool) -> Timer:
    """Pass frames of a known peer."""
    here, there = (
        Discovery(endpoint_id=id, incarnation=1, name=id, random=Random(1), announce_interval=3600.0)
        for id in (HERE, THERE)
    )
    here.fit(BODY), there.fit(BODY)
    here.receive(NOW, [])
    _, announcements = there.receive(NOW, [])
    here.receive(NOW, [Inbound(THERE, 1, ADDRESS, one.header, one.bodies) for one in announcements])
    inbound = [Inbound(THERE, 1, ADDRESS, header(), [bytes(BODY)] * count)]
    outbound: list[Downward] = [Outbound((THERE,), [bytes(BODY)] * count, header())]
    return repeated((lambda: here.receive(NOW, inbound)) if receiving else (lambda: here.send(NOW, outbound)))


class Transports:
    """A sender and a receiver that know each other, and a clock."""

    def __init__(self) -> None:
        self.sender, self.receiver = Transport(endpoint_id=HERE), Transport(endpoint_id=THERE)
        self.sender.receive(NOW, [PeerAdded(THERE, 1, "there", ADDRESS)])
        self.receiver.receive(NOW, [PeerAdded(HERE, 1, "here", ADDRESS)])
        self.now = NOW

    def acknowledge(self, down: list[Downward]) -> None:
        """Exchange the receiver's answers until everything is acknowledged."""
        while True:
            answers = _inbound(THERE, down)
            _, more = self.sender.receive(self.now, [*answers])
            self.sender.commit()
            if not self.sender.backlog:
                return
            down = self.deliver(_inbound(HERE, more))
            if not down:
                self.receiver.commit()
                self.now = max(self.now, self.receiver.deadline)

    def deliver(self, frames: list[Inbound]) -> list[Downward]:
        """Hand frames to the receiver and return its answers."""
        return self.receiver.receive(self.now, [*frames])[1]


def _inbound(source: str, items: list[Downward]) -> list[Inbound]:
    return [
        Inbound(source, 1, ADDRESS, {key: [*entry] for key, entry in item.header.items()}, item.bodies)
        for item in items
        if isinstance(item, Outbound)
    ]


def transport(count: int, receiving: bool) -> Timer:
    """Send a run of frames to one peer, or receive a run in order."""
    pair = Transports()
    bodies = [bytes(BODY)] * count

    def messages(calls: int) -> list[list[Downward]]:
        return [[Outbound((THERE,), bodies)] for _ in range(calls)]

    def send(items: list[Downward]) -> list[Downward]:
        return pair.sender.send(pair.now, items)

    def arrivals(calls: int) -> list[list[Upward]]:
        return [[*_inbound(HERE, send(message))] for message in messages(calls)]

    def receive(frames: list[Upward]) -> list[Downward]:
        return pair.receiver.receive(pair.now, frames)[1]

    def delivered(sent: list[list[Downward]]) -> None:
        answered([pair.deliver(_inbound(HERE, down)) for down in sent])

    def answered(answers: list[list[Downward]]) -> None:
        pair.acknowledge([item for down in answers for item in down])

    if receiving:
        return batches(arrivals, receive, answered)
    return batches(messages, send, delivered)


def fragmentation(size: int, receiving: bool) -> Timer:
    """Cut a message of `size` bytes into frames, or join arriving runs."""
    cutter, joiner = Fragmentation(), Fragmentation()
    cutter.fit(BODY), joiner.fit(BODY)
    message = bytes(size)

    def messages(calls: int) -> list[list[Downward]]:
        return [[Outbound((THERE,), [message])] for _ in range(calls)]

    def cut(items: list[Downward]) -> list[Downward]:
        return cutter.send(NOW, items)

    def runs(calls: int) -> list[list[Upward]]:
        made: list[list[Upward]] = []
        for items in messages(calls):
            (item,) = cut(items)
            assert isinstance(item, Outbound)
            bodies: Sequence[bytes] = item.bodies
            if len(bodies) > 1:  # as serialization takes them from a train
                bodies = Pieces([b"".join(bodies)], BODY, len(bodies))
            made.append([Inbound(HERE, 1, ADDRESS, item.header, bodies)])
        return made

    if receiving:
        return batches(runs, lambda items: joiner.receive(NOW, items), batch=4)
    return batches(messages, cut, batch=4)


# -------------------------------------------------------------------------------------------------- the upper layers


def publisher(patterns: list[str]) -> Topics:
    """Return a topics layer with one peer that has these interests."""
    layer = Topics(endpoint_id=HERE, incarnation=1, name="here")
    layer.fit(BODY)
    layer.receive(NOW, [PeerAdded(THERE, 1, "there", ADDRESS), PeerInterest(THERE, patterns, [])])
    return layer


def subscriber(patterns: list[str]) -> Topics:
    """Return a topics layer that knows the publisher and subscribes to these patterns."""
    layer = Topics(endpoint_id=THERE, incarnation=1, name="there")
    layer.fit(BODY)
    layer.receive(NOW, [PeerAdded(HERE, 1, "here", ADDRESS)])
    layer.send(NOW, [Subscribe(number, pattern) for number, pattern in enumerate(patterns)])
    return layer


def bundled(publication: Publication) -> Inbound:
    """Return a publication as it arrives."""
    down = publisher(["#"]).send(NOW, [publication])
    return Inbound(HERE, 1, ADDRESS, {}, [body for item in down if isinstance(item, Outbound) for body in item.bodies])


def topics(count: int, size: int, receiving: bool) -> Timer:
    """Send or receive one publication of `count` messages of `size` bytes."""
    publication = Publication("t/16", [bytes(size)] * count, AT)
    if receiving:
        there, inbound = subscriber(["t/+"]), [bundled(publication)]
        return repeated(lambda: there.receive(NOW, [*inbound]))
    here = publisher(["#"])
    return repeated(lambda: here.send(NOW, [publication]))


def topics_singly(count: int, size: int) -> Timer:
    """Send `count` publications of one message each, in one call."""
    here = publisher(["#"])
    requests: list[Request] = [Publication("t/16", [bytes(size)], AT) for _ in range(count)]
    return repeated(lambda: here.send(NOW, requests))


def bundle(count: int, size: int, decoding: bool) -> Timer:
    """Encode or decode the wire format of topics alone."""
    group = MessageGroup("t/16", 1, int(AT * 1e6), [bytes(size)] * count, size)
    body = encode([group])
    return repeated((lambda: decode(body)) if decoding else (lambda: encode([group])))


def matching(count: int, receiving: bool) -> Timer:
    """Send or receive one message on each of `count` topics, with as many patterns. Half of the patterns have
    wildcards.
    """
    names = [f"site/{number}/temperature" for number in range(count)]
    patterns = [name if number % 2 else f"site/{number}/+" for number, name in enumerate(names)]
    publications = [Publication(name, [bytes(16)], AT) for name in names]
    if receiving:
        there = subscriber(patterns)
        arrived = cycle([bundled(publication) for publication in publications])
        timer = batches(partial(taken, arrived), lambda item: there.receive(NOW, [item]), batch=1000)
    else:
        here, published = publisher(patterns), cycle(publications)
        timer = batches(partial(taken, published), lambda item: here.send(NOW, [item]), batch=1000)
    timer(count)  # from now on the layer has seen each topic
    return timer


def finding(count: int) -> Timer:
    """Search the index without a cache."""
    names = [f"site/{number}/temperature" for number in range(count)]
    index: Index[int] = Index()
    for number, name in enumerate(names):
        index.add(name if number % 2 else f"site/{number}/+", number)
    asked = cycle(names)
    return batches(partial(taken, asked), index.find, batch=1000)


def taken(source: Iterator[Item], count: int) -> list[Item]:
    """Take the next `count` items."""
    return list(islice(source, count))


# --------------------------------------------------------------------------------------------------- the whole stack


def stack(count: int, size: int, receiving: bool) -> Timer:
    """Run all layers of one side: publishing with received acknowledgements, or receiving with sent ones."""
    joined = Joined()
    side = joined.subscriber if receiving else joined.publisher
    payloads = [bytes(size)] * count
    for _ in range(4):  # opens the window
        joined.publish(Publication("t/16", payloads, AT))

    def timer(calls: int) -> float:
        before = side.busy
        for _ in range(calls):
            joined.publish(Publication("t/16", payloads, AT))
        return side.busy - before

    return timer


# ------------------------------------------------------------------------------------------------------- all of them


def both_ways(layer: str, what: str, units: int, unit: str, scene: Callable[[bool], Timer]) -> list[Case]:
    """Return the case of sending and the case of receiving."""
    return [
        Case(layer, f"send {what}", units, unit, partial(scene, False)),
        Case(layer, f"receive {what}", units, unit, partial(scene, True)),
    ]


LOWER = {"network": network, "serialization": serialization, "discovery": discovery, "transport": transport}
RUNS = {"a datagram": 1, "a train of 42": 42}
MESSAGES = {"a 64 B message": 64, "a 64 kB message": 1 << 16, "a 1 MB message": 1 << 20}
BUNDLES = {"1 × 64 B": (1, 64), "1,024 × 16 B": (1024, 16), "1,024 × 1 kB": (1024, 1024)}
STACK = {"1 × 64 B": (1, 64), "1,024 × 16 B": (1024, 16), "1 × 64 kB": (1, 1 << 16), "1 × 1 MB": (1, 1 << 20)}
TOPICS = (10, 1000, 10_000)


def cases() -> Iterator[Case]:
    """Yield all cases from the lowest layer up."""
    for layer, scene in LOWER.items():
        for what, count in RUNS.items():
            yield from both_ways(layer, what, count, "datagram", partial(scene, count))
    for what, size in MESSAGES.items():
        yield from both_ways("fragmentation", what, -(-size // BODY), "datagram", partial(fragmentation, size))
    for what, (count, size) in BUNDLES.items():
        yield from both_ways("topics", what, count, "message", partial(topics, count, size))
        yield Case("topics", f"encode {what}", count, "message", partial(bundle, count, size, False))
        yield Case("topics", f"decode {what}", count, "message", partial(bundle, count, size, True))
    yield Case("topics", "send 1,024 × 16 B singly", 1024, "message", partial(topics_singly, 1024, 16))
    for count in TOPICS:
        yield from both_ways("matching", f"1 of {count:,} topics", 1, "message", partial(matching, count))
        yield Case("matching", f"find 1 of {count:,} topics anew", 1, "message", partial(finding, count))
    for what, (count, size) in STACK.items():
        yield from both_ways("stack", what, count, "message", partial(stack, count, size))


CASES = tuple(cases())
