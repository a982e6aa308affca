"""Shared by the tests of what reads a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Where to send, and what hears it."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing,
    ):
        hearing.bind(("127.0.0.1", 0))
        sender.connect(hearing.getsockname())
        yield sender, hearing
