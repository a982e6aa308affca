"""A few transports on a virtual wire that loses, doubles and delays frames one by one, in virtual time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from random import Random
from typing import Any

from glue.contract import Downward, Inbound, Outbound, PeerAdded, PeerRemoved, Upward, advanced
from glue.transport import Transport
from glue.transport.window import Window
from glue.transport.wire import KEY


def endpoint_id(number: int) -> str:
    """The id of the numbered endpoint of a test."""
    return f"{number:016x}"


class Wire:
    """Transports that know each other, and what lies between them."""

    def __init__(
        self,
        count: int,
        seed: int = 1,
        loss: float = 0.0,
        duplicate: float = 0.0,
        jitter: float = 0.0,
        parity: float | None = None,
        window: Callable[[int], Window] = Window,
    ) -> None:
        self.ids = [endpoint_id(number) for number in range(count)]
        self.transports = {id: Transport(endpoint_id=id, parity=parity, window=window) for id in self.ids}
        self.incarnations = dict.fromkeys(self.ids, 1)
        self.heard: dict[str, list[tuple[str, bytes]]] = {id: [] for id in self.ids}
        self.news: dict[str, list[Upward]] = {id: [] for id in self.ids}
        self.ages: dict[str, list[float]] = {id: [] for id in self.ids}
        self.sent: list[tuple[str, str, Outbound]] = []
        self.loss, self.duplicate, self.jitter, self.delay = loss, duplicate, jitter, 0.001
        self.cut: set[tuple[str, str]] = set()
        self.loses: Callable[[str, list[Any]], bool] = lambda destination, entry: False
        self.now = 100.0
        self._random = Random(seed)
        self._order = itertools.count()
        self._flying: list[tuple[float, int, str, Inbound]] = []
        for one, other in itertools.permutations(self.ids, 2):
            self._introduce(one, other)

    def _introduce(self, id: str, peer: str, restarted: bool = False) -> None:
        self.tell(id, PeerAdded(peer, self.incarnations[peer], peer, ("10.0.0.1", 1), restarted))

    def tell(self, id: str, *items: Upward) -> None:
        """Hand news, or frames, to a transport from below."""
        up, down = self.transports[id].receive(self.now, list(items))
        for item in up:
            if isinstance(item, Inbound):
                self.heard[id] += [(item.peer, body) for body in item.bodies]
                self.ages[id] += [item.age] * len(item.bodies)
            else:
                self.news[id].append(item)
        self._fly(id, down)

    def remove(self, id: str, peer: str, reason: str) -> None:
        """Let a transport know that a peer is gone."""
        self.tell(id, PeerRemoved(peer, self.incarnations[peer], peer, reason))

    def restart(self, witness: int, number: int) -> None:
        """Begin another life of a transport; `witness` is told of it."""
        id, known = self.ids[number], self.ids[witness]
        self.transports[id] = Transport(endpoint_id=id)
        self._introduce(id, known)
        self.remove(known, id, "restarted")
        self.incarnations[id] += 1
        self._introduce(known, id, restarted=True)

    def send(self, id: str, *items: Downward) -> None:
        """Hand messages to a transport from above."""
        self._fly(id, self.transports[id].send(self.now, list(items)))

    def publish(self, source: int, destinations: list[int], body: bytes, frames: int = 1, **options: object) -> None:
        """Send a message of so many frames, each `body`."""
        peers = tuple(sorted(self.ids[n] for n in destinations))
        self.send(self.ids[source], Outbound(peers, [body] * frames, **options))  # type: ignore[arg-type]

    def _fly(self, source: str, items: list[Downward]) -> None:
        incarnation = self.incarnations[source]
        for item in items:
            assert isinstance(item, Outbound)
            for destination in item.peers or [id for id in self.ids if id != source]:
                self.sent.append((source, destination, item))
                for index, body in enumerate(item.bodies):
                    copies = 2 if self._random.random() < self.duplicate else 1
                    for _ in range(copies):
                        if (source, destination) in self.cut or self._random.random() < self.loss:
                            continue
                        at = self.now + self.delay + self._random.random() * self.jitter
                        frame = Inbound(source, incarnation, None, advanced(item.header, index), [bytes(body)])
                        if self.loses(destination, frame.header[KEY]):
                            continue
                        heapq.heappush(self._flying, (at, next(self._order), destination, frame))

    def run(self, seconds: float) -> None:
        """Let time pass, obeying deadlines."""
        until = self.now + seconds
        while True:
            self.commit()
            timers = {id: transport.deadline for id, transport in self.transports.items()}
            at = min([*timers.values(), self._flying[0][0] if self._flying else math.inf])
            if at > until:
                break
            self.now = max(self.now, at)
            arrivals: dict[str, list[Upward]] = {}
            while self._flying and self._flying[0][0] <= self.now:
                _, _, destination, frame = heapq.heappop(self._flying)
                arrivals.setdefault(destination, []).append(frame)
            for id, timer in timers.items():
                if timer <= self.now or id in arrivals:
                    self.tell(id, *arrivals.get(id, []))
        self.now = until

    def commit(self) -> None:
        """Let all transports do what they deferred."""
        for transport in self.transports.values():
            transport.commit()

    @property
    def backlog(self) -> int:
        """Bytes that any transport still holds for its receivers."""
        self.commit()
        return sum(transport.backlog for transport in self.transports.values())
