"""Benchmark of what-if analyses on several cores: `python -m benchmarks.spark_what_if --sets 100 --cores 1,2`.

The trace is synthetic: one publisher, two receivers, links with loss and delay. The trace is replayed once for each set
of settings. Each number of cores runs in a new process and a new Spark session. The printed seconds include neither the
session nor a small first what-if, which starts the workers.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time

from spark.replay.offered import Offer, Offered
from spark.replay.what_if import what_if_all
from spark.session import session

LOSS, DELAY, JITTER = 0.02, 0.002, 0.001
EVERY = 0.005  # seconds between two messages
SIZE = 400


def made_up(messages: int) -> Offered:
    """Return the trace. The same number of messages gives the same trace."""
    rng = random.Random(1)
    names = ["a", "b", "c"]
    found = Offered(names, interests=[(0.0, name, "+t") for name in names[1:]])
    found.messages = [Offer(1 + n * EVERY, "a", "t", SIZE, True, False, None) for n in range(messages)]
    times = [n * EVERY for n in range(messages + 400)]
    for link in [(one, other) for one in names for other in names if one != other]:
        outcomes = [None if rng.random() < LOSS else DELAY + rng.random() * JITTER for _ in times]
        found.links[link] = times, outcomes
    return found


def measure(sets: int, messages: int, cores: int) -> str:
    """Measure with this number of cores and return the line to print."""
    spark = session("what if", f"local[{cores}]", progress=False)
    try:
        settings = [{"round_trip.MAX_PROBE": f"{0.05 + n * 0.005:.3f}"} for n in range(sets)]
        what_if_all(spark, made_up(10), settings[: 2 * cores])
        began = time.perf_counter()
        rows = what_if_all(spark, made_up(messages), settings)
        seconds = time.perf_counter() - began
    finally:
        spark.stop()
    assert all(row["delivered"] == row["expected"] == 2 * messages for row in rows), rows[0]
    return f"{sets} sets of {messages:,} messages on {cores} cores: {seconds:.1f} s"


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_what_if")
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--cores", default="1,2", help="one number after the other")
    arguments = parser.parse_args()
    numbers = arguments.cores.split(",")
    if len(numbers) == 1:
        print(measure(arguments.sets, arguments.messages, int(numbers[0])), flush=True)
        return
    for cores in numbers:
        options = ["--sets", str(arguments.sets), "--messages", str(arguments.messages), "--cores", cores]
        subprocess.run([sys.executable, "-m", "benchmarks.spark_what_if", *options], check=True)


if __name__ == "__main__":
    main()
