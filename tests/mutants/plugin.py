"""The part of a run that lives inside pytest: chooses the tests, in which order, and tells what each did and reached.

With REQUESTS pytest collects and then waits: for each request it forks a child, which plants a bug and runs tests. So
a bug costs no imports, only the time of its tests.

Everything is said through files that the environment names, since output may be lost when a run is killed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import mmap
import os
import select
import signal
import time
from collections.abc import Generator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.mutants.planting import NotPlantedError, functions, plant
from tests.mutants.probes import CAPACITY, VARIABLE

EVENTS = "MUTANTS_EVENTS"  # where to write a line for each thing that happens
CHOSEN = "MUTANTS_CHOSEN"  # a file with the tests to run, in order; without it all that were collected
REQUESTS = "MUTANTS_REQUESTS"  # the number of a file, from which requests are read, one a line
LONGEST_CAUSE = 300  # letters of what pytest says about a failed test
STOP = "stop"  # instead of a request: end the child that runs


def pytest_configure(config: pytest.Config) -> None:
    events = os.environ.get(EVENTS)
    if events is not None:
        teller = _Teller(Path(events), config)
        config.pluginmanager.register(teller, "mutants-teller")
        if REQUESTS in os.environ:
            config.pluginmanager.register(_Forks(teller, int(os.environ[REQUESTS])), "mutants-forks")


class _Teller:
    def __init__(self, events: Path, config: pytest.Config) -> None:
        self._file = events.open("a", buffering=1)
        self._hits: mmap.mmap | None = None
        self._shared = bytearray(CAPACITY)  # what fixtures of more than one test and the collection reached
        self.failed = self._ran = False
        self._why = ""
        if VARIABLE in os.environ:
            with Path(os.environ[VARIABLE]).open("r+b") as file:
                self._hits = mmap.mmap(file.fileno(), CAPACITY)

    def tell(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = os.environ.get(CHOSEN)
        if chosen is not None:
            order = {name: i for i, name in enumerate(json.loads(Path(chosen).read_text()))}
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        reached = self._reached()
        for number in reached:
            self._shared[number] = 1
        self.tell(event="collected", tests=[item.nodeid for item in session.items], hits=reached)

    def _reached(self) -> list[int]:
        if self._hits is None:
            return []
        reached = [number for number, byte in enumerate(self._hits[:]) if byte]
        self._hits[:] = bytes(CAPACITY)
        return reached

    def forget_shared(self) -> None:
        """What was reached so far belongs to no test."""
        self._shared[:] = bytes(CAPACITY)

    def _keep_shared(self) -> None:
        for number in self._reached():
            self._shared[number] = 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._reached()
        self.failed = self._ran = False
        self._why = ""
        self.tell(event="start", test=item.nodeid)
        began = time.monotonic()
        result = yield
        outcome = "failed" if self.failed else "passed" if self._ran else "skipped"
        seconds = round(time.monotonic() - began, 4)
        self.tell(event="end", test=item.nodeid, outcome=outcome, seconds=seconds, hits=self._reached(), why=self._why)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed
        if report.failed:
            self._why = report.longreprtext[-LONGEST_CAUSE:]
        self._ran = self._ran or (report.when == "call" and not report.skipped)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if self._hits is None or fixturedef.scope == "function":
            return (yield)
        before = self._hits[:]
        self._hits[:] = bytes(CAPACITY)
        try:
            return (yield)
        finally:
            self._keep_shared()
            self._hits[:] = before

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        shared = [number for number, byte in enumerate(self._shared) if byte]
        self.tell(event="finish", exit=int(exitstatus), hits=shared)
        self._file.close()


class _Forks:
    """Runs what is asked for in children, one after the other."""

    def __init__(self, teller: _Teller, requests: int) -> None:
        self._teller = teller
        self._requests = requests
        self._read = b""

    def _next(self, timeout: float | None) -> str | None:
        """The next line of the requests; empty at their end, None if there is none in time."""
        while b"\n" not in self._read:
            if not select.select([self._requests], [], [], timeout)[0]:
                return None
            more = os.read(self._requests, 1 << 20)
            if not more:
                return ""
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        return line.decode()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._teller.forget_shared()
        gc.collect()
        known = functions()
        gc.freeze()
        while line := self._next(None):
            if line == STOP:
                continue
            child = os.fork()
            if child == 0:
                try:
                    os.setsid()
                    self._run(items, known, json.loads(line))
                finally:
                    os._exit(0)
            self._wait(child)
            self._teller.tell(event="done")
        return True

    def _wait(self, child: int) -> None:
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            line = self._next(0.02)
            if line in ("", STOP):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if os.getpid() == 1:  # in a namespace of its own: nothing of the child is left
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, 0)[0]:
                    pass

    def _run(self, items: dict[str, pytest.Item], known: list[FunctionType], request: dict[str, Any]) -> None:
        bug = request.get("bug")
        if bug is not None:
            try:
                plant(bug["path"], bug["before"], bug["after"], bug["line"], known)
            except NotPlantedError:
                self._teller.tell(event="not planted")
                return
        chosen = [items[name] for name in request["tests"] if name in items]
        for number, item in enumerate(chosen):
            after = chosen[number + 1] if number + 1 < len(chosen) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._teller.failed and request["stop"]:
                break
        self._teller.pytest_sessionfinish(0)
