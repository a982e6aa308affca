"""The base of all roles within a group: dispatch of messages, and answers to candidates.

A replica votes once in a term, for a candidate with a log at least as up to date as its own (thesis, section 3.6.1). It
does not vote while a leader sends to it (section 4.2.3): a removed or disconnected replica must not depose the leader.
A pre-vote (section 9.6) changes nothing, neither here nor at the candidate.
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
    """The handlers of messages, by type."""

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
        """Refuse all commands and reads, because no leader is known."""
        self.core.tickets.refuse([ticket for ticket, _ in questions], NO_LEADER)

    def conclude(self, now: float) -> None:
        """Finish a call, after all its messages were taken."""

    def change(self, now: float, ticket: int, change: Change) -> None:
        """Refuse the change, because only a leader can make it."""
        self.core.tickets.refuse([ticket], "only the leader can do that")

    def retire(self, now: float) -> None:
        """End this role, because another one takes over."""

    def hears_leader(self, now: float) -> bool:
        """Whether there is a leader that must not be deposed."""
        return False

    def heeds(self, now: float, sender: str, message: Vote | Appended | Any) -> bool:
        """Whether an answer is of this term.

        An answer of a higher term from a member ends this role. So does such an answer from another replica, if
        repeated for long. The other replica then has a term raised by accident, and cannot be served in the present
        one.
        """
        core = self.core
        if message.term > core.term:
            if core.is_member(sender, message.life) or core.doubts.is_repeated(now, sender):
                core.follow(now, message.term)
            return False
        return bool(message.term == core.term)

    # ------------------------------------------------------------------------------------------------ votes

    def on_request_vote(self, now: float, sender: str, request: RequestVote) -> None:
        """Answer a candidate's request for a vote or a pre-vote."""
        core = self.core
        if request.term < core.term:
            core.answer(sender, Vote(core.group, core.life, core.term, request.pre, False))
        elif core.configuration.life(core.peer) != core.life:
            core.statistics["votes asked of one that is no member"] += 1
        elif self.hears_leader(now) and not request.transfer:
            core.statistics["votes asked while a leader is heard"] += 1
        elif request.pre:
            self._answer_before_the_vote(now, sender, request)
        elif request.term > core.term:
            core.follow(now, request.term)
            core.actor.take(now, sender, request)
        else:
            self._vote(now, sender, request)

    def _answer_before_the_vote(self, now: float, sender: str, request: RequestVote) -> None:
        core = self.core
        is_covered = core.log.is_covered_by(request.last_index, request.last_term)
        granted = self._may_vote(sender, request) and is_covered
        term = request.term if granted else core.term
        core.answer(sender, Vote(core.group, core.life, term, True, granted))
        if not is_covered and core.configuration.votes(sender, request.life):
            self.asked_in_vain(now)

    def _may_vote(self, candidate: str, request: RequestVote) -> bool:
        core = self.core
        return request.term > core.term or core.vital.vote == candidate or not (core.vital.vote or core.leader)

    def _vote(self, now: float, candidate: str, request: RequestVote) -> None:
        """Grant or refuse a vote in the present term."""
        core = self.core
        granted = self._may_vote(candidate, request) and core.log.is_covered_by(request.last_index, request.last_term)
        if granted:
            core.advance(core.term, candidate)
            self.voted(now)
        core.answer(candidate, Vote(core.group, core.life, core.term, False, granted))

    def voted(self, now: float) -> None:
        """React to a vote that was given to another replica."""

    def asked_in_vain(self, now: float) -> None:
        """React to a voter's request for a pre-vote that was refused because this replica has the longer log."""

    # ------------------------------------------------------------------------------------ messages of leaders

    def on_leader(self, now: float, sender: str, message: Append | Any) -> None:
        """Follow the sender of a leader's message, unless its term is past."""
        core = self.core
        if message.term < core.term:
            self.correct(sender, message)
            return
        core.follow(now, message.term, sender)
        core.actor.take(now, sender, message)

    def correct(self, sender: str, message: Append | Any) -> None:
        """Tell a leader of a past term about the present term."""
        core = self.core
        core.answer(sender, Appended(core.group, core.life, core.term, message.round, False, 0, 0, 0))

    def on_forward(self, now: float, sender: str, message: Forward) -> None:
        """Refuse forwarded questions, unless this replica may have taken them as a leader before."""
        core = self.core
        if not core.forwards.is_new((sender, message.tickets[:1])):
            core.statistics["forwarded commands again"] += 1
        elif core.may_have_led(message.term):
            core.statistics["forwarded commands of a former life"] += 1
        else:
            self.refuse(sender, message, NO_LEADER)

    def refuse(self, sender: str, message: Forward, reason: str) -> None:
        """Refuse forwarded questions for good."""
        core = self.core
        no_indices = (0,) * len(message.tickets)
        core.tell(sender, Forwarded(core.group, core.life, core.term, message.tickets, no_indices, False, reason))

    def on_forwarded(self, now: float, sender: str, message: Forwarded) -> None:
        """Take a leader's answer to forwarded questions."""
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
