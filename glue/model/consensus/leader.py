"""A leader: appends commands to the log, sends the log, and commits what a majority has made durable.

All commands of one call share one multicast. The leader writes in parallel with sending, and counts itself
once it has synced (thesis, 10.2.1). Only entries of its own term are committed by counting, together with all entries
before (Raft paper, section 5.4.2 and figure 8). A leader steps down after an election timeout without answers of a
majority.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import Change, Question, ReplicaCore
from glue.model.consensus.items import Kind, Role
from glue.model.consensus.log import ENTRY_OVERHEAD
from glue.model.consensus.membership import ConfigurationChanges
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
from glue.model.consensus.progress import FollowerProgress
from glue.model.consensus.reads import PendingReads
from glue.model.consensus.sending import Sending

OBSERVERS = 256
"""Followers served without membership: at 5 heartbeats a second they send 1,280 answers."""

DEPOSED = "the leader has changed"

COMMIT_PATIENCE = 0.001
"""Seconds for which a new commit index waits for an append to carry it.

A program asks again sooner than that after an answer. An append for the index alone costs every replica a turn and an
answer.
"""


class LeadershipTransfer:
    """A transfer of leadership under way. `told` is true once the next leader was asked to stand for election."""

    __slots__ = ("peer", "ticket", "told", "until")

    def __init__(self, ticket: int, peer: str, until: float) -> None:
        self.ticket = ticket
        self.peer = peer
        self.until = until
        self.told = False


class Leader(Part):
    """Leads in its term."""

    role: ClassVar[Role] = Role.LEADER
    __slots__ = (
        "_checks", "_first_index", "_heartbeat", "_hurries", "_membership", "_news", "_progress", "_reads", "_sending",
        "_tells_commit", "_tending", "_transfer", "_uncommitted",
    )  # fmt: skip

    def __init__(self, core: ReplicaCore, now: float) -> None:
        super().__init__(core)
        tail = core.log.entries(core.commit_index + 1, core.log.last_index)
        self._uncommitted = sum(len(entry.data) + ENTRY_OVERHEAD for entry in tail if entry.kind == Kind.COMMAND)
        self._sending = Sending(core)
        self._first_index = core.append(Kind.NOTHING, b"")
        self._progress: dict[str, FollowerProgress] = {}
        self._reads = PendingReads(core, self._first_index)
        self._membership = ConfigurationChanges(core, self._first_index)
        self._transfer: LeadershipTransfer | None = None
        self._news = True  # whether an answer came since the last count
        self._heartbeat = now
        self._tells_commit = inf
        self._hurries = False  # others wait for what is not committed yet
        self._tending = now  # unlike heartbeats, not put off by other messages
        self._checks = now + core.settings.election_timeout
        self._obey_configuration(now)
        self._arm()

    def _arm(self) -> None:
        until = self._transfer.until if self._transfer else inf
        self.deadline = min(self._heartbeat, self._tells_commit, self._tending, self._checks, until)

    def hears_leader(self, now: float) -> bool:
        """Whether there is a leader: this replica, as long as a majority answers."""
        return True

    # ------------------------------------------------------------------------------------- commands and reads

    def submit(self, now: float, questions: list[Question]) -> None:
        """Append commands to the log, and queue reads."""
        core = self.core
        reads = tuple(ticket for ticket, command in questions if command is None)
        if reads:
            self._ask("", reads)
        for ticket, command in questions:
            if command is not None:
                refusal = self._refusal(len(command))
                if refusal:
                    core.tickets.refuse([ticket], refusal)
                else:
                    core.tickets.place(ticket, self._append(command), core.term)

    def _refusal(self, size: int) -> str:
        if self._transfer is not None:
            return "the leadership is being handed over"
        if self._uncommitted + size > self.core.settings.uncommitted_limit:
            self.core.statistics["commands refused, too many uncommitted"] += 1
            return "too much is not committed yet: the followers do not keep up"
        return ""

    def _ask(self, peer: str, reads: tuple[int, ...]) -> None:
        self._reads.ask(self._sending.round + 1, peer, reads)
        self._news = True  # makes a lone voter confirm it at once

    def _append(self, command: bytes) -> int:
        self._uncommitted += len(command) + ENTRY_OVERHEAD
        return self.core.append(Kind.COMMAND, command)

    def on_forward(self, now: float, sender: str, message: Forward) -> None:
        """Take commands and reads that a follower forwards. A repeated message was answered before."""
        core = self.core
        if message.term != core.term:
            super().on_forward(now, sender, message)
            return
        if not core.forwards.is_new((sender, message.tickets[:1])):
            core.statistics["forwarded commands again"] += 1
            return
        questions = list(zip(message.tickets, message.commands, strict=True))
        reads = tuple(ticket for ticket, command in questions if command is None)
        if reads:
            self._ask(sender, reads)
        commands = [(ticket, command) for ticket, command in questions if command is not None]
        if not commands:
            return
        self._hurries = True
        tickets = tuple(ticket for ticket, _ in commands)
        refusal = self._refusal(sum(len(command) for _, command in commands))
        indices = tuple(0 if refusal else self._append(command) for _, command in commands)
        core.tell(sender, Forwarded(core.group, core.life, core.term, tickets, indices, False, refusal))

    # ----------------------------------------------------------------------------------------------- answers

    def _progress_of(self, now: float, sender: str, life: str) -> FollowerProgress | None:
        """Return the progress of the follower that answers under this life.

        A new follower is served if there is room. None means that the answer does not count.
        """
        progress = self._progress.get(sender)
        if progress is None and len(self._progress) < OBSERVERS + len(self.core.configuration.voters):
            progress = self._progress[sender] = FollowerProgress(life, now, self.core.settings.heartbeat)
        if progress is None:
            self.core.statistics["followers refused, too many"] += 1
            return None
        if progress.life != life:
            if self.core.configuration.life(sender) is not None:
                self._membership.claims(now, sender, life)
                return None
            progress = self._progress[sender] = FollowerProgress(life, now, self.core.settings.heartbeat)
        progress.answered_at = now
        return progress

    def on_appended(self, now: float, sender: str, answer: Appended) -> None:
        """Take a follower's acknowledgement, or its refusal of an append."""
        if not self.heeds(now, sender, answer):
            return
        progress = self._progress_of(now, sender, answer.life)
        if progress is None or answer.index > self.core.log.last_index or answer.round > self._sending.round:
            self.core.statistics["acknowledgements that do not count"] += 1
            return
        progress.round = max(progress.round, answer.round)
        if answer.matches:
            progress.matched(now, answer.index)
        else:
            hint = self.core.log.agreeing(answer.index, answer.index_term)
            self._sending.snapshot_again(now, sender, progress, answer.round)
            if progress.refused(answer.refused, hint, answer.round, now):
                progress.since = self._sending.begin_round()
        self._news = True

    def on_snapshot_received(self, now: float, sender: str, answer: SnapshotReceived) -> None:
        """Take a follower's acknowledgement of a piece of a snapshot."""
        if not self.heeds(now, sender, answer):
            return
        progress = self._progress_of(now, sender, answer.life)
        if progress is None or answer.round > self._sending.round:
            self.core.statistics["acknowledgements that do not count"] += 1
            return
        progress.round = max(progress.round, answer.round)
        self._sending.snapshot_received(now, sender, progress, answer)
        self._news = True

    # ------------------------------------------------------------------------------------------------ timers

    def due(self, now: float) -> None:
        """Step down without a majority, end a transfer that took too long, and look after the members."""
        core = self.core
        if now >= min(self._checks, self._heartbeat):  # checked with each heartbeat, when the leader is awake anyway
            self._checks = self._majority(self._answered_at(now)) + core.settings.election_timeout
            if now >= self._checks:
                core.statistics["stepped down without a majority"] += 1
                core.follow(now, core.term)
                return
        if self._transfer is not None and now >= self._transfer.until:
            core.tickets.refuse([self._transfer.ticket], "the other one did not take over in time")
            self._transfer = core.transfer = None
        if now >= self._tending:
            self._tending = self._next_tending(now)
            self._tend(now)
        self._arm()

    def _next_tending(self, now: float) -> float:
        """Return the time of the next look after the members, about a heartbeat from now.

        It falls on a heartbeat where possible, so that an idle leader wakes once.
        """
        interval = self.core.settings.heartbeat
        return max(self._heartbeat, now + interval / 2) if self._heartbeat > now else now + interval

    def _answered_at(self, now: float) -> dict[str, float]:
        return {peer: progress.answered_at for peer, progress in self._progress.items()} | {self.core.peer: now}

    def _majority(self, values: dict[str, float]) -> float:
        """Return the largest value that a majority of the voters has reached. A missing value counts as -inf."""
        configuration = self.core.configuration
        reached = sorted(values.get(voter, -inf) for voter in configuration.voters)
        return reached[len(reached) - configuration.quorum]

    def _tend(self, now: float) -> None:
        """Admit members again, promote learners, and forget followers that are silent."""
        core, limit = self.core, now - 10 * self.core.settings.election_timeout
        for peer, progress in list(self._progress.items()):
            if progress.answered_at < limit and core.configuration.life(peer) is None:
                del self._progress[peer]
        if not self._membership.obstacle():
            since = now - self.core.settings.election_timeout / 2
            matches = {peer: known.match for peer, known in self._progress.items() if known.answered_at > since}
            changed = self._membership.readmission(now, self._answered_at(now)) or self._membership.promotion(matches)
            if changed is not None:
                self._change(now, changed)

    # ----------------------------------------------------------------------------------------------- members

    def change(self, now: float, ticket: int, change: Change) -> None:
        """Admit or remove a member, or hand the leadership over."""
        kind, peer = change
        core, progress = self.core, self._progress.get(change[1])
        if kind == "transfer":
            self._hand_over(now, ticket, peer)
        elif kind == "remove":
            self._placed(ticket, self._remove(now, peer))
        elif progress is None or core.configuration.life(peer) is not None:
            self._placed(ticket, f"{peer} is a member already, or does not follow")
        else:
            self._placed(ticket, self._change(now, core.configuration.with_learner(peer, progress.life)))

    def _remove(self, now: float, peer: str) -> str:
        """Remove a member, unless so few of the others answer that nothing could be committed any more."""
        core = self.core
        if core.configuration.life(peer) is None:
            return "that is no member"
        rest = core.configuration.without(peer)
        since = now - core.settings.election_timeout
        answering = [
            voter for voter, progress in self._progress.items()
            if progress.answered_at > since and progress.match >= self._first_index
        ]  # fmt: skip
        if not self._membership.obstacle() and not rest.has_quorum([core.peer, *answering]):
            return "too few of the others answer"
        return self._change(now, rest)

    def _placed(self, ticket: int, refusal: str) -> None:
        if refusal:
            self.core.tickets.refuse([ticket], refusal)
        else:
            self.core.tickets.place(ticket, self.core.log.last_index, self.core.term)

    def _change(self, now: float, configuration: Configuration) -> str:
        refusal = self._membership.change(configuration)
        if not refusal:
            self._hurries = True
            self._obey_configuration(now)
        return refusal

    def _obey_configuration(self, now: float) -> None:
        """Follow the progress of each member under its life."""
        configuration = self.core.configuration
        for peer, life in {**configuration.voters, **configuration.learners}.items():
            known = self._progress.get(peer)
            if peer != self.core.peer and (known is None or known.life != life):
                self._progress[peer] = FollowerProgress(life, now, self.core.settings.heartbeat)

    def _hand_over(self, now: float, ticket: int, peer: str) -> None:
        if peer == self.core.peer or peer not in self.core.configuration.voters or self._transfer is not None:
            self.core.tickets.refuse([ticket], "that is no other voter, or a transfer is under way")
            return
        self._transfer = LeadershipTransfer(ticket, peer, now + self.core.settings.election_timeout)
        self.core.transfer = ticket, peer
        self._arm()

    # ---------------------------------------------------------------------------------------- end of a call

    def conclude(self, now: float) -> None:
        """Commit what a majority has, send what is new, and serve followers that lag."""
        core = self.core
        if self._news or core.journal.durable_index > core.commit_index:
            self._count()
        beats = now >= self._heartbeat
        if self._sending.stream(beats or self._commit_is_due(now) or self._reads.wanted_round() > self._sending.told):
            self._heartbeat, self._tells_commit = now + core.settings.heartbeat, inf
        for peer, progress in self._progress.items():
            self._sending.repair(now, peer, progress)
        self._hand_over_now(beats)
        if self._is_removed():
            core.follow(now, core.term)
        self._arm()

    def _commit_is_due(self, now: float) -> bool:
        """Whether to send a new commit index by itself: at once if others wait for it, else after `COMMIT_PATIENCE`."""
        if not self._sending.owes_commit:
            return False
        if self._hurries:
            self._hurries = self.core.commit_index < self.core.log.last_index
            return True
        if self._tells_commit == inf:
            self._tells_commit = now + COMMIT_PATIENCE
        return now >= self._tells_commit

    def _count(self) -> None:
        """Advance the commit index, and serve the reads that a majority has confirmed."""
        core = self.core
        self._news = False
        matches: dict[str, float] = {peer: progress.match for peer, progress in self._progress.items()}
        matches[core.peer] = core.journal.durable_index
        index = self._majority(matches)
        if index > core.commit_index and core.log.term(int(index)) == core.term:
            self._commit(int(index))
        rounds = {peer: progress.round for peer, progress in self._progress.items()}
        self._reads.confirmed(self._majority({**rounds, core.peer: inf}))

    def _commit(self, index: int) -> None:
        core = self.core
        for entry in core.log.entries(core.commit_index + 1, index):
            if entry.kind == Kind.COMMAND:
                self._uncommitted -= len(entry.data) + ENTRY_OVERHEAD
        core.commit(index)

    def _hand_over_now(self, beats: bool) -> None:
        """Ask the next leader to stand for election once its log is complete, and again with each heartbeat."""
        core, transfer = self.core, self._transfer
        if transfer is None or (transfer.told and not beats):
            return
        progress = self._progress.get(transfer.peer)
        if progress is not None and progress.match == core.log.last_index:
            transfer.told = True
            core.tell(transfer.peer, TimeoutNow(core.group, core.life, core.term))

    def _is_removed(self) -> bool:
        core = self.core
        return not core.is_voter and core.commit_index >= core.log.configuration_index

    def retire(self, now: float) -> None:
        """Refuse the reads. Appended entries stay, because another leader may commit them."""
        self._reads.refuse(DEPOSED)

    def on_leader(self, now: float, sender: str, message: Append | InstallSnapshot) -> None:
        """Follow a leader of a later term. Another leader of this term is an error and only counted."""
        if message.term == self.core.term:
            self.core.statistics["two leaders in one term"] += 1
        else:
            super().on_leader(now, sender, message)

    HANDLERS: ClassVar = {
        RequestVote: Part.on_request_vote,
        Append: on_leader,
        InstallSnapshot: on_leader,
        Appended: on_appended,
        SnapshotReceived: on_snapshot_received,
        Forward: on_forward,
        Forwarded: Part.on_forwarded,
    }
