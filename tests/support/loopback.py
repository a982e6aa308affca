"""The environment of programs that a test starts: loopback, with a port and a network id of their own."""

from __future__ import annotations

import os
import random
import socket


def loopback_environment() -> dict[str, str]:
    """Return the environment of programs that receive only from each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GLUE_")},
        "GLUE_INTERFACE": next(name for _, name in socket.if_nameindex() if name in ("lo", "lo0")),
        "GLUE_MULTICAST_ADDRESS": f"239.192.137.1:{port}",
        "GLUE_NETWORK_ID": str(random.randrange(1, 65_536)),
    }
