"""Benchmark of discovery in networks of growing size: traffic and work of each endpoint, in virtual time.

    python -m benchmarks.discovery_cost
    python -m benchmarks.discovery_cost --endpoints 2,50,200 --seconds 10

Whole stacks start at the same instant, each with ten interests, on a virtual LAN with a delay of 0.5 ms. The first
figure is the time until every endpoint knows all others and their interests. The other figures are what an endpoint
sends and receives at rest. Time is virtual, so the traffic is exact and the same on every machine. The CPU share is
that of the stack alone, without system calls, on the machine that runs the simulation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks import charts
from benchmarks.results import IMAGES, PAGE, Column, Row, provenance, refresh, save, table
from glue.contract import Event, PeerInterest, Request, Subscribe, Train
from glue.fastpath.stack import FastStack
from glue.settings import Settings
from glue.simulation import World
from glue.simulation.network import DATAGRAM_SIZE
from glue.stack import Identity

MODULE = "benchmarks.discovery_cost"
ENDPOINTS = (2, 5, 10, 20, 50, 100, 200)
INTERESTS = 10
MESH_LIMIT = 60.0  # virtual seconds until all must know all
SETTLE = 5.0  # virtual seconds between the full mesh and the measurement


class Metered:
    """A stack that counts its traffic and its seconds of work."""

    def __init__(self, number: int) -> None:
        name = f"endpoint-{number}"
        identity = Identity(name, f"{number:016x}", 1_000_000 + number, Settings(name=name), Random(number))
        self._stack = FastStack.build(identity, {})
        self._stack.fit(DATAGRAM_SIZE)
        self.sent_bytes = self.sent_datagrams = self.heard_bytes = self.heard_datagrams = 0
        self.busy = 0.0  # seconds of real time

    @property
    def deadline(self) -> float:
        """The stack's deadline."""
        return self._stack.deadline

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        """Run and measure one turn of the stack."""
        began = time.perf_counter()
        events, outgoing = self._stack.turn(now, trains, requests)
        self._stack.commit()
        self.busy += time.perf_counter() - began
        for train in trains:
            self.heard_bytes += len(train.data)
            self.heard_datagrams += -(-len(train.data) // train.segment)
        for train in outgoing:
            self.sent_bytes += len(train.data)
            self.sent_datagrams += -(-len(train.data) // train.segment)
        return events, outgoing

    def reset(self) -> None:
        """Set all counts to zero."""
        self.sent_bytes = self.sent_datagrams = self.heard_bytes = self.heard_datagrams = 0
        self.busy = 0.0


def cost(endpoints: int, seconds: float) -> Row:
    """Simulate one network. Return the time to the full mesh, and traffic and work at rest, per endpoint."""
    world = World(seed=endpoints)
    learned = 0  # interests of others, summed over all endpoints

    def on_events(events: list[Event]) -> None:
        nonlocal learned
        learned += sum(len(event.added) for event in events if isinstance(event, PeerInterest))

    machines = [Metered(number) for number in range(endpoints)]
    for number, machine in enumerate(machines):
        host = world.add(machine, on_events=on_events)
        host.submit(*(Subscribe(topic, f"site/{number}/sensor/{topic}") for topic in range(INTERESTS)))
    is_complete = world.run_until(lambda: learned == endpoints * (endpoints - 1) * INTERESTS, MESH_LIMIT)
    row: Row = {
        "endpoints": endpoints,
        "mesh": world.time if is_complete else None,
        "start_datagrams": sum(machine.sent_datagrams for machine in machines) / endpoints,
    }
    world.run(SETTLE)
    for machine in machines:
        machine.reset()
    world.run(seconds)
    names = ("sent_bytes", "sent_datagrams", "heard_bytes", "heard_datagrams", "busy")
    return row | {name: sum(getattr(machine, name) for machine in machines) / endpoints / seconds for name in names}


KEYS = (Column("endpoints", "endpoints"),)
FIGURES = (
    Column("full mesh after ms", "mesh", 1e3),
    Column("datagrams sent till then", "start_datagrams"),
    Column("at rest: sent bytes/s", "sent_bytes"),
    Column("sent datagrams/s", "sent_datagrams"),
    Column("heard bytes/s", "heard_bytes"),
    Column("heard datagrams/s", "heard_datagrams"),
    Column("CPU % of a core", "busy", 100),
)


def chart(rows: Sequence[Row]) -> str:
    """Return a chart of an endpoint's traffic at rest over the number of endpoints."""
    series = [
        charts.Series("heard", charts.points(rows, "endpoints", "heard_bytes")),
        charts.Series("sent", charts.points(rows, "endpoints", "sent_bytes")),
    ]
    return charts.lines(
        "Discovery traffic of one endpoint at rest", "endpoints, ten interests each", "bytes/s", series,
        logarithmic=True,
    )  # fmt: skip


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", default=",".join(map(str, ENDPOINTS)), help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="virtual seconds at rest (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write all rows there")
    parser.add_argument("--document", action="store_true", help=f"write the table into {PAGE.name}, and the chart")
    options = parser.parse_args()
    rows = []
    for endpoints in map(int, options.endpoints.split(",")):
        print(f"{endpoints} endpoints", file=sys.stderr, flush=True)
        rows.append(cost(endpoints, options.seconds))
    text = table(rows, KEYS, FIGURES)
    print(text)
    if options.json:
        save(options.json, sys.argv[1:], rows)
    if options.document:
        refresh({"discovery cost": f"{text}\n\n{provenance(MODULE, sys.argv[1:], rows)}"})
        charts.write(IMAGES, {"discovery.svg": chart(rows)})


if __name__ == "__main__":
    main()
