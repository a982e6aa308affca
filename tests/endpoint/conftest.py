"""Surroundings of the endpoints' tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment in which the tests run."""
    for name in ("NAME", "INTERFACE", "NETWORK_ID", "MULTICAST_ADDRESS", "LISTEN_PORT", "ANNOUNCE_INTERVAL"):
        monkeypatch.delenv(f"GLUE_{name}", raising=False)
