"""The part of a replica that is independent of its role: vital facts, log, tickets and outgoing messages.

The roles (`founder.py`, `follower.py`, `candidate.py`, `leader.py`) act on a `ReplicaCore`, and replace each other
through it. A message given to `tell` leaves at once. A message given to `answer` leaves when all that the replica knows
is durable. Therefore a crash takes back no vote and no acknowledgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any, Literal, Protocol

from glue.model.consensus.agreement import Agreement
from glue.model.consensus.bounds import TERM_JUMP, TERM_TOO_FAR, Doubts
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.items import Kind, LogEntry, Role, Snapshot, Status, Stored
from glue.model.consensus.journal import AddressedMessage, Journal
from glue.model.consensus.log import Log
from glue.model.consensus.messages import GroupMessage, Message, RequestVote
from glue.model.consensus.output import Output
from glue.model.consensus.settings import ConsensusSettings
from glue.model.consensus.tickets import START_BITS, Tickets

FIRST_TERM = 1
"""The term of a new group's first entry, its configuration. No replica leads in this term."""

Change = tuple[Literal["admit", "remove", "transfer"], str]
"""A change for a leader to make, and the endpoint id of the member."""

Question = tuple[int, bytes | None]
"""A ticket, and the command to commit; None for a read."""


FORWARDS = 16_384
"""Forwarded messages kept to detect copies, at 240 bytes each: 4 MB. A copy comes within seconds: its lifespan is an
election timeout."""


class RecentKeys:
    """A set of the newest keys, up to a limit."""

    __slots__ = ("_keys", "_limit")

    def __init__(self, limit: int) -> None:
        self._keys: dict[object, None] = {}
        self._limit = limit

    def is_new(self, key: object) -> bool:
        """Whether this key is not in the set; adds the key."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > self._limit:
            del self._keys[next(iter(self._keys))]
        return True


class Actor(Protocol):
    """A role, as the core uses it."""

    @property
    def role(self) -> Role:
        """The role's name for the status."""

    @property
    def deadline(self) -> float:
        """When `due` must be called (monotonic seconds)."""

    def take(self, now: float, sender: str, message: Any) -> None:
        """Take a message of this group; a founder also takes the messages of a founding."""

    def due(self, now: float) -> None:
        """Do what is due at this time."""

    def submit(self, now: float, questions: list[Question]) -> None:
        """Take the commands and reads that this replica was asked for."""

    def conclude(self, now: float) -> None:
        """Finish a call, after all its messages were taken."""

    def retire(self, now: float) -> None:
        """End this role, because another one takes over."""

    def change(self, now: float, ticket: int, change: Change) -> None:
        """Change the members, or hand the leadership over."""


class Roles(Protocol):
    """Creates the roles; `Replica` implements this protocol."""

    def follow(self, core: ReplicaCore, now: float) -> Actor:
        """Return a follower."""

    def stand(self, core: ReplicaCore, now: float, transfer: bool) -> Actor:
        """Return a candidate. `transfer` is true if the leader asked for the election."""

    def lead(self, core: ReplicaCore, now: float) -> Actor:
        """Return a leader."""


def group_of(scope: str, value: bytes) -> str:
    """Return the id of the group founded with this configuration: unique, because lives are random."""
    return f"{scope}/{blake2b(value, digest_size=8).hexdigest()}"


