"""Hostile input: random, truncated and mutated datagrams change nothing but counters.

What is mutated are real datagrams of every kind, made by two stacks in virtual time. Nothing tells a forged
announcement from a true one before datagrams are sealed, so strangers may appear for the length of a lease; what is
promised is that they harm nobody, cost a bounded amount, and are forgotten.
"""

from __future__ import annotations

import functools
import socket
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from random import Random

import orjson
import pytest

import glue
from glue.contract import PLAIN, Delivery, Event, Options, Publication, Subscribe, Train
from glue.settings import Settings
from glue.simulation import Conditions, Crossing, Host, World
from glue.stack import Identity
from tests.support.endpoints import Machine
from tests.support.lan import PATIENCE, Ear, private_network

COUNT = 10_000
SIZE = 1472
LEASES = 20.0
"""Virtual seconds after which whoever announced itself once is forgotten: four leases."""


def stack(name: str, seed: int = 0, network_id: int = 1) -> Machine:
    """The default stack of an endpoint with this name, of one letter."""
    who = Identity(name, f"{ord(name):016x}", 1 + seed, Settings(network_id=network_id), Random(f"{name}{seed}"))
    made = Machine.build(who, {})
    made.fit(SIZE)
    return made


def published(
    payload: bytes, topic: str = "t", json: bool = False, retain: bool = False, reliable: bool = True
) -> Publication:
    options = Options(retain=retain, reliable=reliable)
    return Publication(
        topic, [payload], 1_700_000_000.0, json=json, options=options if retain or not reliable else PLAIN
    )


@functools.cache
def captured(network_id: int = 1) -> tuple[bytes, ...]:
    """Real datagrams of all kinds: announcements, interests, data, fragments, acknowledgements, resends, goodbyes."""
    world = World(seed=1)
    found: dict[bytes, None] = {}

    def note(crossing: Crossing) -> None:
        found[crossing.data] = None

    world.network.observer = note
    world.network.set_conditions(Conditions(loss=0.05, reorder=0.1))
    hosts = [world.add(stack(name, network_id=network_id)) for name in "pqr"]
    for host in hosts:
        host.submit(*(Subscribe(number, f"topic {number}/#") for number in range(50)), Subscribe("t", "t"))
    hosts[0].submit(Subscribe("alone", "alone"))
    world.run(1.0)
    for number, host in enumerate(hosts * 5):
        host.submit(published(b"x" * number), published(b'{"a": [1, null]}', json=True, retain=True))
        host.submit(published(bytes(30_000)), published(bytes(1000), reliable=False), published(b"", "alone"))
        world.run(0.5)
    return tuple(found)


def random_bytes(rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(SIZE))


def random_object(rng: Random) -> bytes:
    """Starts like a datagram."""
    return b'{"glue":[1,1,"' + rng.randbytes(rng.randrange(200)) + b"\n" + rng.randbytes(rng.randrange(200))


def truncated_header(rng: Random) -> bytes:
    datagram = rng.choice(captured())
    return datagram[: rng.randrange(datagram.index(b"\n"))]


def truncated(rng: Random) -> bytes:
    datagram = rng.choice(captured())
    return datagram[: rng.randrange(len(datagram))]


def mutated(rng: Random) -> bytes:
    """Some bytes changed, removed or inserted, mostly in the header."""
    datagram = bytearray(rng.choice(captured()))
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(1 + min(len(datagram), rng.choice((20, 100, 200, SIZE))))
        end = at + rng.choice((0, 1, 1, 1, 3))
        datagram[at:end] = rng.choice((b"", b"9", b"-", b"0", b"[", b'"', b",", b"1e9", rng.randbytes(1)))
    return bytes(datagram)


def spliced(rng: Random) -> bytes:
    """The header of one with the body of another."""
    head, _, _ = rng.choice(captured()).partition(b"\n")
    _, _, body = rng.choice(captured()).partition(b"\n")
    return head + b"\n" + body


def of_another_network(rng: Random) -> bytes:
    return rng.choice(captured(network_id=2))


def replayed(rng: Random) -> bytes:
    return rng.choice(captured())


BROKEN = (random_bytes, random_object, truncated_header, of_another_network)
HOSTILE = (*BROKEN, truncated, mutated, mutated, mutated, spliced, replayed)


def hostile(rng: Random, count: int = COUNT) -> Iterator[bytes]:
    """So many datagrams that no endpoint sent as they are."""
    for _ in range(count):
        yield rng.choice(HOSTILE)(rng)[:SIZE]


def trains(rng: Random, datagrams: Iterator[bytes], address: tuple[str, int]) -> Iterator[Train]:
    """Datagrams as they may arrive: alone, or cut out of one buffer at sizes that fit none of them."""
    for datagram in datagrams:
        if rng.random() < 0.8:
            yield Train(address, datagram, max(1, len(datagram)))
        else:
            yield Train(address, datagram + next(datagrams, b"") + next(datagrams, b""), rng.randrange(1, SIZE))


def counters(of: Machine) -> Counter[str]:
    """All counters of a stack in one."""
    return sum(of.statistics.values(), Counter())


def test_the_datagrams_that_the_bad_ones_are_made_from_are_of_every_kind() -> None:
    headers = [orjson.loads(datagram.partition(b"\n")[0]) for datagram in captured()]
    words = {word for header in headers for entry in header.values() for word in entry if isinstance(word, str)}
    assert {"announce", "answer", "want", "operations", "data", "group", "open", "ack", "best"} <= words
    assert any("fragment" in header for header in headers)


