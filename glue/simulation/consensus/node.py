"""One simulated machine with a replica, a disk, a clock and a state machine, and its faults."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Protocol

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.model.consensus import (
    Configuration,
    ConsensusSettings,
    DurableWrite,
    Output,
    Replica,
    Resolution,
    Stored,
    Vital,
)
from glue.model.consensus.messages import Message
from glue.model.storage import FileStorage, MemoryStorage, Storage
from glue.simulation.clock import Clock
from glue.simulation.consensus.invariants import InvariantWatch
from glue.simulation.consensus.machine import ChainMachine
from glue.simulation.consensus.observed import DurableLog, Observed
from glue.simulation.disk import SimulatedDisk

ROOM_INTERVAL = 0.5
"""Seconds between attempts to write to a full disk."""


class Surroundings(Protocol):
    """Interface of the cluster to its nodes."""

    scope: str
    seed: int
    time: float
    watch: InvariantWatch

    def after(self, delay: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call `action` after `delay` seconds."""

    def note(self, line: str) -> None:
        """Add a line to the trace."""

    def send(self, node: Node, to: str | None, message: Message) -> None:
        """Send a message to one other node, or to all."""

    def resolved(self, node: Node, resolution: Resolution) -> None:
        """Report the outcome of a ticket to the client."""

    def lost(self, node: Node) -> None:
        """Record the crash of a node."""


