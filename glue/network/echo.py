"""Whether what an endpoint sends to the group comes back to its own machine, for other endpoints there.

Each datagram that comes back wakes its sender, who is alone on most machines. So as long as nothing was heard of
another endpoint on this machine, what is for known peers does not come back. Announcements always do: a newcomer is
heard by those who are there, they answer it, and from then on everything comes back on either side.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

from glue.contract import Address
from glue.network.sockets import OPTIONS


class Echo:
    """Loopback of what one socket sends to the group, on at first. (The loopback interface itself knows no other.)"""

    __slots__ = ("_addresses", "_is_on", "_options", "_port", "_sending", "is_needed")

    def __init__(self, sending: socket.socket) -> None:
        """`sending` is bound."""
        self._sending = sending
        self._options = OPTIONS[sending.family]
        self._port: int = sending.getsockname()[1]
        self._is_on = True
        self._addresses: frozenset[str] = frozenset()  # this machine's
        self.is_needed = False  # whether others were heard on this machine; once they were, they may be again

    def settle(self, addresses: Sequence[str]) -> None:
        """From now on these addresses are this machine's."""
        self._addresses = frozenset(addresses)

    def is_own(self, address: Address) -> bool:
        """Whether what came from there is this endpoint's."""
        return address[1] == self._port and address[0] in self._addresses

    def hear(self, address: Address) -> None:
        """Something came from there; if that is this machine, and not this endpoint, everything has to come back."""
        if address[0] in self._addresses and address[1] != self._port:
            self.is_needed = True

    def prepare(self, for_all: bool) -> None:
        """Something is about to be sent to the group: `for_all` who listen, or for those only who were heard."""
        wanted = for_all or self.is_needed
        if wanted is not self._is_on:
            with contextlib.suppress(OSError):  # then it is as it was, until the next time
                self._sending.setsockopt(self._options.level, self._options.loop, wanted)
                self._is_on = wanted
