"""A replica without a group: finds a group, or founds one with the others, once and for all.

Replicas offer themselves as voters by multicast. When enough offers are there, the replica with the least id proposes
the first voters. They agree by single-decree Paxos (Lamport, "Paxos Made Simple", 2001). The quorum is n, the number of
voters. Two sets of n out of fewer than 2n endpoints share one endpoint. Therefore no second group is founded while
fewer than 2n endpoints ever offer themselves, even with losses, partitions and restarts. With `members` only these take
part, so there are never more than n. Once a group exists, its members answer every offer with a welcome and make no
promises.

Only the first voters start with a vote, and only in the life with which the group was founded. Every other replica
joins with an empty log and without a vote. A replica joins an unknown group only after a second welcome, which answers
the replica's own offer. A stray message alone must not bind a replica to a group that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from glue.model.consensus.agreement import PRESENT
from glue.model.consensus.bounds import BALLOT_JUMP, BALLOT_TOO_FAR
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import Change, Question, ReplicaCore
from glue.model.consensus.items import Ballot, Role
from glue.model.consensus.messages import Accepted, Message, Offer, Prepare, Promise, Propose, Welcome

CANDIDATES = 256
"""Endpoints without a group that are remembered; a group has far fewer voters."""

NO_GROUP = "this replica has found neither a group nor enough voters to found one"


class Founder:
    """Belongs to no group yet."""

    role: ClassVar[Role] = Role.FOUNDING
    __slots__ = (
        "_ballot", "_complete_since", "_invitation", "_promises", "_retry", "_seen", "_votes", "core", "deadline",
    )  # fmt: skip

    def __init__(self, core: ReplicaCore, now: float) -> None:
        self.core = core
        self.deadline = now
        self._seen: dict[str, float] = {}  # by candidate: time of the last offer
        self._complete_since: float | None = None
        self._invitation: tuple[bytes, float] = (b"", 0.0)  # a group, and until when one welcome to it counts
        self._ballot: Ballot = (0, "")
        self._retry = now  # when an open ballot has failed
        self._promises: dict[str, Promise] = {}
        self._votes: set[str] | None = None  # endpoints that accepted; None before the proposal

    # ----------------------------------------------------------------------------------- the role's methods

    def submit(self, now: float, questions: list[Question]) -> None:
        """Refuse all commands and reads, because there is no leader."""
        self.core.tickets.refuse([ticket for ticket, _ in questions], NO_GROUP)

    def change(self, now: float, ticket: int, change: Change) -> None:
        """Refuse the change, because there is no group."""
        self.core.tickets.refuse([ticket], NO_GROUP)

    def conclude(self, now: float) -> None:
        """Do nothing: all messages have left."""

    def retire(self, now: float) -> None:
        """Do nothing: a group was found."""

    def due(self, now: float) -> None:
        """Repeat the offer, and propose the voters if this replica has the least id."""
        core, settings = self.core, self.core.settings
        core.tell(None, Offer(core.scope, core.life, settings.seats if self._votes_here else 0))
        self.deadline = now + settings.heartbeat * (0.9 + 0.2 * core.rng.random())
        if not settings.observer:
            self._propose_if_first(now)

    def _propose_if_first(self, now: float) -> None:
        core, settings = self.core, self.core.settings
        if self._may_vote(core.peer):
            self._seen[core.peer] = now
        for peer, offered_at in list(self._seen.items()):
            if now - offered_at > PRESENT * settings.heartbeat:
                del self._seen[peer]
        if len(self._seen) < settings.seats or core.agreement.hears_group(now):
            self._complete_since = None
        elif self._complete_since is None:
            self._complete_since = now
        elif now - self._complete_since >= settings.election_timeout / 2 and min(self._seen) == core.peer:
            self._begin(now)

    @property
    def seen(self) -> list[str]:
        """The candidates for a founding, by the offers of the last `PRESENT` heartbeats."""
        return sorted(self._seen)

    @property
    def _votes_here(self) -> bool:
        return not self.core.settings.observer and self._may_vote(self.core.peer)

    def _may_vote(self, peer: str) -> bool:
        members = self.core.settings.members
        return members is None or peer in members

    def _begin(self, now: float) -> None:
        """Open a ballot, unless one is open."""
        core = self.core
        if now < self._retry:
            return
        self._retry = now + core.settings.election_timeout * (0.5 + core.rng.random())
        self._ballot = max(self._ballot, core.vital.promised)[0] + 1, core.peer
        self._promises.clear()
        self._votes = None
        prepare = Prepare(core.scope, core.life, self._ballot)
        core.answer(None, prepare)  # once it is durable, so that no ballot is used twice
        self.on_prepare(now, core.peer, prepare)

    # -------------------------------------------------------------------------------------------- messages

    def take(self, now: float, sender: str, message: Message | Any) -> None:
        """Take a message of a founding. After a message of a group, ask its sender for a welcome."""
        core = self.core
        handler = self.HANDLERS.get(message.__class__)
        if handler is not None:
            handler(self, now, sender, message)
        else:
            core.statistics["messages of a group not joined yet"] += 1
            self._complete_since = None
            if not core.agreement.hears_group(now):
                core.tell(sender, Offer(core.scope, core.life, 0))

    def on_offer(self, now: float, sender: str, offer: Offer) -> None:
        """Note the offer of another replica without a group."""
        core, seats = self.core, self.core.settings.seats
        if not offer.seats or not seats:
            return
        if offer.seats != seats:
            core.statistics["offers for another number of voters"] += 1
            core.agreement.note_offer(now, sender, offer.seats)
        elif not self._may_vote(sender):
            core.statistics["offers of others than the members"] += 1
            core.agreement.note_stranger(now, sender)
        elif sender in self._seen or len(self._seen) < CANDIDATES:
            self._seen[sender] = now

    def on_welcome(self, now: float, sender: str, welcome: Welcome) -> None:
        """Join a group that fits. If it was not accepted here before, ask for a second welcome first."""
        core, value = self.core, welcome.value
        if not core.agreement.fits(value):
            core.statistics["welcomes to a group of other voters"] += 1
            core.agreement.note_group(now, sender, value)
        elif value == core.vital.value or (value == self._invitation[0] and now < self._invitation[1]):
            core.join(value)
            core.follow(now, core.term)
        else:
            self._invitation = value, now + PRESENT * core.settings.heartbeat
            core.tell(sender, Offer(core.scope, core.life, 0))

    def _is_near(self, now: float, sender: str, ballot: Ballot) -> bool:
        """Whether a ballot is near enough to be believed.

        If a sender repeats a ballot that is too far ahead, the promise rises by `BALLOT_JUMP`.
        """
        core, reached = self.core, self.core.vital.promised[0]
        if ballot[0] <= reached + BALLOT_JUMP or sender == core.peer:
            return True
        core.statistics[BALLOT_TOO_FAR] += 1
        if core.doubts.is_repeated(now, sender):
            core.vital = core.vital._replace(promised=(reached + BALLOT_JUMP, ""))
        return False

    def on_prepare(self, now: float, sender: str, prepare: Prepare) -> None:
        """Promise to ignore lower ballots, and report what was accepted before."""
        core = self.core
        if not self._votes_here or not self._may_vote(sender) or core.agreement.hears_group(now):
            return
        if self._is_near(now, sender, prepare.ballot) and prepare.ballot > core.vital.promised:
            core.vital = core.vital._replace(promised=prepare.ballot)
        vital = core.vital
        core.answer(sender, Promise(core.scope, core.life, vital.promised, vital.accepted, vital.value))

    def on_promise(self, now: float, sender: str, promise: Promise) -> None:
        """With enough promises, propose what was accepted in the highest ballot, or else the promisers as voters."""
        core, seats = self.core, self.core.settings.seats
        if promise.ballot > self._ballot:
            self._ballot = min(promise.ballot[0], self._ballot[0] + BALLOT_JUMP), ""  # lost: the next ballot is higher
        if promise.ballot != self._ballot or self._votes is not None or not self._may_vote(sender):
            return
        self._promises[sender] = promise
        if len(self._promises) < seats:
            return
        newest = max(self._promises.values(), key=lambda known: known.accepted)
        voters = {peer: known.life for peer, known in self._promises.items()}
        value = newest.value or Configuration(voters, {}).encode()
        self._votes = set()
        propose = Propose(core.scope, core.life, self._ballot, value)
        core.tell(None, propose)
        self.on_propose(now, core.peer, propose)

    def on_propose(self, now: float, sender: str, propose: Propose) -> None:
        """Accept the first voters, unless a higher ballot was promised."""
        core = self.core
        if not self._votes_here or propose.ballot < core.vital.promised:
            return
        if not self._is_near(now, sender, propose.ballot):
            return
        voters = Configuration.decode(propose.value).voters
        if len(voters) != core.settings.seats or not all(map(self._may_vote, voters)):
            core.statistics["proposals of other voters than these"] += 1
            return
        core.vital = core.vital._replace(promised=propose.ballot, accepted=propose.ballot, value=propose.value)
        core.answer(sender, Accepted(core.scope, core.life, propose.ballot))

    def on_accepted(self, now: float, sender: str, accepted: Accepted) -> None:
        """Count an acceptance; with enough of them the group is founded."""
        core = self.core
        if accepted.ballot != self._ballot or self._votes is None or not self._may_vote(sender):
            return
        self._votes.add(sender)
        if len(self._votes) >= core.settings.seats:
            welcome = Welcome(core.scope, core.life, core.vital.value)
            core.tell(None, welcome)
            self.on_welcome(now, core.peer, welcome)

    HANDLERS: ClassVar[dict[type, Callable[[Any, float, str, Any], None]]] = {
        Offer: on_offer,
        Welcome: on_welcome,
        Prepare: on_prepare,
        Promise: on_promise,
        Propose: on_propose,
        Accepted: on_accepted,
    }
