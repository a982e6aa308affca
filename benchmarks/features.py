"""Benchmark of arrays, groups and typed topics beside plain messages, on loopback, in turns.

    python -m benchmarks.features arrays     # 8 MB arrays beside 8 MB of raw bytes
    python -m benchmarks.features shared     # a group of four members beside a plain subscriber, and beside four
    python -m benchmarks.features typed      # values of a dataclass beside dicts

Each subscriber is a process of its own. The publisher publishes for `--seconds` and then flushes; the rate is that of
messages which every addressed subscriber has handled. A ratio compares neighbours of one round.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import glue
from benchmarks.results import wait_until_idle

ARRAY = 8_000_000
"""Bytes of an array."""
SUBSCRIBER = """
import sys, glue
count = 0
def handle(message):
    global count
    count += 1
with glue.Endpoint() as endpoint:
    endpoint.subscribe(sys.argv[1], handle, group=sys.argv[2] or None)
    sys.stdin.read()
print(count)
"""


@dataclass
class Reading:
    """What is published as a typed value."""

    celsius: float
    place: str
    valid: bool = True


@contextmanager
def subscribers(topic: str, count: int, group: str) -> Iterator[None]:
    """Processes that subscribe."""
    command = [sys.executable, "-c", SUBSCRIBER, topic, group]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.communicate()


def rate(publish: Callable[[glue.Endpoint], Any], topic: str, seconds: float, receivers: int, group: str = "") -> float:
    """Messages a second that were published and handled."""
    with subscribers(topic, receivers, group), glue.Endpoint() as endpoint:
        endpoint.wait_for_subscribers(topic, receivers, timeout=20)
        publish(endpoint)
        endpoint.flush(timeout=20)
        count, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            publish(endpoint)
            count += 1
        if not endpoint.flush(timeout=60):
            raise SystemExit("the messages were not acknowledged")
        return count / (time.perf_counter() - began)


def stream_rate(size: int, seconds: float, receivers: int, group: str = "") -> float:
    """Messages a second of one stream."""
    topic, payload, count = "bench/s", bytes(size), 0
    with subscribers(topic, receivers, group), glue.Endpoint() as endpoint:
        endpoint.wait_for_subscribers(topic, receivers, timeout=20)

        def source(until: float) -> Iterator[bytes]:
            nonlocal count
            while time.perf_counter() < until:
                count += 64
                yield from [payload] * 64

        endpoint.publish_many(topic, source(time.perf_counter() + seconds / 4))  # windows and credit grow
        endpoint.flush(timeout=20)
        count, began = 0, time.perf_counter()
        endpoint.publish_many(topic, source(began + seconds))
        if not endpoint.flush(timeout=60):
            raise SystemExit("the messages were not acknowledged")
        return count / (time.perf_counter() - began)


def arrays(seconds: float) -> dict[str, float]:
    """Arrays and raw bytes of one size."""
    import numpy

    array = numpy.arange(ARRAY // 8, dtype=numpy.float64)
    raw = array.tobytes()
    return {
        "raw bytes": rate(lambda endpoint: endpoint.publish("bench/a", raw), "bench/a", seconds, 1),
        "arrays": rate(lambda endpoint: endpoint.publish("bench/a", array), "bench/a", seconds, 1),
    }


def shared(seconds: float, size: int = 256) -> dict[str, float]:
    """Members of one group, and plain subscribers."""
    return {
        "one plain subscriber": stream_rate(size, seconds, 1),
        "four members": stream_rate(size, seconds, 4, "workers"),
        "four plain subscribers": stream_rate(size, seconds, 4),
    }


def typed(seconds: float) -> dict[str, float]:
    """Values of a dataclass, and the same as dicts."""
    made: dict[int, glue.Topic[Reading]] = {}
    reading, plain = Reading(21.5, "kitchen"), {"celsius": 21.5, "place": "kitchen", "valid": True}

    def publish(endpoint: glue.Endpoint) -> None:
        topic = made.get(id(endpoint))
        if topic is None:
            topic = made[id(endpoint)] = endpoint.topic("bench/t", Reading)
        topic.publish(reading)

    return {
        "dicts": rate(lambda endpoint: endpoint.publish("bench/t", plain), "bench/t", seconds, 1),
        "typed values": rate(publish, "bench/t", seconds, 1),
    }


CASES = {"arrays": arrays, "shared": shared, "typed": typed}


def main() -> None:
    """Run one case in turns, and print medians with the lowest and highest ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--seconds", type=float, default=1.0, help="of publishing (default 1)")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.runs):
        wait_until_idle(2.0)
        rounds.append(CASES[arguments.case](arguments.seconds))
    first, *others = rounds[0]
    print(f"{first}: {median(one[first] for one in rounds):,.1f} messages/s")
    for name in others:
        ratios = sorted(one[name] / one[first] for one in rounds)
        figure = median(one[name] for one in rounds)
        print(f"{name}: {figure:,.1f} messages/s; ratio {median(ratios):.2f} ({ratios[0]:.2f} - {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
