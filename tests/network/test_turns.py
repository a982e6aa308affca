"""A turn of the network makes so many system calls at most, and leaves some for either socket."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.contract import Train
from glue.network.multicast import READS, UNICAST_READS, MulticastNetwork


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
