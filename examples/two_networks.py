"""Two endpoints that use several interfaces at once. Run it on two machines, or in one terminal.

    python examples/two_networks.py eth0 wlan0

Pull a cable while it runs in two terminals: the numbers go on, and the last lines tell which link carries them now.
"""

from __future__ import annotations

import sys
import time

import glue

COUNT = 5


def main() -> None:
    """Publish a few numbers from one endpoint to the other over the named interfaces."""
    names = sys.argv[1:] or ["eth0", "wlan0"]
    received: list[int] = []
    with glue.Endpoint("dial", interface=names) as dial, glue.Endpoint("gauge", interface=names) as gauge:
        dial.subscribe("pressure", lambda message: received.append(message.payload))
        gauge.wait_for_subscribers("pressure", 1, 10)
        for number in range(COUNT):
            gauge.publish("pressure", number)
            time.sleep(0.01)
        gauge.flush(10)
        print(received)
        print(*[line for line in gauge.describe().splitlines() if line.startswith("peer ")], sep="\n")


if __name__ == "__main__":
    main()
