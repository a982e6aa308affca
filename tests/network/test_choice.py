"""Which interface is chosen out of a table of them, and the reason that the operator reads."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from glue.errors import InterfaceError
from glue.network import Interface, choice
from glue.network.choice import (
    best,
    choose_interface,
    default_route_interfaces,
    ipv4_default_routes,
    ipv6_default_routes,
    named,
)

LOOPBACK = Interface("lo", 1, ("127.0.0.1",), ("::1",), mtu=65536, multicast=False, loopback=True)
ETHERNET = Interface("eth0", 2, ("192.0.2.2",), ("fd00::2", "fe80::2"))
WIRELESS = Interface("wlan0", 3, ("192.0.2.3",), ("fe80::3",))
DOCKER = Interface("docker0", 4, ("172.17.0.1",), virtual=True)
TUNNEL = Interface("wg0", 5, ("10.9.0.2",), multicast=False, virtual=True)
CONTAINER = Interface("eth0", 6, ("172.17.0.2",), virtual=True)  # a veth, as /sys tells
UNPLUGGED = Interface("eth1", 7, ("192.0.2.7",), up=False)
BARE = Interface("eth2", 8)


def chosen(*table: Interface, routes: tuple[str, ...] = (), family: int = socket.AF_INET) -> str:
    return best(table, family, routes).interface.name


def test_a_real_card_comes_before_what_software_made() -> None:
    assert chosen(LOOPBACK, DOCKER, ETHERNET) == "eth0"


def test_a_real_card_comes_before_a_tunnel_with_the_default_route() -> None:
    multicast_tunnel = Interface("wg0", 5, ("10.9.0.2",), virtual=True)
    assert chosen(LOOPBACK, multicast_tunnel, ETHERNET, routes=("wg0",)) == "eth0"


def test_of_two_cards_the_one_with_the_default_route_is_chosen() -> None:
    assert chosen(LOOPBACK, ETHERNET, WIRELESS, routes=("wlan0",)) == "wlan0"


def test_of_two_default_routes_the_better_one_counts() -> None:
    assert chosen(ETHERNET, WIRELESS, routes=("wlan0", "eth0")) == "wlan0"


def test_without_a_default_route_the_first_card_is_chosen() -> None:
    assert chosen(WIRELESS, ETHERNET) == "eth0"


def test_a_container_uses_its_eth0_and_not_the_docker_inside_it() -> None:
    assert chosen(LOOPBACK, DOCKER, CONTAINER) == "eth0"


def test_a_virtual_interface_is_better_than_loopback() -> None:
    choice = best([LOOPBACK, DOCKER], socket.AF_INET, ())
    assert choice.interface is DOCKER
    assert "nothing better than a virtual interface" in choice.reason


@pytest.mark.parametrize("useless", [UNPLUGGED, BARE, TUNNEL], ids=["down", "no address", "no multicast"])
def test_an_interface_that_cannot_be_used_is_not_chosen(useless: Interface) -> None:
    assert chosen(useless, LOOPBACK) == "lo"
    assert chosen(useless, DOCKER, LOOPBACK) == "docker0"


def test_the_address_must_be_of_the_family_of_the_group() -> None:
    only_ipv4 = Interface("eth3", 1, ("192.0.2.9",))
    assert chosen(only_ipv4, WIRELESS) == "eth3"
    assert chosen(only_ipv4, WIRELESS, family=socket.AF_INET6) == "wlan0"


def test_loopback_is_chosen_even_while_it_is_down() -> None:
    assert chosen(Interface("lo", 1, loopback=True, up=False), BARE) == "lo"


def test_of_two_loopbacks_the_one_that_works_is_the_last_resort() -> None:
    down, second = Interface("lo0", 1, loopback=True, up=False), Interface("lo1", 2, ("127.0.0.2",), loopback=True)
    assert chosen(down, second, Interface("lo2", 3, ("127.0.0.3",), loopback=True)) == "lo1"


def test_the_routes_and_addresses_are_those_of_the_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero = "0" * 32
    routes = {socket.AF_INET: tmp_path / "route", socket.AF_INET6: tmp_path / "ipv6_route"}
    monkeypatch.setattr(choice, "ROUTES", routes)
    assert default_route_interfaces(socket.AF_INET) == []
    line = "{}\t00000000\t010200C0\t0003\t0\t0\t{}\t00000000\t0\t0\t0\n"
    routes[socket.AF_INET].write_text(line.format("wlan0", 600) + line.format("eth0", 100) + line.format("wlan0", 50))
    routes[socket.AF_INET6].write_text(f"{zero} 00 {zero} 00 {zero} 00000400 1 0 3     wlan0\n")
    assert default_route_interfaces(socket.AF_INET) == ["wlan0", "eth0"]
    assert default_route_interfaces(socket.AF_INET6) == ["wlan0"]
    monkeypatch.setattr(choice, "list_interfaces", lambda: [LOOPBACK, ETHERNET, WIRELESS])
    routes[socket.AF_INET].write_text(line.format("eth0", 100))
    found = [choose_interface(None, family) for family in (socket.AF_INET, socket.AF_INET6)]
    assert [one.interface.name for one in found] == ["eth0", "wlan0"]
    assert choose_interface(None).interface.name == "eth0"
    assert choose_interface("wlan0").reason == "wlan0, as asked for"
    bare = "eth2, as asked for; at present it cannot be used: no IPv6 address"
    monkeypatch.setattr(choice, "list_interfaces", lambda: [BARE])
    assert choose_interface("eth2", socket.AF_INET6).reason == bare


def test_without_any_interface_the_error_names_those_that_exist() -> None:
    with pytest.raises(InterfaceError, match="eth1, eth2"):
        best([UNPLUGGED, BARE], socket.AF_INET, ())


def test_the_reason_tells_what_was_passed_over_and_why() -> None:
    reason = best([LOOPBACK, ETHERNET, WIRELESS, DOCKER, UNPLUGGED, BARE], socket.AF_INET, ("eth0",)).reason
    assert reason == (
        "eth0 (192.0.2.2), because it carries the default route; passed over: wlan0 (usable too), "
        "docker0 (virtual), eth1 (down), eth2 (no IPv4 address)"
    )


def test_the_reason_for_loopback_tells_what_is_wrong_with_the_others() -> None:
    assert best([LOOPBACK, UNPLUGGED], socket.AF_INET, ()).reason == (
        "lo, because no other interface can be used: only programs on this machine are heard; passed over: eth1 (down)"
    )


def test_the_reason_stays_a_sentence_among_hundreds_of_interfaces() -> None:
    crowd = [Interface(f"veth{number}", 100 + number) for number in range(300)]
    assert best([ETHERNET, *crowd], socket.AF_INET, ()).reason.endswith("veth5 (no IPv4 address), 294 more")


def test_an_interface_asked_for_by_name_is_taken() -> None:
    choice = named([LOOPBACK, ETHERNET, DOCKER], "docker0", socket.AF_INET)
    assert choice.interface is DOCKER
    assert choice.reason == "docker0, as asked for"


@pytest.mark.parametrize(("interface", "trouble"), [(UNPLUGGED, "down"), (BARE, "no IPv4 address")])
def test_an_interface_asked_for_by_name_may_have_trouble_at_first(interface: Interface, trouble: str) -> None:
    choice = named([LOOPBACK, interface], interface.name, socket.AF_INET)
    assert choice.interface is interface
    assert choice.reason.endswith(f"at present it cannot be used: {trouble}")


def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(InterfaceError, match=r"'en0'.*those that exist are lo, eth0$"):
        named([LOOPBACK, ETHERNET], "en0", socket.AF_INET)
    with pytest.raises(InterfaceError, match="did you mean 'eth0'"):
        named([LOOPBACK, ETHERNET], "etth0", socket.AF_INET)


def test_ipv4_default_routes_are_read_with_their_metrics() -> None:
    text = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000080\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
    assert list(ipv4_default_routes(text.splitlines())) == [(600, "wlan0"), (100, "eth0")]


def test_ipv6_default_routes_are_read_without_the_unreachable_one_of_loopback() -> None:
    zero = "0" * 32
    text = f"""fd000000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth0
{zero} 00 {zero} 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo
"""
    assert list(ipv6_default_routes(text.splitlines())) == [(1024, "eth0")]
