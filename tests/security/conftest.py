"""What tests of security share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.streams import Stream
from tests.support.lan import Lan


@pytest.fixture
def lan() -> Iterator[Lan]:
    """A private network on loopback."""
    made = Lan()
    yield made
    made.close()


@pytest.fixture
def stream() -> Stream:
    """A stream in which blocks are granted."""
    made = Stream()
    made.go_on_until_blocks()
    return made
