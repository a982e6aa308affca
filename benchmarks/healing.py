"""What other traffic loses while a keeper with a slow disk heals: round trips and paced messages at its endpoint.

    python -m benchmarks.healing --rounds 5 --megabytes 8

One keeper has a full log. Another one, in a process of its own, begins to keep the same topics on a disk that writes a
megabyte a second, and fetches them. The same endpoint answers requests. Round trips are counted before and while it
heals, in turns with rounds without healing, so that the ratio tells the cost.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import glue
from glue.drivers.directory import FileDirectory

RATE = 1_000_000
"""Bytes that the slow disk writes in a second."""
NETWORK: dict[str, Any] = {"interface": "lo", "network_id": 40_417}


def slow_down() -> None:
    """Have all files of this process on a disk that writes RATE bytes a second."""
    append = FileDirectory.append

    def slowly(self: FileDirectory, name: str, data: bytes) -> None:
        time.sleep(len(data) / RATE)
        append(self, name, data)

    FileDirectory.append = slowly  # type: ignore[method-assign]


def heal(folder: str) -> None:
    """Answer requests, and keep once told to: a process of its own."""
    slow_down()
    with glue.Endpoint("healing", **NETWORK) as endpoint:
        endpoint.respond("echo", lambda asking: asking.payload)
        print("ready", flush=True)
        for line in sys.stdin:
            if line.strip() == "keep":
                endpoint.keep("log/#", data_dir=folder)
            fetched = endpoint.statistics["endpoint"]["messages fetched by keepers"]
            print(fetched, time.process_time(), flush=True)


def fill(megabytes: int) -> None:
    """Keep a full log until told to end: a process of its own."""
    with glue.Endpoint("full", **NETWORK) as endpoint:
        endpoint.keep("log/#", size=64 << 20)
        for number in range(megabytes * 4000):
            endpoint.publish(f"log/{number % 10}", b"x" * 250)
        endpoint.flush(60)
        print("full", flush=True)
        sys.stdin.read()


def trips(endpoint: glue.Endpoint, seconds: float) -> tuple[float, float]:
    """Round trips a second, and the longest of a hundred in microseconds."""
    took, end = [], time.monotonic() + seconds
    while (began := time.perf_counter(), time.monotonic())[1] < end:
        endpoint.request("echo", b"x" * 100)
        took.append(time.perf_counter() - began)
    return len(took) / seconds, statistics.quantiles(took, n=100)[98] * 1e6


@contextmanager
def process(module: str, *arguments: str) -> Iterator[tuple[IO[str], IO[str]]]:
    """A process of a benchmark that is ready: what it is told, and what it says. The end of the former ends it."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdout.readline()
        yield running.stdin, running.stdout
        running.stdin.close()


@contextmanager
def healing_endpoint() -> Iterator[tuple[IO[str], IO[str]]]:
    """An endpoint that keeps once told to, with an empty log on a slow disk; see `process`."""
    with (
        tempfile.TemporaryDirectory(prefix="glue-healing-") as folder,
        process("benchmarks.healing", "--heal", folder) as pipes,
    ):
        yield pipes


def tell(pipes: tuple[IO[str], IO[str]], word: str) -> tuple[int, float]:
    """Tell an endpoint to keep or to stay; returns the messages that it has fetched, and its processor time."""
    asked, said = pipes
    print(word, file=asked, flush=True)
    fetched, used = said.readline().split()
    return int(fetched), float(used)


def one_round(asking: glue.Endpoint, seconds: float, heals: bool) -> tuple[float, float, int]:
    """The ratios of the second half to the first, of round trips and p99; and how many messages were fetched."""
    with healing_endpoint() as pipes:
        asking.wait_for_responders("echo", 1, 10)
        trips(asking, 1.0)
        before = trips(asking, seconds)
        tell(pipes, "keep" if heals else "stay")
        time.sleep(1.0)
        after = trips(asking, seconds)
        fetched, _ = tell(pipes, "stay")
    return after[0] / before[0], after[1] / before[1], fetched


def share_of_a_core(seconds: float, heals: bool) -> float:
    """The processor time of the endpoint without other traffic, as a share of one core."""
    with healing_endpoint() as pipes:
        tell(pipes, "keep" if heals else "stay")
        time.sleep(2.0)
        _, before = tell(pipes, "stay")
        time.sleep(seconds)
        _, after = tell(pipes, "stay")
    return (after - before) / seconds


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each half of a round")
    parser.add_argument("--megabytes", type=int, default=8, help="in the log of the other keeper")
    parser.add_argument("--heal", help=argparse.SUPPRESS)
    parser.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.heal:
        heal(arguments.heal)
        return
    if arguments.fill:
        fill(arguments.megabytes)
        return
    with (
        process("benchmarks.healing", "--fill", "--megabytes", str(arguments.megabytes)),
        glue.Endpoint("asking", **NETWORK) as asking,
    ):
        print(f"{'':8}{'round trips':>14}{'p99':>8}{'fetched':>10}")
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(arguments.rounds):
            for heals in (False, True):
                found = one_round(asking, arguments.seconds, heals)
                ratios[heals].append(found[0])
                print(f"{'heals' if heals else 'rests':8}{found[0]:14.3f}{found[1]:8.2f}{found[2]:10,}", flush=True)
        shares = [share_of_a_core(arguments.seconds, heals) for heals in (True, False)]
        print(f"processor time without other traffic: {shares[0]:.1%} of a core, {shares[1]:.1%} while it rests")
        healing, resting = (statistics.median(ratios[heals]) for heals in (True, False))
        print(f"median: {healing:.3f} while it heals, {resting:.3f} while it rests: {healing / resting - 1:+.1%}")


if __name__ == "__main__":
    main()
