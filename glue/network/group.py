"""A multicast group as the user writes it, "239.192.137.1:37320" or "[ff15::1]:37320", and as sockets need it."""

from __future__ import annotations

import re
import socket

from glue.contract import Address
from glue.contract.frozen import Frozen
from glue.errors import ConfigurationError

UDP_HEADER = 8
IP_HEADERS: dict[int, int] = {socket.AF_INET: 20, socket.AF_INET6: 40}  # without options, which glue never sets
# The length field of IPv4 counts its own header, that of IPv6 does not.
IP_PAYLOAD_LIMITS: dict[int, int] = {socket.AF_INET: 65535 - 20, socket.AF_INET6: 65535}

WRITTEN = r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<ipv4>[^\[\]:]+)):(?P<port>[0-9]{1,5})"


class MulticastGroup(Frozen):
    """A multicast group and its port. The family of everything else follows that of the group."""

    family: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.family == socket.AF_INET6 else f"{self.host}:{self.port}"

    @property
    def packed(self) -> bytes:
        """The group's address in network byte order."""
        return socket.inet_pton(self.family, self.host)

    @property
    def overhead(self) -> int:
        """Bytes of IP and UDP headers in front of each datagram's payload."""
        return IP_HEADERS[self.family] + UDP_HEADER

    @property
    def payload_limit(self) -> int:
        """The largest UDP payload that one system call can hand over."""
        return IP_PAYLOAD_LIMITS[self.family] - UDP_HEADER

    def destination(self, interface_index: int) -> Address:
        """Where to send to reach the group through an interface."""
        return self.socket_address(self.host, self.port, interface_index)

    def socket_address(self, host: str, port: int, interface_index: int) -> Address:
        """An address of the group's family as `socket` spells it; IPv6 needs to know the interface (scope id)."""
        return (host, port, 0, interface_index) if self.family == socket.AF_INET6 else (host, port)


def parse_group(multicast_address: str) -> MulticastGroup:
    """The group that a setting names; ConfigurationError if it is malformed or not a multicast address."""
    written = re.fullmatch(WRITTEN, multicast_address)
    if written is None:
        raise _wrong(multicast_address, "group:port")
    host, port = written["ipv6"] or written["ipv4"], int(written["port"])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        packed = socket.inet_pton(family, host.partition("%")[0])
    except (OSError, ValueError):
        raise _wrong(multicast_address, "a numeric group address and a port") from None
    if (family == socket.AF_INET6) != (written["ipv6"] is not None):
        raise _wrong(multicast_address, "square brackets around an IPv6 address, and around no other")
    if "%" in host:
        raise _wrong(multicast_address, "no zone in the address (the interface is a setting of its own)")
    if not (packed[0] == 0xFF if family == socket.AF_INET6 else 224 <= packed[0] < 240):
        raise _wrong(multicast_address, "a multicast address (224.0.0.0 to 239.255.255.255, or ff00::/8)")
    if not 1 <= port <= 65535:
        raise _wrong(multicast_address, "a port from 1 to 65535")
    return MulticastGroup(family, socket.inet_ntop(family, packed), port)


def _wrong(multicast_address: str, wanted: str) -> ConfigurationError:
    examples = "such as 239.192.137.1:37320 or [ff15::1]:37320"
    return ConfigurationError(f"multicast_address={multicast_address!r}: expected {wanted}, {examples}")
