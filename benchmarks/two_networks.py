"""How long traffic stops when one of two links dies: endpoints in namespaces, with two bridges between them.

    python -m benchmarks.two_networks --cuts 20      # as root; prints a table for docs/measurements/two-networks.md

A publisher sends 1,000 reliable messages a second. Again and again the link in use dies in the middle of the stream:
the interface here or there is switched off, or the switch drops everything without a word to anybody. The gap is the
longest time between two messages at the receiver around the cut. Each run checks that all came once and in order.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import glue
from tests.namespaces.endpoints import endpoint
from tests.support.namespaces import Host
from tests.support.two_segments import cut, two_segments

BOTH = ["eth0", "eth1"]
PERIOD = 0.001
BEFORE, AFTER, REST = 0.5, 0.5, 4.5  # seconds of streaming around a cut, and until both paths have answered again
HOWS: dict[str, tuple[Callable[[list[Host], str], None], Callable[[list[Host], str], None]]] = {
    "the switch drops all, nobody is told": (
        lambda hosts, link: cut(hosts[0], link),
        lambda hosts, link: cut(hosts[0], link, is_cut=False),
    ),
    "the receiver's interface goes down": (
        lambda hosts, link: hosts[1].ip(f"link set {link} down"),
        lambda hosts, link: hosts[1].ip(f"link set {link} up"),
    ),
    "the publisher's interface goes down": (
        lambda hosts, link: hosts[0].ip(f"link set {link} down"),
        lambda hosts, link: hosts[0].ip(f"link set {link} up"),
    ),
}


class Stream:
    """Numbers from one endpoint to another, and when they came."""

    def __init__(self, publisher: glue.Endpoint, receiver: glue.Endpoint) -> None:
        self.publisher = publisher
        self.sent = 0
        self.got: list[int] = []
        self.times: list[float] = []
        receiver.subscribe("t", self._take)
        publisher.wait_for_subscribers("t", 1, 10)

    def _take(self, message: glue.Message) -> None:
        self.times.append(time.monotonic())
        self.got.append(message.payload)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.publisher.publish("t", self.sent)
            self.sent += 1
            time.sleep(PERIOD)


def link_of(publisher: glue.Endpoint, receiver: glue.Endpoint) -> str:
    discovery: Any = publisher._core.stack.layers["discovery"]
    return str(discovery.links.describe()[receiver.name]["link"])


def gaps(how: str, cuts: int, **settings: Any) -> list[float]:
    """The longest gap around each cut, in seconds; raises AssertionError if a message is missing or came twice."""
    kill, revive = HOWS[how]
    found = []
    with two_segments(2) as hosts, endpoint(hosts[0], BOTH, **settings) as a, endpoint(hosts[1], BOTH, **settings) as b:
        stream = Stream(a, b)
        time.sleep(REST)
        for _ in range(cuts):
            stream.run(BEFORE)
            link, start = link_of(a, b), len(stream.times) - 1
            kill(hosts, link)
            stream.run(AFTER)
            assert a.flush(10)
            found.append(max(later - sooner for sooner, later in pairwise(stream.times[start:])))
            revive(hosts, link)
            time.sleep(REST)
        assert stream.got == [*range(stream.sent)], "a message is missing, or came twice"
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=20, help="of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    print("| what dies | cuts | gap p50 ms | p90 ms | max ms |\n| --- | --- | --- | --- | --- |")
    for how in HOWS:
        found = sorted(1000 * gap for gap in gaps(how, arguments.cuts))
        p90 = found[int(0.9 * (len(found) - 1))]
        print(f"| {how} | {len(found)} | {statistics.median(found):.0f} | {p90:.0f} | {found[-1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
