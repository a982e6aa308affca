"""A follower: takes what a leader sends, and stands for election after a long silence of the leader.

Learners, observers and removed members are followers that never stand. Entries that come out of order are not kept.
They are refused with a hint of how far the log goes, and the leader sends what is missing.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import Question, ReplicaCore
from glue.model.consensus.items import LogEntry, Role, Snapshot
from glue.model.consensus.messages import (
    Append,
    Appended,
    Forward,
    Forwarded,
    InstallSnapshot,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
)
from glue.model.consensus.part import Part

SNAPSHOT_LIMIT = 1 << 30
"""Bytes of the largest snapshot accepted: 1 GB, more than a state in memory should take."""


class Incoming:
    """A snapshot that has arrived in part. Sender and content are its `key`."""

    __slots__ = ("data", "key")

    def __init__(self, key: tuple[str, str, int, int, int]) -> None:
        self.key = key
        self.data = bytearray()


class Follower(Part):
    """Follows the leader of its term, once there is one."""

    role: ClassVar[Role] = Role.FOLLOWER
    __slots__ = ("_incoming", "_missing", "_received_at")

    def __init__(self, core: ReplicaCore, now: float) -> None:
        super().__init__(core)
        self._received_at = -inf
        self._incoming: Incoming | None = None
        self._missing = 0  # commit index of an append that did not fit the log
        self.wait(now)

    def wait(self, now: float) -> None:
        """Wait for a leader for one to two election timeouts from now, drawn anew (thesis, section 3.4)."""
        timeout = self.core.settings.election_timeout
        self.deadline = now + timeout * (1.0 + self.core.rng.random())

    def due(self, now: float) -> None:
        """Stand for election, because no leader has sent anything. A replica that may not stand waits for a leader."""
        if self.core.may_stand:
            self.core.stand(now)
        else:
            self.core.leader = ""
            self.deadline = inf

    def submit(self, now: float, questions: list[Question]) -> None:
        """Forward commands and reads to the leader, once: the outcome of what is lost on the way is unknown."""
        core = self.core
        if not core.leader:
            super().submit(now, questions)
            return
        tickets, commands = zip(*questions, strict=True)
        core.tickets.asked(tickets, core.configuration.life(core.leader))
        core.tell(core.leader, Forward(core.group, core.life, core.term, tickets, commands))

    def hears_leader(self, now: float) -> bool:
        """Whether a leader's message has arrived within the least election timeout."""
        return now - self._received_at < self.core.settings.election_timeout

    def voted(self, now: float) -> None:
        """Give the candidate time to win."""
        self.wait(now)

    def asked_in_vain(self, now: float) -> None:
        """Stand for election at once: no leader is heard, and the one that asks cannot win against this log."""
        self.due(now)

    # ----------------------------------------------------------------------------------------- replication

    def _hears(self, now: float, sender: str, message: Append | InstallSnapshot) -> bool:
        """Note a leader's message; returns whether this follower takes it.

        Messages of a past term are answered with the present term. A message of a later term starts a new follower,
        and the new follower takes the message.
        """
        core = self.core
        if message.term < core.term:
            self.correct(sender, message)
            return False
        if message.term > core.term:
            core.follow(now, message.term, sender)
            core.actor.take(now, sender, message)
            return False
        if core.leader != sender:
            if core.leader:
                core.statistics["two leaders in one term"] += 1
                return False
            core.leader = sender
            core.transferred(sender)
        self._received_at = now
        self.wait(now)
        return True

    def on_append(self, now: float, sender: str, append: Append) -> None:
        """Append a leader's entries, if the one before them is here."""
        if not self._hears(now, sender, append):
            return
        core, log = self.core, self.core.log
        previous, entries = append.previous_index, append.entries
        if previous < log.base_index:  # committed entries, so the same here
            entries = entries[log.base_index - previous :]
            previous = log.base_index
        elif log.term(previous) != append.previous_term:
            self._missing = max(self._missing, append.commit_index)
            hint = log.agreeing(previous - 1, append.previous_term)
            self._acknowledge(sender, append, False, hint)
            return
        if not self._store(previous, entries):
            core.statistics["entries that contradict what is committed"] += 1
            return
        index = max(previous + len(entries), min(append.previous_index + len(append.entries), log.base_index))
        if min(append.commit_index, index) > core.commit_index:
            core.commit(min(append.commit_index, index))
        self._acknowledge(sender, append, True, index)

    def _store(self, previous: int, entries: tuple[LogEntry, ...]) -> bool:
        """Append new entries; false if they contradict committed ones."""
        core, log = self.core, self.core.log
        if previous < log.last_index:
            known = 0
            for known, entry in enumerate(entries):  # noqa: B007
                if log.term(entry.index) != entry.term:
                    break
            else:
                return True
            entries = entries[known:]
            first = entries[0].index
            if first <= core.commit_index:
                return False
            if first <= log.last_index:
                core.truncate(first)
        log.extend(entries)
        return True

    def _acknowledge(self, sender: str, append: Append, matches: bool, index: int) -> None:
        core = self.core
        refused = 0 if matches else append.previous_index
        term = core.log.term(index) or 0
        answer = Appended(core.group, core.life, core.term, append.round, matches, index, term, refused)
        core.answer(sender, answer)

    # ------------------------------------------------------------------------------------------- snapshots

    def on_install_snapshot(self, now: float, sender: str, piece: InstallSnapshot) -> None:
        """Take a piece of a snapshot; the last piece completes it, and it replaces the log.

        A leader sends a snapshot only after it learned of a gap in this log, so a snapshot without a gap is refused.
        """
        if not self._hears(now, sender, piece):
            return
        if piece.index > max(self.core.commit_index, self._missing):
            self.core.statistics["snapshots refused: nothing is known to be missing"] += 1
            return
        received = self._receive(sender, piece) if piece.index > self.core.commit_index else piece.size
        core = self.core
        core.answer(sender, SnapshotReceived(core.group, core.life, core.term, piece.round, piece.index, received))

    def _receive(self, sender: str, piece: InstallSnapshot) -> int:
        """Keep a piece that continues the snapshot; returns how many of its first bytes are here."""
        key = (sender, piece.life, piece.index, piece.index_term, piece.size)
        if piece.size > SNAPSHOT_LIMIT:
            self.core.statistics["snapshots too large"] += 1
            return 0
        if self._incoming is None or self._incoming.key != key:
            self._incoming = Incoming(key)
        data = self._incoming.data
        if piece.offset == len(data):
            data += piece.data[: piece.size - len(data)]
        if len(data) < piece.size:
            return len(data)
        self._incoming = None
        if not self.core.accepts(bytes(data)):
            self.core.statistics["snapshots refused: no state that can be read"] += 1
            return 0
        configuration = Configuration.decode(piece.configuration)
        self.core.install(Snapshot(piece.index, piece.index_term, configuration, bytes(data)))
        return piece.size

    # -------------------------------------------------------------------------------------------- transfer

    def on_timeout_now(self, now: float, sender: str, message: TimeoutNow) -> None:
        """Stand for election at once, because the leader hands over to this replica."""
        core = self.core
        if message.term == core.term and core.leader == sender and core.is_voter:
            core.stand(now, transfer=True)
        else:
            core.statistics["transfers out of place"] += 1

    HANDLERS: ClassVar = {
        RequestVote: Part.on_request_vote,
        Append: on_append,
        InstallSnapshot: on_install_snapshot,
        TimeoutNow: on_timeout_now,
        Forward: Part.on_forward,
        Forwarded: Part.on_forwarded,
    }
