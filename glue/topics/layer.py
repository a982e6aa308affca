"""Publish and subscribe: topic names to and from peers.

Down: a publication gets its sequence number and goes, bundled with others, to the peers whose interest matches,
and to this endpoint's own subscriptions. Up: bundles are taken apart and go to the subscriptions that match. The
last values of topics are kept for late joiners (see `retained.py`).

A replay, that is, a kept value told to a late joiner, reaches a subscription only if it has not seen that value:
whatever was heard is remembered, and a new subscription is given what is remembered. So a replay of something
remembered has been seen by all, and one of anything else by none.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

from glue.contract import (
    Addressed,
    Delivery,
    Downward,
    Event,
    FirstRoundOver,
    Gap,
    Inbound,
    Leave,
    Missed,
    News,
    Options,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Request,
    Subscribe,
    Unsubscribe,
    Upward,
)
from glue.contract.counters import Counts
from glue.errors import ConfigurationError
from glue.topics.bundle import (
    BEST_EFFORT_BUNDLE,
    KEEP,
    KEPT,
    LIVE,
    Group,
    MalformedBundleError,
    common_length,
    decode,
    milliseconds,
)
from glue.topics.deliveries import deliveries
from glue.topics.express import Arrivals, Departures
from glue.topics.held import NOT_FOUND, Held, Parcel
from glue.topics.index import Changes
from glue.topics.names import check_pattern, check_topic, check_type
from glue.topics.outbox import Outbox
from glue.topics.peers import Peers
from glue.topics.published import PublishedTopic, PublishedTopics
from glue.topics.rally import Talk
from glue.topics.retained import RetainedValues, kept, retained
from glue.topics.streams import Jump, Streams
from glue.topics.subscriptions import Subscriptions


class Topics:
    """The topics layer of one endpoint, in one life (`incarnation`) of it."""

    def __init__(self, *, endpoint_id: str, incarnation: int, name: str) -> None:
        self.statistics = Counts()
        self._endpoint_id = endpoint_id
        self._incarnation = incarnation
        self._name = name
        changes = Changes()
        self._subscriptions = Subscriptions(changes)
        self._peers = Peers(changes, self.statistics)
        self._published = PublishedTopics(self._peers.table, self.statistics)
        self._retained = RetainedValues()  # this endpoint's own
        self._heard = RetainedValues()
        self._outbox = Outbox()
        # Deliveries to oneself with their expiry. Bounded by the caller: `backlog` shows them, `receive` takes all.
        self._local: list[tuple[float, Delivery]] = []
        self._local_size = 0
        self._held: Held | None = None  # what waits for the first round of discovery; None: nothing does
        self._news: list[Event] = []  # of receipts; at most one a publication
        self._streams = Streams(self.statistics)
        self._departures = Departures(
            self._published, self._peers.index, self._subscriptions.index, changes, self.statistics
        )
        self._arrivals = Arrivals(self._streams, self._peers, self._subscriptions, changes, self.statistics)

    # ---------------------------------------------------------------------------------------------- the layer

    @property
    def deadline(self) -> float:
        """At once while there is something for oneself, or news; else when a gap is certain."""
        if self._local or self._news:
            return -inf
        return self._streams.deadline if self._held is None else min(self._streams.deadline, self._held.deadline)

    @property
    def backlog(self) -> int:
        """Bytes on their way to oneself, or held until it is known who wants them."""
        return self._local_size if self._held is None else self._local_size + self._held.size

    def expect_first_round(self) -> None:
        """Hold what is published until discovery tells that its first round is over."""
        self._held = Held()

    def fit(self, size: int) -> int:
        """Best-effort bundles are kept small, so that none is cut; anything reliable may have any size."""
        self._outbox.frame_size = min(size, BEST_EFFORT_BUNDLE)
        return size

    def subscribers(self, topic: str) -> Sequence[str]:
        """Ids of the peers whose announced interests match `topic`, sorted. Raises TopicError."""
        check_topic(topic)
        return self._peers.index.match(topic)

    def receive(self, now: float, items: list[Upward]) -> tuple[list[Event], list[Downward]]:
        """Bundles become deliveries; news of peers is noted and passed on."""
        up: list[Event] = []
        down: list[Downward] = []
        if self._local:
            self._take_local(now, up)
        if self._news:
            up += self._news
            self._news.clear()
        for item in items:
            if isinstance(item, Inbound):
                if (lone := self._arrivals.take(now, item)) is not None:
                    up.append(lone)
                else:
                    self._take(now, item, up)
            else:
                self._note(now, item, down)
                up.append(item)
        if self._held is not None and self._held.is_over(now):
            self._release(now, down, is_over=True)
        if self._streams.deadline <= now:
            for peer, topic, jump in self._streams.overdue(now):
                self._miss(topic, peer, jump, up)
        return up, down

    def lift(self, now: float, item: Upward) -> Event | None:
        """The delivery of a lone plain message that is the next of its stream."""
        if self._local or self._news or item.__class__ is not Inbound:
            return None
        return self._arrivals.take(now, item)

    def lower(self, now: float, item: Request) -> Downward | None:
        """What a lone plain message becomes on a topic that others went on before."""
        return self._departures.take(item)

    def rally(self) -> Talk:
        """What it does with lone plain messages that go back and forth; see `glue.fastpath.parts`."""
        return Talk(self._arrivals, self._departures, self.statistics)

    def send(self, now: float, items: list[Request]) -> list[Downward]:
        """Publications become bundles, subscriptions interests; other orders are passed on in their place.

        Raises TopicError or ConfigurationError before any item has an effect if one of them is wrong.
        """
        for item in items:
            self._check(item)
        down: list[Downward] = []
        for item in items:
            if isinstance(item, Publication):
                self._publish(now, item)
            elif isinstance(item, Subscribe):
                self._subscribe(now, item)
            elif isinstance(item, Unsubscribe):
                self._subscriptions.remove(item.token)
            else:
                if isinstance(item, Leave):
                    self._release(now, down, is_over=True)
                self._flush(down)
                down.append(item)
        self._flush(down)
        return down

    # ------------------------------------------------------------------------------------------------- down

    def _check(self, item: Request) -> None:
        if isinstance(item, Publication):
            options = item.options
            check_topic(item.topic)
            if options.type is not None:
                check_type(options.type)
            if options.lifespan is not None and not 0 < options.lifespan < inf:
                raise ConfigurationError(f"lifespan={options.lifespan!r}: expected a positive number of seconds")
        elif isinstance(item, Subscribe):
            check_pattern(item.pattern)

    def _publish(self, now: float, item: Publication) -> None:
        count, options = len(item.payloads), item.options
        if not count:
            return
        self.statistics["messages published"] += count
        topic = self._published.topic(item.topic)
        sequence, position = topic.number(count, options.reliable)
        group = Group(
            item.topic,
            sequence,
            int(item.published_at * 1e6),
            item.payloads[:],
            common_length(item.payloads) if item.length is None else item.length,
            options.type,
            item.json,
            KEEP if options.retain else LIVE,
            None if options.lifespan is None else milliseconds(options.lifespan),
            position,
            options.ordered or not options.reliable,
        )
        expires = inf if options.lifespan is None else now + options.lifespan
        priority = item.priority if item.priority == topic.priority else topic.classify(item.priority)
        if options.retain:
            self._retain(group, expires)
        tokens = self._subscriptions.index.match(item.topic)
        if tokens:
            self._deliver_to_self(group, expires, tokens)
        route = self._peers.index.match(item.topic)
        if self._held is not None and self._held.has_to_wait(now, options, route):
            self._held.add(Parcel(topic, group, priority, expires, options, bool(tokens)))
        else:
            self._dispatch(topic, group, priority, expires, options, route, bool(tokens))

    def _dispatch(
        self,
        topic: PublishedTopic,
        group: Group,
        priority: int,
        expires: float,
        options: Options,
        route: tuple[str, ...],
        is_heard: bool,
    ) -> None:
        """Send a group to these peers; `is_heard`: this endpoint itself has subscribed to it."""
        if route:
            flow = route, priority
            after = self._published.follow(topic, flow) if options.reliable and options.ordered else ()
            self.statistics["messages owed"] += len(group.payloads) * len(route)
            self._outbox.add(flow, options.reliable, group, expires, after)
        elif not is_heard:
            self.statistics["messages to nobody"] += len(group.payloads)
        if options.receipt is not None:
            self._news.append(Addressed(options.receipt, route))
            if route:
                self._outbox.receipt(flow, options.receipt)

    def _release(self, now: float, down: list[Downward], is_over: bool = False) -> None:
        """Send what was held and somebody wants now; all of it, if the waiting is over."""
        held, match = self._held, self._peers.index.match
        if held is None:
            return
        for parcel in held.released(match, is_over):
            group, options, route = parcel.group, parcel.options, match(parcel.group.topic)
            if parcel.expires < inf:
                group.lifespan_ms = milliseconds(max(0.0, parcel.expires - now))
            if not route and parcel.is_lost:
                self.statistics[NOT_FOUND] += len(group.payloads)
            self._dispatch(parcel.topic, group, parcel.priority, parcel.expires, options, route, parcel.is_heard)
        if is_over:
            self._held = None
        self._flush(down)

    def _retain(self, group: Group, expires: float) -> None:
        """Keep the last of these for late joiners; one that finds no room is an ordinary message, counted."""
        if not group.payloads[-1]:
            self._retained.discard(group.topic, self._endpoint_id)
            return
        value = retained(group, self._name, self._endpoint_id, self._incarnation, expires)
        if not self._retained.put(value):
            self.statistics["retained values refused: too many"] += 1

    def _subscribe(self, now: float, item: Subscribe) -> None:
        """Begin a subscription, with the values that its peers will not send again as they were heard before."""
        self._subscriptions.add(item.token, item.pattern)
        for values in (self._retained, self._heard):
            for value in values.matching([item.pattern], now):
                publisher = (value.publisher, value.publisher_id, value.incarnation)
                for delivery in deliveries(self.statistics, kept(value), *publisher, (item.token,), value.expires):
                    self._queue(delivery, value.expires, len(value.payload))

    def _flush(self, down: list[Downward]) -> None:
        interest = self._subscriptions.interest()
        if interest is not None:
            down.append(interest)
            for topic in self._heard.topics(interest.removed):
                if not self._subscriptions.index.find(topic):
                    self._heard.drop(topic)  # from now on it would grow stale unnoticed
        down += self._outbox.flush()

    # ------------------------------------------------------------------------------------------- to oneself

    def _deliver_to_self(self, group: Group, expires: float, tokens: tuple[Hashable, ...]) -> None:
        size = group.size
        live = group.part(0, len(group.payloads))  # a list of its own: that of the group may grow in the outbox
        live.retain = LIVE
        publisher = self._name, self._endpoint_id, self._incarnation
        for delivery in deliveries(self.statistics, live, *publisher, tokens, expires):
            self._queue(delivery, expires, size)
            size = 0

    def _queue(self, delivery: Delivery, expires: float, size: int) -> None:
        self.statistics["messages to oneself"] += len(delivery.payloads)
        self._local.append((expires, delivery))
        self._local_size += size

    def _take_local(self, now: float, up: list[Event]) -> None:
        for expires, delivery in self._local:
            if expires < now:
                self.statistics["messages expired"] += len(delivery.payloads)
            else:
                up.append(delivery)
        self._local.clear()
        self._local_size = 0

    # --------------------------------------------------------------------------------------------------- up

    def _take(self, now: float, item: Inbound, up: list[Event]) -> None:
        name = self._peers.name(item.peer)
        for body in item.bodies:
            try:
                groups = decode(body)
            except MalformedBundleError as error:
                self.statistics[f"malformed bundle: {error}"] += 1
                continue
            for group in groups:
                tokens = self._wanted(now, item, name, group, up)
                if tokens:
                    self.statistics["messages received"] += len(group.payloads)
                    until = inf if group.lifespan_ms is None else now + group.lifespan_ms / 1000 - item.age
                    up += deliveries(self.statistics, group, name, item.peer, item.incarnation, tokens, until, item.age)

    def _wanted(self, now: float, item: Inbound, name: str, group: Group, up: list[Event]) -> tuple[Hashable, ...]:
        """The subscriptions that a group is for; none if it is too old, too late, or a replay already seen.

        Those that miss what should have come before are told.
        """
        tokens = self._subscriptions.index.match(group.topic)
        if not tokens:
            self.statistics["messages not subscribed to"] += len(group.payloads)
            return ()
        if group.retain != KEPT:
            mark = self._subscriptions.mark
            dropped, jump = self._streams.heard(now, item.peer, item.incarnation, group, item.reliable, mark)
            if jump is not None:
                self._miss(group.topic, item.peer, jump, up)
            if dropped and not group.drop(dropped):
                return ()
        if group.lifespan_ms is not None and item.age * 1000 > group.lifespan_ms:
            self.statistics["messages expired"] += len(group.payloads)
            return ()
        elif group.retain and not self._heard.remember(now, item, name, group, self.statistics):
            self.statistics["retained values seen before"] += 1
            return ()
        if group.retain == KEPT:
            self._streams.replayed(now, item.peer, item.incarnation, group.topic, group.sequence)
        return tokens

    def _miss(self, topic: str, peer: str, jump: Jump, up: list[Event]) -> None:
        tokens = self._subscriptions.since(jump.mark, topic)
        if tokens:
            up.append(Missed(topic, self._peers.name(peer), peer, jump.count, jump.cause, tokens))

    # ------------------------------------------------------------------------------------------------- news

    def _note(self, now: float, news: News, down: list[Downward]) -> None:
        if isinstance(news, PeerInterest):
            added = self._peers.change(news)
            if added:
                self._replay(now, news.peer, added)
                self._flush(down)
                self._release(now, down)
        elif isinstance(news, FirstRoundOver):
            if self._held is not None:
                self._held.complete(news.until)
                self._release(now, down)
        elif isinstance(news, PeerAdded):
            self._peers.add(news)
        elif isinstance(news, PeerRemoved):
            self._peers.remove(news)
            self._streams.forget(news.peer)
        elif isinstance(news, Gap):
            self._streams.give_up(now, news.peer, news.cause)

    def _replay(self, now: float, peer: str, patterns: list[str]) -> None:
        """Send a peer the values kept for what it is now interested in."""
        for value in self._retained.matching(patterns, now):
            if self._held is not None and value.topic in self._held.retained:
                continue  # it is sent once it need not wait
            group = kept(value)
            if value.expires < inf:
                group.lifespan_ms = milliseconds(value.expires - now)
            topic = self._published.topic(value.topic)
            flow = (peer,), topic.priority
            after = self._published.follow(topic, flow)
            self._outbox.add(flow, True, group, value.expires, after)
            self.statistics["messages owed"] += 1
            self.statistics["retained values replayed"] += 1
