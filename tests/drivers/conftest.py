"""What the tests of drivers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lan import Lan


@pytest.fixture
def lan() -> Iterator[Lan]:
    """A private network on loopback; its endpoints end with the test."""
    network = Lan()
    yield network
    network.close()
