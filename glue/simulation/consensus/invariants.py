"""Invariants of Raft, which must hold at every step, observed from outside.

The watch sees every outgoing message, every write and sync, and every applied entry of all replicas. It does not trust
a replica's own claims. The names are from etcd's robustness tests. Each step is checked when it happens against all
steps before, so a check costs no more than the change.
"""

from __future__ import annotations

from glue.model.consensus import DurableWrite, Kind, LogEntry, Role, Snapshot, Vital
from glue.model.consensus.messages import Append, Appended, Message, RequestVote, SnapshotReceived, Vote
from glue.simulation.consensus.observed import DurableLog, Observed


class Violation(AssertionError):  # noqa: N818  # the field's word
    """An invariant does not hold."""


def require(holds: bool, invariant: str, what: object = "") -> None:
    """Raise a Violation unless the invariant holds."""
    if not holds:
        raise Violation(f"{invariant}: {what}")


class InvariantWatch:
    """Checks every step of every replica of one group."""

    def __init__(self) -> None:
        self.committed: dict[int, LogEntry] = {}  # the one log that all replicas agree on, by index
        self.digests: dict[int, bytes] = {0: b""}
        self.commands: set[bytes] = set()
        self.commit_index = 0
        self.elections = 0
        self._leaders: dict[int, str] = {}
        self._votes: dict[tuple[int, str], str] = {}  # by term and voter's life
        self._requests: dict[tuple[int, str], tuple[int, int]] = {}  # last term and index, by term and candidate
        self._seen: dict[tuple[int, int], tuple[int, bytes]] = {}  # kind and data of an entry, by index and term
        self._before: dict[tuple[int, int], int] = {}  # the term of the preceding entry, by index and term
        self._commits: dict[int, int] = {}  # the highest index committed, by the leader's term
        self._groups: set[str] = set()
        self._durable: dict[str, DurableLog] = {}  # by life; a lost life keeps its last state

    def began(self, life: str, durable: DurableLog) -> None:
        """Register the disk contents with which a replica starts."""
        self._durable[life] = durable

    # ---------------------------------------------------------------------------------------------- messages

    def sent(self, node: Observed, to: str | None, message: Message) -> None:
        """Check an outgoing message: the promises in it must be durable."""
        match message:
            case Vote(granted=True, pre=False):
                self._voted(node, to, message.term)
            case RequestVote(pre=False):
                self._requests[message.term, node.peer] = message.last_term, message.last_index
                self._voted(node, node.peer, message.term)
                durable = node.durable
                require(durable.vital.term >= message.term, "vote durable before candidacy", node)
                require(
                    durable.vital.term > message.term or durable.last >= (message.last_term, message.last_index),
                    "candidate tells what is durable", node,
                )  # fmt: skip
            case Appended(matches=True):
                self._acknowledged(node, message)
            case SnapshotReceived() if message.index > node.durable.snapshot_index:
                snapshot = node.replica.snapshot if node.replica else None
                known = snapshot is not None and snapshot.index >= message.index
                require(not known or message.index <= node.durable.last[1], "snapshot durable before its receipt", node)

    def appends(self, node: Observed, message: Message) -> None:
        """Check an outgoing message after the replica's role is known: only a leader appends."""
        if isinstance(message, Append):
            require(self._leaders.get(message.term) == node.peer, "only a leader appends", (node, message))

    def _voted(self, node: Observed, candidate: str | None, term: int) -> None:
        vital = node.durable.vital
        is_durable = vital.term > term or (vital.term == term and vital.vote == candidate)
        require(is_durable, "vote durable before it is told", (node, candidate, term, vital))
        known = self._votes.setdefault((term, node.life), candidate or "")
        require(known == candidate, "one vote in a term", (node, term, known, candidate))

    def _acknowledged(self, node: Observed, message: Appended) -> None:
        durable = node.durable
        require(durable.vital.term >= message.term, "term durable before the acknowledgement", node)
        if durable.vital.term == message.term:
            require(
                message.index <= max(durable.snapshot_index, *durable.entries, 0),
                "entries durable before the acknowledgement", (node, message, durable.entries),
            )  # fmt: skip

    # ----------------------------------------------------------------------------------------------- writes

    def wrote(self, node: Observed, write: DurableWrite) -> None:
        """Check and record a replica's change of state."""
        before = node.vital
        if write.vital is not None:
            self._vital(node, before, write.vital)
            node.vital = write.vital
        previous = node.term_before(write)
        for entry in write.entries:
            self._entry(node, entry, previous)
            previous = entry.term
        if write.entries:
            require(write.entries[-1].term <= node.vital.term, "log: no term above the replica's own", node)
        node.durable.written.append(write)

    def _vital(self, node: Observed, before: Vital, after: Vital) -> None:
        require(after.life == before.life, "a life never changes", node)
        require(after.term >= before.term, "terms only rise", (node, before, after))
        if before.group:
            require(after.group == before.group, "a replica stays in its group", node)
        elif after.group:
            self._groups.add(after.group)
            require(len(self._groups) == 1, "one group", self._groups)
        if after.vote:
            request = self._requests.get((after.term, after.vote))
            if after.vote != node.peer and request is not None and node.is_stepping_once and before.vote != after.vote:
                require(request >= node.last_before, "up-to-date vote", (node, request, node.last_before))

    def _entry(self, node: Observed, entry: LogEntry, previous: int | None) -> None:
        key = entry.index, entry.term
        content = int(entry.kind), entry.data
        require(self._seen.setdefault(key, content) == content, "log matching", (node, entry))
        if previous is not None:
            require(previous <= entry.term, "log: terms never fall", (node, entry))
            require(self._before.setdefault(key, previous) == previous, "log matching: the entry before", (node, entry))
        known = self.committed.get(entry.index)
        if known is not None and node.replica is not None and entry.index <= node.replica.status.commit_index:
            require(known.term == entry.term, "log: what is committed stays", (node, entry, known))

    # ------------------------------------------------------------------------------------- roles and commits

    def became(self, node: Observed, role: Role, term: int) -> None:
        """Check a replica's new role or term."""
        if role is not Role.LEADER:
            return
        leader = self._leaders.setdefault(term, node.peer)
        require(leader == node.peer, "leader uniqueness", (term, leader, node.peer))
        self.elections += 1
        assert node.replica is not None
        voters = node.replica.configuration.voters
        granted = [voter for voter, life in voters.items() if self._votes.get((term, life)) == node.peer]
        own = node.durable.vital
        require(own.term > term or own.vote == node.peer, "own vote durable before it counts", node)
        require(node.replica.configuration.has_quorum(granted), "election safety", (node, term, granted))
        earlier = [index for at, index in self._commits.items() if at < term]
        index = max(earlier, default=0)
        if index:
            require(node.has(index, self.committed[index].term), "leader completeness", (node, term, index))

    def advanced(self, node: Observed) -> None:
        """Check a higher commit index: a quorum must have the entries on disk."""
        assert node.replica is not None
        status = node.replica.status
        for entry in node.entries(node.commit_index + 1, status.commit_index):
            known = self.committed.setdefault(entry.index, entry)
            require(known.term == entry.term, "state machine safety", (node, known, entry))
            if entry.index > self.commit_index:
                self._commit(node, entry)
        node.commit_index = status.commit_index

    def _commit(self, node: Observed, entry: LogEntry) -> None:
        self.commit_index = entry.index
        assert node.replica is not None
        status, configuration = node.replica.status, node.replica.configuration
        self._commits[status.term] = max(entry.index, self._commits.get(status.term, 0))
        if entry.index > 1 and self._leaders.get(status.term) == node.peer:
            index = status.commit_index
            holders = [
                peer for peer, life in configuration.voters.items()
                if life in self._durable and self._durable[life].holds(entry.index, entry.term)
            ]  # fmt: skip
            require(configuration.has_quorum(holders), "committed is durable (quorum log)", (node, entry, holders))
            last = node.entries(index, index)
            require(not last or last[0].term == status.term, "commit by counting only in the own term", (node, entry))
        elif entry.index > 1:
            require(False, "only a leader commits first", (node, entry))

    def applied(self, node: Observed, entry: LogEntry) -> None:
        """Check a command that a state machine has applied."""
        known = self.committed.get(entry.index)
        require(known is not None and known.data == entry.data, "state machine safety", (node, entry))
        digest = self.digests.get(entry.index)
        if digest is None:
            self.digests[entry.index] = node.machine.digest
            require(entry.data not in self.commands, "each command once", (node, entry))
            self.commands.add(entry.data)
        require(digest is None or digest == node.machine.digest, "the same state everywhere", (node, entry))

    def restored(self, node: Observed, snapshot: Snapshot) -> None:
        """Check a snapshot that a state machine has restored."""
        applied = node.machine.applied
        require(applied <= snapshot.index, "snapshot", (node, snapshot.index, applied))
        expected = self.digests.get(applied)
        require(applied == 0 or expected == node.machine.digest, "the same state everywhere", (node, snapshot.index))
        known = self.committed.get(snapshot.index)
        require(known is not None and known.term == snapshot.term, "snapshot of what is committed", (node, snapshot))
        between = [e for i in range(applied + 1, snapshot.index + 1) if (e := self.committed[i]).kind == Kind.COMMAND]
        require(not between, "a snapshot has all up to its index", (node, snapshot.index, applied))
        node.commit_index = max(node.commit_index, snapshot.index)
