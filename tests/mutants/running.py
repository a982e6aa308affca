"""Runs tests in a copy within limits: each test has a time, the run a memory, and whatever it starts ends with it.

With root a run has namespaces of its own, for processes, network and mounts, so that two runs side by side do not hear
each other and nothing is left behind. Without root its processes are found by a mark in their environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from tests.mutants.copies import Copy
from tests.mutants.plugin import CHOSEN, EVENTS
from tests.mutants.probes import CAPACITY, VARIABLE

STARTUP = 90.0  # seconds to import and collect, also on a busy machine
PATIENCE = 20.0  # seconds a test has at least
SHARED = 150.0  # seconds a test of spark has at least: the first one starts Java, and analyses what others look at, too
SLOWDOWN = 6.0  # a test may take this many times what it took when its reach was recorded
MEMORY = 4 << 30  # bytes of a run, with all its children
INTERVAL = 0.1  # seconds between two looks at a run
MARK = "MUTANTS_RUN"
INSIDE = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec "$@"'
ISOLATED = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh"]


@dataclass
class Outcome:
    """What a run did: its tests in order, and how it ended (finished, or what was exceeded)."""

    tests: list[dict[str, Any]] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    current: str | None = None
    exit: int | None = None
    collected: bool = False
    ended: str = "finished"
    output: str = ""

    @property
    def failed(self) -> str | None:
        """The first test that failed or hung; "collection" if the tests could not even be collected."""
        for test in self.tests:
            if test["outcome"] == "failed":
                return str(test["test"])
        if self.ended != "finished" or self.exit not in (0, 5):
            return self.current or "collection"
        return None


@cache
def isolation() -> list[str]:
    """Return the command that gives a run namespaces of its own; empty where that is not permitted."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, check=False)
    return ISOLATED if tried.returncode == 0 else []


_ending = threading.Event()


def end_all() -> None:
    """Let every run end soon, as after Ctrl-C."""
    _ending.set()


def is_ending() -> bool:
    """Whether every run is to end."""
    return _ending.is_set()


def run(
    copy: Copy,
    work: Path,
    files: list[str],
    chosen: list[str] | None = None,
    seconds: dict[str, float] | None = None,
    stop: bool = True,
    hits: Path | None = None,
    patience: float = PATIENCE,
) -> Outcome:
    """Run the tests of these files (of `chosen` only those, in that order) and return what they did.

    `seconds` is what each test took before; `stop` ends the run at the first failure; `hits` is a file for probes;
    `patience` is the time that a test has beside what it took before.
    """
    work.mkdir(parents=True, exist_ok=True)
    if any(name.startswith("tests/spark/") for name in files):
        patience = max(patience, SHARED)
    run_name = uuid.uuid4().hex[:8]  # short: some tests make sockets, whose paths are limited
    events = work / f"{run_name}.events"
    events.touch()
    environment = {**os.environ, EVENTS: str(events), "PYTHONPATH": str(copy.home), MARK: run_name}
    if chosen is not None:
        (work / f"{run_name}.chosen").write_text(json.dumps(chosen))
        environment[CHOSEN] = str(work / f"{run_name}.chosen")
    if hits is not None:
        hits.write_bytes(bytes(CAPACITY))
        environment[VARIABLE] = str(hits)
    options = ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "--tb=line", f"--basetemp={work / run_name}"]
    command = [*isolation(), sys.executable, "-m", "pytest", *options, *(["-x"] if stop else []), *files]
    with (work / f"{run_name}.log").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=copy.home, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            outcome = _watch(process, events, seconds or {}, patience)
        finally:
            end(process, run_name)
        log.seek(0)
        outcome.output = log.read()[-4000:]
    for left in work.glob(f"{run_name}*"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
    return outcome


def _watch(process: subprocess.Popen[bytes], events: Path, seconds: dict[str, float], patience: float) -> Outcome:
    outcome = Outcome()
    limit = time.monotonic() + STARTUP
    looks = 0
    with events.open() as file:
        while True:
            ended = process.poll() is not None
            for event in new_events(file):
                note(outcome, event)
                expected = seconds.get(outcome.current or "", 0.0)
                limit = time.monotonic() + patience + SLOWDOWN * expected + (0 if outcome.current else STARTUP)
            if ended:
                outcome.exit = process.returncode
                return outcome
            looks += 1
            if time.monotonic() > limit:
                outcome.ended = "time"
            elif looks % 5 == 0 and memory_of(process.pid) > MEMORY:
                outcome.ended = "memory"
            elif _ending.is_set():
                raise KeyboardInterrupt
            if outcome.ended != "finished":
                return outcome
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(INTERVAL)


def new_events(file: Any) -> Iterator[dict[str, Any]]:
    while True:
        place = file.tell()
        line = file.readline()
        if not line.endswith("\n"):  # half a line: the rest comes later
            file.seek(place)
            return
        yield json.loads(line)


def note(outcome: Outcome, event: dict[str, Any]) -> None:
    match event["event"]:
        case "collected":
            outcome.collected = True
        case "start":
            outcome.current = event["test"]
        case "end":
            outcome.tests.append(event)
            outcome.current = None
        case "finish":
            outcome.shared = event["hits"]


def memory_of(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total


def end(process: subprocess.Popen[bytes], run_name: str) -> None:
    """End the run and whatever it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not isolation():
        for other in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if other.environ().get(MARK) == run_name:
                    other.kill()
