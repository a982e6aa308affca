"""What all roles within a group have in common: how they take a message, and how they answer a candidate.

A vote is given once in a term, to a candidate whose log is at least as up to date (thesis, section 3.6.1), and not
at all while a leader is heard (section 4.2.3), so that whoever was cut off, or removed, does not depose it. A vote
before the vote (section 9.6) changes nothing, neither here nor with the candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, ClassVar

from glue.model.consensus.core import Change, Question, ReplicaCore
from glue.model.consensus.items import Role
from glue.model.consensus.messages import Append, Appended, Forward, Forwarded, GroupMessage, RequestVote, Vote

NO_LEADER = "no leader is known here: this side of the network has no majority, or an election is under way"


class Part:
    """A role within a group."""

    role: ClassVar[Role]
    HANDLERS: ClassVar[dict[type, Callable[[Any, float, str, Any], None]]]
    """By type of message: what takes it."""

    __slots__ = ("core", "deadline")

    def __init__(self, core: ReplicaCore) -> None:
        self.core = core
        self.deadline = inf

    def take(self, now: float, sender: str, message: GroupMessage) -> None:
        """Take a message of this group."""
        handler = self.HANDLERS.get(message.__class__)
        if handler is None:
            self.core.statistics["messages for another role"] += 1
        else:
            handler(self, now, sender, message)

    def due(self, now: float) -> None:
        """Do what is due at this time."""

    def submit(self, now: float, questions: list[Question]) -> None:
        """Without a leader nothing can be asked."""
        self.core.tickets.refuse([ticket for ticket, _ in questions], NO_LEADER)

    def conclude(self, now: float) -> None:
        """The last word of a call."""

    def change(self, now: float, ticket: int, change: Change) -> None:
        """Only a leader can."""
        self.core.tickets.refuse([ticket], "only the leader can do that")

    def retire(self, now: float) -> None:
        """Another role takes over."""

    def hears_leader(self, now: float) -> bool:
        """Whether there is a leader that must not be deposed."""
        return False

    def heeds(self, now: float, sender: str, message: Vote | Appended | Any) -> bool:
        """Whether an answer counts: it is of this term, from a member under the life known of it.

        One of a higher term from a member ends this role. So does one from a replica without a vote that goes on
        saying so: its term was raised by accident, and it could not be served before the others' is as high.
        """
        core = self.core
        if message.term > core.term:
            if core.is_member(sender, message.life) or core.doubts.is_repeated(now, sender):
                core.follow(now, message.term)
            return False
        return bool(message.term == core.term)

    # ------------------------------------------------------------------------------------------------ votes

    def on_request_vote(self, now: float, sender: str, request: RequestVote) -> None:
        """A candidate asks for a vote."""
        core = self.core
        if request.term < core.term:
            core.answer(sender, Vote(core.group, core.life, core.term, request.pre, False))
        elif core.configuration.life(core.peer) != core.life:
            core.statistics["votes asked of one that is no member"] += 1
        elif self.hears_leader(now) and not request.transfer:
            core.statistics["votes asked while a leader is heard"] += 1
        elif request.pre:
            self._answer_before_the_vote(sender, request)
        elif request.term > core.term:
            core.follow(now, request.term)
            core.actor.take(now, sender, request)
        else:
            self._vote(now, sender, request)

    def _answer_before_the_vote(self, sender: str, request: RequestVote) -> None:
        core = self.core
        granted = self._may_vote(sender, request) and core.log.is_covered_by(request.last_index, request.last_term)
        term = request.term if granted else core.term
        core.answer(sender, Vote(core.group, core.life, term, True, granted))

    def _may_vote(self, candidate: str, request: RequestVote) -> bool:
        core = self.core
        return request.term > core.term or core.vital.vote == candidate or not (core.vital.vote or core.leader)

    def _vote(self, now: float, candidate: str, request: RequestVote) -> None:
        """Vote in this term, or not."""
        core = self.core
        granted = self._may_vote(candidate, request) and core.log.is_covered_by(request.last_index, request.last_term)
        if granted:
            core.advance(core.term, candidate)
            self.voted(now)
        core.answer(candidate, Vote(core.group, core.life, core.term, False, granted))

    def voted(self, now: float) -> None:
        """A vote was given to another one."""

    # --------------------------------------------------------------------------------------- of other leaders

    def on_leader(self, now: float, sender: str, message: Append | Any) -> None:
        """A message that only a leader sends: follow it, unless its term is past."""
        core = self.core
        if message.term < core.term:
            self.correct(sender, message)
            return
        core.follow(now, message.term, sender)
        core.actor.take(now, sender, message)

    def correct(self, sender: str, message: Append | Any) -> None:
        """Tell a leader of the past that it is one."""
        core = self.core
        core.answer(sender, Appended(core.group, core.life, core.term, message.round, False, 0, 0, 0))

    def on_forward(self, now: float, sender: str, message: Forward) -> None:
        """Refuse what is for a leader, if it is certain that this replica has not taken it as a leader before."""
        core = self.core
        if not core.forwards.is_new((sender, message.tickets[:1])):
            core.statistics["forwarded commands again"] += 1
        elif core.may_have_led(message.term):
            core.statistics["forwarded commands of a former life"] += 1
        else:
            self.refuse(sender, message, NO_LEADER)

    def refuse(self, sender: str, message: Forward, reason: str) -> None:
        """Answer a forwarded question, for good."""
        core = self.core
        no_indices = (0,) * len(message.tickets)
        core.tell(sender, Forwarded(core.group, core.life, core.term, message.tickets, no_indices, False, reason))

    def on_forwarded(self, now: float, sender: str, message: Forwarded) -> None:
        """A leader's answer to what was forwarded to it."""
        core = self.core
        if message.refusal:
            core.tickets.refused(message.tickets, message.life, message.refusal)
            return
        for ticket, index in zip(message.tickets, message.indices, strict=True):
            if message.is_read:
                core.tickets.read_from(ticket, index)
            else:
                core.place(ticket, index, message.term)
        core.tickets.committed_to(core.commit_index)
