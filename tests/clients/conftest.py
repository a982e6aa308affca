"""The client in C, without a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.compiled import Harness


@pytest.fixture
def client() -> Iterator[Harness]:
    """The client "tiny", which has sent its first announcement."""
    harness = Harness()
    harness.do("subscribe #")
    harness.advance(100)
    yield harness
    harness.end()
