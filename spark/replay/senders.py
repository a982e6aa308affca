"""Simulation of all senders with other settings, over the losses and delays of a trace.

Endpoints with the recorded names publish the recorded messages. Each link repeats the recorded losses and delays of the
same time. All layers are glue's own, in virtual time. Therefore resends, windows and timers react to the recorded
losses. A replay of recorded datagrams cannot show this.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson

from glue.endpoint.message import Message
from glue.endpoint.options import Reliability
from glue.errors import WouldBlockError
from glue.simulation import Conditions, Crossing, RecordedOutcomes, SimulatedEndpoint, World
from glue.topics.index import Index
from spark.replay.offered import Offer, Offered
from spark.replay.options import checked, constants

SETTLE = 2.0  # seconds on a network without loss before the start, for discovery
EARLY = 0.5  # seconds; the time of interests from before the first message
DRAIN = 30.0  # most seconds for traffic still under way at the end
RETRY = 0.001  # seconds between attempts of a publisher with a full queue

Row = dict[str, Any]


def simulate(offer: Offered, changed: Mapping[str, str], seed: int = 0) -> Row:
    """Simulate the offered messages with these settings, and return one row.

    - `expected`: messages, counted once for each other endpoint with an interest at the time.
    - `delivered`: how many of these arrived.
    - `p50_ms`, `p99_ms`: latencies from publishing to the handler.
    - `bytes`: UDP payload of all datagrams. A multicast counts once.
    - `resends`, `resent_bytes`: resent datagrams, and their bytes.
    - `overhead`: `bytes` per byte of payload, less one.
    - `detached`: how often a member of a group was detached. A detached member gets everything by unicast.
    """
    with constants(changed):
        run = _Run(offer, changed, seed)
        run.play()
    return {**changed, **run.row()}


class _Run:
    def __init__(self, offer: Offered, changed: Mapping[str, str], seed: int) -> None:
        self.world = World(seed)
        self.world.network.set_conditions(Conditions(delay=0.0005))
        settings = checked(changed)
        self.endpoints = {name: self.world.endpoint(name, **settings) for name in offer.endpoints}
        self._offer = offer
        self._publishers = {name: _Publisher(self.world, one) for name, one in self.endpoints.items()}
        self._interests: Index[str] = Index()
        self._subscriptions: dict[tuple[str, str], Any] = {}
        self._latencies: list[float] = []
        self._arrived: set[tuple[str, str, str, int]] = set()
        self._expected = 0
        self._sent: dict[tuple[Any, float, bytes], None] = {}
        self._bytes = self._resent = self._resends = 0

    def play(self) -> None:
        """Run the simulation."""
        world = self.world
        first = self._offer.messages[0].time if self._offer.messages else 0.0
        for time, name, operation in self._offer.interests:
            world.at(time - first + SETTLE if time > first else EARLY, partial(self._want, name, operation))
        world.run(SETTLE)
        for (source, target), (times, delays) in self._offer.links.items():
            shifted = [time - first + SETTLE for time in times]
            hosts = self.endpoints[source].host, self.endpoints[target].host
            world.network.repeat(*hosts, RecordedOutcomes(shifted, delays))
        world.network.observer = self._count
        for message in self._offer.messages:
            world.at(message.time - first + SETTLE, partial(self._publish, message))
        last = self._offer.messages[-1].time - first if self._offer.messages else 0.0
        world.run(last + 0.1)
        world.run_until(lambda: not any(one.backlog for one in self.endpoints.values()), DRAIN)
        world.run(0.1)

    def _want(self, name: str, operation: str) -> None:
        pattern, endpoint = operation[1:], self.endpoints[name]
        if operation.startswith("+") and (name, pattern) not in self._subscriptions:
            self._subscriptions[name, pattern] = endpoint.subscribe(pattern, partial(self._receive, name))
            self._interests.add(pattern, name)
        elif operation.startswith("-") and (name, pattern) in self._subscriptions:
            self._subscriptions.pop((name, pattern)).close()
            self._interests.remove(pattern, name)

    def _publish(self, offer: Offer) -> None:
        self._expected += len(set(self._interests.match(offer.topic)) - {offer.publisher})
        self._publishers[offer.publisher].publish(offer)

    def _receive(self, name: str, message: Message) -> None:
        key = name, message.publisher, message.topic, message.sequence
        if message.publisher != name and not message.retained and key not in self._arrived:
            self._arrived.add(key)  # several interests of an endpoint may fit one message
            asked = self._publishers[message.publisher].asked[message.topic][message.sequence - 1]
            self._latencies.append(self.world.time - asked)

    def _count(self, crossing: Crossing) -> None:
        """Count each datagram once, for any number of receivers."""
        key = crossing.source, crossing.sent_at, crossing.data[:192]
        if crossing.receiver == crossing.source or key in self._sent:
            return
        self._sent[key] = None
        self._bytes += len(crossing.data)
        entry = orjson.loads(crossing.data[: crossing.data.index(b"\n")]).get("transport")
        if entry and entry[0] in ("data", "group") and entry[1]:
            self._resends += 1
            self._resent += len(crossing.data)

    @staticmethod
    def _detachments(endpoint: SimulatedEndpoint) -> int:
        counts = endpoint.statistics["transport"]
        return sum(count for cause, count in counts.items() if cause.startswith("members detached"))

    def row(self) -> Row:
        """Return the result."""
        latencies = sorted(self._latencies)
        payload = sum(message.size for message in self._offer.messages)
        return {
            "expected": self._expected,
            "delivered": len(latencies),
            "p50_ms": _share(latencies, 0.5),
            "p99_ms": _share(latencies, 0.99),
            "resends": self._resends,
            "resent_bytes": self._resent,
            "bytes": self._bytes,
            "overhead": self._bytes / payload - 1 if payload else None,
            "detached": sum(self._detachments(one) for one in self.endpoints.values()),
        }


class _Publisher:
    """Publishes in order, and waits for room as a blocking program does."""

    def __init__(self, world: World, endpoint: SimulatedEndpoint) -> None:
        self.asked: dict[str, list[float]] = {}
        self._world = world
        self._endpoint = endpoint
        self._waiting: deque[Offer] = deque()

    def publish(self, offer: Offer) -> None:
        """Publish now, or as soon as there is room."""
        self.asked.setdefault(offer.topic, []).append(self._world.time)
        self._waiting.append(offer)
        if len(self._waiting) == 1:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting:
            offer = self._waiting[0]
            reliability: Reliability = "reliable" if offer.reliable else "best-effort"
            try:
                self._endpoint.publish(
                    offer.topic,
                    bytes(offer.size),
                    retain=offer.retain,
                    lifespan=offer.lifespan,
                    reliability=reliability,
                )
            except WouldBlockError:
                self._world.after(RETRY, self._go_on)
                return
            self._waiting.popleft()


def _share(ordered: list[float], share: float) -> float | None:
    """Return a percentile in milliseconds (RFC 2330, section 11.3), None without values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1e3 if ordered else None
