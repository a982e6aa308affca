"""Interfaces that come, go and change under a running network, on hosts of a segment that the test makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from glue.contract import Train
from glue.network import MulticastNetwork
from tests.network.listening import heard, heard_with_source, opened, quiet
from tests.support.namespaces import Host, needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

GROUP = "239.192.137.1:37320"
GROUP_IPV6 = "[ff15::1]:37320"


class Station:
    """A host with a network running on it."""

    def __init__(self, host: Host, network: MulticastNetwork) -> None:
        self.host, self.network = host, network

    def maintain(self) -> None:
        with self.host.entered():
            self.network.maintain(0.0)

    def send(self, payload: bytes, to: Station | None = None) -> None:
        self.network.send([Train(to.network.unicast_address if to else None, payload, len(payload))])


@contextmanager
def stations(*interfaces: str | None, group: str = GROUP) -> Iterator[list[Station]]:
    """A host for each interface name, with a network on that interface."""
    with ExitStack() as cleanup:
        made = []
        for host, interface in zip(cleanup.enter_context(segment(len(interfaces))), interfaces, strict=True):
            with host.entered():
                made.append(Station(host, cleanup.enter_context(opened(interface, group))))
        yield made


def hear_each_other(first: Station, second: Station) -> bool:
    """Whether multicast goes both ways between the two, with each other's address as its source."""
    for speaker, listener in ((first, second), (second, first)):
        speaker.send(b"to all")
        expected = [(speaker.network.unicast_address, b"to all")]
        if heard_with_source(listener.network, 1) != expected or heard(speaker.network, 1) != [b"to all"]:
            return False
    return True


@pytest.mark.parametrize("interface", ["eth0", None])
@pytest.mark.parametrize("group", [GROUP, GROUP_IPV6], ids=["IPv4", "IPv6"])
def test_hosts_hear_each_other_by_multicast_and_by_unicast(interface: str | None, group: str) -> None:
    with stations(interface, interface, group=group) as (first, second):
        assert first.network.describe()["interface"] == "eth0"
        assert hear_each_other(first, second)
        first.send(b"to you", second)
        assert heard_with_source(second.network, 1) == [(first.network.unicast_address, b"to you")]


@pytest.mark.parametrize("group", [GROUP, GROUP_IPV6], ids=["IPv4", "IPv6"])
def test_trains_cross_a_bridge_whole(group: str) -> None:
    with stations("eth0", "eth0", group=group) as (first, second):
        data, size = bytes(range(250)) * 1000, first.network.datagram_size
        expected = [data[start : start + size] for start in range(0, len(data), size)]
        first.network.send([Train(None, data, size)])
        assert heard(second.network, len(expected)) == expected
        first.network.send([Train(second.network.unicast_address, data, size)])
        assert heard(second.network, len(expected)) == expected


def test_ipv6_with_nothing_but_link_local_addresses() -> None:
    with segment(2) as (first, second), ExitStack() as cleanup:
        networks = []
        for host in (first, second):
            host.ip(f"addr del {host.ipv6_address}/64 dev eth0")
            with host.entered():
                networks.append(cleanup.enter_context(opened("eth0", GROUP_IPV6)))
        networks[0].send([Train(None, b"to all", 6)])
        source, payload = heard_with_source(networks[1], 1)[0]
        assert payload == b"to all"
        assert source is not None
        networks[1].send([Train(source, b"answer", 6)])
        assert sorted(heard(networks[0], 2)) == [b"answer", b"to all"]


def test_what_comes_through_another_interface_is_not_heard() -> None:
    with stations("eth0", "eth0") as (first, second), second.host.entered(), opened("lo", GROUP) as on_loopback:
        first.send(b"on the segment")
        assert heard(second.network, 1) == [b"on the segment"]
        assert quiet(on_loopback)
        on_loopback.send([Train(None, b"on this machine", 15)])
        assert heard(on_loopback, 1) == [b"on this machine"]
        assert quiet(second.network)
        assert heard(first.network, 1) == [b"on the segment"]
        assert quiet(first.network)


def test_a_link_that_goes_down_and_up_is_healed() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.link_down()
        first.maintain()
        first.send(b"nobody hears this")
        first.send(b"nor this", second)
        assert first.network.statistics["trains sent"] == 0
        first.host.link_up()
        first.maintain()
        assert hear_each_other(first, second)


def test_a_link_that_went_down_and_up_unnoticed_is_no_trouble() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.link_down()
        first.host.link_up()
        first.maintain()
        assert hear_each_other(first, second)


def test_an_unplugged_cable_is_healed() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.unplug()
        first.maintain()
        first.host.plug()
        first.maintain()
        assert hear_each_other(first, second)


