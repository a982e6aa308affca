"""Benchmark of arrays, groups and typed topics beside plain messages, on loopback, in turns.

    python -m benchmarks.features arrays     # 8 MB arrays beside 8 MB of raw bytes
    python -m benchmarks.features shared     # a group of four members beside a plain subscriber, and beside four
    python -m benchmarks.features typed      # values of a dataclass beside dicts

Each subscriber is a process of its own. The rate is that of messages which every addressed subscriber has acknowledged.
Arrays and typed values alternate with plain messages, every 8 or 2,000 messages, in the same two processes. A ratio
compares figures of one round.
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
    """A typed value to publish."""

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


def in_turns(
    topic: str, seconds: float, count: int, *publishers: Callable[[glue.Endpoint], Callable[[], Any]]
) -> list[float]:
    """Messages a second by each publisher, which publish `count` messages in turns to one subscriber."""
    taken, sent, is_warm = [0.0] * len(publishers), 0, False
    with subscribers(topic, 1, ""), glue.Endpoint() as endpoint:
        endpoint.wait_for_subscribers(topic, 1, timeout=20)
        made = [publisher(endpoint) for publisher in publishers]
        until = time.perf_counter() + seconds * len(publishers)
        while time.perf_counter() < until:
            for place, publish in enumerate(made):
                began = time.perf_counter()
                for _ in range(count):
                    publish()
                if not endpoint.flush(timeout=60):
                    raise SystemExit("the messages were not acknowledged")
                if is_warm:
                    taken[place] += time.perf_counter() - began
            sent += count * is_warm
            is_warm = True
    return [sent / each for each in taken]


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
    bytes_rate, array_rate = in_turns(
        "bench/a",
        seconds,
        8,
        lambda endpoint: lambda: endpoint.publish("bench/a", raw),
        lambda endpoint: lambda: endpoint.publish("bench/a", array),
    )
    return {"raw bytes": bytes_rate, "arrays": array_rate}


def shared(seconds: float, size: int = 256) -> dict[str, float]:
    """Members of one group, and plain subscribers."""
    return {
        "one plain subscriber": stream_rate(size, seconds, 1),
        "four members": stream_rate(size, seconds, 4, "workers"),
        "four plain subscribers": stream_rate(size, seconds, 4),
    }


def typed(seconds: float) -> dict[str, float]:
    """Values of a dataclass, and the same as dicts."""
    reading, plain = Reading(21.5, "kitchen"), {"celsius": 21.5, "place": "kitchen", "valid": True}

    def typed_publisher(endpoint: glue.Endpoint) -> Callable[[], Any]:
        topic = endpoint.topic("bench/t", Reading)
        return lambda: topic.publish(reading)

    dicts, values = in_turns(
        "bench/t", seconds, 2000, lambda endpoint: lambda: endpoint.publish("bench/t", plain), typed_publisher
    )
    return {"dicts": dicts, "typed values": values}


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
