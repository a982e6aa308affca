"""Multicast loopback: whether the kernel returns multicasts to the sending machine, for other endpoints there.

Each returned datagram wakes its sender, and most endpoints are alone on their machine. Therefore data for known
peers is not returned until a datagram came from another endpoint of this machine. Announcements are always returned:
the endpoints of the machine answer a newcomer's announcement, and from then on both sides return everything.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

from glue.contract import Address
from glue.network.sockets import OPTIONS


class MulticastLoopback:
    """IP_MULTICAST_LOOP of one sending socket; on at first. (The loopback interface returns everything in any case.)"""

    __slots__ = ("_addresses", "_is_on", "_options", "_port", "_sending", "is_needed")

    def __init__(self, sending: socket.socket) -> None:
        """`sending` is bound."""
        self._sending = sending
        self._options = OPTIONS[sending.family]
        self._port: int = sending.getsockname()[1]
        self._is_on = True
        self._addresses: frozenset[str] = frozenset()  # this machine's
        self.is_needed = False  # once another endpoint sent from this machine, there may be one at any time

    def set_addresses(self, addresses: Sequence[str]) -> None:
        """Set the addresses of this machine."""
        self._addresses = frozenset(addresses)

    def is_own(self, address: Address) -> bool:
        """Whether a datagram from that address is this endpoint's own."""
        return address[1] == self._port and address[0] in self._addresses

    def received_from(self, address: Address) -> None:
        """Turn loopback on for good if that is another endpoint of this machine."""
        if address[0] in self._addresses and address[1] != self._port:
            self.is_needed = True

    def prepare(self, for_all: bool) -> None:
        """Set the option before a send to the group, which is `for_all` listeners or for known peers only."""
        wanted = for_all or self.is_needed
        if wanted is not self._is_on:
            with contextlib.suppress(OSError):  # then it is as it was, until the next time
                self._sending.setsockopt(self._options.level, self._options.loop, wanted)
                self._is_on = wanted
