"""A recorded run of the MQTT cluster: what the log of its doors comes to for a few seeds of the swarm.

The swarm checks promises; the record holds what the promises leave open, such as how much is written.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

from tests.gateway.mqtt.cluster_swarm import Swarm as DoorSwarm


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
    return "\n".join(lines) + "\n"
