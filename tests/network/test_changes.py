"""Notices of changed interfaces: without a change there is nothing to look at; without notices there always is."""

from __future__ import annotations

import socket
import sys

import pytest

from glue.network.changes import InterfaceChanges


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives notices")
def test_without_a_change_there_is_nothing_to_look_at() -> None:
    changes = InterfaceChanges()
    assert changes.take() is False
    changes.close()
    changes.close()


def test_a_system_without_notices_has_to_be_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError

    monkeypatch.setattr(socket, "socket", refuse)
    changes = InterfaceChanges()
    assert [changes.take(), changes.take()] == [True, True]
    changes.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives notices")
def test_notices_are_read_up_to_a_bound_and_lost_ones_are_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    class Notices:
        """A netlink socket with so many notices."""

        def __init__(self, *_: int) -> None:
            self.left: list[OSError | None] = []
            self.closed = False
            self.bound: tuple[int, int] | None = None

        def setblocking(self, blocking: bool) -> None:
            assert not blocking

        def bind(self, address: tuple[int, int]) -> None:
            self.bound = address

        def fileno(self) -> int:
            return 77

        def recv(self, _: int) -> bytes:
            if not self.left:
                raise BlockingIOError
            trouble = self.left.pop(0)
            if trouble is not None:
                raise trouble
            return b"notice"

        def close(self) -> None:
            self.closed = True

    made = Notices()
    monkeypatch.setattr(socket, "socket", lambda *_: made)
    changes = InterfaceChanges()
    assert (changes.filenos, made.bound) == ((77,), (0, 0x1 | 0x10 | 0x100))
    assert changes.take() is False
    made.left = [None]
    assert [changes.take(), changes.take()] == [True, False]
    made.left = [OSError("lost")]
    assert [changes.take(), changes.take()] == [True, False]
    made.left = [None] * 65
    assert [changes.take(), len(made.left), changes.take(), changes.take()] == [True, 1, True, False]
    changes.close()
    changes.close()
    assert made.closed
    assert changes.filenos == ()
    monkeypatch.setattr(Notices, "bind", lambda *_: (_ for _ in ()).throw(PermissionError))
    refused = Notices()
    monkeypatch.setattr(socket, "socket", lambda *_: refused)
    assert InterfaceChanges().filenos == ()
    assert refused.closed
