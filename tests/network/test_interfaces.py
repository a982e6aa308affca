"""What is known of this machine's interfaces: asked of the system where it tells, guessed where it does not."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from glue.network import addresses, list_interfaces
from glue.network.interfaces import (
    Traits,
    assumed_traits,
    find_interface,
    has_hardware,
    has_virtual_name,
    kernel_traits,
)


def loopback_name() -> str:
    return next(interface.name for interface in list_interfaces() if interface.loopback)


def test_every_interface_of_the_machine_is_listed_once() -> None:
    assert [(i.number, i.name) for i in list_interfaces()] == sorted(socket.if_nameindex())


def test_loopback_is_known_with_its_address() -> None:
    loopback = find_interface(loopback_name())
    assert loopback is not None
    assert "127.0.0.1" in loopback.addresses(socket.AF_INET)
    assert loopback.up
    assert not loopback.virtual


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no netlink")
def test_the_kernel_tells_the_same_addresses_as_netifaces() -> None:
    for number, name in socket.if_nameindex():
        assert addresses.told_by_kernel(number) == addresses.told_by_netifaces(name)


def test_where_netlink_is_forbidden_netifaces_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> socket.socket:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(addresses, "told_by_kernel", forbidden)
        loopback = find_interface(loopback_name())
    assert loopback is not None
    assert "127.0.0.1" in loopback.addresses(socket.AF_INET)


def test_an_unknown_interface_is_not_found() -> None:
    assert find_interface("no-such-thing") is None


@pytest.mark.skipif(sys.platform != "linux", reason="compares the guess with what Linux tells")
def test_the_guess_about_loopback_agrees_with_the_kernel() -> None:
    told = kernel_traits("lo")
    assert told is not None
    assert told.replaced(mtu=1500) == assumed_traits("lo", has_address=True)


@pytest.mark.parametrize("name", ["lo", "lo0"])
def test_a_system_that_cannot_be_asked_has_its_loopback_known_by_name(name: str) -> None:
    assert assumed_traits(name, has_address=True).loopback


def test_a_system_that_cannot_be_asked_has_its_interfaces_judged_by_their_addresses() -> None:
    assert assumed_traits("en0", has_address=True) == Traits(True, True, False, 1500)
    assert not assumed_traits("en1", has_address=False).up


def test_other_systems_use_the_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    name = loopback_name()
    monkeypatch.setattr(sys, "platform", "plan9")
    assert kernel_traits(name) is None
    loopback = find_interface(name)
    assert loopback is not None
    assert (loopback.up, loopback.loopback, loopback.mtu) == (True, True, 1500)


@pytest.mark.parametrize(
    "name",
    ["docker0", "veth12ab", "br-0123456789ab", "virbr0", "tun0", "tap3", "wg0", "utun4", "awdl0", "bridge100", "ap1"],
)
def test_names_of_virtual_interfaces_are_known(name: str) -> None:
    assert has_virtual_name(name)


@pytest.mark.parametrize("name", ["eth0", "en0", "enp3s0", "eno1", "wlan0", "wlp2s0", "bond0", "br0", "usb0", "apcli0"])
def test_names_of_cards_are_not_taken_for_virtual(name: str) -> None:
    assert not has_virtual_name(name)


def test_hardware_is_seen_through_bonds_bridges_and_vlans(tmp_path: Path) -> None:
    for folder in (
        "eth0/device",
        "bond0/lower_eth0",
        "bond0.7/lower_bond0",
        "br0/lower_bond0.7",
        "br1/lower_veth0",
        "veth0",
    ):
        (tmp_path / folder).mkdir(parents=True)
    found = {name: has_hardware(name, tmp_path) for name in ("eth0", "bond0", "br0", "br1", "veth0", "absent")}
    assert found == {"eth0": True, "bond0": True, "br0": True, "br1": False, "veth0": False, "absent": None}
