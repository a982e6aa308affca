"""Linearizable reads without the log: the read index (thesis, section 6.4).

A read is served at the commit index of the moment when it was asked for. First, a majority must confirm in a later
round that the leader still leads. The leader must also have committed an entry of its own term, because it does not
know the commit index before. No clock is trusted, so there are no leader leases.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.messages import Forwarded


@dataclass(slots=True)
class PendingRead:
    """Reads that wait for `round`. `peer` is the follower that asks, "" for this replica."""

    round: int
    index: int
    peer: str
    tickets: tuple[int, ...]


class PendingReads:
    """The reads that wait at a leader, in order of their rounds."""

    __slots__ = ("_core", "_first_index", "_waiting")

    def __init__(self, core: ReplicaCore, first_index: int) -> None:
        self._core = core
        self._first_index = first_index
        self._waiting: deque[PendingRead] = deque()

    def wanted_round(self) -> int:
        """The latest round that a read waits for, 0 if none waits."""
        return self._waiting[-1].round if self._waiting else 0

    def ask(self, round: int, peer: str, tickets: tuple[int, ...]) -> None:
        """Add reads that the answers to this coming round confirm."""
        index = max(self._core.commit_index, self._first_index)
        self._waiting.append(PendingRead(round, index, peer, tickets))

    def confirmed(self, round: float) -> None:
        """Serve the reads that wait for this round or an earlier one. A majority has answered this round."""
        core = self._core
        if core.commit_index < self._first_index:
            return
        while self._waiting and self._waiting[0].round <= round:
            read = self._waiting.popleft()
            if read.peer:
                indices = (read.index,) * len(read.tickets)
                answer = Forwarded(core.group, core.life, core.term, read.tickets, indices, True, "")
                core.tell(read.peer, answer)
                continue
            for ticket in read.tickets:
                core.tickets.read_from(ticket, read.index)
        core.tickets.committed_to(core.commit_index)

    def refuse(self, reason: str) -> None:
        """Refuse all reads that wait."""
        core = self._core
        for read in self._waiting:
            if read.peer:
                no_indices = (0,) * len(read.tickets)
                core.tell(
                    read.peer, Forwarded(core.group, core.life, core.term, read.tickets, no_indices, True, reason)
                )
            else:
                core.tickets.refuse(read.tickets, reason)
        self._waiting.clear()
