"""What is known of this machine's interfaces: asked of the system where it tells, guessed where it does not."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import sys
from pathlib import Path

import pytest

from glue.network import addresses, interfaces, list_interfaces
from glue.network.interfaces import (
    STACK_DEPTH,
    Interface,
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


def test_an_interface_stays_as_it_was_while_no_file_descriptor_is_left() -> None:
    known = find_interface(loopback_name())
    assert known is not None
    taken = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 8, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        found = find_interface(known.name, known)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found == known


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


def test_an_interface_that_stands_on_itself_is_no_device_and_a_tower_has_its_height(tmp_path: Path) -> None:
    for number in range(STACK_DEPTH + 1):
        (tmp_path / f"if{number}" / f"lower_if{number + 1}").mkdir(parents=True)
    (tmp_path / f"if{STACK_DEPTH + 1}" / "device").mkdir(parents=True)
    (tmp_path / "loop" / "lower_loop").mkdir(parents=True)
    assert [has_hardware(name, tmp_path) for name in ("if0", "if1", "loop")] == [False, True, False]


def test_link_local_addresses_are_the_last_and_what_is_known_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    name = loopback_name()
    ipv6 = ["fe80::1", "fd00::2", "febf::3", "fec0::4", "fe90::5", "fea0::6"]
    asked = list[tuple[str, int]]()

    def addresses_of(name: str, number: int) -> dict[int, list[str]]:
        asked.append((name, number))
        return {socket.AF_INET: ["10.0.0.1"], socket.AF_INET6: ipv6}

    monkeypatch.setattr(interfaces, "addresses_of", addresses_of)
    monkeypatch.setattr(interfaces, "kernel_traits", lambda name: Traits(True, False, False, 9000))
    monkeypatch.setattr(interfaces, "has_hardware", lambda name: False)
    number = socket.if_nametoindex(name)
    found = find_interface(name)
    assert found == Interface(
        name, number, ("10.0.0.1",), ("fd00::2", "fec0::4", "fe80::1", "febf::3", "fe90::5", "fea0::6"), 9000,
        up=True, multicast=False, loopback=False, virtual=True,
    )  # fmt: skip
    assert asked == [(name, number)]
    for known, is_virtual in (
        (Interface(name, number), False), (Interface(name, number + 1), True), (Interface("other", number), True),
    ):  # fmt: skip
        again = find_interface(name, known)
        assert again is not None
        assert again.virtual is is_virtual
    monkeypatch.setattr(interfaces, "has_hardware", lambda name: None)
    unknown = find_interface(name)
    assert unknown is not None
    assert not unknown.virtual


def test_interfaces_that_vanish_meanwhile_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = loopback_name()
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(7, "gone0"), (1, known)])
    (found,) = list_interfaces()
    assert found.loopback


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers are those of Linux")
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (0x1043, Traits(True, True, False, 1500)), (0x1003, Traits(False, True, False, 1500)),
        (0x1042, Traits(False, True, False, 1500)), (0x43, Traits(True, False, False, 1500)),
        (0x49, Traits(True, False, True, 1500)), (0, Traits(False, False, False, 1500)),
    ],
)  # fmt: skip
def test_what_the_kernel_says_of_an_interface_is_understood(
    flags: int, told: Traits, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set[bytes]()

    def ioctl(_: object, request: int, question: bytes) -> bytes:
        names.add(question)
        answer = struct.pack("@H", flags) if request == 0x8913 else struct.pack("@i", 1500)
        return question[:16] + answer + bytes(32)

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert kernel_traits("a-name-of-fifteen-letters") == told
    assert names == {b"a-name-of-fifte".ljust(40, b"\0")}
