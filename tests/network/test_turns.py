"""A turn of the network makes so many system calls at most, and leaves some for either socket."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.contract import Train
from glue.network.multicast import READS, REFUSALS_REMEMBERED, UNICAST_READS, MulticastNetwork


class Receiver:
    """A socket that gives all it is asked for, up to `most` calls."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.reads = 0

    def receive(self, limit: int, fresh: bool, waited: bool) -> Iterator[Train]:
        self.reads = min(limit, self.most)
        yield from [Train(None, b"x", 1)] * self.reads


@pytest.mark.parametrize(("waiting", "left"), [(0, READS), (5, READS - 5), (1000, READS - UNICAST_READS)])
def test_what_unicast_leaves_of_a_turn_is_for_multicast(waiting: int, left: int) -> None:
    network = SimpleNamespace(_unicast_receiver=Receiver(waiting), _multicast_receiver=Receiver(1000))
    trains = list(MulticastNetwork._receive_both(cast(Any, network), False, False))
    assert network._multicast_receiver.reads == left
    assert len(trains) <= READS


def test_addresses_that_refused_are_tried_again_some_seconds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.network.multicast.find_interface", lambda name, before: before)
    forgotten: list[float] = []
    now: float
    network = cast(Any, SimpleNamespace())
    network._choice = SimpleNamespace(interface=SimpleNamespace(name="lo"))
    network._interface = network._joined = object()
    network._changes, network._look_at = SimpleNamespace(take=lambda: False), inf
    network.is_settled = True
    network._automatic, network._forget_refusals_at = False, REFUSALS_REMEMBERED
    network._count_drops = lambda: None
    network._sender = SimpleNamespace(forget_refusals=lambda: forgotten.append(now))
    for now in (0.0, REFUSALS_REMEMBERED - 1, REFUSALS_REMEMBERED, REFUSALS_REMEMBERED + 1, 2 * REFUSALS_REMEMBERED):
        MulticastNetwork.maintain(network, now)
    assert forgotten == [REFUSALS_REMEMBERED, 2 * REFUSALS_REMEMBERED]
