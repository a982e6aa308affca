"""Options and surroundings of the tests."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.lan import Lan, glue_threads, open_sockets

# How long one example takes says how busy the machine is.
settings.register_profile("glue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("glue")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the expected output of the scenarios")


@pytest.fixture(autouse=True, scope="session")
def heed_ctrl_c() -> Iterator[None]:
    """Heed SIGINT in the tests, and in the programs they start, also where the shell has it ignored.

    A job in the background of a script inherits an ignored SIGINT, and Python leaves it so.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


LONGEST = ("tests/spark/", "tests/model/test_swarm.py", "tests/promises/", "tests/model/")
"""Tests that take minutes together; they begin first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((place for place, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST))

    items.sort(key=rank)


class Rooms(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Tests of one file run in one process, and so do all tests of `tests/spark`, which share a Java."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tests/spark" if file.startswith("tests/spark/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Rooms:
    """For `pytest --numprocesses`: see `Rooms`."""
    config.option.loadscopereorder = False
    return Rooms(config, log)


@pytest.fixture(autouse=True)
def log_levels() -> None:
    """Each test begins with the usual levels of logs, whatever ran before it."""
    logging.getLogger().setLevel(logging.WARNING)
    for name in ("glue", "glue.network"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def lan() -> Iterator[Lan]:
    """A private network on loopback, after which no thread, socket or pipe is left."""
    before = open_sockets()
    network = Lan()
    yield network
    network.close()
    assert glue_threads() == set()
    assert open_sockets() <= before
