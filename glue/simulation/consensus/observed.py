"""View of a replica from outside: disk, log and state machine."""

from __future__ import annotations

from glue.model.consensus import DurableWrite, LogEntry, Replica, Snapshot, Vital
from glue.simulation.consensus.machine import ChainMachine


class DurableLog:
    """Durable contents of one replica's disk: written data that has been synced."""

    __slots__ = ("entries", "snapshot_index", "snapshot_term", "vital", "written")

    def __init__(self, vital: Vital, snapshot: Snapshot | None, entries: dict[int, int]) -> None:
        self.vital = vital
        self.snapshot_index = snapshot.index if snapshot else 0
        self.snapshot_term = snapshot.term if snapshot else 0
        self.entries = entries  # terms by index
        self.written: list[DurableWrite] = []

    def synced(self, number: int) -> None:
        """Count all writes up to this number as durable."""
        while self.written and self.written[0].number <= number:
            self._take(self.written.pop(0))

    def _take(self, write: DurableWrite) -> None:
        self.vital = write.vital or self.vital
        if write.snapshot is not None:
            self.snapshot_index, self.snapshot_term = write.snapshot.index, write.snapshot.term
            self.entries.clear()
        if write.entries:
            first = write.entries[0].index
            for index in [known for known in self.entries if known >= first]:
                del self.entries[index]
            self.entries.update((entry.index, entry.term) for entry in write.entries)

    def holds(self, index: int, term: int) -> bool:
        """Return whether the entry of this index and term is present or covered by a snapshot."""
        return index <= self.snapshot_index or self.entries.get(index) == term

    @property
    def last(self) -> tuple[int, int]:
        """Term and index of the last entry."""
        if not self.entries:
            return self.snapshot_term, self.snapshot_index
        index = max(self.entries)
        return max((self.entries[index], index), (self.snapshot_term, self.snapshot_index))


class Observed:
    """A replica as the invariants see it. `replica` is None while the node is down."""

    peer: str
    life: str
    vital: Vital
    durable: DurableLog
    machine: ChainMachine
    replica: Replica | None
    commit_index: int
    is_stepping_once: bool
    """Whether the current call has taken at most one message."""
    last_before: tuple[int, int]
    """Last term and index before the current call."""

    def entries(self, first: int, last: int) -> list[LogEntry]:
        """Return entries of the log in memory."""
        assert self.replica is not None
        return self.replica._core.log.entries(first, last)

    def has(self, index: int, term: int) -> bool:
        """Return whether the log in memory has an entry, or has compacted past it."""
        assert self.replica is not None
        log = self.replica._core.log
        return index < log.base_index or log.term(index) == term

    def last(self) -> tuple[int, int]:
        """Return term and index of the last entry in memory."""
        if self.replica is None:
            return 0, 0
        log = self.replica._core.log
        return log.last_term, log.last_index

    def term_before(self, write: DurableWrite) -> int | None:
        """Return the term of the entry before a write, None if unknown."""
        assert self.replica is not None
        return self.replica._core.log.term(write.entries[0].index - 1) if write.entries else None
