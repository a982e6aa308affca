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
