"""How far one message may raise a number that only rises, so that no single message can raise it to its end.

Terms, ballots and indices stay below 2^62 (`wire.py`). A message that leads by more than a bound is refused and
counted, and nothing of it is stored. An honest member may lead by more after a very long absence: one that says so
again, for half an election timeout, raises the number by one bound, and so on until both agree. Raising one's own
term or promise is always safe: it only makes a replica heed less (Raft thesis, section 3.3; Paxos Made Simple).

What remains: somebody who forges all the time costs an election each time, and 2^38 messages would be needed to
reach the end, nine years at 1,000 a second.
"""

from __future__ import annotations

TERM_JUMP = 1 << 24
"""Terms by which one message may lead: an election each second for 194 days; honest groups see a few a day."""

BALLOT_JUMP = TERM_JUMP
"""Ballots of a founding, of which there is at most one each half election timeout."""

INDEX_JUMP = 1 << 45
"""Entries by which a leader may be ahead: a year of a million a second are 2^44.8."""

DOUBTED = 1024
"""Senders whose claims are remembered: 200 kB. Beyond, all are forgotten, and must be repeated once more."""

TERM_TOO_FAR = "messages refused: a term too far ahead"
INDEX_TOO_FAR = "messages refused: an index too far ahead"
BALLOT_TOO_FAR = "messages refused: a ballot too far ahead"


class Doubts:
    """Who has claimed a number that is too far ahead, and since when; `patience` in seconds."""

    __slots__ = ("_patience", "_since")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[str, float] = {}

    def is_repeated(self, now: float, sender: str) -> bool:
        """Whether this sender has claimed so for `patience`; then it has to begin again."""
        since = self._since.get(sender)
        if since is None or now - since > 4 * self._patience:
            if len(self._since) >= DOUBTED:
                self._since.clear()
            self._since[sender] = now
            return False
        if now - since < self._patience:
            return False
        del self._since[sender]
        return True
