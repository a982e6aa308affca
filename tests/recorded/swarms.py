"""A recorded run of the MQTT cluster: what the log of its doors comes to for a few seeds of the swarm.

The swarm checks promises; the record holds what the promises leave open, such as how much is written.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

from glue.model.state import Set
from tests.gateway.mqtt.cluster_doors import Door, Log
from tests.gateway.mqtt.cluster_swarm import Swarm as DoorSwarm
from tests.support import mqtt


def mqtt_cluster() -> str:
    """Doors of a cluster: what their log comes to every hundred steps, and what each door counted."""
    lines = []
    for seed in (101, 102, 103):
        swarm = DoorSwarm(seed)
        swarm.run(0)
        for step in range(0, 400, 100):
            for _ in range(100):
                swarm.step()
            changes = swarm.log.changes
            kinds = Counter(change.key.split("/")[0] for entry in changes for change in entry)
            told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            written = [(change.key, change.document, change.index) for entry in changes for change in entry]
            text = f"{len(changes)} entries, {told}, {crc32(repr(written).encode()):08x}"
            lines.append(f"{seed}, step {step + 100}: {text}")
        swarm.heal()
        for door in swarm.doors:
            counts = ", ".join(f"{what} {count}" for what, count in sorted(door.broker.statistics.items()))
            lines.append(f"  {door.shared.name}: {counts}")
        for client in swarm.clients:
            had, waiting = client.got.total(), len(client.waiting)
            lines.append(f"  {client.name}: {client.made} published, {had} had, {waiting} wait")
    return "\n".join([*lines, *batches()]) + "\n"


def batches() -> list[str]:
    """Two doors, one with more than a batch can hold: how it goes into the log, and what a client of the other gets."""
    log, lines = Log(), list[str]()
    doors = [Door(log, number, number + 1, 1000.0) for number in range(2)]
    publisher, subscriber = doors[0].link(), doors[1].link()
    publisher.send(mqtt.connect("p", clean=False))
    subscriber.send(mqtt.connect("s", clean=False), mqtt.subscribe(1, ("t/#", 1)))
    lines += settle(log, doors)
    subscriber.read()
    for sizes in ((20_000,) * 12, (300_000, 5, 200_000), (10,) * 1_000, (60_000,) * 9):
        place = len(lines)
        for qos in (1, 2):
            packets = [mqtt.publish("t/1", bytes(size), qos, number) for number, size in enumerate(sizes, 1)]
            publisher.send(b"".join(packets))
            lines += settle(log, doors)
            publisher.send(b"".join(mqtt.acknowledge(6, number) for number in range(1, len(sizes) + 1)))
            lines += settle(log, doors)
        answers = Counter(sent.kind for sent in publisher.read())
        sent = subscriber.read()
        subscriber.send(b"".join(mqtt.acknowledge(4, mqtt.publication(one).number) for one in sent if one.kind == 3))
        lines += settle(log, doors)
        lines.insert(place, f"{len(sizes)} messages: {len(sent)} arrived, answers {sorted(answers.items())}")
    return lines


def settle(log: Log, doors: list[Door]) -> list[str]:
    """Let all that is proposed take effect; return what each batch held."""
    lines = []
    while any(tuple(door.propose() for door in doors)):  # each of them proposes
        for door in doors:
            if door.proposed is not None:
                held = Counter(
                    f"{type(one).__name__} {one.key.split('/')[0]}" for one in door.proposed if hasattr(one, "key")
                )
                values = [one.value for one in door.proposed if isinstance(one, Set)]
                is_done = log.commit(door.proposed)
                door.proposed = None
                told = ", ".join(f"{kind} {count}" for kind, count in sorted(held.items()))
                lines.append(f"  {door.shared.name}: {told}, {crc32(repr(values).encode()):08x} {is_done}")
        for door in doors:
            while door.follow(1):
                pass
    return lines