class ReplicaCore:
    """The state of a replica that is independent of its role."""

    __slots__ = (
        "_answers", "_committed", "_messages", "_restore", "_roles", "_status", "_vital_at_start", "accepts", "actor",
        "agreement", "commit_index", "doubts", "forwards", "journal", "leader", "log", "peer", "questions", "rng",
        "scope", "settings", "statistics", "tickets", "transfer", "vital",
    )  # fmt: skip

    def __init__(
        self,
        peer: str,
        scope: str,
        settings: ConsensusSettings,
        stored: Stored,
        rng: Random,
        roles: Roles,
        accepts: Callable[[bytes], bool],
    ) -> None:
        self.peer = peer
        self.accepts = accepts
        self.doubts = Doubts(settings.election_timeout / 2)
        self.agreement = Agreement(settings)
        self.scope = scope
        self.settings = settings
        self.rng = rng
        self.statistics: Counter[str] = Counter()
        self.vital = stored.vital
        self.log = Log(stored)
        self.journal = Journal(stored.vital, self.log.last_index)
        self.tickets = Tickets(rng.getrandbits(START_BITS), settings.ticket_timeout)
        self.questions: list[Question] = []
        self.transfer: tuple[int, str] | None = None  # ticket and receiver of a transfer of leadership
        self.forwards = RecentKeys(FORWARDS)
        self.leader = ""
        self.commit_index = self.log.base_index if self.log.snapshot is None else self.log.snapshot.index
        self.actor: Actor
        self._roles = roles
        self._vital_at_start = stored.vital
        self._status: Status | None = None
        self._messages: list[AddressedMessage] = []
        self._answers: list[AddressedMessage] = []
        self._committed: list[LogEntry] = []
        self._restore: Snapshot | None = self.log.snapshot

    # ------------------------------------------------------------------------------------------------ state

    @property
    def group(self) -> str:
        """The id of the replica's group, "" for none."""
        return self.vital.group

    @property
    def life(self) -> str:
        """The life of the replica's storage."""
        return self.vital.life

    @property
    def term(self) -> int:
        """The newest term that the replica knows."""
        return self.vital.term

    @property
    def configuration(self) -> Configuration:
        """The members of the group by the newest configuration in the log."""
        return self.log.configuration

    @property
    def is_voter(self) -> bool:
        """Whether this life of the replica has a vote."""
        return self.configuration.votes(self.peer, self.life)

    @property
    def may_stand(self) -> bool:
        """Whether the replica may lead: it votes in the committed configuration, or in a later one.

        See the thesis, section 4.2.2. The other voters may need a removed replica, because it has a longer log until
        they know of the removal.
        """
        known = self.log.configurations_since(self.commit_index)
        return any(configuration.votes(self.peer, self.life) for configuration in known)

    @property
    def status(self) -> Status:
        """Role, term, leader and commit index."""
        return Status(self.actor.role, self.term, self.leader, self.commit_index)

    def is_member(self, peer: str, life: str) -> bool:
        """Whether this life of a peer is a voter or a learner."""
        return self.configuration.life(peer) == life

    def may_have_led(self, term: int) -> bool:
        """Whether this replica may have led in this term before it was started."""
        start = self._vital_at_start
        return term < start.term or (term == start.term and start.vote == self.peer)

    # ---------------------------------------------------------------------------------------------- changes

    def advance(self, term: int, vote: str = "") -> None:
        """Enter a higher term, or vote in the present one."""
        self.vital = self.vital._replace(term=term, vote=vote)

    def doubt(self, now: float, sender: str, message: GroupMessage) -> None:
        """Refuse a message with a term that is too far ahead.

        If the sender repeats it for long, advance by `TERM_JUMP`. Requests for votes never have this effect.
        """
        self.statistics[TERM_TOO_FAR] += 1
        if not isinstance(message, RequestVote) and self.doubts.is_repeated(now, sender):
            self.follow(now, self.term + TERM_JUMP)

    def join(self, value: bytes) -> None:
        """Join the group founded with this configuration.

        If this life of the replica is among the first voters, it starts with a vote.
        """
        configuration = Configuration.decode(value)
        self.vital = self.vital._replace(group=group_of(self.scope, value), value=value)
        if configuration.votes(self.peer, self.life):
            self.advance(FIRST_TERM)
            self.log.extend([LogEntry(1, FIRST_TERM, Kind.CONFIGURATION, value)])
            self.commit(1)

    def append(self, kind: Kind, data: bytes) -> int:
        """Append an entry as a leader; returns its index."""
        index = self.log.last_index + 1
        self.log.extend([LogEntry(index, self.term, kind, data)])
        return index

    def truncate(self, first: int) -> None:
        """Remove the entries from this index on, which the leader does not have."""
        self.log.truncate(first)
        self.journal.truncated(first)

    def commit(self, index: int) -> None:
        """Commit all entries up to this index, and hand over their commands."""
        for entry in self.log.entries(self.commit_index + 1, index):
            if entry.kind == Kind.COMMAND:
                self._committed.append(entry)
            self.tickets.commit(entry.index, entry.term)
        self.commit_index = index
        self.tickets.committed_to(index)

    def place(self, ticket: int, index: int, term: int) -> None:
        """Note where a leader put a ticket's command. The entry may be committed here already."""
        if index > self.commit_index:
            self.tickets.place(ticket, index, term)
            return
        known = self.log.term(index)
        self.tickets.place(ticket, index, term)
        if known is None:
            self.tickets.skip_to(index)
        else:
            self.tickets.commit(index, known)

    def transferred(self, leader: str) -> None:
        """Settle the ticket of a transfer if this leader was its receiver."""
        if self.transfer is not None and self.transfer[1] == leader:
            self.tickets.settle(self.transfer[0])
            self.transfer = None

    def install(self, snapshot: Snapshot) -> None:
        """Replace the log by a leader's snapshot that is ahead of the commit index."""
        self.log.replace(snapshot)
        self.journal.replaced(snapshot.index)
        self.tickets.skip_to(snapshot.index)
        self._committed.clear()
        self._restore = snapshot
        self.commit_index = snapshot.index
        self.tickets.committed_to(snapshot.index)

    # --------------------------------------------------------------------------------------------- messages

    def tell(self, to: str | None, message: Message) -> None:
        """Send a message at once, because nothing in it needs to be durable. `to` is None for all replicas."""
        self._messages.append((to, message))

    def answer(self, to: str | None, message: Message) -> None:
        """Send a message once all that is known now is durable. `to` is None for all replicas."""
        self._answers.append((to, message))

    # ------------------------------------------------------------------------------------------------ roles

    def follow(self, now: float, term: int, leader: str = "") -> None:
        """Become a follower in this term."""
        if term > self.term:
            self.advance(term)
        self.leader = leader
        self.transferred(leader)
        self._become(now, self._roles.follow(self, now))

    def stand(self, now: float, transfer: bool = False) -> None:
        """Become a candidate. A `transfer` skips the pre-vote, because the leader asked for the election."""
        self.leader = ""
        self._become(now, self._roles.stand(self, now, transfer))

    def lead(self, now: float) -> None:
        """Become the leader of this term."""
        self.leader = self.peer
        self._become(now, self._roles.lead(self, now))

    def _become(self, now: float, actor: Actor) -> None:
        former, self.actor = self.actor, actor
        former.retire(now)

    # ----------------------------------------------------------------------------------------------- output

    def synced(self, number: int) -> list[Message]:
        """Release the answers that waited for writes up to this number; returns those to this replica itself."""
        addressed = self.journal.synced(number)
        self._messages += [message for message in addressed if message[0] != self.peer]
        return [message for to, message in addressed if to == self.peer]

    def finish(self) -> Output:
        """Return the output of this call, and begin a new one."""
        output = Output()
        output.write = self.journal.take(self.vital, self.log)
        answers, self._answers = self._answers, []
        output.messages = self._messages + self.journal.hold(answers) if answers else self._messages
        output.restore, output.committed, output.resolved = self._restore, self._committed, self.tickets.resolved
        self._messages, self._restore, self._committed, self.tickets.resolved = [], None, [], []
        status = self.status
        if self._status is None or status[:3] != self._status[:3]:
            output.status = status
        self._status = status
        size = self.log.size
        output.wants_snapshot = size > self.settings.compact_after and self._has_more_than_snapshot()
        return output

    def _has_more_than_snapshot(self) -> bool:
        return self.log.snapshot is None or self.commit_index > self.log.snapshot.index
