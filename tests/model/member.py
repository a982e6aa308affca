"""One replica under test: its messages are written by hand, its disk syncs when the test says so.

Members are called a, b, c, …; the life of `a` is `life-a`. The first entry of the log is the configuration, in
term 1, as after a founding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from glue.model.consensus import (
    Configuration,
    ConsensusSettings,
    DurableWrite,
    Kind,
    LogEntry,
    Output,
    Replica,
    Resolution,
    Role,
    Snapshot,
    Stored,
    Vital,
)
from glue.model.consensus.core import group_of
from glue.model.consensus.messages import Append, Appended, InstallSnapshot, Message, RequestVote, Vote

SCOPE = "1/plant"
SETTINGS = ConsensusSettings(voters=3, election_timeout=1.0, heartbeat=0.2, compact_after=1 << 20)


def life(peer: str) -> str:
    return f"life-{peer}"


def configuration(voters: str = "abc", learners: str = "") -> Configuration:
    return Configuration({peer: life(peer) for peer in voters}, {peer: life(peer) for peer in learners})


VALUE = configuration().encode()
GROUP = group_of(SCOPE, VALUE)


def entries(terms: Sequence[int], first: int = 2) -> list[LogEntry]:
    """Commands of these terms from index `first` on; each tells its index and term."""
    return [LogEntry(index, term, Kind.COMMAND, f"{index}.{term}".encode()) for index, term in enumerate(terms, first)]


class Member:
    """A replica, the time, and what it has said so far; the last answers are what the last call returned."""

    def __init__(
        self,
        peer: str = "a",
        terms: Sequence[int] = (),
        *,
        voters: str = "abc",
        learners: str = "",
        term: int = 1,
        vote: str = "",
        settings: ConsensusSettings = SETTINGS,
        stored: Stored | None = None,
        accepts: Callable[[bytes], bool] = lambda data: True,
    ) -> None:
        first = LogEntry(1, 1, Kind.CONFIGURATION, configuration(voters, learners).encode())
        vital = Vital(life(peer), GROUP, max([term, *terms]), vote, value=VALUE)
        stored = stored or Stored(vital, None, [first, *entries(terms)])
        self.peer = peer
        self.now = 100.0
        self.syncs = True
        self.writes: list[DurableWrite] = []
        self.committed: list[LogEntry] = []
        self.resolved: list[Resolution] = []
        self.restored: list[Snapshot] = []
        self.replica = Replica(peer, SCOPE, settings, stored, Random(7), self.now, accepts)
        self.get()

    # ------------------------------------------------------------------------------------------- what it does

    def get(self, *messages: tuple[str, Message]) -> list[Any]:
        """Give it messages; what it says, without the receivers, is returned."""
        return [message for _, message in self.addressed(*messages)]

    def addressed(self, *messages: tuple[str, Message]) -> list[tuple[str | None, Any]]:
        """As `get`, with whom each message is for."""
        return self._obey(self.replica.receive(self.now, messages))

    def _obey(self, output: Output) -> list[tuple[str | None, Any]]:
        said = list(output.messages)
        self.committed += output.committed
        self.resolved += output.resolved
        if output.restore is not None:
            self.restored.append(output.restore)
        if output.write is not None:
            self.writes.append(output.write)
            if self.syncs:
                said += self._obey(self.replica.synced(self.now, output.write.number))
        return said

    def sync(self, number: int | None = None) -> list[Any]:
        """The disk has done its work, up to this write or all."""
        number = self.writes[-1].number if number is None else number
        return [message for _, message in self._obey(self.replica.synced(self.now, number))]

    def wait(self, seconds: float) -> list[Any]:
        """Let time pass in small steps."""
        said, end = [], self.now + seconds
        while self.replica.deadline <= end:
            self.now = max(self.now, self.replica.deadline)
            said += self.get()
        self.now = end
        return said

    def propose(self, command: bytes = b"x") -> int:
        return self.replica.propose(self.now, command)

    def snapshot(self, data: bytes = b"state") -> list[Any]:
        """The driver takes a snapshot of all that is committed."""
        index = self.replica.status.commit_index
        return [message for _, message in self._obey(self.replica.take_snapshot(self.now, index, data))]

    # ------------------------------------------------------------------------------------------ what it is told

    def append(
        self,
        leader: str,
        term: int,
        previous: tuple[int, int],
        terms: Sequence[int] = (),
        commit: int = 0,
        round: int = 1,
    ) -> tuple[str, Append]:
        """A leader's append after (index, term)."""
        message = Append(GROUP, life(leader), term, round, *previous, commit, tuple(entries(terms, previous[0] + 1)))
        return leader, message

    def ask(
        self, candidate: str, term: int, last: tuple[int, int], *, pre: bool = False, transfer: bool = False
    ) -> tuple[str, RequestVote]:
        """A candidate asks, with the (index, term) of its last entry."""
        return candidate, RequestVote(GROUP, life(candidate), term, pre, transfer, *last)

    def vote(self, voter: str, term: int, *, pre: bool = False, granted: bool = True) -> tuple[str, Vote]:
        return voter, Vote(GROUP, life(voter), term, pre, granted)

    def acknowledge(
        self, peer: str, index: int, *, term: int | None = None, round: int | None = None
    ) -> tuple[str, Appended]:
        """A follower has everything up to this index."""
        round = self.round if round is None else round
        return peer, Appended(GROUP, life(peer), self.term if term is None else term, round, True, index, 0, 0)

    def refuse(
        self, peer: str, refused: int, hint: int, hint_term: int, *, term: int | None = None
    ) -> tuple[str, Appended]:
        """A follower could not take what came after `refused`."""
        return peer, Appended(
            GROUP, life(peer), self.term if term is None else term, self.round, False, hint, hint_term, refused
        )

    def piece(
        self, leader: str, term: int, index: int, index_term: int, voters: str = "abc"
    ) -> tuple[str, InstallSnapshot]:
        """A snapshot in one piece."""
        data = b"state"
        message = InstallSnapshot(
            GROUP, life(leader), term, 1, index, index_term, configuration(voters).encode(), len(data), 0, data
        )
        return leader, message

    # -------------------------------------------------------------------------------------------- where it stands

    @property
    def role(self) -> Role:
        return self.replica.status.role

    @property
    def term(self) -> int:
        return self.replica.status.term

    @property
    def commit_index(self) -> int:
        return self.replica.status.commit_index

    @property
    def round(self) -> int:
        """The leader's last round."""
        return int(self.replica._core.actor._sending.round)  # type: ignore[attr-defined]

    @property
    def log(self) -> list[tuple[int, int]]:
        """Index and term of each entry."""
        log = self.replica._core.log
        return [(entry.index, entry.term) for entry in log.entries(1, log.last_index)]

    @property
    def last(self) -> tuple[int, int]:
        log = self.replica._core.log
        return log.last_index, log.last_term

    def stand(self) -> list[Any]:
        """Let it wait for a leader until it asks whether it would be elected."""
        said: list[Any] = []
        while self.role is not Role.CANDIDATE:
            said = self.wait(max(0.0, self.replica.deadline - self.now))
        return said

    def campaign(self, *others: str) -> list[Any]:
        """Let it ask for votes, `others` having said that they would give them."""
        self.stand()
        return self.get(*[self.vote(peer, self.term + 1, pre=True) for peer in others or ("b",)])

    def lead(self, *others: str) -> list[Any]:
        """Let it be elected by these others."""
        self.campaign(*others)
        said = self.get(*[self.vote(peer, self.term) for peer in others or ("b",)])
        assert self.role is Role.LEADER
        return said

    def lead_and_commit(self, *others: str) -> None:
        """Let it lead, with everything committed."""
        self.lead(*others)
        self.get(*[self.acknowledge(peer, self.last[0]) for peer in others or ("b",)])
        assert self.commit_index == self.last[0]


def appends(said: list[tuple[str | None, object]]) -> list[tuple[str | None, Append]]:
    """The appends among what a leader said, and to whom."""
    return [(to, message) for to, message in said if isinstance(message, Append)]
