"""Known mistakes of those who implement Raft, each planted by a small patch; the swarm must find every one.

A simulator that finds none of them proves nothing. `BUGS` names them; `planted` makes one real for a while. The
numbers are rows of the checklist that `test_checklist.py` tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Any, NamedTuple
from unittest.mock import patch

from glue.errors import CorruptStorageError
from glue.model.consensus.candidate import Candidate
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import RecentKeys, ReplicaCore
from glue.model.consensus.follower import Follower
from glue.model.consensus.items import Kind, Outcome, Snapshot
from glue.model.consensus.leader import Leader
from glue.model.consensus.log import Log
from glue.model.consensus.messages import Append, Appended, RequestVote, Vote
from glue.model.consensus.part import Part
from glue.model.consensus.progress import FollowerProgress
from glue.model.consensus.reads import PendingReads
from glue.model.consensus.tickets import Tickets
from glue.model.storage import files
from glue.model.storage.files import FileStorage
from glue.simulation.consensus import SimulatedDisk
from glue.storage import framing

Patch = tuple[Any, str, Any]


class Bug(NamedTuple):
    """A mistake: the checklist's row, what it is, and how it is made."""

    row: int
    what: str
    patches: list[Patch]


# ------------------------------------------------------------------------------------ what is told too early


def told_early(*kinds: type) -> list[Patch]:
    """These messages do not wait for the disk."""
    answer = ReplicaCore.answer

    def hasty(self: ReplicaCore, to: str | None, message: Any) -> None:
        if isinstance(message, kinds) and to != self.peer:
            self.tell(to, message)  # type: ignore[arg-type]
        else:
            answer(self, to, message)

    return [(ReplicaCore, "answer", hasty)]


def counts_unsynced(self: Leader) -> None:
    durable, self.core.journal.durable_index = self.core.journal.durable_index, self.core.log.last_index
    count(self)
    self.core.journal.durable_index = durable


count = Leader._count


# -------------------------------------------------------------------------------------------------- elections


def votes_again(self: Part, candidate: str, request: RequestVote) -> bool:
    return True


def forgets_vote(self: ReplicaCore, now: float, term: int, leader: str = "") -> None:
    follow(self, now, term, leader)
    self.vital = self.vital._replace(vote="")


follow = ReplicaCore.follow


def compares_length(self: Log, last_index: int, last_term: int) -> bool:
    return last_index >= self.last_index


def compares_nothing(self: Log, last_index: int, last_term: int) -> bool:
    return True


def counts_any_vote(self: Candidate, now: float, sender: str, vote: Vote) -> None:
    if vote.granted and self.core.configuration.votes(sender, vote.life):
        self._granted.add(sender)
        self._count(now)
    else:
        on_vote(self, now, sender, vote)


on_vote = Candidate.on_vote


def any_life(self: Configuration, peer: str, life: str) -> bool:
    return peer in self.voters


def learners_count(self: Configuration, peers: Any) -> bool:
    return sum(peer in self.voters or peer in self.learners for peer in peers) >= self.quorum


def learners_vote(self: Configuration, peer: str, life: str) -> bool:
    return self.voters.get(peer) == life or self.learners.get(peer) == life


def leads_silently(self: ReplicaCore, kind: Kind, data: bytes) -> int:
    return append(self, kind, data) if kind != Kind.NOTHING else self.log.last_index


append = ReplicaCore.append

# ------------------------------------------------------------------------------------------------ replication


def commits_older_terms(self: Leader) -> None:
    core, term = self.core, self.core.log.term
    matches: dict[str, float] = {peer: known.match for peer, known in self._progress.items()}
    index = self._majority({**matches, core.peer: core.journal.durable_index})
    if index > core.commit_index and term(int(index)) is not None:
        self._commit(int(index))
    count(self)


def commits_all_it_hears_of(self: Follower, now: float, sender: str, message: Append) -> None:
    on_append(self, now, sender, message)
    core = self.core
    if core.leader == sender and message.term == core.term and message.commit_index > core.commit_index:
        core.commit(min(message.commit_index, core.log.last_index))


on_append = Follower.on_append


