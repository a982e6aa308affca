"""A cluster of nodes, its network and its time. All events follow from one seed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from glue.model.consensus import ConsensusSettings, Outcome, Resolution
from glue.model.consensus.messages import Message
from glue.model.consensus.wire import decode, encode
from glue.simulation.consensus.history import History
from glue.simulation.consensus.invariants import InvariantWatch, require
from glue.simulation.consensus.node import Node
from glue.simulation.disk import SimulatedDisk


class Net:
    """Network conditions: probabilities of loss and duplication, and delays in seconds.

    A delay is uniform between `delay` and `slowest`. With probability `stray`, up to `stray_delay` is added.
    """

    def __init__(self) -> None:
        self.loss = 0.0
        self.duplicate = 0.0
        self.delay = 0.001
        self.slowest = 0.002
        self.stray = 0.0  # the probability of an additional delay of up to `stray_delay`
        self.stray_delay = 3.0
        self.blocked: set[tuple[str, str]] = set()


MOST_EVENTS = 400_000
"""Most events of one run, four times the maximum of 150 seeds. Only an endless exchange between replicas reaches this
limit.
"""


class Cluster:
    """A group of replicas in virtual time.

    `encodes`: whether messages travel as bytes. `trace`, if given, is called with a line for each event.
    """

    scope = "1/sim"

    def __init__(self, seed: int, *, encodes: bool = False, trace: Callable[[str], object] | None = None) -> None:
        self.seed = seed
        self.time = 0.0
        self.nodes: dict[str, Node] = {}
        self.net = Net()
        self.watch = InvariantWatch()
        self.history = History(self.watch)
        self._encodes = encodes
        self._trace = trace
        self._hash = blake2b(digest_size=16)
        self._rng = Random(f"{seed} network")
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._count = count()

    # ------------------------------------------------------------------------------------------------- time

    def after(self, delay: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call `action` after `delay` seconds."""
        heappush(self._events, (self.time + delay, next(self._count), action, arguments))

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.run_until(lambda: False, seconds)

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until the condition holds, at most `seconds`. Return whether it holds."""
        end = self.time + seconds
        while self._events and self._events[0][0] <= end:
            self.time, number, action, arguments = heappop(self._events)
            require(number < MOST_EVENTS, "liveness", f"{number} events, and no end of them")
            action(*arguments)
            if condition():
                return True
        self.time = end
        return condition()

    def told(self, source: str, destination: str, message: Message) -> None:
        """Do nothing. Tests replace this method to observe arriving messages."""

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        self._hash.update(f"{self.time!r} {line}\n".encode())
        if self._trace is not None:
            self._trace(f"{self.time:9.4f} {line}")

    @property
    def trace_hash(self) -> str:
        """Hash of the trace. Two identical runs have the same hash."""
        return self._hash.hexdigest()

    # ------------------------------------------------------------------------------------------------ nodes

    def add(self, peer: str, settings: ConsensusSettings, durable: bool = True) -> Node:
        """Start a node. `durable` gives it a disk."""
        disk = SimulatedDisk(Random(f"{self.seed} disk {peer}")) if durable else None
        self.nodes[peer] = node = Node(self, peer, settings, disk)
        return node

    def lost(self, node: Node) -> None:
        """Record the crash of a node."""
        self.history.forget(node.peer)
        self.note(f"{node.peer} crashes")

    def leader(self) -> Node | None:
        """Return the running leader with the highest term, or None."""
        return max(self.leaders(), key=lambda node: node.replica.status.term if node.replica else 0, default=None)

    def leaders(self) -> list[Node]:
        """Return all nodes that regard themselves as leader."""
        return [node for node in self.nodes.values() if node.replica and node.replica.status.leader == node.peer]

    def propose(self, node: Node, command: bytes) -> None:
        """Propose a command at this node, as a client."""
        if node.replica is not None and not node.is_paused:
            self.history.asked(node.peer, node.replica.propose(node.now, command), command)
            node.step([])

    def read(self, node: Node) -> None:
        """Ask this node for a read, as a client."""
        if node.replica is not None and not node.is_paused:
            self.history.asked(node.peer, node.replica.read(node.now), None)
            node.step([])

    def resolved(self, node: Node, resolution: Resolution) -> None:
        """Record the outcome of a ticket."""
        self.note(f"{node.peer} ticket {resolution.outcome.value} {resolution.index} {resolution.reason}")
        if resolution.outcome is Outcome.READABLE:
            assert node.replica is not None
            self.history.read(node.peer, resolution, node.replica.status.commit_index)
        else:
            self.history.written(node.peer, resolution)

    # ---------------------------------------------------------------------------------------------- network

    def send(self, node: Node, to: str | None, message: Message) -> None:
        """Send a message from a node to one other node, or to all."""
        data = encode(message) if self._encodes else None
        for peer in self.nodes if to is None else (to,):
            if peer != node.peer and peer in self.nodes:
                self._send(node.peer, peer, message if data is None else decode(data))

    def _send(self, source: str, destination: str, message: Message) -> None:
        net, rng = self.net, self._rng
        copies = 1 + (rng.random() < net.duplicate)
        for _ in range(copies):
            if rng.random() < net.loss:
                continue
            delay = net.delay + (net.slowest - net.delay) * rng.random()
            if net.stray and rng.random() < net.stray:
                delay += net.stray_delay * rng.random()
            self.after(delay, self._arrive, source, destination, message)

    def _arrive(self, source: str, destination: str, message: Message) -> None:
        if (source, destination) in self.net.blocked:
            return
        self.told(source, destination, message)
        self.note(f"{source}>{destination} {message}")
        self.nodes[destination].deliver(source, message)

    def partition(self, *groups: list[str]) -> None:
        """Let nodes reach only nodes of their own group."""
        place = {peer: number for number, group in enumerate(groups) for peer in group}
        self.net.blocked = {
            (one, other) for one in self.nodes for other in self.nodes if place.get(one, -1) != place.get(other, -1)
        }

    def heal(self) -> None:
        """Let all nodes reach each other."""
        self.net.blocked = set()
