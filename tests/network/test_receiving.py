"""Reading a socket: how far it looks for more."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from glue.network.receiver import Receiver


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


def test_what_comes_along_with_something_fresh_is_left_for_the_next_call(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    for payload in (b"one", b"two", b"three"):
        sender.send(payload)
    assert [bytes(train.data) for train in receiver.receive(8, fresh=True)] == [b"one"]
    assert [bytes(train.data) for train in receiver.receive(8)] == [b"two", b"three"]
    assert [bytes(train.data) for train in receiver.receive(8, fresh=True)] == []
