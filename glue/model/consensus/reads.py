"""Linearizable reads without the log: the read index (thesis, section 6.4).

A read may be served from the commit index of when it was asked for, once a majority has confirmed, in a round begun
afterwards, that the leader still leads, and once the leader has committed an entry of its own term, for only then
does it know the commit index. No clock is trusted, so there are no leases.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.messages import Forwarded


@dataclass(slots=True)
class PendingRead:
    """Reads that wait for `round`; of a follower, or this replica's own ("")."""

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
        """The latest round that a read waits for, 0 if none does."""
        return self._waiting[-1].round if self._waiting else 0

    def ask(self, round: int, peer: str, tickets: tuple[int, ...]) -> None:
        """A read, which the answers to this coming round decide."""
        index = max(self._core.commit_index, self._first_index)
        self._waiting.append(PendingRead(round, index, peer, tickets))

    def confirmed(self, round: float) -> None:
        """A majority has answered this round."""
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
        """None of them will be confirmed any more."""
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
