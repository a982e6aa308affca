"""A whole endpoint in virtual time that is fed datagrams in the name of a peer, and of a stranger."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from glue.simulation import Crossing, SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk
from tests.fuzz import seeds
from tests.fuzz.registry import joined, split, target

STRANGER = ("10.9.9.9", 7000)
START = 0.3
"""Virtual seconds until both endpoints know each other."""
MOST = 24
"""Datagrams of an input at most."""


def talk(world: World, kind: str) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    """Two endpoints; the second one sends what the seeds are made of, and the first one gets the fuzzed datagrams."""
    victim, peer = world.endpoint("victim"), world.endpoint("peer")
    heard: list[Any] = []
    if kind == "messages":
        victim.subscribe("a/#", heard.append)
        victim.subscribe("kept/#", heard.append)
        peer.subscribe("from/#", heard.append)
    elif kind == "requests":
        victim.respond("ask/#", lambda request: request.payload)
        peer.respond("back/#", lambda request: request.payload)
    elif kind == "history":
        victim.keep("log/#", directory=SimulatedDisk(Random(1)))
    return victim, peer


def speak(world: World, kind: str, victim: SimulatedEndpoint, peer: SimulatedEndpoint) -> None:
    """What the second endpoint does."""
    if kind == "messages":
        for number in range(4):
            peer.publish("a/1", number)
            peer.publish("a/2", b"x" * 4000, reliability="best-effort" if number % 2 else "reliable")
        peer.publish("kept/1", {"on": True}, retain=True)
        victim.publish("from/1", b"y" * 3000)
    elif kind == "requests":
        peer.request("ask/1", {"x": 1})
        victim.request("back/1", b"abc")
    elif kind == "history":
        for number in range(5):
            peer.publish("log/1", number)
        world.run(0.5)
        peer.subscribe("log/#", start="earliest")
        peer.subscribe("log/#", consumer="billing")
    elif kind == "model":
        for endpoint in (victim, peer):
            endpoint.model("m", voters=2, mergeable={"c/": "counter"})


KINDS = "messages", "requests", "history", "model"


@cache
def conversation(kind: str) -> list[bytes]:
    """Datagrams from the peer to the victim, after both know each other."""
    world = World(1)
    victim, peer = talk(world, kind)
    world.run(START)
    found: list[bytes] = []

    def note(crossing: Crossing) -> None:
        if crossing.source == peer.host.address and crossing.receiver == victim.host.address:
            found.append(crossing.data)

    world.network.observer = note
    speak(world, kind, victim, peer)
    world.run(2.0)
    return found


def inputs(kind: str) -> list[bytes]:
    """The conversation in parts, and golden datagrams."""
    found = list(dict.fromkeys(conversation(kind)))
    parts = [joined(found[at : at + 6]) for at in range(0, min(len(found), 36), 6)]
    golden = [data for data in seeds.datagrams() if len(data) < 600]
    return parts + [joined(golden[at : at + 12]) for at in range(0, len(golden), 12)] if kind == KINDS[0] else parts


def feed(kind: str, data: bytes) -> None:
    """Feed datagrams: in the peer's name, and every fourth one from a stranger's address. Then time passes."""
    world = World(1)
    victim, peer = talk(world, kind)
    world.run(START)
    speak(world, kind, victim, peer)
    for number, part in enumerate(split(data, MOST)):
        source = STRANGER if number % 4 == 3 else peer.host.address
        assert source is not None
        if part:
            victim.host.receive(source, part[:1472], len(part[:1472]))
        world.run(0.01)
    world.run(1.0)
    assert victim.is_running


@target("endpoint", lambda: inputs("messages"))
def endpoint_messages(data: bytes) -> None:
    """Messages, fragments, acknowledgements and discovery."""
    feed("messages", data)


@target("endpoint-requests", lambda: inputs("requests"))
def endpoint_requests(data: bytes) -> None:
    """Requests and replies."""
    feed("requests", data)


@target("endpoint-history", lambda: inputs("history"))
def endpoint_history(data: bytes) -> None:
    """A keeper with a disk: records, history and consumers."""
    feed("history", data)


@target("endpoint-model", lambda: inputs("model"))
def endpoint_model(data: bytes) -> None:
    """A replica of a model."""
    feed("model", data)
