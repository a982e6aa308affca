"""The linearizable reads of one endpoint, until consensus tells that the local copy is new enough."""

from __future__ import annotations

from math import inf

from glue.model.requests import Pending
from glue.model.state import Pattern

READS = 65_536
"""Reads that wait at once."""

Read = tuple[float, Pending, Pattern]
"""Deadline, token and pattern."""


class Reads:
    """Reads that wait to be asked for, or for the outcome of a ticket of consensus."""

    def __init__(self) -> None:
        self._waiting: list[Read] = []
        self._asked: dict[int, list[Read]] = {}
        self._at = -inf  # next time to ask

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._asked.values()))

    @property
    def deadline(self) -> float:
        """The time at which a read must be asked for, or its deadline passes."""
        at = self._at if self._waiting else inf
        return min((at, *(deadline for deadline, _, _ in self._all())))

    def _all(self) -> list[Read]:
        return self._waiting + [read for reads in self._asked.values() for read in reads]

    def add(self, deadline: float, token: Pending, pattern: Pattern) -> None:
        """Add a read, to be asked for at once."""
        self._waiting.append((deadline, token, pattern))
        self._at = -inf

    def are_due(self, now: float) -> bool:
        """Whether consensus must be asked now."""
        return bool(self._waiting) and self._at <= now

    def asked(self, ticket: int) -> None:
        """Assign all reads that were not asked for yet to this ticket."""
        self._asked[ticket], self._waiting = self._waiting, []

    def take(self, ticket: int) -> list[Read] | None:
        """Remove and return the reads of a ticket; None if the ticket is of another part."""
        return self._asked.pop(ticket, None)

    def again(self, reads: list[Read], at: float) -> None:
        """Ask for these reads again at time `at`."""
        self._waiting += reads
        self._at = at

    def repeat(self) -> None:
        """Ask a new leader for all reads."""
        for reads in self._asked.values():
            self._waiting += reads
        self._asked.clear()
        self._at = -inf

    def expired(self, now: float) -> list[Pending]:
        """Remove the reads past their deadline; returns their tokens."""
        over = [token for deadline, token, _ in self._all() if deadline <= now]
        if over:
            self._waiting = [read for read in self._waiting if read[0] > now]
            self._asked = {t: [read for read in reads if read[0] > now] for t, reads in self._asked.items()}
        return over

    def end(self) -> list[Pending]:
        """Remove and return the tokens of all reads, because no answer can come any more."""
        return self.expired(inf)
