"""A pytest that has imported and collected the tests, and forks a child for each run: see `plugin.py`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

from tests.mutants.copies import Copy
from tests.mutants.operators import Mutant
from tests.mutants.plugin import EVENTS, REQUESTS, STOP
from tests.mutants.probes import CAPACITY, VARIABLE
from tests.mutants.running import (
    INTERVAL,
    MARK,
    MEMORY,
    PATIENCE,
    SLOWDOWN,
    STARTUP,
    Outcome,
    end,
    is_ending,
    isolation,
    memory_of,
    new_events,
    note,
)

COLLECTING = 900.0  # seconds to import all tests, also on a busy machine
NOTHING = "tests/mutants/exempt.py"  # no tests: pytest without any file would collect all there are
NEVER = ("tests/namespaces/", "tests/repository/", "tests/docs/")  # these leave things
STARTERS = ("SparkSession", "subprocess", "tests.spark.browser")  # what a test of spark mentions that starts a program


def may_fork(home: Path, name: str) -> bool:
    """Whether a test file may run in a child that is forked: it leaves nothing behind, and starts no Java."""
    if name.startswith("tests/spark/"):
        text = (home / name).read_text()
        return not any(starter in text for starter in STARTERS)
    return not name.startswith(NEVER)


class Forks:
    """One waiting pytest with some test files, in a copy of the tree. Use it as a context."""

    def __init__(self, copy: Copy, work: Path, files: list[str], hits: Path | None = None) -> None:
        self.files = [name for name in files if may_fork(copy.home, name)]
        work.mkdir(parents=True, exist_ok=True)
        self._name = uuid.uuid4().hex[:8]
        events = work / f"{self._name}.events"
        events.touch()
        reading, self._requests = os.pipe()
        environment = {**os.environ, EVENTS: str(events), "PYTHONPATH": str(copy.home), MARK: self._name}
        environment[REQUESTS] = str(reading)
        if hits is not None:
            hits.write_bytes(bytes(CAPACITY))
            environment[VARIABLE] = str(hits)
        options = [
            "-p",
            "tests.mutants.plugin",
            "-p",
            "no:cacheprovider",
            "--tb=line",
            "--continue-on-collection-errors",
        ]
        command = [
            *isolation(),
            sys.executable,
            "-m",
            "pytest",
            *options,
            f"--basetemp={work / self._name}",
            *(self.files or [NOTHING]),
        ]
        self._log = (work / f"{self._name}.log").open("w")
        self._process = subprocess.Popen(
            command, cwd=copy.home, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            start_new_session=True, pass_fds=[reading],
        )  # fmt: skip
        os.close(reading)
        self._events = events.open()
        self.imported: list[int] = []  # what was reached before any test ran
        self.tests: list[str] = []
        self._collect()

    def _collect(self) -> None:
        limit = time.monotonic() + COLLECTING
        while time.monotonic() < limit and self._process.poll() is None:
            for event in new_events(self._events):
                if event["event"] == "collected":
                    self.tests, self.imported = event["tests"], event["hits"]
                    return
            if is_ending():
                raise KeyboardInterrupt
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(INTERVAL)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *problem: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._requests)
        end(self._process, self._name)
        self._events.close()
        self._log.close()

    def run(
        self, tests: list[str], seconds: dict[str, float], bug: tuple[Mutant, str] | None = None,
        stop: bool = True, patience: float = PATIENCE,
    ) -> Outcome | None:  # fmt: skip
        """Run these tests in a child, with a bug planted in a source; None if that cannot be done."""
        planted = None
        if bug is not None:
            mutant, source = bug
            planted = {"path": mutant.path, "before": source, "after": mutant.apply(source), "line": mutant.line}
        if self._process.poll() is not None:
            return None
        self._ask(json.dumps({"tests": tests, "bug": planted, "stop": stop}))
        return self._watch(seconds, patience)

    def _ask(self, line: str) -> None:
        data = f"{line}\n".encode()
        while data:
            data = data[os.write(self._requests, data) :]

    def _watch(self, seconds: dict[str, float], patience: float) -> Outcome | None:
        outcome = Outcome(collected=True, exit=0)
        limit = time.monotonic() + STARTUP
        looks, is_planted, is_finished = 0, True, False
        while True:
            for event in new_events(self._events):
                if event["event"] == "done":
                    if outcome.ended == "finished" and not is_finished:
                        outcome.ended = "crash"  # the child ended in a test
                    return outcome if is_planted else None
                is_planted = is_planted and event["event"] != "not planted"
                is_finished = is_finished or event["event"] in ("finish", "not planted")
                note(outcome, event)
                expected = seconds.get(outcome.current or "", 0.0)
                limit = time.monotonic() + patience + SLOWDOWN * expected + (0 if outcome.current else STARTUP)
            looks += 1
            if outcome.ended == "finished" and self._is_exceeded(outcome, limit, looks):
                self._ask(STOP)
                limit = time.monotonic() + STARTUP
            elif self._process.poll() is not None or time.monotonic() > limit:
                return None
            if is_ending():
                raise KeyboardInterrupt
            time.sleep(INTERVAL / 5)

    def _is_exceeded(self, outcome: Outcome, limit: float, looks: int) -> bool:
        if time.monotonic() > limit:
            outcome.ended = "time"
        elif looks % 50 == 0 and memory_of(self._process.pid) > MEMORY:
            outcome.ended = "memory"
        return outcome.ended != "finished"
