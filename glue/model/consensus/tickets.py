"""The tickets of what was asked of a replica, until their outcome is known.

A command that stands in the log at an index with a term is committed if that very entry is, and had no effect if
another one is committed in its place. Until then its outcome is open, and after a time it is told as unknown; for
a read, which has no effects, as refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice
from math import inf

from glue.model.consensus.items import Outcome, Resolution

START_BITS, COUNTER_BITS = 21, 32
"""A ticket is the number of a start of the replica, at random, and the count since: 53 bits, exact in any JSON."""


class Tickets:
    """The open tickets of one replica; `resolved` gathers the outcomes until they are taken."""

    __slots__ = ("_asked", "_deadlines", "_next", "_placed", "_reading", "_timeout", "resolved")

    def __init__(self, start: int, timeout: float) -> None:
        self.resolved: list[Resolution] = []
        self._timeout = timeout
        self._next = start << COUNTER_BITS
        self._deadlines: dict[int, tuple[float, bool]] = {}  # by ticket: deadline, is it a read; oldest first
        self._asked: dict[int, str | None] = {}  # by ticket: the life of the leader that was asked
        self._placed: dict[int, list[tuple[int, int]]] = {}  # by index: terms and tickets
        self._reading: list[tuple[int, int]] = []  # a heap of index and ticket

    def __len__(self) -> int:
        return len(self._deadlines)

    @property
    def deadline(self) -> float:
        """When the oldest one ends."""
        for deadline, _ in self._deadlines.values():
            return deadline
        return inf

    def open(self, now: float, is_read: bool = False) -> int:
        """A new ticket."""
        self._next += 1
        self._deadlines[self._next] = now + self._timeout, is_read
        return self._next

    def place(self, ticket: int, index: int, term: int) -> None:
        """The ticket's command is in the leader's log."""
        if ticket in self._deadlines:
            self._placed.setdefault(index, []).append((term, ticket))

    def commit(self, index: int, term: int) -> None:
        """The entry of this index and term is committed."""
        for placed_term, ticket in self._placed.pop(index, ()):
            if placed_term == term:
                self._resolve(ticket, Outcome.COMMITTED, index)
            else:
                self._resolve(ticket, Outcome.REFUSED, index, "another leader's command was committed in its place")

    def skip_to(self, index: int) -> None:
        """A snapshot stands for the entries up to this one: what they were is not known."""
        for passed in [known for known in self._placed if known <= index]:
            for _, ticket in self._placed.pop(passed):
                self._resolve(ticket, Outcome.UNKNOWN, passed, "a snapshot has taken the place of the log")

    def read_from(self, ticket: int, index: int) -> None:
        """A read may be served once `index` is committed here; of one that is not open nothing is kept."""
        if ticket in self._deadlines:
            heappush(self._reading, (index, ticket))

    def committed_to(self, index: int) -> None:
        """All up to this index is committed, and handed over."""
        while self._reading and self._reading[0][0] <= index:
            at, ticket = heappop(self._reading)
            self._resolve(ticket, Outcome.READABLE, at)

    def refuse(self, tickets: Iterable[int], reason: str) -> None:
        """These have no effect, and will have none."""
        for ticket in tickets:
            self._resolve(ticket, Outcome.REFUSED, 0, reason)

    def asked(self, tickets: Iterable[int], life: str | None) -> None:
        """These were handed to a leader, under this life; what ended before that is over."""
        self._asked |= {ticket: life for ticket in tickets if ticket in self._deadlines}

    def refused(self, tickets: Iterable[int], life: str, reason: str) -> None:
        """An answer to `asked`. A leader that has lost its disk since is another life: it cannot know what it took."""
        self.refuse([ticket for ticket in tickets if self._asked.get(ticket) == life], reason)

    def settle(self, ticket: int) -> None:
        """What was asked for has happened."""
        self._resolve(ticket, Outcome.COMMITTED)

    def expire(self, now: float) -> None:
        """End those whose time has come."""
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
