"""Helpers: topics layers with peers they know, and a wire between them that loses nothing."""

from __future__ import annotations

from typing import Any

from glue.contract import (
    NORMAL,
    PLAIN,
    Delivery,
    Downward,
    Event,
    Flow,
    Inbound,
    Interest,
    Options,
    Outbound,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Request,
    Upward,
)
from glue.topics import Topics
from glue.topics.bundle import MessageGroup, decode

WALL_CLOCK = 1_700_000_000.0


def endpoint_id(name: str) -> str:
    return name.encode().hex().rjust(16, "0")


def topics(name: str = "self") -> Topics:
    return Topics(endpoint_id=endpoint_id(name), incarnation=1, name=name)


def added(name: str, incarnation: int = 1) -> PeerAdded:
    return PeerAdded(endpoint_id(name), incarnation, name, ("127.0.0.1", 1))


def removed(name: str, incarnation: int = 1) -> PeerRemoved:
    return PeerRemoved(endpoint_id(name), incarnation, name, "expired")


def wants(name: str, *patterns: str) -> PeerInterest:
    return PeerInterest(endpoint_id(name), patterns, [])


def wants_no_more(name: str, *patterns: str) -> PeerInterest:
    return PeerInterest(endpoint_id(name), [], patterns)


def message(topic: str, *payloads: bytes, json: bool = False, priority: int = NORMAL, **options: Any) -> Publication:
    chosen = Options(**options) if options else PLAIN
    return Publication(topic, list(payloads), WALL_CLOCK, json, None, priority, chosen)


def route(*names: str) -> tuple[str, ...]:
    return tuple(sorted(endpoint_id(name) for name in names))


def flow(*names: str, priority: int = NORMAL) -> Flow:
    return route(*names), priority


def outbounds(down: list[Downward]) -> list[Outbound]:
    return [item for item in down if isinstance(item, Outbound)]


def groups(down: list[Downward]) -> list[MessageGroup]:
    """Everything in the bundles, in order."""
    return [group for item in outbounds(down) for body in item.bodies for group in decode(body)]


def deliveries(up: list[Event]) -> list[Delivery]:
    return [item for item in up if isinstance(item, Delivery)]


def inbound(name: str, *bodies: bytes, age: float = 0.0, incarnation: int = 1, reliable: bool = True) -> Inbound:
    return Inbound(endpoint_id(name), incarnation, ("127.0.0.1", 1), {}, bodies, age, reliable)


class Wire:
    """Endpoints that know each other; interests and bundles arrive at once, deliveries gather in `heard`."""

    def __init__(self, *names: str) -> None:
        self.layers = {endpoint_id(name): topics(name) for name in names}
        self.names = {endpoint_id(name): name for name in names}
        self.heard: dict[str, list[Delivery]] = {name: [] for name in names}
        for one in names:
            for other in names:
                if one != other:
                    self.receive(0.0, endpoint_id(one), [added(other)])

    def send(self, now: float, name: str, *items: Request) -> list[Downward]:
        """Hand items down at one endpoint and see them through; returns what it sent."""
        layer = self.layers[endpoint_id(name)]
        down = layer.send(now, list(items))
        self._carry(now, endpoint_id(name), down)
        if layer.deadline <= now:
            self.receive(now, endpoint_id(name), [])
        return down

    def take(self, name: str) -> list[tuple[str, Any, bool, list[Any]]]:
        """What was heard since the last time: topic, payload, whether retained, tokens."""
        taken = [
            (heard.topic, payload, heard.retained, list(heard.tokens))
            for heard in self.heard[name]
            for payload in heard.payloads
        ]
        self.heard[name] = []
        return taken

    def receive(self, now: float, at: str, items: list[Upward]) -> None:
        up, down = self.layers[at].receive(now, items)
        self.heard[self.names[at]] += deliveries(up)
        self._carry(now, at, down)

    def _carry(self, now: float, source: str, down: list[Downward]) -> None:
        for item in down:
            if isinstance(item, Interest):
                for peer in self.layers:
                    if peer != source:
                        self.receive(now, peer, [PeerInterest(source, item.added, item.removed)])
            elif isinstance(item, Outbound):
                for peer in item.peers:
                    if peer in self.layers:
                        self.receive(now, peer, [Inbound(source, 1, None, {}, item.bodies)])
