"""Benchmark of a whole analysis from the shell: `python -m benchmarks.spark_analyze --runs 3`.

The simulator makes the captures of three hosts, each in seven files as from a recorder with rotation. They hold about
240,000 datagrams of streams, larger messages and a model. One host has 3 % loss and 5 ms delay. Each run is one process
of `python -m spark.analyze`, so the start of Java counts. The output has the seconds, the CPU seconds of all processes,
and Spark's numbers of jobs, stages and tasks.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from glue.capture.pcapng import Recording
from glue.model.questions import Write
from glue.model.state import Set
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from tests.spark.truth import Taps, ethernet

NS = 10**9
CLOCKS = {"a": Clock(0.0), "b": Clock(0.25, 40e-6), "c": Clock(-0.9, -20e-6)}
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2): orphans become children of this process
FILES = 7  # of each host
SMALL, LARGE, MODEL = 0.01, 0.2, 0.1  # seconds between two messages of each host
SMALL_BYTES, LARGE_BYTES = 200, 20_000
GOOD, BAD = Conditions(delay=0.0002, jitter=0.0001), Conditions(loss=0.03, delay=0.005, jitter=0.001)


def make(directory: Path, seconds: float) -> int:
    """Write captures of `seconds` of virtual time, and return their number of datagrams."""
    world = World(1)
    hosts = {name: world.endpoint(name, parity=0.1) for name in CLOCKS}
    taps = Taps(world, {name: one.host for name, one in hosts.items()}, CLOCKS)
    models = {name: one.model("plant", voters=3) for name, one in hosts.items()}
    for one in hosts.values():
        one.subscribe("line/#")
    world.run(2.0)
    world.network.set_conditions(GOOD)
    world.network.set_conditions(BAD, source=hosts["c"].host)
    world.network.set_conditions(BAD, destination=hosts["c"].host)

    def every(period: float, act: Callable[[], object]) -> None:
        act()
        if world.time < seconds:
            world.after(period, lambda: every(period, act))

    def write(name: str) -> None:
        models[name].ask(Write([Set(f"{name}/at", world.time)]), then=lambda _: None)

    for name, one in hosts.items():
        every(SMALL, partial(one.publish, f"line/{name}/small", bytes(SMALL_BYTES)))
        every(LARGE, partial(one.publish, f"line/{name}/large", bytes(LARGE_BYTES)))
        every(MODEL, partial(write, name))
    world.run(seconds + 2.0)
    return rotated(taps, directory)


def rotated(taps: Taps, directory: Path) -> int:
    """Write each point's capture as `FILES` files of equal duration, and return the number of datagrams."""
    directory.mkdir()
    count = 0
    for point, captured in taps.captured.items():
        frames = sorted(captured)
        begin, length = frames[0].time, (frames[-1].time - frames[0].time) // FILES + 1
        for number in range(FILES):
            recording = Recording(directory / f"{point}-{number}.pcapng", point)
            for frame in frames:
                if (frame.time - begin) // length == number:
                    data = ethernet(frame)
                    recording.write(frame.time, data, len(data))
            recording.close()
        count += len(frames)
    return count


def reap() -> None:
    """Wait for Java and the workers, which end after their parent, so that their CPU time is counted."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def run(captures: Path, scratch: Path) -> dict[str, float]:
    """Analyse once in a new process, and return the figures."""
    events = scratch / "events"
    events.mkdir(exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"}
    command = [sys.executable, "-m", "spark.analyze", str(captures), "--output", str(scratch / "report")]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (log,) = events.iterdir()
    kinds = Counter(json.loads(line)["Event"].removeprefix("SparkListener") for line in log.open())
    log.unlink()
    counts = {
        name: kinds[event] for name, event in (("jobs", "JobEnd"), ("stages", "StageCompleted"), ("tasks", "TaskEnd"))
    }
    return {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, **counts}


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_analyze")
    parser.add_argument("--seconds", type=float, default=43.0, help="of virtual time that are captured")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where the captures are, or are made, and stay")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="glue-spark-analyze-") as made:
        captures = arguments.directory or Path(made, "captures")
        if not captures.exists():
            print(f"{make(captures, arguments.seconds):,} datagrams", flush=True)
        told = []
        for _ in range(arguments.runs):
            told.append(run(captures, Path(made)))
            print("  ".join(f"{value:,.4g} {name}" for name, value in told[-1].items()), flush=True)
        for name in ("seconds", "cpu"):
            print(f"{name}: median {statistics.median(one[name] for one in told):.1f}")


if __name__ == "__main__":
    main()