def test_broken_datagrams_change_nothing_but_counters() -> None:
    victim, rng = stack("v"), Random(1)
    victim.turn(0.0, [], [Subscribe(1, "#")])
    before = (victim.deadline, victim.backlog)
    for number in range(COUNT):
        datagram = rng.choice(BROKEN)(rng)
        assert victim.turn(0.001, [Train(("10.0.0.9", 9), datagram, max(1, len(datagram)))], []) == ([], []), number
    assert (victim.deadline, victim.backlog) == before
    counted = counters(victim)
    assert counted["malformed header"] + counted["other network"] + counted["other version"] >= COUNT * 0.99


@pytest.mark.parametrize("seed", range(3))
def test_messages_pass_while_ten_thousand_hostile_datagrams_arrive(seed: int) -> None:
    world, rng = World(seed), Random(seed)
    heard: list[Event] = []
    a, b = world.add(stack("a")), world.add(stack("b"), on_events=heard.extend)
    b.submit(Subscribe(1, "t"), Subscribe(2, "large"))
    world.run(1.0)
    arriving = [*trains(rng, hostile(rng), ("10.0.0.9", 9))]
    for number in range(200):
        a.submit(published(b"%d" % number), *([published(bytes(30_000), "large")] if number % 20 == 0 else []))
        for train in arriving[number::200]:
            source = rng.choice([("10.0.0.9", 9), ("10.0.0.10", rng.randrange(1, 65_536))])
            for target in (a, b):
                target.receive(source, bytes(train.data), train.segment)
        world.run(0.05)
    world.run(LEASES)
    own = [event for event in heard if isinstance(event, Delivery) and event.publisher_id == f"{ord('a'):016x}"]
    payloads = [payload for event in own for payload in event.payloads]
    assert [payload for payload in payloads if len(payload) < 10] == [b"%d" % number for number in range(200)]
    assert [len(payload) for payload in payloads if len(payload) > 10] == [30_000] * 10
    for host in (a, b):
        assert_calm(host)


def assert_calm(host: Host) -> None:
    """Nothing is left of the strangers: nothing to send, nobody to know, and the usual timers."""
    machine = host.machine
    assert isinstance(machine, Machine)
    assert machine.backlog == 0
    assert machine.deadline > host.now
    assert len(machine.layers["discovery"].peers) == 1  # type: ignore[attr-defined]
    assert counters(machine)["malformed header"] > COUNT * 0.3


def test_memory_does_not_grow_with_what_hostile_datagrams_say() -> None:
    victim, rng = stack("v"), Random(5)
    arriving = [*trains(rng, hostile(rng, 3 * COUNT), ("10.0.0.9", 9))]
    now = 0.0
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(2):
            for train in arriving:
                now += 0.001
                victim.turn(now, [train], [])
            while now < 100:
                now = max(now, victim.deadline)
                victim.turn(now, [], [])
            sizes.append(tracemalloc.get_traced_memory()[0])
            now += 1
    finally:
        tracemalloc.stop()
    assert sizes[1] < sizes[0] + (1 << 20) < 16 << 20


def test_a_victim_is_not_made_to_flood_others() -> None:
    """The answers to forged announcements are no more than was sent, in number and in bytes."""
    victim, rng = stack("v"), Random(6)
    victim.turn(0.0, [], [Subscribe(number, f"topic {number}") for number in range(50)])
    received = sent = 0
    now = 0.0
    for datagram in hostile(rng):
        now += 0.001
        _, out = victim.turn(now, [Train(("10.0.0.9", 9), datagram, max(1, len(datagram)))], [])
        received += len(datagram)
        sent += sum(len(train.data) for train in out if train.address)
    assert sent <= received


def test_replaying_a_conversation_delivers_nothing_again() -> None:
    world = World(seed=3)
    wire: list[Crossing] = []
    heard: list[Event] = []
    a, b = world.add(stack("a")), world.add(stack("b"), on_events=heard.extend)
    b.submit(Subscribe(1, "t"))
    world.run(1.0)
    world.network.observer = wire.append
    for number in range(100):
        a.submit(published(b"%d" % number), published(bytes(5000), "t", reliable=number % 2 == 0))
        world.run(0.02)
    world.network.observer = None
    delivered = len(heard)
    assert delivered >= 100
    for crossing in wire:
        if crossing.receiver == b.address and crossing.source == a.address:
            for data in (crossing.data, crossing.data[: len(crossing.data) // 2]):
                b.receive(a.address, data, len(data))
    world.run(1.0)
    assert len(heard) == delivered
    a.submit(published(b"and on"))
    world.run(1.0)
    last = heard[-1]
    assert isinstance(last, Delivery)
    assert last.payloads == [b"and on"]


def test_live_endpoints_talk_on_under_hostile_datagrams() -> None:
    settings = private_network()
    group, port = settings["multicast_address"].split(":")
    ear, added = Ear(), Ear()
    with glue.Endpoint("a", **settings) as a, glue.Endpoint("b", **settings) as b:
        b.subscribe("t", ear)
        assert a.wait_for_subscribers("t", 1, PATIENCE)
        targets = [(group, int(port)), *(peer.address for peer in (*a.peers, *b.peers))]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            attacker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for number, datagram in enumerate(hostile(Random(7))):
                attacker.sendto(datagram, targets[number % 3])
                if number % 20 == 0:
                    a.publish("t", number // 20)
        ear.wait(COUNT // 20)
        assert ear.payloads == list(range(COUNT // 20))
        for endpoint in (a, b):
            assert endpoint.statistics["serialization"]["malformed header"] > 100
        late = glue.Endpoint("c", **settings)
        late.on_peer_added = added
        with late:
            added.wait_until(lambda peers: {"a", "b"} <= {peer.name for peer in peers})
