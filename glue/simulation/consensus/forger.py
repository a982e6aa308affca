"""A forger beside a simulated group. It sends single messages in a member's name, with impossible numbers.

The forger sees all traffic, so group, life and term of its messages fit. Some numbers are far beyond anything that a
life reaches, and some are just within it. The forger never forges facts that a replica must believe: entries,
acknowledgements, granted votes, founders that do not exist. Without keys a replica cannot tell such forgeries from
genuine messages.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from glue.model.consensus import Role
from glue.model.consensus.messages import (
    Append,
    Appended,
    Forwarded,
    InstallSnapshot,
    Message,
    Offer,
    Prepare,
    Promise,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
    Vote,
    Welcome,
)
from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.node import Node

HUGE = (1 << 62) - 1
"""Largest number that a message can carry."""

LEAPS = (1, 2, 1000, 1 << 24, (1 << 24) + 1, 1 << 40)
"""Leads of a forged term: the lead of an election, the most that honest lives may reach, and more."""

STRANGERS = b'[{"y":"0000000000000001","z":"0000000000000002"},{}]'
"""Configuration of a founding that never happened."""


class Forger:
    """Sends forged messages until the storm ends. `counts` has the number of each kind."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.counters: dict[str, int] = {}
        self._cluster = cluster
        self._rng = rng
        self._pause = rng.choice((0.1, 0.5, 2.0))
        self._ends = 0.0

    def begin(self, seconds: float) -> None:
        """Start to forge, for `seconds`."""
        self._ends = self._cluster.time + seconds
        self._cluster.after(self._rng.random(), self._strike)

    def _strike(self) -> None:
        cluster, rng = self._cluster, self._rng
        if cluster.time >= self._ends:
            return
        nodes = list(cluster.nodes.values())
        if len(nodes) > 1:
            target, name = rng.sample(nodes, 2)
            leader = cluster.leader()
            if leader is not None and leader is not target and rng.random() < 0.5:
                name = leader
            if target.replica is not None and not target.is_paused:
                self._forge(target, name)
        cluster.after(rng.expovariate(1 / self._pause), self._strike)

    def _forge(self, target: Node, name: Node) -> None:
        assert target.replica is not None
        founding = target.replica.status.role is Role.FOUNDING
        kinds = FOUNDING_FORGERIES if founding else FORGERIES
        kind = self._rng.choice(list(kinds))
        message = kinds[kind](self, target, name)
        self.counters[kind] = self.counters.get(kind, 0) + 1
        self._cluster.note(f"forged {name.peer}>{target.peer} {message}")
        target.deliver(name.peer, message)

    # -------------------------------------------------------------------------------------- within a group

    def _head(self, target: Node, name: Node, leaps: bool = True) -> tuple[str, str, int]:
        """Return group, life and term for a message. The term is the target's own, or with `leaps` a later one."""
        term = target.vital.term
        if leaps:
            term = HUGE if self._rng.random() < 0.3 else term + self._rng.choice(LEAPS)
        return target.vital.group, name.life, min(term, HUGE)

    def _append(self, target: Node, name: Node) -> Message:
        return Append(*self._head(target, name), 1, 0, 0, 0, ())

    def _far_append(self, target: Node, name: Node) -> Message:
        return Append(*self._head(target, name, False), HUGE, HUGE, 1, HUGE, ())

    def _request(self, target: Node, name: Node) -> Message:
        transfer = self._rng.random() < 0.5
        return RequestVote(*self._head(target, name), self._rng.random() < 0.5, transfer, 0, 0)

    def _vote(self, target: Node, name: Node) -> Message:
        return Vote(*self._head(target, name), False, False)

    def _appended(self, target: Node, name: Node) -> Message:
        return Appended(*self._head(target, name), 0, False, 0, 0, 0)

    def _far_appended(self, target: Node, name: Node) -> Message:
        return Appended(*self._head(target, name, False), HUGE, True, HUGE, 1, HUGE)

    def _snapshot(self, target: Node, name: Node) -> Message:
        """Forge a complete snapshot far ahead of the target, although the target lacks nothing."""
        group, life, term = self._head(target, name, self._rng.random() < 0.5)
        index = self._rng.choice((HUGE, target.last()[1] + 10_000))
        configuration = target.configuration.encode()
        return InstallSnapshot(group, life, term, 1, index, term, configuration, 5, 0, b"state")

    def _received(self, target: Node, name: Node) -> Message:
        return SnapshotReceived(*self._head(target, name), 1, HUGE, HUGE)

    def _timeout(self, target: Node, name: Node) -> Message:
        return TimeoutNow(*self._head(target, name, self._rng.random() < 0.5))

    def _forwarded(self, target: Node, name: Node) -> Message:
        tickets = tuple(self._rng.getrandbits(53) for _ in range(3))
        return Forwarded(*self._head(target, name, False), tickets, (HUGE,) * 3, self._rng.random() < 0.5, "")

    # ---------------------------------------------------------------------------------------- while founding

    def _ballot(self, target: Node, name: Node) -> tuple[int, str]:
        return self._rng.choice((HUGE, target.vital.promised[0] + self._rng.choice(LEAPS))), name.peer

    def _prepare(self, target: Node, name: Node) -> Message:
        return Prepare(self._cluster.scope, name.life, self._ballot(target, name))

    def _promise(self, target: Node, name: Node) -> Message:
        return Promise(self._cluster.scope, name.life, self._ballot(target, name), (0, ""), b"")

    def _offer(self, target: Node, name: Node) -> Message:
        return Offer(self._cluster.scope, name.life, HUGE)

    def _welcome(self, target: Node, name: Node) -> Message:
        return Welcome(self._cluster.scope, name.life, STRANGERS)


FORGERIES: dict[str, Callable[[Forger, Node, Node], Message]] = {
    "append": Forger._append,
    "far append": Forger._far_append,
    "request": Forger._request,
    "vote": Forger._vote,
    "appended": Forger._appended,
    "far appended": Forger._far_appended,
    "snapshot": Forger._snapshot,
    "received": Forger._received,
    "timeout": Forger._timeout,
    "forwarded": Forger._forwarded,
}
"""Messages forged to a member of a group, by name."""

FOUNDING_FORGERIES: dict[str, Callable[[Forger, Node, Node], Message]] = {
    "prepare": Forger._prepare,
    "promise": Forger._promise,
    "offer": Forger._offer,
    "welcome": Forger._welcome,
}
"""Messages forged to a node that has no group yet, by name."""
