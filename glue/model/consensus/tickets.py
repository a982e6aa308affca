"""The tickets of a replica's commands and reads, until their outcome is known.

The entry that a command was given, by index and term, decides. If that entry is committed, so is the command. If
another entry is committed at its index, the command has no effect. Until then the outcome is open. After a timeout it
is reported as unknown, or as refused for a read, which has no effects.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice
from math import inf

from glue.model.consensus.items import Outcome, Resolution

START_BITS, COUNTER_BITS = 21, 32
"""Bits of a ticket: a random number for each start of the replica, then a count. The 53 bits are exact in any JSON."""


class Tickets:
    """The open tickets of one replica; `resolved` collects the outcomes until the core takes them."""

    __slots__ = ("_asked", "_deadlines", "_next", "_placed", "_reading", "_timeout", "resolved")

    def __init__(self, start: int, timeout: float) -> None:
        self.resolved: list[Resolution] = []
        self._timeout = timeout
        self._next = start << COUNTER_BITS
        self._deadlines: dict[int, tuple[float, bool]] = {}  # by ticket: deadline, and is it a read; oldest first
        self._asked: dict[int, str | None] = {}  # by ticket: life of the leader that was asked
        self._placed: dict[int, list[tuple[int, int]]] = {}  # by index: terms and tickets
        self._reading: list[tuple[int, int]] = []  # a heap of index and ticket

    def __len__(self) -> int:
        return len(self._deadlines)

    @property
    def deadline(self) -> float:
        """The deadline of the oldest ticket, inf if there is none."""
        for deadline, _ in self._deadlines.values():
            return deadline
        return inf

    def open(self, now: float, is_read: bool = False) -> int:
        """Open a ticket and return it."""
        self._next += 1
        self._deadlines[self._next] = now + self._timeout, is_read
        return self._next

    def place(self, ticket: int, index: int, term: int) -> None:
        """Note that a ticket's command is in the leader's log."""
        if ticket in self._deadlines:
            self._placed.setdefault(index, []).append((term, ticket))

    def commit(self, index: int, term: int) -> None:
        """Resolve the tickets at this index: committed if their term is the entry's, else refused."""
        for placed_term, ticket in self._placed.pop(index, ()):
            if placed_term == term:
                self._resolve(ticket, Outcome.COMMITTED, index)
            else:
                self._resolve(ticket, Outcome.REFUSED, index, "another leader's command was committed in its place")

    def skip_to(self, index: int) -> None:
        """Resolve the tickets up to this index as unknown, because a snapshot replaced their entries."""
        for passed in [known for known in self._placed if known <= index]:
            for _, ticket in self._placed.pop(passed):
                self._resolve(ticket, Outcome.UNKNOWN, passed, "a snapshot has taken the place of the log")

    def read_from(self, ticket: int, index: int) -> None:
        """Serve a read once `index` is committed here. A ticket that is not open is ignored."""
        if ticket in self._deadlines:
            heappush(self._reading, (index, ticket))

    def committed_to(self, index: int) -> None:
        """Resolve the reads that waited for this commit index or an earlier one."""
        while self._reading and self._reading[0][0] <= index:
            at, ticket = heappop(self._reading)
            self._resolve(ticket, Outcome.READABLE, at)

    def refuse(self, tickets: Iterable[int], reason: str) -> None:
        """Resolve these tickets as refused: they have no effect, now or later."""
        for ticket in tickets:
            self._resolve(ticket, Outcome.REFUSED, 0, reason)

    def asked(self, tickets: Iterable[int], life: str | None) -> None:
        """Note the life of the leader that these tickets were forwarded to. Closed tickets are ignored."""
        self._asked |= {ticket: life for ticket in tickets if ticket in self._deadlines}

    def refused(self, tickets: Iterable[int], life: str, reason: str) -> None:
        """Refuse forwarded tickets, if this life of the leader was asked.

        After the loss of its disk, a leader has another life and cannot know what the former life appended.
        """
        self.refuse([ticket for ticket in tickets if self._asked.get(ticket) == life], reason)

    def settle(self, ticket: int) -> None:
        """Resolve the ticket of a transfer as committed."""
        self._resolve(ticket, Outcome.COMMITTED)

    def expire(self, now: float) -> None:
        """Resolve the tickets that are past their deadline."""
        count = 0
        for deadline, _ in self._deadlines.values():
            if deadline > now:
                break
            count += 1
        for ticket, (_, is_read) in list(islice(self._deadlines.items(), count)):
            if is_read:
                self._resolve(ticket, Outcome.REFUSED, 0, "no answer in time from a leader with a majority")
            else:
                self._resolve(ticket, Outcome.UNKNOWN, 0, "not known to be committed in time")

    def _resolve(self, ticket: int, outcome: Outcome, index: int = 0, reason: str = "") -> None:
        self._asked.pop(ticket, None)
        if self._deadlines.pop(ticket, None) is not None:
            self.resolved.append(Resolution(ticket, outcome, index, reason))
