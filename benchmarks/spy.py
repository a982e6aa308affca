"""The cost of `glue spy`: processor time of the spy and of a publisher, and a publisher's throughput beside the spy.

    python -m benchmarks.spy cpu          10,000 topics with 10,000 messages/s, without and with the spy
    python -m benchmarks.spy throughput   one publisher and one subscriber, as fast as they can, in turns with the spy

Everything runs on this machine, on loopback, each endpoint in a process of its own. Processor time is read twice: from
`/proc/PID/stat` (ticks) and from `/proc/PID/task/*/schedstat` (nanoseconds).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import glue
from glue.cmd.main import main
from tests.support.loopback import loopback_environment

TOPICS, RATE = 10_000, 10_000
WARM_UP, MEASURED = 6.0, 10.0
TURNS, TURN = 20, 2
PAYLOAD = bytes(64)


@cache
def environment() -> dict[str, str]:
    """The network of all processes, apart from any other."""
    return loopback_environment()


def seconds_of(pid: int) -> tuple[float, float]:
    """Processor time of a process so far, in both ways."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    exact = sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    return ticks, exact


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program until the block ends."""
    made = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    try:
        yield made
    finally:
        made.terminate()
        made.communicate()


def spy(*words: str) -> Any:
    """Run the spy with its lines going nowhere."""
    program = "import os,sys; os.dup2(os.open(os.devnull, os.O_WRONLY), 1); from glue.cmd.spy import main; main()"
    return process("-c", program, *(words or ("--plain",)))


def publish_paced() -> None:
    """Publish to all topics in turns."""
    names = [f"plant/{one // 100}/machine{one % 100 // 10}/sensor{one % 10}" for one in range(TOPICS)]
    with glue.Endpoint("publisher") as endpoint:
        start, count = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - start) * RATE)
            while count < due:
                endpoint.publish(names[count % TOPICS], {"celsius": 20 + count % 7, "number": count})
                count += 1
            time.sleep(0.002)


def publish_fast() -> None:
    """Publish as fast as the subscriber takes it; print the messages of each second."""
    with glue.Endpoint("publisher") as endpoint:
        endpoint.wait_for_subscribers("fast", 1, timeout=10)
        while True:
            count, end = 0, time.monotonic() + 1
            while time.monotonic() < end:
                for _ in range(100):
                    endpoint.publish("fast", PAYLOAD)
                count += 100
            print(count, flush=True)


def subscribe() -> None:
    """Receive without doing anything."""
    with glue.Endpoint("subscriber") as endpoint:
        endpoint.subscribe("fast", lambda payload: None, payload_only=True)
        time.sleep(1e6)


def spy_in_turns() -> None:
    """Run the spy for a turn at each line of input; it does not start as a program each time."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    os.write(1, b"ready\n")
    for _ in sys.stdin:
        main(["spy", "--plain", "--duration", str(TURN + 1.5)])
        os.write(1, b"done\n")


def cpu() -> None:
    """Measure the processor time, in per cent of a core."""
    for words in ((), ("--plain",), ("--json",)):
        with process("-m", "benchmarks.spy", "publish_paced") as publisher:
            time.sleep(2)
            if words:
                with spy(*words) as watcher:
                    report(" ".join(words), publisher.pid, watcher.pid)
            else:
                report("no spy", publisher.pid)


def report(what: str, *pids: int) -> None:
    """Measure processes for some seconds."""
    time.sleep(WARM_UP)
    before, start = [seconds_of(pid) for pid in pids], time.monotonic()
    time.sleep(MEASURED)
    elapsed = time.monotonic() - start
    for name, pid, first in zip(("publisher", "spy"), pids, before, strict=False):
        ticks, exact = (100 * (b - a) / elapsed for a, b in zip(first, seconds_of(pid), strict=True))
        print(f"{what:8} {name:9} {ticks:5.1f} % by stat, {exact:5.1f} % by schedstat", flush=True)


def throughput() -> None:
    """Compare the messages a second, and the publisher's processor time for each, with and without the spy in turns.

    The processor time tells what the publisher pays, also while other programs want the processor.
    """
    with (
        process("-m", "benchmarks.spy", "subscribe"),
        process("-m", "benchmarks.spy", "publish_fast") as publisher,
        process("-m", "benchmarks.spy", "spy_in_turns") as watcher,
    ):
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        watcher.stdout.readline()
        seen: dict[str, list[tuple[float, float]]] = {"alone": [], "with the spy": []}
        for turn in range(2 * TURNS):
            if turn % 2:
                watcher.stdin.write(b"go\n")
                watcher.stdin.flush()
            _read(publisher, 1)
            before = seconds_of(publisher.pid)[1]
            count = _read(publisher, TURN)
            spent = seconds_of(publisher.pid)[1] - before
            seen["with the spy" if turn % 2 else "alone"].append((count / TURN, 1e6 * spent / count))
            if turn % 2:
                watcher.stdout.readline()
    for unit, place in ("messages/s", 0), ("µs of the publisher a message", 1):
        alone, beside = ([one[place] for one in found] for found in seen.values())
        for what, numbers in ("alone", alone), ("with the spy", beside):
            print(f"{what:13} {statistics.median(numbers):,.2f} {unit} ({min(numbers):,.2f} to {max(numbers):,.2f})")
        ratios = statistics.quantiles([there / here for here, there in zip(alone, beside, strict=True)])
        print(f"ratio of neighbours: median {ratios[1]:.3f}, half of them {ratios[0]:.3f} to {ratios[2]:.3f}")


def _read(publisher: subprocess.Popen[bytes], seconds: int) -> int:
    """The messages of so many seconds."""
    assert publisher.stdout is not None
    return sum(int(publisher.stdout.readline()) for _ in range(seconds))


if __name__ == "__main__":
    {one.__name__: one for one in (cpu, throughput, publish_paced, publish_fast, subscribe, spy_in_turns)}[
        sys.argv[1]
    ]()
