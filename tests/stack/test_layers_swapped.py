"""Every layer can be replaced by another, with one keyword, and messages still pass.

The replacements are as small as they can be: they show what a layer owes to its neighbours, and that no more is used.
"""

from __future__ import annotations

import base64
import json
import math
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import glue
from glue.contract import (
    Accept,
    Address,
    Delivery,
    Inbound,
    Interest,
    Leave,
    Outbound,
    PeerAdded,
    PeerInterest,
    Publication,
    Subscribe,
    Train,
    Unsubscribe,
    advanced,
)
from glue.settings import Settings
from glue.stack import Identity
from tests.support.lan import PATIENCE, Ear, private_network

PAYLOADS: list[Any] = [b"bytes", "text", {"a": [1, None]}, bytes(range(256)) * 400, "end"]


def exchange(**swapped: Any) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Pass the payloads from one endpoint to another, both with these layers; returns what the two counted."""
    settings = {**private_network(), **swapped}
    ear = Ear()
    with glue.Endpoint("a", **settings) as a, glue.Endpoint("b", **settings) as b:
        b.subscribe("t", ear)
        assert a.wait_for_subscribers("t", 1, PATIENCE)
        for payload in PAYLOADS:
            a.publish("t", payload)
        ear.wait(len(PAYLOADS))
        assert ear.payloads == PAYLOADS
        assert {message.publisher for message in ear.heard} == {"a"}
        assert a.flush(PATIENCE)
        return a.statistics, b.statistics


def test_the_layers_that_come_with_glue_pass_messages() -> None:
    exchange()


# ----------------------------------------------------------------------------------------------- network


class Hub:
    """A network within one process: whoever is plugged in gets what is sent to it, or to all."""

    def __init__(self) -> None:
        self.sockets: dict[Address, MemoryNetwork] = {}

    def plug_in(self, settings: Settings) -> MemoryNetwork:
        address = ("hub", len(self.sockets))
        self.sockets[address] = MemoryNetwork(self, address)
        return self.sockets[address]


class MemoryNetwork:
    """A place at the hub. A `glue.contract.Network`."""

    datagram_size = 1000

    def __init__(self, hub: Hub, address: Address) -> None:
        self.statistics: Counter[str] = Counter()
        self.unicast_address = address
        self._hub = hub
        self._arrived: queue.SimpleQueue[Train] = queue.SimpleQueue()
        self._ready = threading.Event()

    def filenos(self) -> Sequence[int]:
        return ()

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        self._ready.wait(timeout)
        self._ready.clear()

    def wake(self) -> None:
        self._ready.set()

    def receive(self) -> list[Train]:
        return [self._arrived.get() for _ in range(self._arrived.qsize())]

    def send(self, trains: Sequence[Train]) -> None:
        for train in trains:
            arriving = Train(self.unicast_address, bytes(train.data), train.segment)
            reached = [self._hub.sockets[train.address]] if train.address else self._hub.sockets.values()
            for network in reached:
                network._arrived.put(arriving)
                network.wake()
            self.statistics["trains sent"] += 1

    def maintain(self, now: float) -> float:
        return math.inf

    def describe(self) -> dict[str, Any]:
        return {"address": self.unicast_address}

    def close(self) -> None:
        pass


def test_another_network() -> None:
    sender, _ = exchange(network=Hub().plug_in)
    assert list(sender["network"]) == ["trains sent"]


# -------------------------------------------------------------------------------------- what layers share


class Plain:
    """What a layer without timers, buffers and headers has to say."""

    deadline = math.inf
    backlog = unfinished = 0

    def __init__(self, who: Identity) -> None:
        self.who = who
        self.statistics: Counter[str] = Counter()

    def fit(self, size: int) -> int:
        return size

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        return items, []

    def send(self, now: float, items: list[Any]) -> list[Any]:
        return items


# ------------------------------------------------------------------------------------------ serialization


class Base64(Plain):
    """One JSON document a datagram, the body in base64: bulky, and readable with any tool."""

    def fit(self, size: int) -> int:
        return (size - 300) * 3 // 4

    def send(self, now: float, items: list[Outbound]) -> list[Train]:
        return [
            Train(item.address, datagram, len(datagram))
            for item in items
            for offset, body in enumerate(item.bodies)
            for datagram in [self._encoded(advanced(item.header, offset), body)]
        ]

    def _encoded(self, header: dict[str, Any], body: bytes) -> bytes:
        sender = [self.who.endpoint_id, self.who.incarnation]
        self.statistics["documents"] += 1
        return json.dumps({"from": sender, "header": header, "body": base64.b64encode(body).decode()}).encode()

    def receive(self, now: float, items: list[Train]) -> tuple[list[Inbound], list[Train]]:
        frames = []
        for train in items:
            for start in range(0, len(train.data), train.segment):
                document = json.loads(bytes(train.data[start : start + train.segment]))
                peer, incarnation = document["from"]
                if peer != self.who.endpoint_id:
                    body = base64.b64decode(document["body"])
                    frames.append(Inbound(peer, incarnation, train.address, document["header"], [body]))
        return frames, []


def test_another_serialization() -> None:
    sender, _ = exchange(serialization=Base64)
    assert sender["serialization"]["documents"] > 100


# ---------------------------------------------------------------------------------------------- discovery


class Hello(Plain):
    """Greets until it is greeted; takes everyone to want everything; nobody is ever gone."""

    deadline = -math.inf

    def __init__(self, who: Identity) -> None:
        super().__init__(who)
        self._peers: dict[str, Address] = {}

    def receive(self, now: float, items: list[Inbound]) -> tuple[list[Any], list[Outbound]]:
        up: list[Any] = []
        down: list[Outbound] = []
        if now >= self.deadline:
            self.deadline = now + 0.05
            down.append(self._hello())
        for item in items:
            if "hello" not in item.header:
                up.append(item)
            elif item.peer not in self._peers and item.address is not None:
                self._peers[item.peer] = item.address
                name = item.bodies[0].decode()
                up.append(PeerAdded(item.peer, item.incarnation, name, item.address))
                up.append(PeerInterest(item.peer, ["#"], []))
                down.append(self._hello())
        return up, down

    def _hello(self) -> Outbound:
        self.statistics["hellos"] += 1
        return Outbound((), [self.who.name.encode()], {"hello": []})

    def send(self, now: float, items: list[Any]) -> list[Outbound]:
        going = [item for item in items if isinstance(item, Outbound)]
        for item in going:
            item.address = self._peers[item.peers[0]] if item.peers else None
        return going


def test_another_discovery() -> None:
    sender, receiver = exchange(discovery=Hello)
    assert sender["discovery"]["hellos"] > 0
    assert receiver["discovery"].keys() == {"hellos"}


# ---------------------------------------------------------------------------------------------- transport


class FireAndForget(Plain):
    """Sends once to each and hopes."""

    def send(self, now: float, items: list[Any]) -> list[Any]:
        down: list[Any] = []
        for item in items:
            if isinstance(item, Outbound):
                down += [Outbound((peer,), item.bodies, {**item.header}) for peer in item.peers]
                self.statistics["sent and forgotten"] += 1
            elif isinstance(item, Interest | Leave):
                down.append(item)
            else:
                assert isinstance(item, Accept)
        return down


def test_another_transport() -> None:
    sender, _ = exchange(transport=FireAndForget)
    assert sender["transport"]["sent and forgotten"] > 0


# ------------------------------------------------------------------------------------------ fragmentation


class Pieces(Plain):
    """Cuts into pieces that carry "[message, how many pieces, which one]", numbered from the last to the first."""

    def __init__(self, who: Identity) -> None:
        super().__init__(who)
        self._size = 0
        self._messages = 0
        self._parts: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)

    def fit(self, size: int) -> int:
        self._size = size
        return 1 << 30

    def send(self, now: float, items: list[Any]) -> list[Any]:
        down: list[Any] = []
        for item in items:
            if isinstance(item, Outbound) and len(item.bodies[0]) > self._size:
                down += self._cut(item)
            else:
                down.append(item)
        return down

    def _cut(self, item: Outbound) -> list[Outbound]:
        (body,) = item.bodies
        pieces = [body[start : start + self._size] for start in range(0, len(body), self._size)]
        self._messages += 1
        self.statistics["pieces"] += len(pieces)
        return [
            Outbound(item.peers, [piece], {"piece": [self._messages, len(pieces), index, "of"]}, item.reliable)
            for index, piece in reversed([*enumerate(pieces)])
        ]

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        up: list[Any] = []
        for item in items:
            if not isinstance(item, Inbound) or "piece" not in item.header:
                up.append(item)
                continue
            message, count, index, _ = item.header["piece"]
            parts = self._parts[item.peer, message]
            parts[index] = item.bodies[0]
            if len(parts) == count:
                body = b"".join(parts[number] for number in range(count))
                up.append(Inbound(item.peer, item.incarnation, item.address, {}, [body]))
        return up, []


def test_another_fragmentation() -> None:
    sender, _ = exchange(fragmentation=Pieces)
    assert sender["fragmentation"]["pieces"] > 50


# ------------------------------------------------------------------------------------------------- topics


class Naive(Plain):
    """Each message on its own, as a line of JSON and the payload; patterns are topics, and no more."""

    def __init__(self, who: Identity) -> None:
        super().__init__(who)
        self._wanted: dict[str, list[Hashable]] = defaultdict(list)
        self._interests: dict[str, set[str]] = defaultdict(set)
        self._names: dict[str, str] = {}
        self._sequence = 0

    def subscribers(self, topic: str) -> Sequence[str]:
        return sorted(peer for peer, topics in self._interests.items() if topic in topics)

    def send(self, now: float, items: list[Any]) -> list[Any]:
        down: list[Any] = []
        for item in items:
            if isinstance(item, Subscribe):
                self._wanted[item.patterns[0]].append(item.token)
                down.append(Interest([item.patterns[0]], []))
            elif isinstance(item, Publication):
                down += self._publish(item)
            elif not isinstance(item, Unsubscribe):
                down.append(item)
        return down

    def _publish(self, item: Publication) -> list[Outbound]:
        peers = tuple(self.subscribers(item.topic))
        self._sequence += len(item.payloads)
        head = json.dumps([item.topic, item.json, self._sequence]).encode() + b"\n"
        return [Outbound(peers, [head + payload]) for payload in item.payloads] if peers else []

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        up: list[Any] = []
        for item in items:
            if isinstance(item, Inbound):
                up += [self._delivery(item, body) for body in item.bodies]
                continue
            up.append(item)
            if isinstance(item, PeerAdded):
                self._names[item.peer] = item.name
            elif isinstance(item, PeerInterest):
                self._interests[item.peer] = self._interests[item.peer].difference(item.removed).union(item.added)
        return up, []

    def _delivery(self, item: Inbound, body: bytes) -> Delivery:
        head, _, payload = body.partition(b"\n")
        topic, is_json, sequence = json.loads(head)
        self.statistics["delivered"] += 1
        return Delivery(
            topic, [json.loads(payload) if is_json else payload], None, self._names[item.peer], item.peer,
            item.incarnation, sequence, 0.0, False, self._wanted[topic],
        )  # fmt: skip


def test_another_topics_layer() -> None:
    _, receiver = exchange(topics=Naive)
    assert receiver["topics"]["delivered"] == len(PAYLOADS)


# -------------------------------------------------------------------------------------------------- model


class Counted(Plain):
    """Counts what passes."""

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        self.statistics["up"] += sum(len(item.payloads) for item in items if isinstance(item, Delivery))
        return items, []

    def send(self, now: float, items: list[Any]) -> list[Any]:
        self.statistics["down"] += sum(len(item.payloads) for item in items if isinstance(item, Publication))
        return items


def test_another_model() -> None:
    sender, receiver = exchange(model=Counted)
    assert sender["model"]["down"] == receiver["model"]["up"] == len(PAYLOADS)


def test_all_of_them_together() -> None:
    exchange(
        network=Hub().plug_in, serialization=Base64, discovery=Hello, transport=FireAndForget, fragmentation=Pieces,
        model=Counted,
    )  # fmt: skip
