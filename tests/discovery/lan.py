"""A network of discovery layers in virtual time: no sockets, no waiting, every run the same.

Datagrams take `DELAY` seconds, or get lost with probability `loss`, each receiver's copy by itself.

    python -m tests.discovery.lan 200 3600    # so many endpoints for so many seconds at 20 % loss: is anybody lost?
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

import orjson

from glue.contract import (
    Address,
    Inbound,
    Interest,
    Leave,
    NameClash,
    Outbound,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Upward,
)
from glue.discovery import Discovery, ServiceDiscovery

DELAY = 0.001
FRAME = 1280  # bytes of body, as serialization leaves of an Ethernet frame
HEADER = 110  # bytes that this layer may take of a header

Predicate = Callable[["Host", "Host", Outbound], bool]


def endpoint_id(number: int) -> str:
    return f"{number:016x}"


class Host:
    """One endpoint: its layer, its address, and what its layer told."""

    def __init__(self, layer: Discovery | ServiceDiscovery, id: str, incarnation: int, address: Address) -> None:
        self.layer = layer
        self.id = id
        self.incarnation = incarnation
        self.address = address
        self.told: list[Upward] = []
        self.is_running = True
        self.queue: list[Inbound] = []
        self.due = layer.deadline

    @property
    def known(self) -> set[str]:
        return set(self.layer.peers)

    @property
    def events(self) -> list[tuple[str, ...]]:
        """The news about peers as tuples that are easy to compare."""
        events: list[tuple[str, ...]] = []
        for item in self.told:
            if isinstance(item, PeerAdded):
                events.append(("added", item.peer, "restarted") if item.restarted else ("added", item.peer))
            elif isinstance(item, PeerRemoved):
                events.append(("removed", item.peer, item.reason))
        return events

    @property
    def clashes(self) -> list[NameClash]:
        return [item for item in self.told if isinstance(item, NameClash)]

    @property
    def data(self) -> list[Inbound]:
        return [item for item in self.told if isinstance(item, Inbound)]

    def interests(self, peer: str) -> set[str]:
        """What this endpoint was told that the peer wants to hear."""
        interests: set[str] = set()
        for item in self.told:
            if isinstance(item, PeerRemoved) and item.peer == peer:
                interests.clear()
            elif isinstance(item, PeerInterest) and item.peer == peer:
                assert interests.isdisjoint(item.added)
                assert interests.issuperset(item.removed)
                interests = interests.union(item.added).difference(item.removed)
        return interests


class Lan:
    """Hosts on one segment; `is_dropped` and `delay_of`, if set, decide for each copy of a datagram."""

    def __init__(self, seed: int = 0, loss: float = 0.0, start: float = 1000.0) -> None:
        self.now = start
        self.loss = loss
        self.is_dropped: Predicate | None = None
        self.delay_of: Callable[[Host, Host], float] | None = None
        self.hosts: list[Host] = []
        self.sent: list[tuple[Host, Outbound]] = []
        self._random = Random(seed)
        self._arrivals: list[tuple[float, int, Host, Inbound]] = []
        self._serial = count()
        self._incarnations = count(1)

    def add(self, number: int, name: str | None = None, incarnation: int | None = None, **options: Any) -> Host:
        """Start an endpoint; the same number again is another life of the same id, at another address."""
        incarnation = next(self._incarnations) if incarnation is None else incarnation
        address = (f"10.0.{number}.{incarnation % 250}", 40000 + incarnation)
        make = options.pop("make", Discovery)
        id, random = endpoint_id(number), Random(self._random.random())
        layer = make(endpoint_id=id, incarnation=incarnation, name=name or f"host {number}", random=random, **options)
        assert layer.fit(FRAME) == FRAME
        host = Host(layer, id, incarnation, address)
        self.hosts.append(host)
        return host

    def order(self, host: Host, *items: Any) -> None:
        """Hand items to a host's layer from above."""
        self._transmit(host, host.layer.send(self.now, list(items)))
        host.due = host.layer.deadline

    def want(self, host: Host, *added: str, removed: Sequence[str] = ()) -> None:
        self.order(host, Interest(added, removed))

    def leave(self, host: Host) -> None:
        self.order(host, Leave())
        self.crash(host)

    def crash(self, host: Host) -> None:
        self.hosts.remove(host)

    def suspend(self, host: Host) -> None:
        """Nothing is called any more; what arrives waits in the socket."""
        host.is_running = False
        host.due = math.inf

    def resume(self, host: Host) -> None:
        host.is_running = True
        self._deliver(host, [])
        queue, host.queue = host.queue, []
        self._deliver(host, queue)

    def run(self, seconds: float) -> None:
        """Let time pass; every timer is met exactly."""
        end = self.now + seconds
        due = self._due()  # or earlier: only what is delivered can bring it forward
        while True:
            arrival = self._arrivals[0][0] if self._arrivals else math.inf
            if due <= arrival:
                due = self._due()
            if min(due, arrival) > end:
                break
            self.now = max(self.now, min(due, arrival))
            if arrival <= self.now:
                _, _, host, item = heapq.heappop(self._arrivals)
                if host in self.hosts:
                    self._deliver(host, [item])
                    due = min(due, host.due)
            else:
                for host in list(self.hosts):
                    if host.due <= self.now:
                        self._deliver(host, [])
        self.now = end

    def _due(self) -> float:
        return min([host.due for host in self.hosts], default=math.inf)

    def _deliver(self, host: Host, items: list[Inbound]) -> None:
        if not host.is_running:
            host.queue += items
            return
        up, down = host.layer.receive(self.now, items)
        host.due = host.layer.deadline
        assert host.due > self.now, "called in vain"
        host.told += up
        self._transmit(host, down)

    def _transmit(self, source: Host, frames: list[Outbound]) -> None:
        for frame in frames:
            encoded = orjson.dumps(frame.header)
            assert len(encoded) <= HEADER
            assert max(map(len, frame.bodies)) <= FRAME
            self.sent.append((source, frame))
            for host in self.hosts:
                is_addressed = frame.address == host.address or (not frame.address and host is not source)
                if is_addressed and not self._is_lost(source, host, frame):
                    header = orjson.loads(encoded)
                    item = Inbound(source.id, source.incarnation, source.address, header, frame.bodies)
                    delay = self.delay_of(source, host) if self.delay_of else DELAY
                    heapq.heappush(self._arrivals, (self.now + delay, next(self._serial), host, item))

    def _is_lost(self, source: Host, host: Host, frame: Outbound) -> bool:
        if self.is_dropped is not None and self.is_dropped(source, host, frame):
            return True
        return self.loss > 0 and self._random.random() < self.loss


def data(*peers: str) -> Outbound:
    return Outbound(peers, [b"payload"], {"transport": [1]})


def pair() -> tuple[Lan, Host, Host]:
    """Two endpoints that know each other."""
    lan = Lan()
    one, other = lan.add(1), lan.add(2)
    lan.run(1.5)
    assert one.known == {other.id}
    return lan, one, other


def main(endpoints: int, seconds: int) -> None:
    """Tell each minute how many peers were lost so far although nobody left: none should be."""
    lan = Lan()
    hosts = [lan.add(number) for number in range(endpoints)]
    lan.run(3)
    lan.loss = 0.2
    for second in range(0, seconds, 60):
        lan.run(min(60, seconds - second))
        lan.sent.clear()
        lost = sum(event[0] == "removed" for host in hosts for event in host.events)
        print(f"after {min(second + 60, seconds)} s: {lost} lost", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
