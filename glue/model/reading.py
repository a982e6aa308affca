"""The linearizable reads of one endpoint, from the question until consensus says that its copy is new enough."""

from __future__ import annotations

from math import inf

from glue.model.requests import Pending
from glue.model.state import Pattern

READS = 65_536
"""Reads that wait at once."""

Read = tuple[float, Pending, Pattern]
"""Deadline, token, pattern."""


class Reads:
    """Reads that wait: to be asked for, or under a ticket of consensus."""

    def __init__(self) -> None:
        self._waiting: list[Read] = []
        self._asked: dict[int, list[Read]] = {}
        self._at = -inf  # when to ask (again)

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._asked.values()))

    @property
    def deadline(self) -> float:
        """When something is to be asked for, or has come to its end."""
        at = self._at if self._waiting else inf
        return min((at, *(deadline for deadline, _, _ in self._all())))

    def _all(self) -> list[Read]:
        return self._waiting + [read for reads in self._asked.values() for read in reads]

    def add(self, deadline: float, token: Pending, pattern: Pattern) -> None:
        """A read, to be asked for at once."""
        self._waiting.append((deadline, token, pattern))
        self._at = -inf

    def are_due(self, now: float) -> bool:
        """Whether consensus is to be asked."""
        return bool(self._waiting) and self._at <= now

    def asked(self, ticket: int) -> None:
        """All that waited go under this ticket."""
        self._asked[ticket], self._waiting = self._waiting, []

    def take(self, ticket: int) -> list[Read] | None:
        """The reads under a ticket; None if it is not one of theirs."""
        return self._asked.pop(ticket, None)

    def again(self, reads: list[Read], at: float) -> None:
        """Ask for these once more, at this time."""
        self._waiting += reads
        self._at = at

    def repeat(self) -> None:
        """Another leader: ask it for all."""
        for reads in self._asked.values():
            self._waiting += reads
        self._asked.clear()
        self._at = -inf

    def expired(self, now: float) -> list[Pending]:
        """Those whose time is over."""
        over = [token for deadline, token, _ in self._all() if deadline <= now]
        if over:
            self._waiting = [read for read in self._waiting if read[0] > now]
            self._asked = {t: [read for read in reads if read[0] > now] for t, reads in self._asked.items()}
        return over

    def end(self) -> list[Pending]:
        """None of them gets an answer from consensus any more."""
        return self.expired(inf)
