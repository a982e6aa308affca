"""Links that lose a part of what they carry, and links that go down and come up again under a running endpoint."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.namespaces.endpoints import endpoint
from tests.namespaces.talkers import ANNOUNCE_INTERVAL, PATIENCE
from tests.support.cable import Cable
from tests.support.lan import Ear, listen
from tests.support.namespaces import Host, needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]


@contextmanager
def cable(first: Host, second: Host, **faults: Any) -> Iterator[Cable]:
    """A cable with faults between two hosts, as interface `cable0`."""
    with Cable(first.namespace, "cable0", second.namespace, "cable0", **faults) as laid:
        for host in (first, second):
            host.ip(f"address add 10.78.0.{host.number}/24 dev cable0", "link set cable0 up")
        yield laid


def test_ten_megabytes_arrive_intact_at_five_percent_loss() -> None:
    payload = random.Random(5).randbytes(10_000_000)
    with (
        segment(2) as (first, second),
        cable(first, second, loss=0.05) as laid,
        endpoint(first, "cable0") as a,
        endpoint(second, "cable0") as b,
    ):
        ear = listen(b, "t", a)
        a.publish("t", payload)
        a.publish("t", "after it")
        ear.wait(2)
        assert ear.payloads == [payload, "after it"]
        assert a.flush(PATIENCE)
    assert laid.counts["a"]["lost"] > 100


def test_a_short_outage_of_an_interface_loses_nothing() -> None:
    with segment(2) as (first, second), endpoint(first) as a, endpoint(second) as b:
        ear = listen(b, "t", a)
        removed = Ear()
        a.on_peer_removed = removed
        a.publish("t", 0)
        ear.wait(1)
        second.link_down()
        for number in range(1, 100):
            a.publish("t", number)
        assert not a.flush(0.1)
        second.link_up()
        ear.wait(100)
        assert ear.payloads == list(range(100))
        assert a.flush(PATIENCE)
        assert removed.heard == []


def test_after_a_long_outage_the_same_processes_find_each_other_again() -> None:
    settings: dict[str, Any] = {"announce_interval": ANNOUNCE_INTERVAL}
    with segment(2) as (first, second), endpoint(first, **settings) as a, endpoint(second, **settings) as b:
        there, back = listen(b, "there", a), listen(a, "back", b)
        removed, added = Ear(), Ear()
        a.on_peer_removed, a.on_peer_added = removed, added
        second.link_down()
        assert removed.wait(1)[0].reason == "expired"
        second.link_up()
        assert not added.wait(1)[0].restarted
        assert a.wait_for_subscribers("there", 1, PATIENCE)
        assert b.wait_for_subscribers("back", 1, PATIENCE)
        a.publish("there", 1)
        b.publish("back", 2)
        assert there.wait(1)[0].payload == 1
        assert back.wait(1)[0].payload == 2


def test_an_interface_that_was_taken_out_and_put_in_again_is_used_again() -> None:
    settings: dict[str, Any] = {"announce_interval": ANNOUNCE_INTERVAL}
    with segment(2) as (first, second), endpoint(first, **settings) as a, endpoint(second, **settings) as b:
        ear = listen(b, "t", a)
        removed = Ear()
        a.on_peer_removed = removed
        second.remove_interface()
        removed.wait(1)
        second.add_interface()
        assert a.wait_for_subscribers("t", 1, PATIENCE)
        a.publish("t", "again")
        assert ear.wait(1)[0].payload == "again"


def test_where_multicast_is_blocked_endpoints_that_know_one_address_hear_each_other() -> None:
    with segment(3) as hosts, ExitStack() as stack:
        for host in hosts:
            host.block_multicast()
        introducer = stack.enter_context(endpoint(hosts[0]))
        others = [stack.enter_context(endpoint(host, peers=[hosts[0].address])) for host in hosts[1:]]
        everyone = [introducer, *others]
        ears = [Ear() for _ in everyone]
        for one, ear in zip(everyone, ears, strict=True):
            one.subscribe("t", ear)
        for one in everyone:
            assert one.wait_for_subscribers("t", 2, PATIENCE)
        for one in everyone:
            one.publish("t", one.name)
        for ear in ears:
            ear.wait(3)
            assert sorted(ear.payloads) == sorted(one.name for one in everyone)
        introducer.close()
        others[0].publish("t", "without it")
        ears[2].wait(4)


def test_a_new_address_is_followed_by_the_same_process_in_the_middle_of_traffic() -> None:
    settings: dict[str, Any] = {"announce_interval": ANNOUNCE_INTERVAL}
    with segment(2) as (first, second), endpoint(first, **settings) as a, endpoint(second, **settings) as b:
        there, back = listen(b, "there", a), listen(a, "back", b)
        removed = Ear()
        a.on_peer_removed = removed
        second.ip(f"addr del {second.address}/24 dev eth0", "addr add 10.77.0.99/24 dev eth0")
        b.publish("back", "from the new address")
        assert back.wait(1)[0].payload == "from the new address"
        a.publish("there", "to the new address")
        assert there.wait(1)[0].payload == "to the new address"
        assert removed.heard == []


def test_an_endpoint_whose_cable_is_plugged_in_later_joins_then() -> None:
    with segment(2) as (first, second):
        second.unplug()
        with endpoint(first) as a, endpoint(second) as b:
            ear = Ear()
            b.subscribe("t", ear)
            assert not a.wait_for_peers(1, 0.3)
            second.plug()
            assert a.wait_for_subscribers("t", 1, PATIENCE)
            a.publish("t", "joined")
            assert ear.wait(1)[0].payload == "joined"


def test_twenty_endpoints_that_start_together_all_know_and_hear_each_other_and_lose_nobody() -> None:
    with segment(20) as hosts, ExitStack() as stack:
        everyone = [stack.enter_context(endpoint(host)) for host in hosts]
        ears, removed = [Ear() for _ in everyone], Ear()
        for one, ear in zip(everyone, ears, strict=True):
            one.on_peer_removed = removed
            one.subscribe("t", ear)
        for one in everyone:
            assert one.wait_for_subscribers("t", 19, PATIENCE)
        for one in everyone:
            one.publish("t", one.name)
        names = sorted(one.name for one in everyone)
        for ear in ears:
            ear.wait(20)
            assert sorted(ear.payloads) == names
        for second in range(3):  # one goes and one comes each second
            with endpoint(hosts[0], name=f"guest {second}") as guest:
                assert guest.wait_for_peers(20, PATIENCE)
        assert {peer.name[:5] for peer in removed.wait(1)} == {"guest"}
