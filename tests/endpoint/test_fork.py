"""A process that forks: its endpoint goes on undisturbed, and is closed in the child."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import glue
from tests.endpoint.lan import PATIENCE, Ear, Lan, listen


def child_of(lan: Lan, endpoint: glue.Endpoint) -> int:
    """Fork, and let the child do with the endpoint what it should not; returns the child's exit code."""
    child = os.fork()
    if child:
        watch = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
        watch.start()
        _, status = os.waitpid(child, 0)
        watch.cancel()
        watch.join()
        return os.waitstatus_to_exitcode(status)
    try:
        endpoint.close()
        _ = endpoint.statistics
        with pytest.raises(glue.ClosedError, match="fork"):
            endpoint.publish("t", "of the child")
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_endpoint_is_closed_in_a_forked_child_which_cannot_speak_for_its_parent(lan: Lan) -> None:
    a, b = lan.pair()
    ear, gone = listen(b, "t", a), Ear()
    b.on_peer_removed = gone
    for number in range(20):
        a.publish("t", number)
        assert child_of(lan, a) == 0
    a.publish("t", 20)
    assert [message.payload for message in ear.wait(21)] == list(range(21))
    assert gone.heard == []
