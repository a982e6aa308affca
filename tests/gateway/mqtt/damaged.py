"""Feeds damaged packets to a broker, by hand: `python -m tests.gateway.mqtt.damaged 1000000`.

Each client connects, then sends some packets of which bytes were changed, cut or added. The broker may close the
connection with a reason; it must raise nothing, and its memory must stay flat.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from tests.support import mqtt
from tests.support.mqtt import Bench

REPORT = 100_000


def packets(random: Random, version: int) -> list[bytes]:
    """Some well-formed packets of a client."""
    topic = random.choice(["a", "a/b", "a/b/c", "d"])
    payload = random.randbytes(random.choice([0, 1, 10, 200]))
    qos = random.randrange(3)
    made = [
        mqtt.publish(topic, payload, qos, random.randint(1, 50), random.random() < 0.1, version=version),
        mqtt.subscribe(random.randint(1, 50), (random.choice(["a/#", "+/b", "#", topic]), qos), version=version),
        mqtt.unsubscribe(random.randint(1, 50), topic, version=version),
        mqtt.acknowledge(random.randint(4, 7), random.randint(1, 50)),
        mqtt.PING,
        mqtt.connect("other", version, will=("w", payload, qos, False)),
    ]
    return random.sample(made, random.randint(1, 4))


def damaged(random: Random, data: bytes) -> bytes:
    """Bytes with some changed, cut or added."""
    found = bytearray(data)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(found) + 1)
        kind = random.randrange(3)
        if kind == 0 and place < len(found):
            found[place] = random.randrange(256)
        elif kind == 1:
            del found[place : place + random.randint(1, 4)]
        else:
            found[place:place] = random.randbytes(random.randint(1, 4))
    return bytes(found)


def resident() -> int:
    """Memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def run(count: int, seed: int = 1) -> Counter[str]:
    """Feed so many damaged packets; returns how many connections were closed, by cause."""
    random, bench = Random(seed), Bench()
    causes: Counter[str] = Counter()
    fed = 0
    while fed < count:
        version = random.choice([3, 4, 5])
        device = bench.connect(f"c{random.randrange(50)}", version)
        for one in packets(random, version):
            fed += 1
            if not device.is_closed():
                device.send(damaged(random, one))
            if fed % REPORT == 0:
                print(f"{fed} packets, {resident() / 1e6:.1f} MB", flush=True)
        causes["closed" if device.is_closed() else "open"] += 1
        device.client.out.clear()
        device.leave()
        bench.broker.changed.clear()
        bench.broker.published.clear()
        bench.broker.fresh.clear()
        bench.pass_time(0.01)
    return causes + Counter({name: value for name, value in bench.broker.statistics.items() if "errors" in name})


if __name__ == "__main__":
    print(run(int(sys.argv[1])))
