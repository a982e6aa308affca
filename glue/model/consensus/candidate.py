"""A candidate: asks for votes, after a pre-vote that shows it would win (thesis, sections 3.4 and 9.6).

The candidate's own vote is an answer that waits for the disk, and counts once it is durable. Requests are repeated with
each heartbeat, because any of them may be lost. A candidate that was refused, as the other one stands in the same term,
begins anew after one to two heartbeats: the votes may be split, and then nobody wins this term. If the refusal took
longer than a heartbeat, disks are slow, and further votes are given as much time.
"""

from __future__ import annotations

from typing import ClassVar

from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.items import Role
from glue.model.consensus.messages import Append, Forward, Forwarded, InstallSnapshot, RequestVote, Vote
from glue.model.consensus.part import Part


class Candidate(Part):
    """Stands for election in the next term."""

    role: ClassVar[Role] = Role.CANDIDATE
    __slots__ = ("_began", "_ends", "_granted", "_pre", "_refused", "_transfer")

    def __init__(self, core: ReplicaCore, now: float, transfer: bool) -> None:
        super().__init__(core)
        self._transfer = transfer
        self._granted: set[str] = set()
        self._refused: set[str] = set()
        self._begin(now, pre=core.settings.pre_vote and not transfer)

    def _begin(self, now: float, pre: bool) -> None:
        core = self.core
        self._pre = pre
        self._granted.clear()
        self._refused.clear()
        self._began, self._ends = now, now + core.settings.election_timeout * (1.0 + core.rng.random())
        if not pre:
            core.advance(core.term + 1, core.peer)
            core.answer(core.peer, Vote(core.group, core.life, core.term, False, True))
        self._ask(now)
        if pre:
            self._granted.add(core.peer)
            self._count(now)

    def _ask(self, now: float) -> None:
        core, log = self.core, self.core.log
        request = RequestVote(
            core.group, core.life, core.term + self._pre, self._pre, self._transfer, log.last_index, log.last_term
        )
        core.answer(None, request)
        self.deadline = min(now + core.settings.heartbeat, self._ends)

    def due(self, now: float) -> None:
        """Repeat the requests, or begin another election if this one was not won in time."""
        if now >= self._ends:
            self.core.stand(now)
        else:
            self._ask(now)

    def on_vote(self, now: float, sender: str, vote: Vote) -> None:
        """Count a vote of this election."""
        core = self.core
        if vote.pre != self._pre or not (vote.granted or self.heeds(now, sender, vote)):
            return
        if vote.granted and vote.term != core.term + self._pre:
            core.statistics["votes of another election"] += 1
        elif core.configuration.votes(sender, vote.life):
            if not (vote.granted or self._pre or sender in self._refused):
                pause = max(core.settings.heartbeat, now - self._began)
                self._ends = min(self._ends, now + pause * (1.0 + core.rng.random()))
                self.deadline = min(self.deadline, self._ends)
            (self._granted if vote.granted else self._refused).add(sender)
            self._count(now)

    def _count(self, now: float) -> None:
        core = self.core
        if core.configuration.has_quorum(self._refused):
            core.follow(now, core.term)
        elif not core.configuration.has_quorum(self._granted):
            return
        elif self._pre:
            self._begin(now, pre=False)
        else:
            core.lead(now)

    HANDLERS: ClassVar = {
        RequestVote: Part.on_request_vote,
        Vote: on_vote,
        Append: Part.on_leader,
        InstallSnapshot: Part.on_leader,
        Forward: Part.on_forward,
        Forwarded: Part.on_forwarded,
    }