class Node(Observed):
    """A machine of a `Cluster`. `disk` is None if the node keeps its state in memory only."""

    def __init__(
        self, cluster: Surroundings, peer: str, settings: ConsensusSettings, disk: SimulatedDisk | None
    ) -> None:
        self.cluster = cluster
        self.peer = peer
        self.settings = settings
        self.disk = disk
        self.clock = Clock()
        self.replica: Replica | None = None
        self.machine = ChainMachine()
        self.is_paused = False
        self.sync_delay = 0.001
        self.commit_index = 0
        self.lives = 0
        self.lost_at = -inf
        self.is_stepping_once = True  # whether the current call has taken at most one message
        self.last_before = (0, 0)  # last term and index before the current call
        self._inbox: list[tuple[str, Message]] = []
        self._rng = Random(f"{cluster.seed} node {peer}")
        self._wake = inf
        self._written = 0
        self._unwritten: list[DurableWrite] = []
        self.is_full = False  # whether the last write found the disk full; the replica then stands still
        self._configuration = Configuration({}, {})
        self._storage: Storage
        self.start()

    def __repr__(self) -> str:
        status = self.replica.status if self.replica else "down"
        return f"<{self.peer} {status}>"

    # ------------------------------------------------------------------------------------------ life and death

    def start(self) -> None:
        """Start a life with the contents of the storage."""
        self._storage = MemoryStorage(self._rng) if self.disk is None else FileStorage(self.disk, self._rng)
        try:
            self._begin(self._load())
        except StorageError:
            self.crash()

    def _load(self) -> Stored:
        try:
            return self._storage.load()
        except CorruptStorageError:
            assert isinstance(self._storage, FileStorage)
            self.cluster.note(f"{self.peer} is damaged")
            return self._storage.begin_anew()

    def _begin(self, stored: Stored) -> None:
        self.lives += 1
        self.life = stored.vital.life
        self.vital = stored.vital
        snapshot = stored.snapshot
        terms = {entry.index: entry.term for entry in stored.entries}
        self.durable = DurableLog(stored.vital, snapshot, terms)
        self.cluster.watch.began(self.life, self.durable)
        self.commit_index = snapshot.index if snapshot else 0
        self.machine = ChainMachine()
        self._inbox.clear()
        self._written = 0
        self._unwritten.clear()
        self.is_full = False
        rng = Random(f"{self.cluster.seed} {self.peer} {self.lives}")
        self.replica = Replica(self.peer, self.cluster.scope, self.settings, stored, rng, self.now)
        self.step([])

    def crash(self) -> None:
        """Lose power. Unsynced data may be lost."""
        self._configuration = self.configuration
        self.replica = None
        self.is_paused = False
        self._wake = inf
        self.cluster.lost(self)
        if self.disk is not None:
            self.disk.crash()
        else:
            self.forget()

    def forget(self) -> None:
        """Lose all stored data."""
        self.life = ""
        self.lost_at = self.cluster.time
        self.durable = DurableLog(Vital(""), None, {})

    def restart(self) -> None:
        """Start again if the node is down."""
        if self.replica is None:
            self.start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP). Messages wait."""
        self.is_paused = True

    def resume(self, is_deaf: bool = False) -> None:
        """Continue the process and handle all waiting messages at once. `is_deaf` drops them."""
        if self.is_paused:
            self.is_paused = False
            messages, self._inbox = self._inbox, []
            if self.replica is not None:
                self.step([] if is_deaf else messages)

    @property
    def configuration(self) -> Configuration:
        """The newest configuration in the log. While the node is down, the configuration at the crash."""
        return self._configuration if self.replica is None else self.replica.configuration

    # --------------------------------------------------------------------------------------------------- steps

    @property
    def now(self) -> float:
        """The clock's reading in seconds."""
        return self.clock.read(self.cluster.time)

    def deliver(self, sender: str, message: Message) -> None:
        """Take an arriving message."""
        if self.is_paused:
            self._inbox.append((sender, message))
        elif self.is_full:
            self.cluster.note(f"{self.peer} has no room")
        elif self.replica is not None:
            self.step([(sender, message)])

    def step(self, messages: list[tuple[str, Message]]) -> None:
        """Call the replica with messages and obey its output."""
        assert self.replica is not None
        if self.is_full:
            return
        self.is_stepping_once = len(messages) < 2
        self.last_before = self.last()
        self.obey(self.replica.receive(self.now, messages))

    def wake(self, at: float) -> None:
        """Call the replica if its deadline is due. `at` tells the newest alarm from replaced ones."""
        if at != self._wake:
            return
        self._wake = inf
        if self.replica is None or self.is_paused or self.is_full:
            return
        if self.replica.deadline <= self.now:
            self.step([])
        else:
            self.arm()

    def arm(self) -> None:
        """Set an alarm for the replica's deadline."""
        if self.replica is None:
            return
        deadline = self.replica.deadline
        at = max(self.cluster.time, self.clock.moment(deadline) if -inf < deadline < inf else deadline)
        if at < self._wake or self._wake < self.cluster.time:
            self._wake = at
            if at < inf:
                self.cluster.after(at - self.cluster.time, self.wake, at)

    def _sync(self, replica: Replica) -> None:
        """Sync the disk and report the durable writes to the replica."""
        if self.replica is not replica or not self.durable.written:
            return
        if self.is_paused or self.is_full:
            self.cluster.after(self.sync_delay + 0.01, self._sync, replica)
            return
        try:
            self._storage.sync()
        except StorageError:
            self.crash()
            return
        self.durable.synced(self._written)
        self.is_stepping_once = True
        self.last_before = self.last()
        self.obey(replica.synced(self.now, self._written))

    def obey(self, output: Output) -> None:
        """Obey a replica's output in the order that `Output` requires, and check each step."""
        cluster, replica = self.cluster, self.replica
        assert replica is not None
        watch = cluster.watch
        if output.write is not None:
            watch.wrote(self, output.write)
        for to, message in output.messages:
            watch.sent(self, to, message)
        if output.status is not None:
            watch.became(self, output.status.role, output.status.term)
        watch.advanced(self)
        for to, message in output.messages:
            watch.appends(self, message)
            cluster.send(self, to, message)
        if output.restore is not None:
            self.machine.restore(output.restore.data)
            watch.restored(self, output.restore)
        for entry in output.committed:
            self.machine.apply(entry)
            watch.applied(self, entry)
        for resolution in output.resolved:
            cluster.resolved(self, resolution)
        if output.write is not None and not self._write(output.write, replica):
            return
        if output.wants_snapshot and self._rng.random() < 0.5:
            self.obey(replica.take_snapshot(self.now, replica.status.commit_index, self.machine.snapshot()))
        else:
            self.arm()

    def _write(self, write: DurableWrite, replica: Replica) -> bool:
        """Write to the disk. Return whether it succeeded."""
        self._unwritten.append(write)
        return self.is_full or self._write_all(replica)

    def _write_all(self, replica: Replica) -> bool:
        """Write all waiting data. If the disk is full, step down and stand still until there is room."""
        try:
            while self._unwritten:
                self._storage.write(self._unwritten[0])
                self._written = self._unwritten.pop(0).number
        except StorageFullError:
            self.is_full = True
            self.cluster.after(ROOM_INTERVAL, self._try_again, replica)
            self.obey(replica.step_down(self.now))
            return False
        except StorageError:
            self.crash()
            return False
        self.is_full = False
        self.cluster.after(self.sync_delay * (0.5 + self._rng.random()), self._sync, replica)
        return True

    def _try_again(self, replica: Replica) -> None:
        """Write again after the disk was full."""
        if self.replica is replica and self.is_full and self._write_all(replica) and not self.is_paused:
            self.step([])
