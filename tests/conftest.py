"""Options and surroundings of the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.lan import Lan, glue_threads, open_sockets


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of one file run in one process, and those that share a Java in one; the longest begin first.

    For `pytest -n 2 --dist loadgroup`.
    """
    for item in items:
        is_java = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("java" if is_java else str(item.path)))
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()))


@pytest.fixture
def lan() -> Iterator[Lan]:
    """A private network on loopback, after which no thread, socket or pipe is left."""
    before = open_sockets()
    network = Lan()
    yield network
    network.close()
    assert glue_threads() == set()
    assert open_sockets() == before
