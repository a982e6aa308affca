"""Client sessions, which make a repeated command take effect once (Raft thesis, section 6.3).

A session remembers the results of its latest commands until the client acknowledges them. A session that is unused for
`SESSION_LIFE_MS` of committed time ends on every replica at the same log index. Its number is never given again, so a
later command of the session is refused and not applied twice.

Only some entries carry the leader's time. A session used between two of them counts as used at the later one. Until
then it is `UNSTAMPED`, so the time before never shortens its life.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from math import inf
from typing import Any

from glue.model.state.results import EXPIRED, REFUSED, Result

SESSION_LIFE_MS = 600_000
"""Ten minutes: longer than any client retries one command."""

UNSTAMPED = -1

SESSIONS = 4096
"""Open sessions: four for each of a thousand endpoints, 100 MB if full. The least recently used one ends first."""

PENDING = 1024
"""Results remembered per session; a client has no more commands under way at once."""


class Session:
    """The session of one client. The client may ask again for `results`, by serial number.

    Results up to the serial number `answered` are forgotten.
    """

    __slots__ = ("answered", "nonce", "number", "results", "used_ms")

    def __init__(self, number: int, nonce: str, used_ms: int = UNSTAMPED) -> None:
        self.number = number
        self.nonce = nonce
        self.used_ms = used_ms
        self.answered = 0
        self.results: dict[int, Result] = {}

    def answered_up_to(self, serial: int) -> None:
        """Forget the results up to this serial number, which the client has."""
        if serial <= self.answered:
            return
        self.answered = serial
        for done in [known for known in self.results if known <= serial]:
            del self.results[done]


class Sessions:
    """All sessions, the least recently used first; equal on every replica."""

    __slots__ = ("_by_nonce", "_open", "last_number")

    def __init__(self) -> None:
        self.last_number = 0
        self._open: OrderedDict[int, Session] = OrderedDict()
        self._by_nonce: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, nonce: str) -> int:
        """Return the number of the session with this nonce; opens it if there is none."""
        session = self._by_nonce.get(nonce)
        if session is None:
            self.last_number += 1
            session = Session(self.last_number, nonce)
            self._keep(session)
            if len(self._open) > SESSIONS:
                self._end(next(iter(self._open.values())))
        return session.number

    def known(self, number: int, serial: int, answered: int) -> Result | None:
        """Return the result of a command that must not be applied (again); None for a command to apply."""
        session = self._open.get(number)
        if session is None:
            return Result(EXPIRED, 0, "the session has ended")
        session.used_ms = UNSTAMPED
        self._open.move_to_end(number)
        session.answered_up_to(answered)
        if serial <= session.answered:
            return Result(EXPIRED, 0, "answered before")
        if serial not in session.results and len(session.results) >= PENDING:
            return Result(REFUSED, 0, f"more than {PENDING} commands of one session without an answer")
        return session.results.get(serial)

    def remember(self, number: int, serial: int, result: Result) -> None:
        """Keep the result of a new command, for its repetitions."""
        self._open[number].results[serial] = result

    @property
    def next_expiry(self) -> float:
        """The committed time (ms) at which `stamp` ends a session; 0 if a session waits for a stamp."""
        if not self._open:
            return inf
        if next(reversed(self._open.values())).used_ms == UNSTAMPED:
            return 0
        return next(iter(self._open.values())).used_ms + SESSION_LIFE_MS

    def stamp(self, time_ms: int) -> None:
        """Advance the committed time: sessions used since the last stamp count as used now, and unused ones end."""
        for session in reversed(self._open.values()):
            if session.used_ms != UNSTAMPED:
                break
            session.used_ms = time_ms
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.used_ms + SESSION_LIFE_MS > time_ms:
                return
            self._end(oldest)

    def result(self, number: int, serial: int) -> Result | None:
        """Return the remembered result of a command, None if there is none."""
        session = self._open.get(number)
        return None if session is None else session.results.get(serial)

    def as_list(self) -> list[Any]:
        """Return all sessions in order of use, for a snapshot."""
        return [
            [s.number, s.nonce, s.used_ms, s.answered, [[serial, *r.as_list()] for serial, r in s.results.items()]]
            for s in self._open.values()
        ]

    def load(self, last_number: int, sessions: Iterable[Any]) -> None:
        """Restore all sessions from a snapshot. Raises TypeError and ValueError for what is none."""
        self.last_number = last_number
        for number, nonce, used_ms, answered, results in sessions:
            session = Session(number, nonce, used_ms)
            session.answered = answered
            session.results = {serial: Result(*result) for serial, *result in results}
            if any(type(one) is not int for one in (last_number, number, used_ms, answered, *session.results)):
                raise TypeError("a session without numbers")
            self._keep(session)

    def _keep(self, session: Session) -> None:
        self._open[session.number] = session
        self._by_nonce[session.nonce] = session

    def _end(self, session: Session) -> None:
        del self._open[session.number]
        del self._by_nonce[session.nonce]
