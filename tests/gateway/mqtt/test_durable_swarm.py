"""Clients that follow the specification, and a door whose power is cut at any time: nothing lost, QoS 2 once.

Each client keeps its own side of the sessions as the specification asks. Syncs are late at random, connections break,
and snapshots are made. In the end everything settles, and each message of QoS 1 has come, each of QoS 2 once.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from glue.gateway.mqtt import session as broker_session
from glue.gateway.mqtt.persisting import Persisting
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device


class Client:
    """A client with a session that is kept, and its own side of it."""

    def __init__(self, name: str, qos: int) -> None:
        self.name = name
        self.qos = qos
        self.bench: Bench
        self.device: Device | None = None
        self.waiting: dict[int, bytes] = {}  # PUBLISH was sent, PUBACK or PUBREC is awaited
        self.releasing: dict[int, bytes] = {}  # PUBREL was sent, PUBCOMP is awaited
        self.held: dict[int, None] = {}  # QoS 2: received, and not yet released
        self.got: Counter[bytes] = Counter()
        self.published: set[bytes] = set()
        self._made = 0

    def connect(self, bench: Bench) -> None:
        """Connect, subscribe, and send again what is under way."""
        self.bench, self.device = bench, bench.link()
        self.device.send(mqtt.connect(self.name, clean=False))
        self.device.send(mqtt.subscribe(1, ("t/#", self.qos)))
        for number, payload in self.waiting.items():
            self.device.send(mqtt.publish("t/" + self.name, payload, self.qos, number, dup=True))
        for number in self.releasing:
            self.device.send(mqtt.acknowledge(6, number))

    def publish(self) -> None:
        """Publish a message."""
        number = next((n for n in range(1, 20) if n not in self.waiting and n not in self.releasing), None)
        if self.device is not None and number is not None:
            self._made += 1
            payload = f"{self.name} {self._made}".encode()
            self.waiting[number] = payload
            self.published.add(payload)
            self.device.send(mqtt.publish("t/" + self.name, payload, self.qos, number))

    def read(self) -> bool:
        """Take what the door sent, and answer; whether there was something."""
        if self.device is None:
            return False
        assert self.bench.store is not None
        self.bench.store.write(self.bench.now)
        sent = self.device.read()
        for one in sent:
            number = int.from_bytes(one.body[:2], "big")
            if one.kind == 3:
                self._take(mqtt.publication(one))
            elif one.kind == 4:
                self.waiting.pop(number, None)
            elif one.kind == 5:
                if number in self.waiting:
                    self.releasing[number] = self.waiting.pop(number)
                self.device.send(mqtt.acknowledge(6, number))
            elif one.kind == 6:
                self.held.pop(number, None)
                self.device.send(mqtt.acknowledge(7, number))
            elif one.kind == 7:
                self.releasing.pop(number, None)
        return bool(sent)

    def _take(self, message: mqtt.Publication) -> None:
        assert self.device is not None
        if message.qos == 1:
            self.got[message.payload] += 1
            self.device.send(mqtt.acknowledge(4, message.number))
        else:
            if message.number not in self.held:
                self.got[message.payload] += 1
            self.held[message.number] = None
            self.device.send(mqtt.acknowledge(5, message.number))


def swarm(seed: int, steps: int = 150) -> None:
    random = Random(seed)
    disk = SimulatedDisk(Random(seed))
    bench = Bench(directory=disk)
    assert bench.store is not None
    clients = [Client("a", 1), Client("b", 1), Client("c", 2), Client("d", 2)]
    for client in clients:
        client.connect(bench)
    bench.sync()
    for _ in range(steps):
        client = random.choice(clients)
        action = random.random()
        if action < 0.4:
            client.publish()
        elif action < 0.7:
            client.read()
        elif action < 0.85:
            bench.store.write(bench.now)
            bench.sync()
        elif action < 0.9 and client.device is not None:
            client.device.leave()
            client.device = None
        elif action < 0.95 and client.device is None:
            client.connect(bench)
        elif action < 0.97:
            bench.save()
        elif action > 0.985:
            disk.crash()
            bench = Bench(directory=disk, now=bench.now + 1)
            assert bench.store is not None
            for one in clients:
                one.device = None
    for client in clients:
        if client.device is None:
            client.connect(bench)
    bench.sync()
    for _ in range(200):
        if not [client for client in clients if client.read()]:
            bench.pass_time(0)
            bench.sync()
    check(clients)


def check(clients: list[Client]) -> None:
    """Each client has every message that was published with its own QoS or a higher one."""
    for client in clients:
        for other in clients:
            for payload in other.published:
                assert client.got[payload] > 0, (client.name, payload)
                if client.qos == other.qos == 2:
                    assert client.got[payload] == 1, (client.name, payload)


@pytest.mark.parametrize("seed", [*range(25), 403])
def test_nothing_is_lost_and_qos_2_comes_once_whatever_happens_to_the_door(seed: int) -> None:
    swarm(seed)


def promise_at_once(self: Persisting, client: broker_session.Client, data: bytes, is_stored: bool) -> None:
    client.out.append(data)


PLANTED = {
    "acknowledged before it is durable": (Persisting, "promise", promise_at_once),
    "packet ids are not stored": (Persisting, "note_sent", lambda *_: None),
    "acknowledgements are not stored": (Persisting, "note_event", lambda *_: False),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_swarm_finds_planted_bugs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, bug = PLANTED[name]
    monkeypatch.setattr(where, attribute, bug)
    with pytest.raises(AssertionError):
        swarms(40)


def swarms(count: int) -> None:
    for seed in range(count):
        swarm(seed)
