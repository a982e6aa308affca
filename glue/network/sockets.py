"""The two sockets and their options.

All datagrams leave from the unicast socket, so the source address of a datagram is the address of its endpoint. The
multicast socket only receives. All endpoints on the machine share its port, and each endpoint gets every multicast.
Options that not every system has are tried and may fail. Only a port in use is fatal.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import sys

from glue.contract import RENDEZVOUS_PORT, Address
from glue.contract.frozen import Frozen
from glue.errors import ConfigurationError, PortInUseError
from glue.network.group import MulticastGroup
from glue.network.interfaces import Interface

HOPS = 1  # one layer-2 segment: routers never pass the group on
SEND_BUFFER = 4 << 20  # 64 full trains of 64 kB may wait in the device's queue
LARGEST_BUFFER = (1 << 30) - 1  # an int once the kernel has doubled it
SMALLEST_BUFFER = 64 << 10  # below one train there is no use in asking on
SEND_TIMEOUT = 0.02  # how long a full device queue may hold up a send: back-pressure, but not for ever
WILDCARD: dict[int, str] = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}

# Linux only, and unknown to Python's socket module (include/uapi/linux/in.h, in6.h, asm-generic/socket.h).
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_MEMINFO = 32, 33, 55
MEMINFO_WORDS, MEMINFO_DROPS = 9, 8  # SK_MEMINFO_VARS and SK_MEMINFO_DROPS of linux/sock_diag.h


class FamilyOptions(Frozen):
    """The multicast options of one address family."""

    level: int
    interface: int
    join: int
    leave: int
    hops: int
    loop: int


OPTIONS: dict[int, FamilyOptions] = {
    socket.AF_INET: FamilyOptions(
        socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP,
        socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_LOOP,
    ),
    socket.AF_INET6: FamilyOptions(
        socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP,
        socket.IPV6_MULTICAST_HOPS, socket.IPV6_MULTICAST_LOOP,
    ),
}  # fmt: skip

# Receive only groups that this socket joined, through the interface of the join (ip(7), ipv6(7)).
OWN_GROUPS_ONLY: dict[tuple[str, int], tuple[int, int, int]] = {
    ("linux", socket.AF_INET): (socket.IPPROTO_IP, 49, 0),  # IP_MULTICAST_ALL
    ("linux", socket.AF_INET6): (socket.IPPROTO_IPV6, 29, 0),  # IPV6_MULTICAST_ALL
}

# Send unicast through this interface: IP_UNICAST_IF, IPV6_UNICAST_IF. The value is in network byte order for both.
UNICAST_INTERFACE: dict[tuple[str, int], tuple[int, int]] = {
    ("linux", socket.AF_INET): (socket.IPPROTO_IP, 50),
    ("linux", socket.AF_INET6): (socket.IPPROTO_IPV6, 76),
}

# Refuse (EMSGSIZE) what would need IP fragments; on Linux by the interface's MTU alone (IP_PMTUDISC_PROBE), so that
# forged ICMP messages cannot shrink it.
NEVER_FRAGMENT: dict[tuple[str, int], tuple[int, int, int]] = {
    ("linux", socket.AF_INET): (socket.IPPROTO_IP, 10, 3),  # IP_MTU_DISCOVER
    ("linux", socket.AF_INET6): (socket.IPPROTO_IPV6, 23, 3),  # IPV6_MTU_DISCOVER
    ("darwin", socket.AF_INET): (socket.IPPROTO_IP, 28, 1),  # IP_DONTFRAG
    ("darwin", socket.AF_INET6): (socket.IPPROTO_IPV6, 62, 1),  # IPV6_DONTFRAG
}


def open_multicast_socket(group: MulticastGroup, source: Interface | None = None) -> socket.socket:
    """The socket that hears the group, once it has joined; PortInUseError if a program does not share its port.

    With `source` it hears that interface only. (IPV6_MULTICAST_ALL tells groups apart, but not interfaces.)
    """
    opened = _open(group.family)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform != "linux":  # where SO_REUSEADDR alone does not let two sockets bind one multicast port
        _try(opened, (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1))
    _try(opened, OWN_GROUPS_ONLY.get((sys.platform, group.family)))
    if source is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):  # before Linux 5.7 it takes CAP_NET_RAW
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, source.name.encode())
    # Bound to the group it hears nothing else. Not for IPv6: that may tie the socket to one interface for good.
    hosts = [group.host, WILDCARD[group.family]] if group.family == socket.AF_INET else [WILDCARD[group.family]]
    try:
        bind_first(opened, [(host, group.port) for host in hosts])
    except OSError as error:
        opened.close()
        raise _not_bound(error, f"multicast_address={str(group)!r}", "choose another port for the group") from None
    return opened


def open_unicast_socket(group: MulticastGroup, listen_port: int, source: Interface | None = None) -> socket.socket:
    """The socket that sends everything and hears unicast, on all interfaces; with `source`, at its first address.

    `listen_port` 0 takes RENDEZVOUS_PORT, else any free port. It is not shared: PortInUseError if another program
    has it.
    """
    opened = _open(group.family)
    ports = [listen_port] if listen_port or group.port == RENDEZVOUS_PORT else [RENDEZVOUS_PORT, 0]
    try:
        if source is None:
            bind_first(opened, [(WILDCARD[group.family], port) for port in ports])
        else:
            bind_first(opened, [source_address(group, source, port) for port in ports])
            _try(opened, _unicast_through(group, source))
    except OSError as error:
        opened.close()
        raise _not_bound(error, f"listen_port={listen_port}", "choose another, or 0 for any free one") from None
    options = OPTIONS[group.family]
    opened.setsockopt(options.level, options.hops, HOPS)
    opened.setsockopt(options.level, options.loop, 1)  # other endpoints on this machine are to hear it too
    _try(opened, NEVER_FRAGMENT.get((sys.platform, group.family)))
    timeout = struct.pack("@ll", 0, round(SEND_TIMEOUT * 1e6))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
    return opened


def source_address(group: MulticastGroup, interface: Interface, port: int) -> Address:
    """The first address of an interface, which has one, as `socket` spells it."""
    address = interface.addresses(group.family)[0]
    return group.socket_address(address, port, interface.number if address.startswith("fe80:") else 0)


def bind_first(opened: socket.socket, addresses: list[Address]) -> None:
    """Bind to the first of these addresses that the system gives; raises what it said to the last."""
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            opened.bind(address)
            return
    opened.bind(addresses[-1])


def join(receiver: socket.socket, group: MulticastGroup, interface: Interface) -> None:
    """Join the group on an interface, by its index or else by its address; OSError if it is not to be had."""
    options = OPTIONS[group.family]
    try:
        _set_first(receiver, options.level, options.join, _memberships(group, interface))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:  # joined already
            raise


def leave(receiver: socket.socket, group: MulticastGroup, interface: Interface) -> None:
    """Leave the group on an interface, which may be gone."""
    options = OPTIONS[group.family]
    with contextlib.suppress(OSError):
        _set_first(receiver, options.level, options.leave, _memberships(group, interface))


def send_through(sender: socket.socket, group: MulticastGroup, interface: Interface) -> None:
    """Let multicast leave through an interface; OSError if it is not to be had."""
    options = OPTIONS[group.family]
    if group.family == socket.AF_INET6:
        values = [struct.pack("@I", interface.number)]
    else:
        addresses = [socket.inet_aton(address) for address in interface.ipv4[:1]]
        # With its address, or what leaves through loopback would bear that of another interface.
        values = [_by_index(group, interface, address) for address in addresses or [bytes(4)]] + addresses
    _set_first(sender, options.level, options.interface, values)


def raise_receive_buffer(opened: socket.socket, size: int) -> int:
    """Ask for a receive buffer of `size` bytes; returns what was granted, in the same measure."""
    return _raise_buffer(opened, socket.SO_RCVBUF, SO_RCVBUFFORCE, size)


def raise_send_buffer(opened: socket.socket, size: int = SEND_BUFFER) -> int:
    """Ask for a send buffer of `size` bytes; returns what was granted, in the same measure."""
    return _raise_buffer(opened, socket.SO_SNDBUF, SO_SNDBUFFORCE, size)


def kernel_drops(opened: socket.socket) -> int | None:
    """How many datagrams the kernel dropped before this socket, mostly for a full buffer; None if it does not tell."""
    if sys.platform != "linux":
        return None
    try:
        words = opened.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_WORDS)
    except OSError:
        return None
    return int.from_bytes(words[4 * MEMINFO_DROPS : 4 * MEMINFO_WORDS], sys.byteorder)


def _open(family: int) -> socket.socket:
    try:
        opened = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        raise ConfigurationError(f"multicast_address: this system has no such address family ({error})") from None
    opened.settimeout(None)  # whatever socket.setdefaulttimeout says
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return opened


def _not_bound(error: OSError, setting: str, cure: str) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return PortInUseError(errno.EADDRINUSE, f"{setting}: the port is taken by another program; {cure}")
    return ConfigurationError(f"{setting}: {error.strerror}; {cure}")


def _memberships(group: MulticastGroup, interface: Interface) -> list[bytes]:
    """The ways to say "this group on this interface", best first: ipv6_mreq; or ip_mreqn, then ip_mreq."""
    if group.family == socket.AF_INET6:
        return [group.packed + struct.pack("@I", interface.number)]
    by_address = [group.packed + socket.inet_aton(address) for address in interface.ipv4[:1]]
    return [_by_index(group, interface, bytes(4)), *by_address]


def _by_index(group: MulticastGroup, interface: Interface, address: bytes) -> bytes:
    """struct ip_mreqn: group, address, interface index."""
    return group.packed + address + struct.pack("@i", interface.number)


def _set_first(opened: socket.socket, level: int, option: int, values: list[bytes]) -> None:
    """Set an option to the first of these values that the system takes; raises what it said to the last."""
    for value in values[:-1]:
        with contextlib.suppress(OSError):
            opened.setsockopt(level, option, value)
            return
    opened.setsockopt(level, option, values[-1])


def _unicast_through(group: MulticastGroup, interface: Interface) -> tuple[int, int, int] | None:
    """The option that lets unicast leave through an interface, whatever the routes say (Linux; ip(7))."""
    option = UNICAST_INTERFACE.get((sys.platform, group.family))
    return None if option is None else (*option, socket.htonl(interface.number))


def _try(opened: socket.socket, option: tuple[int, int, int] | None) -> None:
    """Set an option where this system has one."""
    if option is not None:
        with contextlib.suppress(OSError):
            opened.setsockopt(*option)


def _raise_buffer(opened: socket.socket, option: int, force: int, size: int) -> int:
    """Past the system's limit where privileged (Linux), else up to it; halved where too much is an error (macOS)."""
    size = min(size, LARGEST_BUFFER)
    if sys.platform == "linux":
        _try(opened, (socket.SOL_SOCKET, force, size))
        overhead = 2  # the kernel doubles the number for its bookkeeping and reports it doubled (socket(7))
    else:
        overhead = 1
    while size >= SMALLEST_BUFFER and opened.getsockopt(socket.SOL_SOCKET, option) // overhead < size:
        try:
            opened.setsockopt(socket.SOL_SOCKET, option, size)
            break
        except OSError:
            size //= 2
    return opened.getsockopt(socket.SOL_SOCKET, option) // overhead
