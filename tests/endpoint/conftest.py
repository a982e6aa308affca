"""A network for each test, and a look after each whether anything was left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lan import Lan, glue_threads, open_sockets


@pytest.fixture
def lan() -> Iterator[Lan]:
    """A private network on loopback, after which no thread, socket or pipe is left."""
    before = open_sockets()
    network = Lan()
    yield network
    network.close()
    assert glue_threads() == set()
    assert open_sockets() == before


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment in which the tests run."""
    for name in ("NAME", "INTERFACE", "NETWORK_ID", "MULTICAST_ADDRESS", "LISTEN_PORT", "ANNOUNCE_INTERVAL"):
        monkeypatch.delenv(f"GLUE_{name}", raising=False)
