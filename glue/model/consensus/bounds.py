"""Limits on how far one message may raise a rising number, so that no message alone can use up the range.

Terms, ballots and indices stay below 2^62 (`wire.py`). A message beyond a limit is counted and refused, and nothing of
it is stored. An honest member may be further ahead after a very long absence. If it repeats its claim for half an
election timeout, the number rises by the limit, and so on until both agree. A replica may always raise its own term or
promise: it then ignores more messages (Raft thesis, section 3.3; Paxos Made Simple).

An attacker that forges messages all the time still causes elections. 2^38 messages would use up the range, which takes
nine years at 1,000 a second.
"""

from __future__ import annotations

TERM_JUMP = 1 << 24
"""Terms by which one message may lead: an election each second for 194 days. Healthy groups see a few a day."""

BALLOT_JUMP = TERM_JUMP
"""Ballots by which one message may lead. A founder opens at most one each half election timeout."""

INDEX_JUMP = 1 << 45
"""Entries by which a leader may be ahead: a million a second for a year are 2^44.8."""

DOUBTED = 1024
"""Senders with claims that are remembered: 200 kB. Beyond this, all are forgotten and must repeat their claims."""

TERM_TOO_FAR = "messages refused: a term too far ahead"
INDEX_TOO_FAR = "messages refused: an index too far ahead"
BALLOT_TOO_FAR = "messages refused: a ballot too far ahead"


class Doubts:
    """The senders that claimed a number too far ahead, and since when. `patience` is in seconds."""

    __slots__ = ("_patience", "_since")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[str, float] = {}

    def is_repeated(self, now: float, sender: str) -> bool:
        """Whether this sender has repeated its claim for `patience`. After that the count begins again."""
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
