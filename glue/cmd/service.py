"""Tells the service manager that a command serves, or ends (the protocol of sd_notify(3)).

systemd sets `NOTIFY_SOCKET` for units of `Type=notify`. Without it, nothing happens.
"""

from __future__ import annotations

import contextlib
import os
import socket

READY, STOPPING = "READY=1", "STOPPING=1"


def tell(state: str) -> None:
    """Send a state to the service manager. A manager that cannot be reached is ignored, as it judges by itself."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or address[0] not in "/@" or not hasattr(socket, "AF_UNIX"):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
