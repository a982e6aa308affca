"""Leases are counted on the time in which an endpoint listens, whichever way a datagram of the peer comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glue.contract import Inbound, Sleep
from glue.discovery import Discovery
from glue.discovery.fastpath import DiscoveryFastPath
from tests.discovery.lan import Host, Lan, data, pair

PAUSE = 1000.0


def by_turn(lan: Lan, host: Host, item: Inbound) -> None:
    host.layer.receive(lan.now, [item])


def by_fast_path(lan: Lan, host: Host, item: Inbound) -> None:
    layer = host.layer
    assert isinstance(layer, Discovery)
    for _ in range(100):  # until no announcement is about to leave
        layer.commit()
        if layer.deadline > lan.now and DiscoveryFastPath(layer).receive_one(lan.now, item) is item:
            return
        lan.run(0.01)
    raise AssertionError("the fast path never took it")


def by_answers(lan: Lan, host: Host, item: Inbound) -> None:
    """As lone messages that go back and forth do."""
    assert isinstance(host.layer, Discovery)
    path = DiscoveryFastPath(host.layer)
    partner = path.find(item.peer)
    assert partner is not None
    path.commit(partner, lan.now)


@pytest.mark.parametrize("pause", [0.0, PAUSE])
@pytest.mark.parametrize("way", [by_turn, by_fast_path, by_answers])
def test_data_renews_the_lease_of_its_sender_by_five_intervals(
    way: Callable[[Lan, Host, Inbound], None], pause: float
) -> None:
    lan, one, other = pair()
    if pause:
        lan.suspend(one)
        lan.run(pause)
        one.queue = one.queue[-1:]
        lan.resume(one)
        lan.run(2)
    lan.crash(other)
    for _ in range(10):
        lan.run(1)
        way(lan, one, Inbound(other.id, other.incarnation, other.address, {"transport": [1]}, [b"x"]))
        one.due = one.layer.deadline
        assert one.layer.peers[other.id].last_received == pytest.approx(lan.now, abs=1e-3)
    lan.run(4.9)
    assert one.known == {other.id}
    lan.run(0.3)
    assert one.known == set()


def test_when_a_peer_was_last_heard_is_told_by_the_clock_of_the_caller() -> None:
    lan, one, other = pair()
    lan.suspend(one)
    lan.run(PAUSE)
    one.queue = []
    lan.resume(one)
    lan.order(other, data(one.id))
    lan.run(0.1)
    assert lan.now - 0.2 < one.layer.peers[other.id].last_received <= lan.now


def test_a_peer_is_lost_a_lease_after_its_last_word_however_often_this_endpoint_was_suspended() -> None:
    lan, one, other = pair()
    for _ in range(3):
        lan.suspend(one)
        lan.run(PAUSE)
        one.queue = one.queue[-1:]
        lan.resume(one)
        lan.run(1.2)
    assert one.known == {other.id}
    lan.crash(other)
    lan.run(3.8)
    assert one.known == {other.id}
    lan.run(1.4)
    assert one.known == set()


def test_an_endpoint_that_slept_is_not_told_to_have_been_suspended() -> None:
    lan, one, other = pair()
    lan.run(3.0)
    for cycle in (1, 3):
        lan.order(one, Sleep(cycle))
        lan.run(3.0)
        lan.order(one, Sleep(cycle + 1))
        lan.run(1.0)
    assert one.layer.statistics["suspended"] == 0
    assert one.layer.peers[other.id].last_received > lan.now - 2.0
