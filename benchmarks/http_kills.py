"""`kill -9` of an HTTP door under load, again and again: what clients were told, against what a subscriber got.

    python -m benchmarks.http_kills 200

Several clients publish numbers at once and note which the door acknowledged. The door is killed at a random moment, in
the middle of requests, deliveries and syncs, and starts again. A subscriber in a process of its own knows nothing of
the clients. It writes the id and the body of each delivery to a file before it answers. It answers some late, and some
not at all. At the end both sides are compared:

* Each number that was acknowledged must have been delivered. One whose client got no answer may have been.
* A number that came several times must have had the same id each time.
* The numbers of one client must have come in order, repetitions left out.

Run it where multicast stays on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median

from benchmarks.http_door import HOST, Connection, DoorProcess, Subscriber, subscribe

CLIENTS = 8
PACE = 0.01
"""Seconds from an answer to the next request of a client."""
ALIVE = 0.05, 1.0
"""Seconds between two kills, at least and at most."""
PATIENCE = 60.0
"""Seconds for what is left to be delivered, after the last start."""


class Ledger(Subscriber):
    """A subscriber that writes down what it gets; one answer in 200 comes late, one in 1,000 never."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__([])
        self._write = write

    def answer(self) -> None:
        _, id, body = self._got.pop()
        self._write(b"%b %b\n" % (id, body))
        chance = random.random()
        if chance < 0.001:
            self._transport.abort()
        elif chance < 0.006:
            asyncio.get_running_loop().call_later(0.02, super().answer)
        else:
            super().answer()


def keep_ledger(path: Path, told: Pipe) -> None:
    """Run a subscriber until the process is ended; tells its port."""

    async def serve() -> None:
        with path.open("ab", buffering=0) as file:
            server = await asyncio.get_running_loop().create_server(lambda: Ledger(file.write), HOST, 0)
            told.send(server.sockets[0].getsockname()[1])
            await server.serve_forever()

    asyncio.run(serve())


class Load:
    """Clients that publish `CLIENT-NUMBER`, a hundred a second at most, also while the door starts again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.acknowledged: set[str] = set()
        self.unanswered = 0
        self.is_ended = False

    async def run(self, client: int) -> None:
        """Publish until `is_ended`."""
        number = 0
        connection = Connection(self.port)
        while not self.is_ended:
            number += 1
            try:
                status, _ = await connection.call("POST", "/v1/topics/k/x?acks=disk", b'"%d-%d"' % (client, number))
            except OSError:
                self.unanswered += 1
            else:
                if status == 202:
                    self.acknowledged.add(f"{client}-{number}")
            await asyncio.sleep(PACE)
        connection.close()


def compare(acknowledged: set[str], ledger: list[bytes]) -> str:
    """Return what the two sides make of each other, in words."""
    ids: dict[str, set[bytes]] = {}
    last = dict.fromkeys(range(CLIENTS), 0)
    is_ordered = True
    for line in ledger:
        id, _, body = line.partition(b" ")
        name = json.loads(body)
        if name not in ids:
            client, number = map(int, name.split("-"))
            is_ordered &= number > last[client]
            last[client] = number
        ids.setdefault(name, set()).add(id)
    lost = sorted(acknowledged - ids.keys())
    return (
        f"{len(acknowledged):,} acknowledged, {len(lost)} lost {lost[:5]}; {len(ids.keys() - acknowledged):,} "
        f"delivered whose client had no answer; {len(ledger) - len(ids):,} deliveries came again, "
        f"{sum(len(found) > 1 for found in ids.values())} of them under another id; in order {is_ordered}"
    )


async def run(door: DoorProcess, port: int, ledger: Path, kills: int) -> None:
    """Kill, start again, and compare."""
    first = Connection(door.port)
    await subscribe(first, "k/#", f"http://{HOST}:{port}/")
    first.close()
    load = Load(door.port)
    clients = [asyncio.create_task(load.run(client)) for client in range(CLIENTS)]
    resumed = []
    for _ in range(kills):
        await asyncio.sleep(random.uniform(*ALIVE))
        door.end(signal.SIGKILL)
        began = time.monotonic()
        await asyncio.to_thread(door.start)
        resumed.append(time.monotonic() - began)
    load.is_ended = True
    await asyncio.gather(*clients)
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        lines = ledger.read_bytes().splitlines()
        if load.acknowledged <= {json.loads(line.partition(b" ")[2]) for line in lines}:
            break
        await asyncio.sleep(0.5)
    lines = ledger.read_bytes().splitlines()
    print(f"{kills} kills: {compare(load.acknowledged, lines)}; {load.unanswered:,} requests had no answer; listening "
          f"again after {median(resumed):.2f} s, at most {max(resumed):.2f} s")  # fmt: skip


def main() -> None:
    """Start the subscriber and the door, and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kills", nargs="?", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger"
        mine, its = multiprocessing.Pipe()
        subscriber = multiprocessing.Process(target=keep_ledger, args=(ledger, its))
        subscriber.start()
        door = DoorProcess(Path(folder) / "door")
        try:
            door.start()
            with suppress(KeyboardInterrupt):
                asyncio.run(run(door, mine.recv(), ledger, arguments.kills))
        finally:
            door.end()
            subscriber.terminate()
            subscriber.join()


if __name__ == "__main__":
    os.environ.setdefault("GLUE_INTERFACE", "lo")
    main()
