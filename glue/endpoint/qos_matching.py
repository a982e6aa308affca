"""Matches the publishers and subscribers of one endpoint with others, by quality of service.

Each side compares on its own, so both are told of a difference, once for each pair. A subscription asks here whether to
take a delivery. If one side is strict, it takes none of a mismatched publisher. Of exclusive publishers it takes only
the owner's. The owner of a topic is the strongest live publisher that keeps its deadline.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from threading import RLock
from typing import Any, Final, Literal, NamedTuple

from glue.contract import Delivery, Event, PeerAdded, PeerInterest, PeerRemoved, Surveyed
from glue.contract.matching import meet
from glue.endpoint.deadlines import TOLERANCE
from glue.endpoint.fork import heirs
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.qos_terms import (
    NOTHING,
    OFFER,
    QOS,
    REQUEST,
    Difference,
    Rank,
    Statement,
    Terms,
    differences,
    fit,
    statement_of,
)
from glue.endpoint.receivers import Receiver
from glue.requests.directory import matches

PEER_STATEMENTS: Final = 1024
"""Statements of one peer, at some 600 bytes each: 0.6 MB."""
STATEMENTS: Final = 16_384
"""Statements of all peers: 10 MB."""
MET: Final = 16_384
"""Pairs that were compared, so that each is told once; cleared when full: 5 MB."""
DEPARTURES: Final = 1_024
"""Departures that a subscription has not handled yet; offers of later ones are forgotten at once: 0.6 MB."""
VERDICTS: Final = 16_384
"""Topics of publishers whose verdict a subscription remembers; cleared when full: 3 MB."""

REFUSED, ADMITTED, OWNED = range(3)
"""Verdicts: never; always; while the publisher owns the topic."""

TOPIC: Final = "$glue/qos"
"""The topic of what this module hands to receivers."""
LEFT_OUT: Final = "messages left out by quality of service: "
"""What the counters begin with; the cause follows."""

logger = logging.getLogger("glue")


@dataclass(frozen=True, slots=True)
class QoSMismatch:
    """A publisher offers less than a subscriber requests: they match at the weaker one, or not at all."""

    pattern: str
    """The topics, as this endpoint wrote them."""
    here: Literal["publisher", "subscriber"]
    """The part of this endpoint."""
    peer: str
    """The name of the other endpoint."""
    peer_id: str
    """Its endpoint id."""
    differences: tuple[Difference, ...]
    """The policies that differ: each with `policy`, `offered`, `requested` and `agreed`."""
    refused: bool
    """Whether one side is strict, so that the subscriber gets nothing of this publisher."""

    def __str__(self) -> str:
        told = "; ".join(map(str, self.differences))
        effect = "they do not match" if self.refused else "the weaker one holds"
        return f"{self.pattern}: {self.here} here and {self.peer} there: {told}; {effect}"


class Departure(NamedTuple):
    """Offers that a peer took back, with the time of each."""

    peer: str
    offers: dict[Statement, float]


class Requested:
    """The request of one subscription.

    A subscription handles messages some time after they came. Its turn at a departure comes in their order, and until
    then the departed are there for it: what a standby published while the owner lived stays left out.
    """

    __slots__ = ("_heard", "_matching", "_ranks", "_terms", "_verdicts", "_version", "departures", "statements")

    def __init__(self, terms: Terms, patterns: Sequence[str], matching: Matching) -> None:
        self.statements = [Statement(REQUEST, terms, pattern) for pattern in patterns]
        self._terms = terms
        self._matching = matching
        self.departures: list[Departure] = []  # that this subscription has not handled; guarded by the lock of matching
        self._version = -1
        self._verdicts: dict[tuple[str, str], int] = {}  # by publisher and topic
        self._ranks: dict[str, list[Rank]] = {}  # the exclusive publishers of topics, the strongest first
        self._heard: OrderedDict[tuple[str, str], tuple[float, int, int]] = OrderedDict()
        # by exclusive publisher and topic: when it last came, its life, and the last message that was not the owner's

    def admits(self, delivery: Delivery) -> bool:
        """Whether the subscription is to have a delivery; counts it if not. May be called from any thread."""
        cause = self.judge(delivery)
        return not cause or self._matching.leave_out(cause, delivery)

    def judge(self, delivery: Delivery) -> str:
        """Why the subscription is not to have a delivery; "" if it is.

        A reader of history asks when a message comes, and again at its turn: the owner may have gone by then.
        """
        if delivery.retained and not self._terms.durability:
            return "older than the subscription"
        key = delivery.publisher_id, delivery.topic
        with self._matching.lock:
            if self._version != self._matching.version or len(self._verdicts) >= VERDICTS:
                self._version = self._matching.version
                self._verdicts.clear()
                self._ranks.clear()
            verdict = self._verdicts.get(key)
            if verdict is None:
                verdict = self._verdicts[key] = self._matching.verdict(self._terms, *key, self.departures)
            if verdict == OWNED and not self._is_of_owner(key, delivery):
                return "not of the owner"
            return "strict" if verdict == REFUSED else ""

    def handle(self, departure: Departure) -> None:
        """Forget the offers of the departed."""
        with self._matching.lock:
            self.departures = [one for one in self.departures if one is not departure]
            self._version = -1

    def _is_of_owner(self, key: tuple[str, str], delivery: Delivery) -> bool:
        peer, topic = key
        now = self._matching.clock()
        _, incarnation, passed = self._heard.get(key, (0.0, 0, 0))
        if incarnation != delivery.incarnation:
            passed = 0
        last = delivery.sequence + len(delivery.payloads) - 1
        is_owner = last > passed and self._owner(topic, now, peer) == peer
        self._heard[key] = now, delivery.incarnation, passed if is_owner else max(passed, last)
        self._heard.move_to_end(key)
        if len(self._heard) > VERDICTS:
            self._heard.popitem(last=False)
        return is_owner

    def _owner(self, topic: str, now: float, heard: str) -> str | None:
        """The publisher that owns a topic now that one is heard; None if all are silent for too long."""
        ranks = self._ranks.get(topic)
        if ranks is None:
            ranks = self._ranks[topic] = self._matching.ranks(self._terms, topic, self.departures)
        for rank in ranks:
            at = now if rank.peer == heard else self._heard.get((rank.peer, topic), (-inf,))[0]
            if now - max(at, rank.since) <= rank.deadline:
                return rank.peer
        return None


class Matching(Receiver):
    """The statements of one life of an endpoint and of its peers. Thread-safe; an observer of the news of discovery."""

    def __init__(
        self,
        identity: tuple[str, str, int],
        owner: SubscriptionOwner,
        statistics: Counter[str],
        clock: Callable[[], float],
        tell: Callable[[QoSMismatch], bool],
        counts: bool,
    ) -> None:
        """`identity` is name, id and incarnation; `tell` calls the program's callback, and returns if there is one.

        `counts`: handled deliveries are counted here, not by the driver.
        """
        super().__init__()
        self.clock = clock
        self.version = 0  # of what peers and this endpoint tell
        self._identity = identity
        self._owner = owner
        self._statistics = statistics
        self._tell = tell
        self._counts = counts
        self._mine: dict[Statement, int] = {}  # with how many tell each
        self._names: dict[str, str] = {identity[1]: identity[0]}
        self._theirs: dict[str, dict[Statement, float]] = {identity[1]: {}}  # by peer, with the time of each
        self._count = 0
        self._met: dict[tuple[Statement, str, Statement | None], None] = {}  # None: a publisher that offers nothing
        self._requests: dict[Any, Requested] = {}  # by subscription
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock; again in a forked child."""
        self.lock = RLock()

    # ------------------------------------------------------------------------------------ from the program

    def add(self, statement: Statement) -> bool:
        """Add a statement of this endpoint; returns whether it is to be told to the peers."""
        with self.lock:
            known = self._mine.get(statement, 0)
            self._mine[statement] = known + 1
            if known:
                return False
            found = [
                mismatch for peer, theirs in self._theirs.items() for other in theirs
                if (mismatch := self._compared(statement, peer, other))
            ]  # fmt: skip
            self._theirs[self._identity[1]][statement] = self.clock()
            self.version += 1
        self._report(found)
        return True

    def remove(self, statement: Statement) -> bool:
        """Remove a statement of this endpoint; returns whether it is to be taken back."""
        with self.lock:
            left = self._mine.get(statement, 0) - 1
            if left > 0:
                self._mine[statement] = left
                return False
            self._mine.pop(statement, None)
            self._theirs[self._identity[1]].pop(statement, None)
            self.version += 1
            return True

    def begin(self, subscription: Any, requested: Requested) -> None:
        """Tell a subscription of departures from now on."""
        with self.lock:
            self._requests[subscription] = requested

    def end(self, subscription: Any) -> None:
        """Tell it no more."""
        with self.lock:
            self._requests.pop(subscription, None)

    # ------------------------------------------------------------------------------------- within a turn

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        """Take news of peers; returns what follows, to be handed over where handlers run: mismatches, departures."""
        found: list[QoSMismatch] = []
        told: list[Delivery] = []
        with self.lock:
            if isinstance(event, Surveyed):
                if event.token is self:
                    for peer, name, interests in event.peers:
                        self._names[peer] = name
                        found += self._added(now, peer, interests)
            elif isinstance(event, PeerAdded):
                self._names[event.peer] = event.name
            elif isinstance(event, PeerInterest):
                told = self._departed(event.peer, self._removed(event.peer, event.removed))
                found += self._added(now, event.peer, event.added)
            elif isinstance(event, PeerRemoved):
                self._names.pop(event.peer, None)
                if (left := self._theirs.pop(event.peer, None)) is not None:
                    self._count -= len(left)
                    self.version += 1
                    told = self._departed(event.peer, left)
        if found:
            told.append(Delivery(TOPIC, found, None, *self._identity, 1, 0.0, False, (self,)))
        return told

    def _departed(self, peer: str, statements: dict[Statement, float]) -> list[Delivery]:
        """Keep the offers among statements for subscriptions until each has handled what came before."""
        offers = {statement: since for statement, since in statements.items() if statement.way == OFFER}
        if not offers:
            return []
        departure = Departure(peer, offers)
        tokens = []
        for subscription, requested in self._requests.items():
            if len(requested.departures) < DEPARTURES:
                requested.departures.append(departure)
                tokens.append(subscription)
        return [Delivery(TOPIC, [departure], None, *self._identity, 1, 0.0, False, tokens)] if tokens else []

    def _added(self, now: float, peer: str, interests: Sequence[str]) -> Iterator[QoSMismatch]:
        for interest in interests:
            if not interest.startswith(QOS):
                continue
            statement = statement_of(interest)
            if statement is None:
                self._statistics["malformed qualities of service"] += 1
                continue
            theirs = self._theirs.setdefault(peer, {})
            if statement in theirs:
                continue
            if len(theirs) >= PEER_STATEMENTS or self._count >= STATEMENTS:
                self._statistics["qualities of service refused: too many"] += 1
                continue
            theirs[statement] = now
            self._count += 1
            self.version += 1
            for mine in self._mine:
                if (mismatch := self._compared(mine, peer, statement)) is not None:
                    yield mismatch

    def _removed(self, peer: str, interests: Sequence[str]) -> dict[Statement, float]:
        theirs = self._theirs.get(peer, {})
        found = {}
        for interest in interests:
            statement = statement_of(interest) if interest.startswith(QOS) else None
            if statement is not None and (since := theirs.pop(statement, None)) is not None:
                found[statement] = since
                self._count -= 1
                self.version += 1
        return found

    def _compared(self, mine: Statement, peer: str, other: Statement) -> QoSMismatch | None:
        """Return the mismatch of a pair; None if there is none, or it was told."""
        if mine.way == other.way or not meet(mine.pattern, other.pattern):
            return None
        if not self._meet(mine, peer, other):
            return None
        offered, requested = (mine, other) if mine.way == OFFER else (other, mine)
        found = differences(offered.terms, requested.terms)
        if not found:
            return None
        here: Literal["publisher", "subscriber"] = "publisher" if mine.way == OFFER else "subscriber"
        is_refused = mine.terms.is_strict or other.terms.is_strict
        return QoSMismatch(mine.pattern, here, self._names.get(peer, peer), peer, tuple(found), is_refused)

    def _meet(self, mine: Statement, peer: str, other: Statement | None) -> bool:
        """Note a pair; returns whether it is new."""
        pair = mine, peer, other
        if pair in self._met:
            return False
        if len(self._met) >= MET:
            self._met.clear()
        self._met[pair] = None
        return True

    # -------------------------------------------------------------------------------- where handlers run

    def left_out(self, statements: Sequence[Statement], delivery: Delivery) -> None:
        """Tell of a publisher that strict requests refuse because it offers nothing; of differences was told before."""
        peer, topic = delivery.publisher_id, delivery.topic
        if not statements[0].terms.is_strict:
            return
        with self.lock:
            is_offered = any(True for _ in self._offers(peer, topic, ()))
            new = [] if is_offered else [one for one in statements if matches(one.pattern, topic)]
            new = [one for one in new if self._meet(one, peer, None)]
        self._report([QoSMismatch(one.pattern, "subscriber", delivery.publisher, peer, NOTHING, True) for one in new])

    def _deliver(self, event: Event) -> None:
        """Tell of mismatches."""
        if isinstance(event, Delivery):
            self._report(event.payloads)
            self._owner.settled("handled", len(event.payloads))
            if self._counts:
                self._owner.handled(event)

    def _report(self, mismatches: Sequence[Any]) -> None:
        for mismatch in mismatches:
            self._statistics["mismatched qualities of service"] += 1
            if not self._tell(mismatch):
                logger.warning("%s", mismatch)

    def leave_out(self, cause: str, delivery: Delivery) -> bool:
        """Count a delivery that a subscription is not to have; returns False."""
        self._statistics[LEFT_OUT + cause] += len(delivery.payloads)
        return False

    def _offers(self, peer: str, topic: str, departures: Sequence[Departure]) -> Iterator[tuple[Terms, float]]:
        for offers in (self._theirs.get(peer, {}), *(one.offers for one in departures if one.peer == peer)):
            for statement, since in offers.items():
                if statement.way == OFFER and matches(statement.pattern, topic):
                    yield statement.terms, since

    def verdict(self, requested: Terms, peer: str, topic: str, departures: Sequence[Departure]) -> int:
        """Whether a subscription may have the messages of a publisher on a topic; to it, the departed are there."""
        offers = list(self._offers(peer, topic, departures))
        if not offers:
            return REFUSED if requested.is_strict else ADMITTED
        fitting = [terms for terms, _ in offers if fit(terms, requested)]
        if not fitting:
            return REFUSED
        is_owned = requested.strength >= 0 and all(terms.strength >= 0 for terms in fitting)
        return OWNED if is_owned else ADMITTED

    def ranks(self, requested: Terms, topic: str, departures: Sequence[Departure]) -> list[Rank]:
        """The exclusive publishers of a topic that a subscription may have, the strongest first; with the departed."""
        found = []
        for peer in {**self._theirs, **dict.fromkeys(one.peer for one in departures)}:
            for terms, since in self._offers(peer, topic, departures):
                if terms.strength >= 0 and fit(terms, requested):
                    deadline = terms.deadline / 1000 * TOLERANCE if terms.deadline else inf
                    found.append(Rank(-terms.strength, peer, deadline, since))
        return sorted(found)
