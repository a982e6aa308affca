"""Three HTTP doors share their subscriptions; the one that delivers is killed with `kill -9` again and again.

    python -m benchmarks.http_takeover 20

A client publishes numbers at the doors that live, one after the other, and counts what was acknowledged. A subscriber
on loopback notes what arrives. Told at the end: how long after each kill the first message of another door arrived,
what was lost, and what came twice. Run it where multicast stays on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.http_door import HOST, Connection, DoorProcess, Subscriber, subscribe

NAMES = ("one", "two", "three")
PACE = 0.01
"""Seconds between two publications."""


class Load:
    """Publishes numbers at doors that live, and remembers which were acknowledged."""

    def __init__(self, doors: list[DoorProcess]) -> None:
        self._connections = {door.name: Connection(door.port) for door in doors}
        self.living = [*NAMES]
        self.acknowledged: list[int] = []
        self.number = 0
        self.is_ended = False

    async def run(self) -> None:
        """Publish until `is_ended`."""
        while not self.is_ended:
            self.number += 1
            name = self.living[self.number % len(self.living)]
            try:
                status, _ = await self._connections[name].call("POST", "/v1/topics/t/x?acks=disk", b"%d" % self.number)
            except OSError:
                continue
            if status in (200, 202):
                self.acknowledged.append(self.number)
            await asyncio.sleep(PACE)


async def owner(doors: list[DoorProcess], id: str) -> DoorProcess | None:
    """Return the door that delivers a subscription; None while there is none."""
    for door in doors:
        connection = Connection(door.port)
        try:
            status, body = await connection.call("GET", f"/v1/subscriptions/{id}")
        except OSError:
            continue
        finally:
            connection.close()
        if status == 200 and "delivered_by" not in json.loads(body):
            return door
    return None


async def run(doors: list[DoorProcess], kills: int) -> None:
    """Kill the delivering door again and again, and tell what became of the messages."""
    got: list[tuple[float, bytes, bytes]] = []
    server = await asyncio.get_running_loop().create_server(lambda: Subscriber(got), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    first = Connection(doors[0].port)
    await subscribe(first, "t/#", f"http://{HOST}:{port}/")
    (made,) = json.loads((await first.call("GET", "/v1/subscriptions"))[1])["subscriptions"]
    first.close()
    load = Load(doors)
    publishing = asyncio.create_task(load.run())
    gaps: list[float] = []
    starts: list[float] = []
    for _ in range(kills):
        await asyncio.sleep(2.0)
        while (killed := await owner(doors, made["id"])) is None:
            await asyncio.sleep(0.1)
        load.living.remove(killed.name)
        killed.end(signal.SIGKILL)
        at, last, before = time.monotonic(), load.number, len(got)
        while not any(int(body) > last for _, _, body in got[before:]) and time.monotonic() < at + 30:
            await asyncio.sleep(0.01)
        gaps.append(time.monotonic() - at)
        await asyncio.to_thread(killed.start)
        starts.append(time.monotonic() - at - gaps[-1])
        load.living.append(killed.name)
    load.is_ended = True
    await publishing
    ends = time.monotonic() + 30
    while time.monotonic() < ends and not {*load.acknowledged} <= {int(body) for _, _, body in got}:
        await asyncio.sleep(0.05)
    ids: dict[int, set[bytes]] = {}
    for _, id, body in got:
        ids.setdefault(int(body), set()).add(id)
    lost = sorted({*load.acknowledged} - ids.keys())
    print(f"{kills} kills of the delivering door: {len(load.acknowledged)} acknowledged, {len(lost)} lost {lost[:5]}, "
          f"{len(got) - len(ids)} came twice, {sum(len(found) > 1 for found in ids.values())} under another id; "
          f"another door went on after {median(gaps):.2f} s ({min(gaps):.2f} to {max(gaps):.2f}); the "
          f"killed one listened again {median(starts):.2f} s after its start (at most {max(starts):.2f})")  # fmt: skip
    server.close()


def main() -> None:
    """Start the doors, and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kills", nargs="?", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        doors = [DoorProcess(Path(path) / name, name, "--shared", "doors", "--voters", "3") for name in NAMES]
        try:
            for door in doors:  # none is ready before the voters have found each other
                door.launch()
            for door in doors:
                door.wait()
            asyncio.run(run(doors, arguments.kills))
        finally:
            for door in doors:
                door.end()


if __name__ == "__main__":
    os.environ.setdefault("GLUE_INTERFACE", "lo")
    main()
