"""The part of a run that lives inside pytest: chooses the tests, in which order, and tells what each did and reached.

Everything is said through files that the environment names, since output may be lost when a run is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.probes import CAPACITY, VARIABLE

EVENTS = "MUTANTS_EVENTS"  # where to write a line for each thing that happens
CHOSEN = "MUTANTS_CHOSEN"  # a file with the tests to run, in order; without it all that were collected


def pytest_configure(config: pytest.Config) -> None:
    events = os.environ.get(EVENTS)
    if events is not None:
        config.pluginmanager.register(_Teller(Path(events), config), "mutants-teller")


class _Teller:
    def __init__(self, events: Path, config: pytest.Config) -> None:
        self._file = events.open("a", buffering=1)
        self._hits: mmap.mmap | None = None
        self._shared = bytearray(CAPACITY)  # what fixtures of more than one test and the collection reached
        self._failed = self._ran = False
        if VARIABLE in os.environ:
            with Path(os.environ[VARIABLE]).open("r+b") as file:
                self._hits = mmap.mmap(file.fileno(), CAPACITY)

    def _tell(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = os.environ.get(CHOSEN)
        if chosen is not None:
            order = {name: i for i, name in enumerate(json.loads(Path(chosen).read_text()))}
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell(event="collected", count=len(session.items))
        self._keep_shared()

    def _reached(self) -> list[int]:
        if self._hits is None:
            return []
        reached = [number for number, byte in enumerate(self._hits[:]) if byte]
        self._hits[:] = bytes(CAPACITY)
        return reached

    def _keep_shared(self) -> None:
        for number in self._reached():
            self._shared[number] = 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._reached()
        self._failed = self._ran = False
        self._tell(event="start", test=item.nodeid)
        began = time.monotonic()
        result = yield
        outcome = "failed" if self._failed else "passed" if self._ran else "skipped"
        seconds = round(time.monotonic() - began, 4)
        self._tell(event="end", test=item.nodeid, outcome=outcome, seconds=seconds, hits=self._reached())
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed
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
        self._tell(event="finish", exit=int(exitstatus), hits=shared)
        self._file.close()