def test_a_new_address_is_used_without_restart() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.ip("addr del 10.77.0.1/24 dev eth0", "addr add 10.77.0.99/24 dev eth0")
        first.maintain()
        assert first.network.unicast_address[0] == "10.77.0.99"
        assert first.network.describe()["addresses"] == ["10.77.0.99"]
        assert hear_each_other(first, second)


def test_an_interface_without_an_address_waits_for_one() -> None:
    with segment(2) as (first, second), ExitStack() as cleanup:
        first.ip("addr del 10.77.0.1/24 dev eth0")
        with first.entered():
            early = Station(first, cleanup.enter_context(opened("eth0", GROUP)))
        with second.entered():
            other = Station(second, cleanup.enter_context(opened("eth0", GROUP)))
        assert early.network.unicast_address[0] == "0.0.0.0"
        early.send(b"from nowhere")
        assert early.network.statistics["not sent: no interface"] == 1
        first.ip("addr add 10.77.0.1/24 dev eth0")
        early.maintain()
        assert hear_each_other(early, other)


def test_an_interface_that_was_removed_and_made_anew_is_joined_again() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.remove_interface()
        first.maintain()
        assert first.network.describe()["present"] is False
        first.send(b"nobody hears this")
        assert first.network.statistics["not sent: no interface"] == 1
        first.host.ip("link add spare type veth peer name other")  # takes the index that was left
        first.host.add_interface()
        first.maintain()
        assert hear_each_other(first, second)


def test_an_interface_replaced_between_two_looks_is_joined_again() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.remove_interface()
        first.host.ip("link add spare type veth peer name other")
        first.host.add_interface()
        first.maintain()
        assert hear_each_other(first, second)


def test_an_interface_can_go_many_times() -> None:
    with stations("eth0", "eth0") as (first, second):
        for _ in range(25):  # more often than a socket may join groups (igmp_max_memberships, 20)
            first.host.remove_interface()
            first.maintain()
            first.host.add_interface()
            first.maintain()
        assert hear_each_other(first, second)


def test_without_a_name_loopback_is_left_once_there_is_a_card() -> None:
    with segment(2) as (first, second), ExitStack() as cleanup:
        first.remove_interface()
        with first.entered():
            lonely = Station(first, cleanup.enter_context(opened(None, GROUP)))
        with second.entered():
            other = Station(second, cleanup.enter_context(opened("eth0", GROUP)))
        assert lonely.network.describe()["interface"] == "lo"
        lonely.maintain()
        assert lonely.network.describe()["interface"] == "lo"
        first.add_interface()
        lonely.maintain()
        assert lonely.network.describe()["interface"] == "eth0"
        assert hear_each_other(lonely, other)


def test_without_a_name_another_interface_is_chosen_only_when_the_present_one_fails() -> None:
    with stations(None, None) as (first, second):
        first.host.ip(
            "link add en0 type veth peer name en0-other",
            "link set en0-other up", "link set en0 up", "addr add 10.88.0.1/24 dev en0",
            "route add default via 10.88.0.2 dev en0",
        )  # fmt: skip
        first.host.wait_until_up("en0")
        first.maintain()
        assert first.network.describe()["interface"] == "eth0"
        assert hear_each_other(first, second)
        first.host.link_down()
        first.maintain()
        assert first.network.describe()["interface"] == "en0"
        assert "carries the default route" in first.network.describe()["reason"]


def test_with_a_name_no_other_interface_is_chosen() -> None:
    with stations("eth0") as (only,):
        only.host.link_down()
        only.maintain()
        assert only.network.describe()["interface"] == "eth0"


def test_unreachable_destinations_are_counted_and_survived() -> None:
    with stations("eth0", "eth0") as (first, second):
        first.host.ip("route add unreachable 192.0.2.0/24")
        train = bytes(5000)
        first.network.send([Train(("192.0.2.1", 9), train, 1000), Train(("198.51.100.1", 9), train, 1000)])
        assert first.network.statistics["not sent: EHOSTUNREACH"] == 5
        assert first.network.statistics["not sent: ENETUNREACH"] == 5
        assert hear_each_other(first, second)


def test_a_port_where_nobody_listens_is_survived() -> None:
    with stations("eth0", "eth0") as (first, second):
        for _ in range(3):
            first.network.send([Train((second.host.address, 9), b"anybody", 7)])
        assert quiet(first.network)
        assert hear_each_other(first, second)


def test_a_smaller_mtu_makes_smaller_datagrams_and_a_larger_one_does_not() -> None:
    with stations("eth0") as (only,):
        assert only.network.datagram_size == 1472
        only.host.ip("link set eth0 mtu 1300")
        only.maintain()
        assert only.network.datagram_size == 1272
        only.send(bytes(1273))
        assert only.network.statistics["not sent: EMSGSIZE"] == 1  # and not cut into IP fragments
        only.host.ip("link set eth0 mtu 9000")
        only.maintain()
        assert only.network.datagram_size == 1472
