"""What a message costs in the topics layer: µs a message, best of several runs, one process, no network.

    python benchmarks/micro_topics.py

`encode` and `decode` are the wire format alone; `send` and `receive` are the whole layer, one publication of so
many messages to one interested peer. `singly` publishes as many messages one by one in the same turn.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from math import inf

from glue.contract import Inbound, Outbound, PeerAdded, PeerInterest, Publication, Request, Subscribe
from glue.topics import Topics
from glue.topics.bundle import Group, decode, encode

COUNTS = (1, 64, 1024, 4096)
SIZES = (16, 1024)
RUNS = 7
MESSAGES = 20_000  # a run, so that each takes some milliseconds
HERE, THERE = "0" * 16, "1" * 16


def cost(function: Callable[[], object], messages: int) -> float:
    """µs a message of a function that handles so many."""
    number = max(1, MESSAGES // messages)
    return min(timeit.repeat(function, number=number, repeat=RUNS)) / number / messages * 1e6


def publisher() -> Topics:
    """A layer with one peer that wants everything."""
    topics = Topics(endpoint_id=HERE, incarnation=1, name="here")
    topics.receive(0.0, [PeerAdded(THERE, 1, "there", ("127.0.0.1", 1)), PeerInterest(THERE, ["#"], [])])
    return topics


def subscriber() -> Topics:
    """A layer that knows the publisher and wants its topic."""
    topics = Topics(endpoint_id=THERE, incarnation=1, name="there")
    topics.receive(0.0, [PeerAdded(HERE, 1, "here", ("127.0.0.1", 1))])
    topics.send(0.0, [Subscribe("token", "t/+")])
    return topics


def main() -> None:
    """Print one line for each size and count."""
    print(f"{'bytes':>6} {'count':>6} {'encode':>8} {'decode':>8} {'send':>8} {'receive':>8} {'singly':>8}")
    for size in SIZES:
        for count in COUNTS:
            payloads = [bytes(size)] * count
            group = Group("t/16", 1, 1_700_000_000_000_000, payloads, size)
            body = encode([group])
            batch: list[Request] = [Publication("t/16", payloads, 1.7e9)]
            singles: list[Request] = [Publication("t/16", [payload], 1.7e9) for payload in payloads]
            sender, receiver = publisher(), subscriber()
            bodies = [b for o in publisher().send(0.0, batch) if isinstance(o, Outbound) for b in o.bodies]
            inbound = Inbound(HERE, 1, None, {}, bodies)
            figures = (
                cost(lambda: encode([group]), count),  # noqa: B023  # called at once
                cost(lambda: decode(body), count),  # noqa: B023
                cost(lambda: sender.send(0.0, batch), count),  # noqa: B023
                cost(lambda: receiver.receive(inf, [inbound]), count),  # noqa: B023
                cost(lambda: sender.send(0.0, singles), count),  # noqa: B023
            )
            print(f"{size:6} {count:6} " + " ".join(f"{figure:8.3f}" for figure in figures))


if __name__ == "__main__":
    main()
