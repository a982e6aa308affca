"""A boiler with a last will, in a process that is killed, and a panel that reads the will. Run it in one terminal."""

from __future__ import annotations

import subprocess
import sys
import time

import glue

INTERVAL = 0.2
"""Seconds between announcements: a death is noticed after some of them."""


def boiler() -> None:
    """Make a will, say that all is well, and wait to be killed."""
    with glue.Endpoint("boiler", announce_interval=INTERVAL) as endpoint:
        endpoint.will("home/boiler/state", "offline", retain=True)
        endpoint.wait_for_subscribers("home/boiler/state")
        time.sleep(1)  # the will reaches the panel in some milliseconds; this leaves it a second
        endpoint.publish("home/boiler/state", "online", retain=True)
        sys.stdin.read()


def main() -> None:
    """Watch the state of the boiler while its process is killed."""
    with glue.Endpoint("panel", announce_interval=INTERVAL) as panel:
        states = panel.subscribe("home/boiler/state")
        process = subprocess.Popen([sys.executable, __file__, "boiler"], stdin=subprocess.PIPE)
        try:
            message = states.get(timeout=20)
            print(message.publisher, message.payload)
        finally:
            process.kill()
            process.communicate()
        message = states.get(timeout=20)
        print(message.publisher, message.payload)


if __name__ == "__main__":
    boiler() if sys.argv[1:] == ["boiler"] else main()