def truncates_always(self: Follower, previous: int, entries: Any) -> bool:
    core = self.core
    if previous < core.log.last_index and previous >= core.commit_index:
        core.truncate(previous + 1)
    return store(self, previous, entries)


def never_truncates(self: Follower, previous: int, entries: Any) -> bool:
    log = self.core.log
    log.extend([entry for entry in entries if entry.index > log.last_index])
    return True


store = Follower._store


def trusts_previous(self: Log, index: int) -> int | None:
    """A follower compares the index only, not the term: every term is said to be there."""
    return AnyTerm(term_of(self, index) or 0) if index <= self.last_index else None


class AnyTerm(int):
    """Equal to every term."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


term_of = Log.term


def takes_refusal_for_match(self: FollowerProgress, previous_index: int, hint: int, round: int, now: float) -> None:
    refused(self, previous_index, hint, round, now)
    self.matched(now, hint)


refused = FollowerProgress.refused

# ------------------------------------------------------------------------------------------ reads and tickets


def reads_without_asking(self: PendingReads, round: float) -> None:
    confirmed(self, inf)


def reads_at_old_index(self: PendingReads, core: ReplicaCore, first_index: int) -> None:
    reads_made(self, core, 0)


def reads_by_lease(self: Leader) -> None:
    """A lease on a clock: an answer within an election timeout is taken for a majority, also by who was stopped."""
    count(self)
    heard = sorted((known.answered_at for known in self._progress.values()), reverse=True)
    lease = heard[0] + 2 * self.core.settings.election_timeout if heard else inf
    if self._heartbeat <= lease:
        self._reads.confirmed(inf)


confirmed, reads_made = PendingReads.confirmed, PendingReads.__init__


def reads_at_once(self: Tickets, ticket: int, index: int) -> None:
    self._resolve(ticket, Outcome.READABLE, index)


def refuses_the_unknown(self: Tickets, now: float) -> None:
    for ticket, (deadline, _) in list(self._deadlines.items()):
        if deadline <= now:
            self._resolve(ticket, Outcome.REFUSED, 0, "it took too long")


def appends_copies(self: RecentKeys, key: object) -> bool:
    return True


# ------------------------------------------------------------------------------------------ members, snapshots


def forgets_configuration(self: Log, snapshot: Snapshot) -> None:
    begin_with(self, Snapshot(snapshot.index, snapshot.term, Configuration({}, {}), snapshot.data))


begin_with = Log._begin_with


# ---------------------------------------------------------------------------------------------------- storage


def ignores_errors(self: FileStorage) -> None:
    try:
        if self._is_dirty:
            self._is_dirty = False
            self._directory.sync("log")
    except OSError:
        pass


def never_syncs(self: FileStorage) -> None:
    return


def takes_damage_for_a_torn_end(data: bytes) -> tuple[list[memoryview], int]:
    payloads: list[memoryview] = []
    start = 0
    while True:
        try:
            payload = payload_at(memoryview(data), start) if start < len(data) else None
        except CorruptStorageError:
            payload = None
        if payload is None:
            return payloads, start
        payloads.append(payload)
        start += len(payload) + 13


payload_at = framing._payload


def renames_unsynced(self: FileStorage, name: str, payloads: list[bytes]) -> None:
    with patch.object(SimulatedDisk, "sync", lambda disk, file: None):
        replace(self, name, payloads)


replace = FileStorage._replace


def leaves_names_unsynced(self: FileStorage, name: str, payloads: list[bytes]) -> None:
    if name == "snapshot" or self._directory.read("log") is None:
        replace(self, name, payloads)
        return
    with patch.object(SimulatedDisk, "sync_names", lambda disk: None):
        replace(self, name, payloads)


def keeps_torn_end(self: SimulatedDisk, name: str, size: int) -> None:
    return


def on(handlers: type[Part], message: type, method: Callable[..., None]) -> Patch:
    return handlers, "HANDLERS", {**handlers.HANDLERS, message: method}


BUGS: dict[str, Bug] = {
    "figure-8": Bug(2, "an entry of an older term is committed by counting", [(Leader, "_count", commits_older_terms)]),
    "no-op": Bug(3, "a new leader appends no entry of its own term", [(ReplicaCore, "append", leads_silently)]),
    "vote-unsynced": Bug(4, "a vote is told before it is durable", told_early(Vote)),
    "acknowledged-unsynced": Bug(5, "entries are acknowledged before they are durable", told_early(Appended)),
    "leader-unsynced": Bug(6, "the leader counts itself before it has synced", [(Leader, "_count", counts_unsynced)]),
    "request-unsynced": Bug(7, "a candidate asks for votes before its own is durable", told_early(RequestVote)),
    "vote-forgotten": Bug(
        8, "a vote is cleared on stepping down in the same term", [(ReplicaCore, "follow", forgets_vote)]
    ),
    "log-length": Bug(9, "the longer log wins, whatever its last term", [(Log, "is_covered_by", compares_length)]),
    "log-ignored": Bug(9, "a vote is given whatever the candidate's log", [(Log, "is_covered_by", compares_nothing)]),
    "two-votes": Bug(10, "whoever asks gets a vote", [(Part, "_may_vote", votes_again)]),
    "previous-term": Bug(12, "the term of the entry before is not compared", [(Log, "term", trusts_previous)]),
    "truncates-always": Bug(12, "an older append cuts off what came after", [(Follower, "_store", truncates_always)]),
    "never-truncates": Bug(12, "a conflicting entry is kept", [(Follower, "_store", never_truncates)]),
    "commit-too-far": Bug(
        13, "the leader's commit index is taken as it is", [on(Follower, Append, commits_all_it_hears_of)]
    ),
    "refusal-as-match": Bug(
        14, "a hint is taken for a match", [(FollowerProgress, "refused", takes_refusal_for_match)]
    ),
    "stale-votes": Bug(15, "votes of older terms and of the pre-vote count", [on(Candidate, Vote, counts_any_vote)]),
    "read-unasked": Bug(
        27, "reads are served without asking a majority", [(PendingReads, "confirmed", reads_without_asking)]
    ),
    "read-new-leader": Bug(
        27, "reads before the first commit of the term", [(PendingReads, "__init__", reads_at_old_index)]
    ),
    "lease": Bug(28, "reads by a lease on a clock that may stand still", [(Leader, "_count", reads_by_lease)]),
    "read-early": Bug(27, "a follower does not wait for the read index", [(Tickets, "read_from", reads_at_once)]),
    "copies": Bug(29, "a command that the network repeats is appended twice", [(RecentKeys, "is_new", appends_copies)]),
    "unknown-as-refused": Bug(30, "an unknown outcome is told as refused", [(Tickets, "expire", refuses_the_unknown)]),
    "snapshot-configuration": Bug(
        31, "a snapshot comes without its configuration", [(Log, "_begin_with", forgets_configuration)]
    ),
    "rename-unsynced": Bug(34, "a file is renamed before it is synced", [(FileStorage, "_replace", renames_unsynced)]),
    "names-unsynced": Bug(34, "the directory is not synced", [(FileStorage, "_replace", leaves_names_unsynced)]),
    "learners-count": Bug(
        38, "learners count", [(Configuration, "has_quorum", learners_count), (Configuration, "votes", learners_vote)]
    ),
    "sync-error": Bug(43, "an error of fsync is ignored", [(FileStorage, "sync", ignores_errors)]),
    "never-synced": Bug(5, "nothing is ever synced", [(FileStorage, "sync", never_syncs)]),
    "damage-cut": Bug(44, "damage is taken for a torn end", [(files, "scan", takes_damage_for_a_torn_end)]),
    "torn-end": Bug(44, "a torn end is not cut off", [(SimulatedDisk, "truncate", keeps_torn_end)]),
    "wiped-votes": Bug(45, "a wiped voter votes under its old id", [(Configuration, "votes", any_life)]),
}  # fmt: skip


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Within, this mistake is made."""
    with ExitStack() as stack:
        for owner, attribute, mistake in BUGS[name].patches:
            stack.enter_context(patch.object(owner, attribute, mistake))
        yield
