"""An endpoint without its driver: the stack, the outbox and the peers.

The threaded, the asyncio and the simulated endpoint share this core. The core reads no clock and opens no socket. Only
`PublicationOutbox` is thread-safe: with a lock of its own, publishing never waits for a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from glue.contract import (
    NORMAL,
    PLAIN,
    Accept,
    Addressed,
    AnnotatedPublication,
    CodedDelivery,
    Delivery,
    Event,
    Missed,
    NameClash,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Receipted,
    Rung,
    TopicRoutes,
    Train,
)
from glue.contract.counters import Counters
from glue.contract.metadata import CodecTag
from glue.endpoint import coded
from glue.endpoint.accounting import MISSED, OUTCOMES
from glue.endpoint.durability import Durability
from glue.endpoint.encoding import NeedsCodecError, encoded
from glue.endpoint.held_wills import HeldWills
from glue.endpoint.identity import identity_of
from glue.endpoint.locks import asked_whether_held
from glue.endpoint.message import Peer, delivery_weight
from glue.endpoint.observers import OBSERVED, Observers
from glue.endpoint.offers import Offers
from glue.endpoint.options import LARGE_MESSAGE as LARGE_MESSAGE
from glue.endpoint.options import PRIORITIES as PRIORITIES
from glue.endpoint.options import Priority, Reliability, chosen_options, class_of
from glue.endpoint.publication_outbox import PublicationOutbox
from glue.endpoint.receipt import Receipt
from glue.endpoint.requests import Requests
from glue.endpoint.reserved import check_name
from glue.endpoint.reserved import check_not_reserved as check_not_reserved
from glue.endpoint.sealing import at_rest
from glue.endpoint.type_news import TypeNews
from glue.errors import ConfigurationError, MessageTooLargeError, WouldBlockError
from glue.fastpath.stack import FastStack
from glue.model import Answer, StackEvent
from glue.model.names import id_of as id_of
from glue.settings import Settings
from glue.stack import DELIVERY_GATE, LAYERS, SECURITY, Factory
from glue.topics.held import NOT_FOUND

if TYPE_CHECKING:
    from glue.endpoint.history import History  # imported when used

EARLY = 0.35  # seconds by which the network may be looked after early, in a turn that comes anyway
STREAM_SHARE = 4  # a quarter of `queue_limit` is gathered at most: no more than lies between the limits of two classes
CHUNK = 1 << 20  # bytes taken from a stream at once, at most: a chunk fits into one bundle of topics
CHUNK_COUNT = 1024  # payloads taken from a stream at once, at most

FIRST_ROUND = 0.25
"""Seconds that a start waits at most for the first round, which takes 0.04 unless the machine is too busy for it. What
is published then waits for the end of the round all the same."""


class EndpointCore:
    """One endpoint without a driver; the driver calls `turn`, at `deadline` at the latest."""

    def __init__(
        self,
        settings: Settings,
        random: Random,
        started_at: float,
        replaced: dict[str, Factory],
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        """`started_at` is the wall clock (Unix seconds); with a random part it makes the incarnation.

        `replaced`: factories of other layers, by name. `entropy`: what keys are drawn from; None: `os.urandom`.
        """
        unknown = set(replaced) - set(LAYERS)
        if unknown:
            raise ConfigurationError(f"unknown layer {min(unknown)!r}; the layers are network, {', '.join(LAYERS)}")
        self.settings = settings
        self.identity = identity_of(settings, random, started_at, entropy)
        self.stack = FastStack.build(self.identity, replaced)
        self.guard: Any = getattr(self.stack.layers.get(DELIVERY_GATE), "guard", None)
        self.outbox = PublicationOutbox()
        self.peers: dict[str, Peer] = {}
        self.statistics = Counters()
        self.types = TypeNews(self.statistics)
        self.decoder = coded.Decoder(self.statistics)
        self.waiting = 0  # bytes delivered and not yet handled
        self._own_waiting = 0  # those of them that this endpoint itself published
        self.overfed = False  # whether it has yet to handle too much of those
        self._accepting = True
        self._enough = settings.receive_limit  # bytes that may wait until this changes
        self._id = self.identity.endpoint_id
        self._started_at = started_at
        self.at_rest = partial(at_rest, settings, entropy)
        self._checked: set[str] = set()
        self.observers = Observers()
        self._members = count(1)
        self._not_found = 0  # messages of the start without a subscriber, as last reported
        self.receivers: Any = None  # set by their first use
        self.requests = Requests(self.identity, self.peers, self.statistics)
        parts = self._id, self.outbox.order, self.subscribers, self.settled, self.requests, self.guard
        self.wills = HeldWills(lambda holder: holder(*parts))
        self.durability = Durability(self.identity, self.requests.name_of, self.statistics)
        self.offers = Offers(self.statistics)
        self.history: History | None = None  # opened by its first use
        self.renew_locks()

    def renew_locks(self) -> None:
        """Make all locks; a forked child needs new ones, because no thread is left to release the old locks."""
        self._counting: Any = RLock()
        self.is_counting = asked_whether_held(self._counting)  # then a signal's handler cannot run a whole turn now
        self.outbox.renew_lock()
        if (security := self.security) is not None:
            security.renew()  # a child must not go on with the parent's numbers

    @property
    def security(self) -> Any:
        """The security layer; None without a key."""
        return self.stack.layers.get(SECURITY)

    def open_history(self, wake: Callable[[], None]) -> History:
        """Return the history of topics at this endpoint; `wake` has a turn run soon, from any thread."""
        if self.history is None:
            from glue.endpoint.history import History

            self.history = History(
                self.identity, self.peers, self.statistics, self.offers, self.requests, self._knows,
                Random(self.identity.random.getrandbits(64)), wake, self.arrived,
                self.decoder.opened, self._started_at,
            )  # fmt: skip
            self.history.may_read = None if self.guard is None else self.guard.lets_hear
        return self.history

    def _knows(self, peer: str, incarnation: int, pattern: str) -> bool:
        """Whether what is published goes to this life of a peer, or to this endpoint, if it matches the pattern."""
        peers = getattr(self.stack.layers["topics"], "peers", None)  # of a layer in place of ours nothing is known
        return peer == self._id or (peers is not None and peers.knows(peer, incarnation, pattern))

    # ---------------------------------------------------------------------------------------- publishing

    def publication(
        self,
        topic: str,
        payload: Any,
        now: float,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        receipt: Receipt | None = None,
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
    ) -> Publication:
        """Check and encode what is to be published; `now` is the wall clock (Unix seconds)."""
        if topic.__class__ is not str or topic not in self._checked:
            self._check(topic)
        tag: CodecTag | None = None
        if codec is not None:
            json, (body, tag) = False, coded.encode(payload, codec)
        elif payload.__class__ is bytes:
            body, json = payload, False
        elif retain and isinstance(payload, str) and not payload:  # clears, as empty bytes do
            body, json = b"", False
        else:
            try:
                body, json = encoded(payload, True)
            except NeedsCodecError as needs:
                json, (body, tag) = False, coded.encode(payload, needs.codec)
        size = len(body)
        if size > self.settings.message_limit:
            raise MessageTooLargeError(
                f"message of {size} bytes on {topic!r}; message_limit is {self.settings.message_limit}"
            )
        options, level = PLAIN, NORMAL
        is_plain = type is None and not retain and lifespan is None and key is None
        if not is_plain or reliability != "reliable" or receipt is not None:
            options = chosen_options(type, retain, lifespan, reliability, receipt, key)
        if priority != "normal" or size >= LARGE_MESSAGE:
            level = class_of(priority, size)
        if properties or tag is not None:
            metadata = coded.metadata_of(properties, tag)
            return AnnotatedPublication(topic, [body], now, json, size, level, options.replaced(metadata=metadata))
        return Publication(topic, [body], now, json, size, level, options)

    def publications(
        self, topic: str, payloads: Iterable[Any], now: float, priority: Priority = "normal"
    ) -> list[Publication]:
        """As `publication`, for many payloads with default options but `priority`: as few publications as possible."""
        many = list(payloads)
        sizes = {*map(len, many)} if {*map(type, many)} == {bytes} else ()
        if sizes and (largest := max(sizes)) <= self.settings.message_limit:
            if topic.__class__ is not str or topic not in self._checked:
                self._check(topic)
            length = largest if len(sizes) == 1 else None
            return [Publication(topic, many, now, False, length, class_of(priority, largest))]
        return [self.publication(topic, payload, now, priority=priority) for payload in many]

    def chunk_count(self, count: int, publications: Sequence[Publication]) -> int:
        """How many payloads of a stream to take next, after `count` of them have become these publications."""
        size = sum([publication.size for publication in publications])
        chunk = min(CHUNK, self.settings.queue_limit // STREAM_SHARE)
        return max(1, min(2 * count, CHUNK_COUNT, chunk * count // (size + 1)))

    def _check(self, topic: str) -> None:
        check_name(topic, self._checked)
        if self.guard is not None:
            self._checked.clear()  # it is asked again, as the rules may change
            self.guard.require("publish", topic)

    def next_member(self) -> int:
        """The number of the next subscription of this endpoint that is a group's member."""
        return next(self._members)

    # ---------------------------------------------------------------------------------------------- turns

    @property
    def deadline(self) -> float:
        """When the next turn is due even if nothing arrives and nothing is published, as of `Stack.commit`."""
        return self.stack.deadline if self.history is None else min(self.stack.deadline, self.history.deadline)

    @property
    def backlog(self) -> int:
        """Bytes published that are not yet acknowledged by everyone they are for, as of `Stack.commit`."""
        return self.outbox.size + self.stack.backlog

    @property
    def is_done(self) -> bool:
        """Whether every reliable message was acknowledged, by slow subscribers too, and those to receivers handled."""
        return not (self.backlog or self.stack.unfinished or (self.receivers and self.receivers.has_unsent))

    @property
    def is_first_round_over(self) -> bool:
        """Whether the peers that answer at once are known with their interests, or the time limit is over."""
        return getattr(self.stack.layers["discovery"], "is_first_round_over", True)

    def has_found_all(self) -> bool:
        """Whether every message held at the start found a subscriber; each miss is reported only once."""
        before, self._not_found = self._not_found, self.stack.layers["topics"].statistics[NOT_FOUND]
        return self._not_found == before

    def would_block(self, backlog: int) -> WouldBlockError:
        """Return the error for a publication that may not wait; `backlog` is the number of unacknowledged bytes."""
        return WouldBlockError(
            f"{backlog} bytes wait to be acknowledged, with queue_limit={self.settings.queue_limit}; "
            f"{self.waiting} to be handled here, with receive_limit={self.settings.receive_limit}"
        )

    def turn(self, now: float, trains: Iterable[Train]) -> tuple[list[Event], list[Train]]:
        """Run one turn of the stack, with all publications and requests since the last turn."""
        outbox = self.outbox
        requests = outbox.take() if outbox.requests else []
        up: list[StackEvent]
        up, out = self.stack.turn(now, trains, requests)  # type: ignore[assignment]
        events: list[Event] = []
        for event in up:
            if event.__class__ is Delivery:
                self._arrived(event)
            elif event.__class__ is CodedDelivery:
                events += self.decoder.taken(event, self.hold)
                continue
            elif isinstance(event, Answer):
                event.token.answered(event.answer)
                continue
            else:
                self._note(now, event)
            events.append(event)
            if self.observers and event.__class__ in OBSERVED:
                found = self.observers.note(now, event)
                for delivery in found:
                    self._arrived(delivery)
                events += found
        if self.history is not None:
            self.outbox.add(*self.history.advance(now, self.stack.backlog))
            for room in self.history.poked():
                room.poke()
        return events, out

    def _arrived(self, delivery: Delivery) -> None:
        self.hold(delivery)
        self.statistics["messages arrived"] += len(delivery.payloads) * len(delivery.tokens)

    def send(self, now: float, publications: Sequence[Publication] = ()) -> list[Train]:
        """Only the sweep down, with all that was published and asked since the last turn; events come with the next.

        These `publications` go last; they were not in the outbox.
        """
        requests = self.outbox.take() if self.outbox.requests else []
        requests += publications
        return self.stack.send(now, requests)

    def arrived(self, count: int) -> None:
        """Count messages that came to a subscription another way than in a turn. May be called from any thread."""
        with self._counting:
            self.statistics["messages arrived"] += count

    def hold(self, delivery: Delivery) -> None:
        """A delivery waits to be handled by all it is for."""
        self._wait(delivery, delivery_weight(delivery) * len(delivery.tokens))

    def _wait(self, delivery: Delivery, change: int) -> bool:
        """Count what waits to be handled; the senders are stopped when it is too much, and until half is done.

        Returns whether this endpoint is overfed no more.
        """
        was_overfed = False
        with self._counting:
            self.waiting += change
            if delivery.publisher_id == self._id:
                self._own_waiting += change
                was_overfed = self.overfed
                self.overfed = self._own_waiting > self.settings.receive_limit
            if (self.waiting <= self._enough) is not self._accepting:
                self._turn_around()
            return was_overfed and not self.overfed

    def _turn_around(self) -> None:
        """Begin or end to stop the senders."""
        self._accepting = accepting = not self._accepting
        self._enough = self.settings.receive_limit // (1 if accepting else 2)
        self.statistics["senders released" if accepting else "senders stopped"] += 1
        self.outbox.order(Accept(accepting))

    def keep(self, delivery: Delivery) -> None:
        """A subscription holds on to a delivery, to be read later. May be called from any thread."""
        self._wait(delivery, delivery_weight(delivery))

    def handled(self, delivery: Delivery) -> bool:
        """One subscription is done with a delivery. May be called from any thread; may leave an order to send.

        Returns whether this endpoint is overfed no more by what it published to itself.
        """
        return self._wait(delivery, -delivery_weight(delivery))

    def settled(self, outcome: str, count: int) -> None:
        """Count messages with that outcome (`glue.endpoint.accounting.OUTCOMES`). May be called from any thread."""
        if count:
            with self._counting:
                self.statistics[OUTCOMES[outcome]] += count

    def failed(self) -> None:
        """Count a handler, or a callback, that raised. May be called from any thread."""
        with self._counting:
            self.statistics["handler failed"] += 1

    def _note(self, now: float, event: Event) -> None:
        if isinstance(event, Missed):
            self.statistics[MISSED + event.cause] += event.count * len(event.tokens)
        elif isinstance(event, Addressed | Receipted):
            receipt = cast(Receipt, event.receipt)
            receipt.note(event, self.peers)
            if isinstance(event, Addressed) and receipt.expectation is not None:
                self.durability.addressed(receipt.expectation, event.last)
        elif isinstance(event, PeerAdded):
            self.wills.note(now, event)
            self.peers[event.peer] = Peer(event.name, event.peer, event.incarnation, event.address, event.restarted)
        elif isinstance(event, PeerInterest | PeerRemoved):
            if isinstance(event, PeerRemoved):
                self.peers.pop(event.peer, None)
                if self.receivers is not None:
                    self.receivers.note(event)
            self.outbox.add(*self.requests.note(now, event))
            self.wills.note(now, event)
            self.durability.note(event)
            self.types.note(event)
            if self.history is not None:
                self.history.note(event)
            elif isinstance(event, PeerInterest):
                self.offers.change(event)
            else:
                self.offers.forget(event.peer)
        elif isinstance(event, Rung):
            self.outbox.add(*event.tokens[0].rung(now))
        elif isinstance(event, NameClash):
            self.statistics["name clashes"] += 1

    def subscribers(self, topic: str) -> list[str]:
        """Ids of the peers that want this topic."""
        return list(cast(TopicRoutes, self.stack.layers["topics"]).subscribers(topic))
