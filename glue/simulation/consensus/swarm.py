"""One run of the swarm: a cluster and faults drawn from a seed, then a phase without faults in which the group
recovers.

Each seed draws the kinds of faults and their rate, so some runs are nearly calm and others are storms of one kind
(Groce et al., "Swarm Testing", ISSTA 2012). At most a minority of the voters' lives is lost, because no algorithm can
keep a group's promises beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import NamedTuple

from glue.model.consensus import ConsensusSettings, Outcome
from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.faults import FAULTS, Faults
from glue.simulation.consensus.forger import Forger
from glue.simulation.consensus.invariants import Violation, require
from glue.simulation.consensus.node import Node

STORM = 14.0
"""Seconds of faults, about a dozen election timeouts."""

PEACE = 150.0
"""Seconds until the group must have recovered. The slowest recovery readmits one member after the other, or sends some
500 entries one by one while every tenth message is lost."""


class RunResult(NamedTuple):
    """Result of one run. `violation` is "" if no invariant failed."""

    seed: int
    trace_hash: str
    elections: int
    commit_index: int
    outcomes: dict[Outcome, int]
    faults: dict[str, int]
    violation: str


def settings_of(rng: Random, voters: int, peers: list[str], observer: bool) -> ConsensusSettings:
    """Return settings with small limits, which a short run reaches."""
    by_name = rng.random() < 0.5
    return ConsensusSettings(
        voters=None if by_name else voters,
        members=tuple(peers[:voters]) if by_name else None,
        observer=observer,
        election_timeout=1.0,
        heartbeat=rng.choice((0.2, 0.3, 0.4)),
        ticket_timeout=3.0,
        compact_after=rng.choice((300, 800, 3000, 1 << 20)),
        trailing=rng.choice((0, 2, 10)),
        append_limit=rng.choice((1, 150, 1000)),
        in_flight_limit=rng.choice((1, 400, 4000)),
        uncommitted_limit=rng.choice((400, 100_000)),
        snapshot_piece=rng.choice((30, 100, 1000)),
    )


class Swarm:
    """One run with `storm` seconds of faults, except the kinds in `without`. `forged` adds a forger."""

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], object] | None = None,
        without: Collection[str] = (),
        storm: float = STORM,
        forged: bool = False,
    ) -> None:
        self.rng = rng = Random(f"{seed} swarm")
        self.cluster = Cluster(seed, encodes=seed % 10 == 0, trace=trace)
        voters = rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
        observers = rng.choice((0, 0, 1))
        peers = [chr(ord("a") + number) for number in range(voters + observers)]
        state = rng.getstate()
        durable = rng.random() < 0.8
        for number, peer in enumerate(peers):
            settings_luck = Random()
            settings_luck.setstate(state)  # all nodes get the same settings
            settings = settings_of(settings_luck, voters, peers, number >= voters)
            self.cluster.after(rng.random() * 2, self.cluster.add, peer, settings, durable)
        self.faults = Faults(self.cluster, rng, without)
        self.forger = Forger(self.cluster, Random(f"{seed} forger")) if forged else None
        self._storm = storm
        self._commands = 0
        self._pace = rng.choice((0.02, 0.06, 0.2))

    # ----------------------------------------------------------------------------------------------- clients

    def _client(self) -> None:
        """Send random operations to a random node, repeatedly until the storm ends."""
        cluster, rng = self.cluster, self.rng
        leaders = cluster.leaders() if rng.random() < 0.6 else []
        nodes = leaders or list(cluster.nodes.values())
        if nodes:
            node = rng.choice(nodes)
            for _ in range(rng.choice((1, 1, 1, 5))):
                if rng.random() < 0.4:
                    cluster.read(node)
                else:
                    self._commands += 1
                    cluster.propose(node, b"%d" % self._commands + b"." * rng.choice((0, 0, 0, 90)))
        if cluster.time < self._storm:
            cluster.after(rng.expovariate(1 / self._pace), self._client)

    # ------------------------------------------------------------------------------------------------ the run

    def run(self) -> None:
        """Run the storm and then the recovery. Raises a Violation if an invariant fails."""
        cluster = self.cluster
        cluster.after(0.5, self._client)
        self.faults.begin(self._storm)
        if self.forger is not None:
            self.forger.begin(self._storm)
        cluster.run(self._storm)
        if self.forger is not None:
            self._begin_again()
        self.faults.end()
        require(cluster.run_until(self._is_well, PEACE), "liveness", list(cluster.nodes.values()))
        for _ in range(3):
            committed = len(cluster.watch.commands)
            self._ask_again(committed)
            self._see(lambda committed=committed: len(cluster.watch.commands) > committed)  # type: ignore[misc]
        self._see(lambda: len({node.machine.digest for node in cluster.nodes.values()}) == 1)
        cluster.history.check()

    def _begin_again(self) -> None:
        """Restart all machines with disks, which hold traces of the forger's messages."""
        for node in self.cluster.nodes.values():
            if node.disk is not None and node.replica is not None:
                node.crash()
                node.restart()

    def _ask_again(self, committed: int) -> None:
        """Propose a command each second until one is committed, because a leader may hand over or lose messages."""
        leader, cluster = self.cluster.leader(), self.cluster
        if len(cluster.watch.commands) == committed:
            if leader is not None:
                self._commands += 1
                cluster.propose(leader, b"last %d" % self._commands)
            cluster.after(1.0, self._ask_again, committed)

    def _see(self, condition: Callable[[], bool]) -> None:
        require(self.cluster.run_until(condition, 10.0), "liveness", list(self.cluster.nodes.values()))

    def _is_well(self) -> bool:
        """Whether the group has recovered.

        One leader leads all nodes, all members have their present lives and vote, and all nodes have the whole log.
        """
        leader = self.cluster.leader()
        if leader is None or leader.replica is None:
            return False
        configuration = leader.replica.configuration
        nodes = self.cluster.nodes
        if configuration.learners or any(nodes[peer].life != life for peer, life in configuration.voters.items()):
            return False
        return all(self._follows(node, leader) for node in nodes.values())

    def _follows(self, node: Node, leader: Node) -> bool:
        if node.replica is None or leader.replica is None:
            return False
        status, wanted = node.replica.status, leader.replica.status
        return status[1:] == wanted[1:] and node.last() == leader.last() and node.last()[1] == wanted.commit_index


