"""What a host of receivers makes of the beats of others: which it takes, and how many it remembers."""

from __future__ import annotations

from typing import Any

import pytest

from glue.contract import Delivery
from glue.endpoint.receiver_hosts import BEAT_TOPIC, HOSTS, KINDS, Beat
from glue.receivers.wire import encode
from glue.simulation import World

MALFORMED = "malformed receiver messages"


class Listener:
    """A host of receivers that hears beats, which its peer publishes as it likes."""

    def __init__(self) -> None:
        self.world = World(5)
        self.host, self.peer = self.world.endpoint("host"), self.world.endpoint("peer")
        self.host.receivers("sum", lambda context, message: None, self.host.model("plant", voters=1), partitions=2)
        self.world.run(1.0)
        self.runtime: Any = self.host._parts().runtime

    def beat(self, head: dict[str, Any] | bytes) -> tuple[dict[str, int] | None, int]:
        """Publish a beat; return the kinds that the host knows of the peer, and how many were malformed."""
        payload = head if isinstance(head, bytes) else encode(head)
        delivery = Delivery(BEAT_TOPIC, [payload], None, "peer", self.peer.id, 1, 1, 0.0, False, ())
        self.runtime.take_beat(delivery)
        known = self.runtime.beats.get(self.peer.id)
        return (None if known is None else known.kinds), self.runtime.statistics[MALFORMED]


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_a_beat_tells_the_kinds_of_a_host_until_it_has_none(listener: Listener) -> None:
    assert listener.beat({"kinds": {}}) == (None, 0), "who never hosted anything is nobody"
    assert listener.beat({"kinds": {"sum": 2}}) == ({"sum": 2}, 0)
    assert listener.beat({"kinds": {"sum": 2, "other": 5}}) == ({"sum": 2, "other": 5}, 0)
    assert listener.beat({"kinds": {}}) == ({}, 0)


@pytest.mark.parametrize("head", [{}, {"kinds": 5}, {"kinds": {"sum": "x"}}, {"kinds": {"sum": 1.5}}, b"no beat"])
def test_a_malformed_beat_is_counted(listener: Listener, head: Any) -> None:
    assert listener.beat(head) == (None, 1)


def test_a_host_has_so_many_kinds_at_most(listener: Listener) -> None:
    most = {f"k{number}": 1 for number in range(KINDS)}
    assert listener.beat({"kinds": {**most, "more": 1}}) == (None, 1)
    assert listener.beat({"kinds": most}) == (most, 1)
    assert listener.beat({"kinds": {**most, "more": 1}}) == (most, 2)


def test_so_many_hosts_are_known_at_most(listener: Listener) -> None:
    for number in range(HOSTS):
        listener.runtime.beats[f"{number:016x}"] = Beat(1, listener.runtime.now(), {"other": 1})
    assert listener.beat({"kinds": {"sum": 2}}) == (None, 1)
    del listener.runtime.beats[f"{0:016x}"]
    assert listener.beat({"kinds": {"sum": 2}}) == ({"sum": 2}, 1)
