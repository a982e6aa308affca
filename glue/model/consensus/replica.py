"""One replica of a group: takes messages and the time, returns an `Output`.

A replica owns no clock, socket, thread or file; `output.py` says what its driver does. A call takes a batch of messages
and all questions asked before. A whole batch costs a single multicast, write and sync.
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
"""Messages without a group: those of a founding."""

ANOTHER_SCOPE, ANOTHER_GROUP = "messages of another model or network", "messages of another group"


class Replica:
    """A member or an observer of one group.

        replica = Replica("ab…", scope, settings, storage.load(), random, now)
        output = replica.receive(now, [(sender, message), …])

    `peer` is this endpoint's id. `scope` names network and model; messages of another scope are counted and dropped.
    `stored` is the content of the storage; a new storage holds a new life only. `accepts` tells whether the state
    machine can be restored from the bytes of a snapshot.
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

    # ----------------------------------------------------------------------------------------------- state

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without messages (monotonic seconds); in the past if there is work."""
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
        """The newest configuration in the log, committed or not; without voters if there is none."""
        return self._core.configuration

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, None if there is none."""
        return self._core.log.snapshot

    @property
    def is_among_strangers(self) -> bool:
        """Whether this replica has no group and has received messages of groups that it cannot join."""
        core = self._core
        return not core.group and any(core.statistics[cause] for cause in (ANOTHER_SCOPE, ANOTHER_GROUP))

    def differing(self, now: float) -> dict[str, str]:
        """The voters that other replicas want, by endpoint id, where they differ from this replica's settings."""
        return self._core.agreement.differing(now)

    @property
    def found(self) -> list[str]:
        """The endpoint ids of the candidates for a founding; empty once there is a group."""
        actor = self._core.actor
        return actor.seen if isinstance(actor, Founder) else []

    @property
    def statistics(self) -> Counter[str]:
        """Counters of what was dropped or refused, by cause."""
        return self._core.statistics

    # ------------------------------------------------------------------------------------------------ calls

    def receive(self, now: float, messages: Sequence[tuple[str, Message]]) -> Output:
        """Take messages, each with its sender's endpoint id, and do what is due. No message makes this method raise."""
        core = self._core
        for sender, message in messages:
            if sender != core.peer:
                self._take(now, sender, message)
        if now >= core.actor.deadline:
            core.actor.due(now)
        return self._finish(now)

    def synced(self, now: float, number: int) -> Output:
        """Take note that all writes up to this number are durable."""
        core = self._core
        for message in core.synced(number):
            self._take(now, core.peer, message)
        return self._finish(now)

    def propose(self, now: float, command: bytes) -> int:
        """Have a command committed; returns a ticket.

        The outcome comes with a later Output, soonest at the next `receive`. Any replica can be asked: a follower
        forwards the command once to the leader.
        """
        return self._ask(now, command)

    def read(self, now: float) -> int:
        """Ask for a linearizable read. It may be served once its ticket is READABLE; the ticket may also be REFUSED."""
        return self._ask(now, None)

    def take_snapshot(self, now: float, index: int, data: bytes) -> Output:
        """Replace the log up to `index` by a snapshot with `data`, the state after the entry at `index` was applied."""
        core = self._core
        term = core.log.term(index)
        before = 0 if core.log.snapshot is None else core.log.snapshot.index
        if before < index <= core.commit_index and term is not None:
            snapshot = Snapshot(index, term, core.log.configuration_at(index), data)
            core.log.compact(snapshot, core.settings.trailing)
            core.journal.compacted()
        return self._finish(now)

    def step_down(self, now: float) -> Output:
        """Stop leading, because this replica cannot make its state durable."""
        core = self._core
        if core.actor.role is Role.LEADER:
            core.statistics["stepped down, unable to store"] += 1
            core.follow(now, core.term)
        return core.finish()

    def admit(self, now: float, peer: str) -> int:
        """Make an observer a learner, and a voter once it has caught up. Refused unless this replica leads."""
        return self._change(now, ("admit", peer))

    def remove(self, now: float, peer: str) -> int:
        """Remove a member from the group. Refused unless this replica leads."""
        return self._change(now, ("remove", peer))

    def transfer(self, now: float, peer: str) -> int:
        """Hand the leadership to another voter. The ticket is COMMITTED once it leads, REFUSED after a timeout."""
        return self._change(now, ("transfer", peer))

    # --------------------------------------------------------------------------------------------- dispatch

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
        """Give a message to the role, if it is of this group, or of a founding in this scope."""
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
        """Note that an endpoint without a group wants other voters than this group was founded with."""
        core = self._core
        seats = message.seats if isinstance(message, Offer) else 0
        if seats and seats != len(Configuration.decode(core.vital.value).voters):
            core.statistics["offers for another number of voters"] += 1
            core.agreement.note_offer(now, sender, seats)
        elif seats and core.settings.members is not None and sender not in core.settings.members:
            core.statistics["offers of others than the members"] += 1
            core.agreement.note_stranger(now, sender)

    def _take_of_group(self, now: float, sender: str, message: GroupMessage) -> None:
        """Give a message to the role, unless its term or index is too far ahead."""
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

    # ------------------------------------------------------------------------------------------------- roles

    def follow(self, core: ReplicaCore, now: float) -> Actor:
        """Return a follower, for the core."""
        return Follower(core, now)

    def stand(self, core: ReplicaCore, now: float, transfer: bool) -> Actor:
        """Return a candidate, for the core."""
        return Candidate(core, now, transfer)

    def lead(self, core: ReplicaCore, now: float) -> Actor:
        """Return a leader, for the core."""
        return Leader(core, now)


def _highest(message: GroupMessage) -> int:
    """Return the highest index that a message claims; 0 for a message without an index that could do harm."""
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