def run_seed(
    seed: int,
    trace: Callable[[str], object] | None = None,
    without: Collection[str] = (),
    storm: float = STORM,
    forged: bool = False,
) -> RunResult:
    """Run one seed. The result contains a violation, or any other error of a replica, as text.

    With `trace`, other errors are raised.
    """
    swarm = Swarm(seed, trace, without, storm, forged)
    violation = ""
    try:
        swarm.run()
    except Violation as error:
        violation = str(error)
    except Exception as error:
        violation = f"{type(error).__name__}: {error}"
        if trace is not None:
            raise
    cluster = swarm.cluster
    return RunResult(
        seed, cluster.trace_hash, cluster.watch.elections, cluster.watch.commit_index, cluster.history.counters,
        swarm.faults.counters | (swarm.forger.counters if swarm.forger else {}), violation,
    )  # fmt: skip


def shrunk(result: RunResult, forged: bool = False) -> tuple[list[str], float]:
    """Return the kinds of faults that a failing seed does not need, and the shortest storm that still fails.

    Leaving a fault out changes all later random draws. Therefore the search only drops one kind after the other.
    """
    without, storm = list[str](), STORM
    for kind in sorted(result.faults.keys() & FAULTS.keys()):
        if run_seed(result.seed, without=[*without, kind], forged=forged).violation:
            without.append(kind)
    while storm > 1.0 and run_seed(result.seed, without=without, storm=storm / 2, forged=forged).violation:
        storm /= 2
    return without, storm


__all__ = ["STORM", "RunResult", "Swarm", "run_seed", "shrunk"]
