"""A join that fails is told and tried again until it succeeds."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from glue.contract import Train
from glue.network import sockets
from tests.network.listening import heard, opened, quiet
from tests.support.loopback import loopback_environment


@pytest.mark.parametrize("what", ["join", "send_through"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_join_that_fails_is_tried_again_at_each_maintenance(
    what: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(sockets, what)
    failed: list[str] = []

    def flaky(*arguments: Any) -> None:
        if len(failed) < times:
            failed.append(what)
            raise OSError(errno.ENOBUFS, "No buffer space available")
        original(*arguments)

    monkeypatch.setattr(sockets, what, flaky)
    environment = loopback_environment()
    with opened(environment["GLUE_INTERFACE"], environment["GLUE_MULTICAST_ADDRESS"]) as network:
        for number in range(times):
            assert len(failed) == number + 1
            assert network.statistics["not joined: ENOBUFS"] == number + 1
            assert network.statistics["memberships"] == 0
            network.send([Train(None, b"lost", 4)])
            assert quiet(network)
            network.maintain(0.0)
        assert network.statistics["memberships"] == 1
        network.maintain(0.0)
        assert network.statistics["memberships"] == 1, "it is done once"
        network.send([Train(None, b"heard", 5)])
        assert heard(network, 1) == [b"heard"]
