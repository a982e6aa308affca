"""The network interfaces of this machine: names, addresses and abilities.

Names and indexes come from the socket library, addresses from `addresses.py`. State and MTU come from an ioctl on
systems with known request numbers; elsewhere, name and addresses give a guess. The ioctl answers for the caller's
network namespace, but /sys answers for the namespace of its mount.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import struct
import sys
from os import PathLike, fspath

from glue.contract.frozen import Frozen
from glue.network.addresses import addresses_of

SYSFS = "/sys/class/net"

# Interfaces that software makes: containers, virtual machines, tunnels, and Apple's peer-to-peer links.
VIRTUAL_NAME = (  # compiled at first use
    r"(docker|podman|veth|br-|virbr|lxcbr|lxdbr|incusbr|cni|cali|flannel|kube|vmnet|vboxnet|vnet|vmenet|bridge|tun|tap|"
    r"utun|wg|ipsec|ppp|zt|tailscale|gre|sit|ip6tnl|gif|stf|dummy|ifb|nlmon|awdl|llw|anpi|ap\d)"
)

IFF_UP, IFF_LOOPBACK, IFF_RUNNING = 0x1, 0x8, 0x40  # the same numbers on Linux and the BSDs
NAME_SIZE = 16  # IFNAMSIZ: where in struct ifreq the value follows the name
REQUEST_SIZE = 40  # struct ifreq is 40 bytes on 64-bit Linux and 32 elsewhere; more does no harm
ASSUMED_MTU = 1500  # Ethernet
STACK_DEPTH = 4  # a VLAN on a bond in a bridge is three interfaces above the hardware


class Requests(Frozen):
    """The system-specific numbers of the ioctl requests and of the multicast flag."""

    flags: int  # SIOCGIFFLAGS
    mtu: int  # SIOCGIFMTU
    multicast: int  # IFF_MULTICAST


REQUESTS = {
    "linux": Requests(flags=0x8913, mtu=0x8921, multicast=0x1000),
    "darwin": Requests(flags=0xC0206911, mtu=0xC0206933, multicast=0x8000),
}


class Traits(Frozen):
    """The abilities of an interface. `up`: switched on, and with a carrier as far as known."""

    up: bool
    multicast: bool
    loopback: bool
    mtu: int


class Interface(Frozen):
    """The present state of a network interface, with addresses as text, link-local IPv6 last; `mtu` in bytes.

    `number`: the index that the system gave it.
    `virtual`: made by software without hardware, as far as the name and the system tell.
    """

    name: str
    number: int
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    mtu: int = ASSUMED_MTU
    up: bool = True
    multicast: bool = True
    loopback: bool = False
    virtual: bool = False

    def addresses(self, family: int) -> tuple[str, ...]:
        """Return the addresses of a socket family."""
        return self.ipv6 if family == socket.AF_INET6 else self.ipv4


def list_interfaces() -> list[Interface]:
    """All interfaces of this machine, in the order of their indexes."""
    found = (find_interface(name) for _, name in sorted(socket.if_nameindex()))
    return [interface for interface in found if interface is not None]


def find_interface(name: str, known: Interface | None = None) -> Interface | None:
    """Return the present state of the interface with this name; None without such an interface.

    `known` is an earlier state; `virtual` is then taken from there, because looking it up takes longest. It counts as
    the present one while the process has no file descriptor left to ask with.
    """
    if known is not None and not _can_ask():
        return known
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        return None
    ipv4, ipv6 = _addresses(name, index)
    traits = kernel_traits(name) or assumed_traits(name, has_address=bool(ipv4 or ipv6))
    if known is not None and (known.name, known.number) == (name, index):
        virtual = known.virtual
    else:
        virtual = not traits.loopback and (has_virtual_name(name) or has_hardware(name) is False)
    return Interface(name, index, ipv4, ipv6, traits.mtu, traits.up, traits.multicast, traits.loopback, virtual)


def _can_ask() -> bool:
    """Whether the system can be asked, which takes a socket: without one, no interface seems to exist."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True


def _addresses(name: str, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The IPv4 and the IPv6 addresses of an interface, link-local ones last."""
    found = addresses_of(name, number)
    return tuple(found[socket.AF_INET]), tuple(sorted(found[socket.AF_INET6], key=_is_link_local))


def _is_link_local(address: str) -> bool:
    return address[:3] in ("fe8", "fe9", "fea", "feb")


def kernel_traits(name: str) -> Traits | None:
    """Return the abilities of an interface from the kernel; None where this is not possible."""
    requests = REQUESTS.get(sys.platform)
    if requests is None:
        return None
    question = name.encode()[: NAME_SIZE - 1].ljust(REQUEST_SIZE, b"\0")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            (flags,) = struct.unpack_from("@H", fcntl.ioctl(asker, requests.flags, question), NAME_SIZE)
            (mtu,) = struct.unpack_from("@i", fcntl.ioctl(asker, requests.mtu, question), NAME_SIZE)
    except OSError:
        return None
    running = IFF_UP | IFF_RUNNING
    return Traits(flags & running == running, bool(flags & requests.multicast), bool(flags & IFF_LOOPBACK), mtu)


def assumed_traits(name: str, has_address: bool) -> Traits:
    """A guess, for systems that cannot be asked: with an address it is up, and all but loopback take multicast."""
    loopback = re.fullmatch(r"lo\d*", name) is not None
    return Traits(up=has_address, multicast=not loopback, loopback=loopback, mtu=ASSUMED_MTU)


def has_virtual_name(name: str) -> bool:
    """Whether an interface of this name is usually made by software."""
    return re.match(VIRTUAL_NAME, name) is not None


def has_hardware(name: str, sysfs: str | PathLike[str] = SYSFS, depth: int = STACK_DEPTH) -> bool | None:
    """Whether an interface is a device, or stands on one (bond, bridge, VLAN); None where /sys does not tell."""
    try:
        content = os.listdir(f"{fspath(sysfs)}/{name}")
    except OSError:
        return None
    if "device" in content:
        return True
    lower_names = [link.removeprefix("lower_") for link in content if link.startswith("lower_")] if depth else []
    return any(has_hardware(lower, sysfs, depth - 1) for lower in lower_names)
