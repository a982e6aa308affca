"""One replica of a group: messages and the time in, an `Output` out.

A replica owns no clock, socket, thread or file: see `items.py` for what its driver does. Each call takes all that
there is (a batch of messages, any number of questions asked before it) and gives one Output, so that a batch costs
one multicast, one write and one sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from random import Random

from glue.model.consensus.bounds import INDEX_JUMP, INDEX_TOO_FAR, TERM_JUMP
from glue.model.consensus.candidate import Candidate
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import Actor, Change, ReplicaCore
from glue.model.consensus.follower import Follower
from glue.model.consensus.founder import Founder
from glue.model.consensus.items import Role, Snapshot, Status, Stored
from glue.model.consensus.leader import Leader
from glue.model.consensus.messages import (
    Accepted,
    Append,
    Forwarded,
    GroupMessage,
    InstallSnapshot,
    Message,
    Offer,
    Prepare,
    Promise,
    Propose,
    RequestVote,
    Welcome,
)
from glue.model.consensus.output import Output
from glue.model.consensus.settings import ConsensusSettings

FOUNDING = Offer | Welcome | Prepare | Promise | Propose | Accepted
"""The messages that do not belong to a group."""

ANOTHER_SCOPE, ANOTHER_GROUP = "messages of another model or network", "messages of another group"


class Replica:
    """A member, or an observer, of one group.

        replica = Replica("ab…", scope, settings, storage.load(), random, now)
        output = replica.receive(now, [(sender, message), …])

    `peer` is this endpoint's id. `scope` names what is to be one group: network id and model; whatever is not of
    it is counted and dropped. `stored` is what the storage held; one that was just made holds a new life only.
    `accepts` tells whether the state machine can be restored from these bytes of a leader's snapshot.
    """

    __slots__ = ("_changes", "_core")

    def __init__(
        self,
        peer: str,
        scope: str,
        settings: ConsensusSettings,
        stored: Stored,
        random: Random,
        now: float,
        accepts: Callable[[bytes], bool] = lambda snapshot: True,
    ) -> None:
        self._core = core = ReplicaCore(peer, scope, settings, stored, random, self, accepts)
        self._changes: list[tuple[int, Change]] = []
        core.actor = Follower(core, now) if core.group else Founder(core, now)

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without messages (monotonic seconds); the past if there is work."""
        core = self._core
        if core.questions or self._changes:
            return -inf
        return min(core.actor.deadline, core.tickets.deadline)

    @property
    def status(self) -> Status:
        """Role, term, leader and commit index as of now."""
        return self._core.status

    @property
    def configuration(self) -> Configuration:
        """The newest one in the log, committed or not; without voters as long as there is none."""
        return self._core.configuration

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest one."""
        return self._core.log.snapshot

    @property
    def is_among_strangers(self) -> bool:
        """Whether it has no group, and has heard others that cannot be of its group."""
        core = self._core
        return not core.group and any(core.statistics[cause] for cause in (ANOTHER_SCOPE, ANOTHER_GROUP))

    def differing(self, now: float) -> dict[str, str]:
        """What others say of who votes, by endpoint id, where it differs from what this replica was told."""
        return self._core.agreement.differing(now)

    @property
    def found(self) -> list[str]:
        """The endpoint ids of those who would found a group, while there is none."""
        actor = self._core.actor
        return actor.seen if isinstance(actor, Founder) else []

    @property
    def statistics(self) -> Counter[str]:
        """What was dropped or refused, by cause."""
        return self._core.statistics

    # -------------------------------------------------------------------------------------------- the calls

    def receive(self, now: float, messages: Sequence[tuple[str, Message]]) -> Output:
        """Take messages, each with its sender's endpoint id, and do what is due at this time.

        Never raises for what a message says.
        """
        core = self._core
        for sender, message in messages:
            if sender != core.peer:
                self._take(now, sender, message)
        if now >= core.actor.deadline:
            core.actor.due(now)
        return self._finish(now)

    def synced(self, now: float, number: int) -> Output:
        """All writes up to this number are durable."""
        core = self._core
        for message in core.synced(number):
            self._take(now, core.peer, message)
        return self._finish(now)

    def propose(self, now: float, command: bytes) -> int:
        """Have a command committed; the ticket's outcome comes with a later Output (at once: the next `receive`).

        Callable on any replica: one that follows forwards it, once, to the leader.
        """
        return self._ask(now, command)

    def read(self, now: float) -> int:
        """Ask from when on reading the state machine is linearizable; the ticket becomes READABLE, or REFUSED."""
        return self._ask(now, None)

    def take_snapshot(self, now: float, index: int, data: bytes) -> Output:
        """What the state machine is after `index`, the last commit index handed over: let it stand for the log."""
        core = self._core
        term = core.log.term(index)
        before = 0 if core.log.snapshot is None else core.log.snapshot.index
        if before < index <= core.commit_index and term is not None:
            snapshot = Snapshot(index, term, core.log.configuration_at(index), data)
            core.log.compact(snapshot, core.settings.trailing)
            core.journal.compacted()
        return self._finish(now)

    def step_down(self, now: float) -> Output:
        """Lead no more, for what must be durable cannot be made so."""
        core = self._core
        if core.actor.role is Role.LEADER:
            core.statistics["stepped down, unable to store"] += 1
            core.follow(now, core.term)
        return core.finish()

    def admit(self, now: float, peer: str) -> int:
        """Make an observer a member: a learner first, and a voter when it has caught up. Only the leader can."""
        return self._change(now, ("admit", peer))

    def remove(self, now: float, peer: str) -> int:
        """Take a member out of the group. Only the leader can; the ticket tells."""
        return self._change(now, ("remove", peer))

    def transfer(self, now: float, peer: str) -> int:
        """Hand the leadership to another voter; committed once it leads, refused if it did not work in time."""
        return self._change(now, ("transfer", peer))

    # ----------------------------------------------------------------------------------------------- within

    def _ask(self, now: float, command: bytes | None) -> int:
        core = self._core
        ticket = core.tickets.open(now, command is None)
        if len(core.tickets) > core.settings.ticket_limit:
            core.statistics["questions refused, too many"] += 1
            core.tickets.refuse([ticket], "too many questions wait for their answers")
        else:
            core.questions.append((ticket, command))
        return ticket

    def _change(self, now: float, change: Change) -> int:
        ticket = self._core.tickets.open(now)
        self._changes.append((ticket, change))
        return ticket

    def _take(self, now: float, sender: str, message: Message) -> None:
        """Give a message to whom it is for: this group, or the founding of one."""
        core = self._core
        if isinstance(message, FOUNDING):
            if message.scope != core.scope:
                core.statistics[ANOTHER_SCOPE] += 1
            elif not core.group:
                core.actor.take(now, sender, message)
            elif isinstance(message, Offer | Prepare):
                self._note_offer(now, sender, message)
                core.answer(sender, Welcome(core.scope, core.life, core.vital.value))
            elif isinstance(message, Welcome) and message.value != core.vital.value:
                core.statistics["messages of another group of this model"] += 1
        elif message.group == core.group or (not core.group and message.group.startswith(core.scope + "/")):
            self._take_of_group(now, sender, message)
        else:
            core.statistics[ANOTHER_GROUP] += 1

    def _note_offer(self, now: float, sender: str, message: Offer | Prepare) -> None:
        """Somebody asks a member of a group; it may want another one."""
        core = self._core
        seats = message.seats if isinstance(message, Offer) else 0
        if seats and seats != len(Configuration.decode(core.vital.value).voters):
            core.statistics["offers for another number of voters"] += 1
            core.agreement.note_offer(now, sender, seats)
        elif seats and core.settings.members is not None and sender not in core.settings.members:
            core.statistics["offers of others than the members"] += 1
            core.agreement.note_stranger(now, sender)

    def _take_of_group(self, now: float, sender: str, message: GroupMessage) -> None:
        """Give a message to the role, unless its numbers cannot be."""
        core = self._core
        if not core.group:
            core.actor.take(now, sender, message)
        elif message.term > core.term + TERM_JUMP:
            core.doubt(now, sender, message)
        elif _highest(message) > core.log.last_index + INDEX_JUMP:
            core.statistics[INDEX_TOO_FAR] += 1
        else:
            core.actor.take(now, sender, message)

    def _finish(self, now: float) -> Output:
        core = self._core
        core.tickets.expire(now)
        if core.questions:
            questions, core.questions = core.questions, []
            core.actor.submit(now, questions)
        if self._changes:
            changes, self._changes = self._changes, []
            for ticket, change in changes:
                core.actor.change(now, ticket, change)
        core.actor.conclude(now)
        return core.finish()

    # ------------------------------------------------------------------------------------- the roles, for it

    def follow(self, core: ReplicaCore, now: float) -> Actor:
        """For the core: a follower."""
        return Follower(core, now)

    def stand(self, core: ReplicaCore, now: float, transfer: bool) -> Actor:
        """For the core: a candidate."""
        return Candidate(core, now, transfer)

    def lead(self, core: ReplicaCore, now: float) -> Actor:
        """For the core: a leader."""
        return Leader(core, now)


def _highest(message: GroupMessage) -> int:
    """The highest index that a message would have a replica believe; 0 if it has none, or is compared with the log."""
    match message:
        case Append():
            return max(message.previous_index, message.commit_index)
        case InstallSnapshot():
            return message.index
        case RequestVote():
            return message.last_index
        case Forwarded():
            return max(message.indices, default=0)
    return 0
