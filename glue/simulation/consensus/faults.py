"""Faults of a simulated group: of network, machines, clocks and disks, and changes of membership."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from random import Random

from glue.model.consensus import Configuration
from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.node import Node

SETTLED = 5.0
"""Seconds until the effects of an admission or a loss are over.

After this time every node knows a newly admitted member, or never will. No message of a lost life is on its way.
"""


STANDSTILL = 1 - 1e-3
"""Loss of rate of a suspended clock. The clock advances some milliseconds in a suspension of seconds."""


class Faults:
    """Random faults of kinds and rates that follow from the seed. `counters` has the number of each kind.

    Faults of the kinds in `without` are drawn and then left out.
    """

    def __init__(self, cluster: Cluster, rng: Random, without: Collection[str] = ()) -> None:
        self.counters: dict[str, int] = {}
        self._cluster = cluster
        self._rng = rng
        self._without = without
        self._kinds = rng.sample(list(FAULTS), rng.choice((1, 2, 3, 5, 8, len(FAULTS))))
        self._pause = rng.choice((0.15, 0.4, 1.0, 3.0))
        self._ends = 0.0
        self._admitted: dict[str, float] = {}
        net = cluster.net
        net.loss = rng.choice((0.0, 0.0, 0.05, 0.15, 0.3))
        net.duplicate = rng.choice((0.0, 0.1, 0.5))
        net.slowest = rng.choice((0.002, 0.02, 0.1))
        net.stray = rng.choice((0.0, 0.0, 0.02, 0.1))

    def begin(self, seconds: float) -> None:
        """Start to inject faults, for `seconds`."""
        self._ends = self._cluster.time + seconds
        self._cluster.after(self._rng.random(), self._strike)

    def end(self) -> None:
        """Remove all faults. Lost data stays lost."""
        cluster = self._cluster
        cluster.heal()
        net = cluster.net
        net.loss, net.stray, net.duplicate, net.slowest = net.loss / 3, 0.0, 0.0, 0.02
        for node in cluster.nodes.values():
            if node.disk is not None:
                node.disk.is_full = node.disk.fails_to_sync = False
            node.sync_delay = 0.001
            node.clock.adjust(cluster.time, drift=0.0)
            node.resume()
            node.restart()

    def _strike(self) -> None:
        cluster, rng = self._cluster, self._rng
        if cluster.time >= self._ends:
            return
        if cluster.nodes:
            kind = rng.choice(self._kinds)
            leader = cluster.leader()
            node = leader if leader is not None and rng.random() < 0.4 else rng.choice(list(cluster.nodes.values()))
            if kind not in self._without:
                cluster.note(f"{kind} {node.peer}")
                self.counters[kind] = self.counters.get(kind, 0) + 1
                FAULTS[kind](self, node)
        cluster.after(rng.expovariate(1 / self._pause), self._strike)

    def _later(self, action: Callable[[], object], most: float = 3.0) -> None:
        self._cluster.after(self._rng.random() * most, action)

    # ----------------------------------------------------------------------------------------------- network

    def _split(self, node: Node) -> None:
        peers = list(self._cluster.nodes)
        self._rng.shuffle(peers)
        cut = self._rng.randint(0, len(peers))
        self._cluster.partition(peers[:cut], peers[cut:])
        self._later(self._cluster.heal)

    def _isolate(self, node: Node) -> None:
        self._cluster.partition([node.peer], [peer for peer in self._cluster.nodes if peer != node.peer])
        self._later(self._cluster.heal)

    def _rotate(self, node: Node) -> None:
        """Cut off the present leader, and reconnect the node that was cut off before."""
        leader = self._cluster.leader()
        if leader is not None:
            self._cluster.partition([leader.peer], [peer for peer in self._cluster.nodes if peer != leader.peer])
            self._later(self._cluster.heal, 12.0)

    def _block(self, node: Node) -> None:
        """Block one direction between this node and some of the others."""
        for peer in self._cluster.nodes:
            if peer != node.peer and self._rng.random() < 0.6:
                self._cluster.net.blocked.add((node.peer, peer) if self._rng.random() < 0.5 else (peer, node.peer))
        self._later(self._cluster.heal)

    # ---------------------------------------------------------------------------------------------- machines

    def _crash(self, node: Node) -> None:
        if node.replica is not None and (node.disk is not None or self._may_lose(node)):
            node.crash()
            self._later(node.restart)

    def _crash_all(self, node: Node) -> None:
        for each in self._cluster.nodes.values():
            if each.disk is not None:
                self._crash(each)

    def _stop(self, node: Node) -> None:
        node.pause()
        self._later(node.resume, 5.0)

    def _freeze(self, node: Node) -> None:
        """Suspend the leader's machine, or without a leader this one, for up to 6 s.

        The machine misses all messages. Its clock stops, because CLOCK_MONOTONIC excludes suspension.
        """
        node = self._cluster.leader() or node
        node.pause()
        node.clock.adjust(self._cluster.time, drift=-STANDSTILL)
        self._cluster.after(self._rng.uniform(1.0, 6.0), self._thaw, node)

    def _thaw(self, node: Node) -> None:
        node.clock.adjust(self._cluster.time, drift=0.0)
        node.resume(is_deaf=True)
        node.arm()
        self._cluster.read(node)  # a client has waited for the machine

    def _jump(self, node: Node) -> None:
        node.clock.adjust(self._cluster.time, jump=self._rng.choice((0.5, 2.0, 3600.0)))
        node.arm()

    def _drift(self, node: Node) -> None:
        node.clock.adjust(self._cluster.time, drift=self._rng.uniform(-0.3, 0.5))
        node.arm()

    # -------------------------------------------------------------------------------------------------- disks

    def _slow_disk(self, node: Node) -> None:
        node.sync_delay = self._rng.choice((0.001, 0.05, 0.5))

    def _sync_error(self, node: Node) -> None:
        if node.disk is not None:
            node.disk.fails_to_sync = True
            self._later(node.restart)
            self._cluster.after(3.0, node.restart)

    def _full_disk(self, node: Node) -> None:
        if node.disk is not None:
            node.disk.is_full = True
            self._cluster.after(3.0, self._room, node)

    def _room(self, node: Node) -> None:
        if node.disk is not None:
            node.disk.is_full = False
            node.restart()

    def _wipe(self, node: Node) -> None:
        if self._may_lose(node):
            if node.replica is not None:
                node.crash()
            if node.disk is not None:
                node.disk.wipe()
            node.forget()
            self._later(node.restart)

    def _damage(self, node: Node) -> None:
        if node.disk is None or not self._may_lose(node):
            return
        if node.replica is not None:
            node.crash()
        name = self._rng.choice(("log", "snapshot"))
        size = node.disk.size(name)
        if size:
            node.disk.flip(name, self._rng.randrange(8 * size))
            node.forget()
        self._later(node.restart)

    def _may_lose(self, node: Node) -> bool:
        """Whether every configuration in any log keeps a quorum of lives without this node's life."""
        nodes = self._cluster.nodes
        if self._cluster.time - self._admitted.get(node.peer, -inf) < SETTLED:
            return False
        vital = node.vital
        if vital.promised[0] and not vital.group and node.settings.seats < 3:  # a group may be founded with this life
            return False
        for configuration in self._configurations():
            if node.peer in configuration.learners:  # the learner may be promoted before the loss is noticed
                configuration = configuration.promoted(node.peer)
            intact = [
                peer for peer, life in configuration.voters.items()
                if peer != node.peer and peer in nodes and nodes[peer].life == life
            ]  # fmt: skip
            if not configuration.has_quorum(intact):
                return False
        return True

    def _configurations(self) -> list[Configuration]:
        found = [node.configuration for node in self._cluster.nodes.values()]
        committed = [entry.data for entry in self._cluster.watch.committed.values() if entry.kind == 2]
        founded = [node.vital.value for node in self._cluster.nodes.values() if node.vital.value and not committed]
        found += map(Configuration.decode, [*founded, *committed[-1:]])
        return [configuration for configuration in found if configuration.voters]

    # ----------------------------------------------------------------------------------------------- members

    def _remove(self, node: Node) -> None:
        """Remove a member, unless the life of a voter is lost: the leader may have received its message just before."""
        leader, nodes = self._cluster.leader(), self._cluster.nodes
        if leader is None or leader.replica is None:
            return
        voters = leader.replica.configuration.voters
        if len(voters) > 1 and all(nodes[peer].life == life for peer, life in voters.items()):
            leader.replica.remove(leader.now, node.peer)
            leader.arm()

    def _admit(self, node: Node) -> None:
        """Admit a node, unless it was lost just now, because late messages may make a lost node look alive."""
        leader = self._cluster.leader()
        is_settled = self._cluster.time - node.lost_at > SETTLED and node.replica is not None
        if leader is not None and leader.replica is not None and is_settled:
            self._admitted[node.peer] = self._cluster.time
            leader.replica.admit(leader.now, node.peer)
            leader.arm()

    def _transfer(self, node: Node) -> None:
        leader = self._cluster.leader()
        if leader is not None and leader.replica is not None:
            peer = self._rng.choice(list(self._cluster.nodes))
            leader.replica.transfer(leader.now, peer)
            leader.arm()


FAULTS: dict[str, Callable[[Faults, Node], None]] = {
    "split": Faults._split,
    "isolate": Faults._isolate,
    "rotate": Faults._rotate,
    "block": Faults._block,
    "crash": Faults._crash,
    "crash all": Faults._crash_all,
    "stop": Faults._stop,
    "freeze": Faults._freeze,
    "jump": Faults._jump,
    "drift": Faults._drift,
    "slow disk": Faults._slow_disk,
    "sync error": Faults._sync_error,
    "full disk": Faults._full_disk,
    "wipe": Faults._wipe,
    "damage": Faults._damage,
    "remove": Faults._remove,
    "admit": Faults._admit,
    "transfer": Faults._transfer,
}
"""All kinds of faults by name."""
