"""Half a minute in the life of four endpoints on a bad network, and what truly happened in it.

The clocks of the capture points are wrong by up to a second and drift. A publisher speaks to two subscribers, partly in
messages of many fragments; a fourth endpoint joins late and is told retained values; one is cut off for longer
than its lease. The network is sound in the first and the last seconds, so that all that was lost was lost between
frames that every point captured.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from tests.spark.truth import Outcome, Taps

CLOCKS = {"a": (0.0, 0.0), "b": (0.25, 40e-6), "c": (-0.9, -20e-6), "d": (0.001, 5e-6)}
MESSAGES = 600
ROOMS = 60
"""Topics on which there is a message at once, now and then: the index of their bundle takes several fragments."""
CUT_OFF_AT, BACK_AT, END = 14.0, 21.0, 28.0


class Scenario:
    """The world after it all; `outcomes` are of what was sent to others, `headers` those of the datagrams."""

    def __init__(self, seed: int = 3) -> None:
        self.world = world = World(seed)
        a, b, c = world.endpoint("a", parity=0.1), world.endpoint("b"), world.endpoint("c")
        self.publisher, self.removed = a, Counter[str]()
        clocks = {name: Clock(offset, drift) for name, (offset, drift) in CLOCKS.items()}
        hosts = {"a": a.host, "b": b.host, "c": c.host}
        self.taps = Taps(world, hosts, clocks)
        b.subscribe("t/#")
        c.subscribe("t/#")
        b.subscribe("u/#")
        for endpoint in (a, b, c):
            endpoint.on_peer_removed = lambda peer, name=endpoint.name: self.removed.update([f"{name} {peer.reason}"])
        world.run(1.0)
        bad = Conditions(loss=0.04, duplicate=0.02, delay=0.001, jitter=0.001)
        world.network.set_conditions(bad)
        world.network.set_conditions(Conditions(loss=0.08, delay=0.002, jitter=0.0005), source=b.host)
        self._publish()
        world.run(6.0)
        d = world.endpoint("d")
        self.taps.add("d", d.host, clocks["d"])
        d.subscribe("u/#")
        self.joined_at = world.time
        world.at(CUT_OFF_AT, lambda: world.network.partition([c.host]))
        world.at(BACK_AT, world.network.heal)
        world.at(END - 4, world.network.clear_conditions)
        world.run(END - world.time)
        self.outcomes = self.taps.outcomes
        self.headers = {outcome.data: json.loads(outcome.data.partition(b"\n")[0]) for outcome in self.outcomes}

    def _publish(self, number: int = 0) -> None:
        self.publisher.publish("t/x", b"%d" % number)
        if number % 5 == 0:
            self.publisher.publish(f"u/{number % 3}", bytes(9000), retain=True)
        if number % 100 == 0:
            for room in range(ROOMS):
                self.publisher.publish(f"t/room-{room:02}/temperature", b"%d" % number)
        if number + 1 < MESSAGES:
            self.world.after(0.01, lambda: self._publish(number + 1))

    def entry(self, outcome: Outcome) -> list[Any]:
        """The transport's entry of a datagram; [None] without one."""
        found: list[Any] = self.headers[outcome.data].get("transport", [None])
        return found

    def counter(self, outcome: Outcome) -> int:
        """The sender's number of a datagram."""
        return int(self.headers[outcome.data]["glue"][4])

    def between(self, source: str, receiver: str) -> list[Outcome]:
        """What was sent from one to the other, in the order it was sent."""
        found = [outcome for outcome in self.outcomes if (outcome.source, outcome.receiver) == (source, receiver)]
        return sorted(found, key=self.counter)
