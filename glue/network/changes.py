"""Notices of the kernel that interfaces have changed.

Reading the state of an interface takes some 25 system calls. On Linux the kernel reports changes of links and addresses
on a netlink socket (rtnetlink(7)), so a single call shows that nothing has changed.
"""

from __future__ import annotations

import socket
import sys

RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR = 0x1, 0x10, 0x100
NOTICE = 4096  # bytes read of a notice; its content does not matter
NOTICES = 64  # read in one look at most; the rest is read in the next look


class InterfaceChanges:
    """Tells whether any interface of this machine, or its addresses, may have changed."""

    def __init__(self) -> None:
        """Open the socket in the network namespace of this thread. Without one, everything may have changed always."""
        self._socket: socket.socket | None = None
        if sys.platform == "linux":
            try:
                self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
                self._socket.setblocking(False)
                self._socket.bind((0, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR))
            except OSError:  # forbidden, as in some sandboxes
                self.close()

    @property
    def filenos(self) -> tuple[int, ...]:
        """The descriptor that becomes readable with a change; none where the kernel tells nothing."""
        return () if self._socket is None else (self._socket.fileno(),)

    def take(self) -> bool:
        """Return whether something may have changed since the last call."""
        if self._socket is None:
            return True
        changed = False
        for _ in range(NOTICES):
            try:
                self._socket.recv(NOTICE)
            except BlockingIOError:
                return changed
            except OSError:  # notices were lost (ENOBUFS)
                return True
            changed = True
        return True

    def close(self) -> None:
        """Close the socket; a second time does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
