"""Publish and subscribe: topic names to and from peers.

Down: a publication gets its sequence number. A bundle carries it to the peers with a matching interest. Own matching
subscriptions receive it as well. Up: bundles are decoded, and each message goes to the matching subscriptions.
`retained.py` keeps the last values of topics for late joiners.

A replay is a kept value sent to a late joiner. A subscription receives no value twice: this layer remembers the
retained values received, and a new subscription starts with them. Every subscription has seen a remembered value, so
its replay is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

from glue.contract import (
    Addressed,
    Alarm,
    Downward,
    Event,
    FirstRoundOver,
    FrameGap,
    Inbound,
    Leave,
    Missed,
    News,
    Options,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Record,
    Request,
    Rung,
    Served,
    Subscribe,
    Survey,
    Undelivered,
    Unsubscribe,
    Upward,
)
from glue.contract.counters import Counters
from glue.topics.alarms import Alarms
from glue.topics.asking import Asking
from glue.topics.bundle import (
    BEST_EFFORT_BUNDLE,
    KEEP,
    KEPT,
    LIVE,
    MalformedBundleError,
    MessageGroup,
    common_length,
    decode,
    milliseconds,
)
from glue.topics.checks import check_request
from glue.topics.copies import Copies
from glue.topics.deliveries import deliveries, unwrap
from glue.topics.held import NOT_FOUND, HeldParcels, Parcel
from glue.topics.index import Changes
from glue.topics.limits import Limits
from glue.topics.local import LocalDeliveries
from glue.topics.names import check_topic
from glue.topics.outbox import BundleOutbox
from glue.topics.own_values import OwnValues
from glue.topics.peers import Peers
from glue.topics.plain import PlainBundles
from glue.topics.published import PublishedTopic, PublishedTopics
from glue.topics.recording import Recording
from glue.topics.retained import RetainedValues, kept
from glue.topics.shared.sharing import Sharing
from glue.topics.streams import Jump, Streams
from glue.topics.subscriptions import Subscriptions
from glue.topics.wrapped import SHARED, unwrapped


class Topics:
    """The topics layer of one life (`incarnation`) of an endpoint."""

    def __init__(self, *, endpoint_id: str, incarnation: int, name: str) -> None:
        self.statistics = Counters()
        self.changes = Changes()  # to the patterns of the peers and of this endpoint
        self._limits = Limits(self.statistics)
        self._sharing = Sharing(endpoint_id, self.statistics)
        self.asking = Asking(self._limits, self._sharing)
        self.subscriptions = Subscriptions(self.changes, self.asking, endpoint_id)
        self.peers = Peers(self.changes, self.statistics, self.asking)
        self.published = PublishedTopics(self.peers.table, self.statistics)
        self.recording = Recording(self.changes)
        self._received = RetainedValues()
        self._outbox = BundleOutbox()
        self._identity = name, endpoint_id, incarnation
        self._values = OwnValues(self._identity, self.published, self._outbox, self._limits, self.statistics)
        self.retained = lambda: [*self._received, *self._values.table]  # values that peers and this endpoint retain
        self._local = LocalDeliveries(self._identity, self.statistics)
        self._alarms = Alarms()
        self._copies = Copies(self.statistics)
        around = self.changes, self.peers.table, self.peers.name, self.subscriptions.index.match, self.subscriptions.own
        index = self.subscriptions.index, self.peers.index
        self.asking.connect(self.published, self._outbox, self._local, self._received, *index, around)
        self.asking.values = self._received, self._values.table
        self._held: HeldParcels | None = None  # what waits for the first round of discovery; None: nothing does
        self._news: list[Event] = []  # of receipts; at most one a publication
        self._streams = Streams(self.statistics)
        self.plain_bundles = PlainBundles(self._streams, self.peers, self.subscriptions, self.changes, self.statistics)

    # ---------------------------------------------------------------------------------------------- the layer

    @property
    def deadline(self) -> float:
        """When `receive` is due (monotonic seconds): at once for local deliveries, else for gaps and held parcels."""
        if self._local.waiting or self._news:
            return -inf
        due = self._streams.deadline if self._held is None else min(self._streams.deadline, self._held.deadline)
        if self._alarms.heap or self._limits.heap or self._sharing.dispatchers:
            return min(due, self._alarms.deadline, self._limits.deadline, self._sharing.deadline)
        return due

    @property
    def backlog(self) -> int:
        """Payload bytes for own subscriptions, held until the subscribers are known, or not yet handled by a group."""
        size = self._local.size if self._held is None else self._local.size + self._held.size
        return size + self._sharing.size if self._sharing.dispatchers else size

    @property
    def unfinished(self) -> int:
        """Messages to groups that no member has acknowledged."""
        return self._sharing.count if self._sharing.dispatchers else 0

    def expect_first_round(self) -> None:
        """Hold what is published until discovery tells that its first round is over."""
        self._held = HeldParcels()

    def fit(self, size: int) -> int:
        """Limit best-effort bundles to `size` bytes, so that none is fragmented; reliable ones may be larger."""
        self._outbox.frame_size = min(size, BEST_EFFORT_BUNDLE)
        return size

    def subscribers(self, topic: str) -> Sequence[str]:
        """Sorted ids of the peers with an announced interest that matches `topic`. Raises TopicError."""
        check_topic(topic)
        found = self.peers.index.match(topic)
        return (
            sorted({*found, *self.asking.subscribers(topic, self.peers.index)}) if self.asking.wants(topic) else found
        )

    def receive(self, now: float, items: list[Upward]) -> tuple[list[Event], list[Downward]]:
        """Bundles become deliveries; news of peers is noted and passed on."""
        up: list[Event] = []
        down: list[Downward] = []
        if self._local.waiting:
            self._local.take(now, up)
        if self._news:
            up += self._news
            self._news.clear()
        for item in items:
            if isinstance(item, Inbound):
                if (lone := self.plain_bundles.take(now, item)) is not None:
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
        if self._limits.heap and self._limits.deadline <= now:
            for latest in self._limits.due(now):
                self._publish(now, latest)
            self._flush(now, down)
        if self._sharing.dispatchers:
            self._sharing.give_up(now, up)
            self._flush(now, down)
        up += map(Rung, self._alarms.due(now)) if self._alarms.heap else ()
        return up, down

    def send(self, now: float, items: list[Request]) -> list[Downward]:
        """Publications become bundles, subscriptions interests; other orders are passed on in their place.

        Raises TopicError or ConfigurationError before any item has an effect if one of them is wrong.
        """
        for item in items:
            check_request(item)
        down: list[Downward] = []
        for item in items:
            if isinstance(item, Publication):
                if item.payloads:
                    self.statistics["messages published"] += len(item.payloads)
                    (self._publish_extra if self.asking.extra else self._publish)(now, item)
            elif isinstance(item, Subscribe):
                self._subscribe(now, item)
            elif isinstance(item, Unsubscribe):
                self.subscriptions.remove(item.token)
            elif isinstance(item, Record):
                self.recording.change(item)
            elif isinstance(item, Alarm):
                self._alarms.set(item.token, item.due)
            elif isinstance(item, Served):
                self.asking.serve(now, item)
            elif isinstance(item, Survey):
                self._news.append(self.peers.survey(item.token))
            else:
                if isinstance(item, Leave):
                    self._release(now, down, is_over=True)
                self._flush(now, down)
                down.append(item)
        self._flush(now, down)
        return down

    # ------------------------------------------------------------------------------------------------- down

    def _publish_extra(self, now: float, item: Publication) -> None:
        is_limited = bool(self._limits.intervals(item.topic))
        for latest in self._limits.offer(now, item) if is_limited else ():
            self._publish(now, latest)
        self._publish(now, item, is_limited)
        self.asking.sample(now, item)

    def _publish(self, now: float, item: Publication, is_heard: bool = False) -> None:
        """Send a publication to its subscribers; `is_heard`: if there are none, it reached others all the same."""
        count, options = len(item.payloads), item.options
        topic = self.published.topic(item.topic)
        sequence, position = topic.number(count, options.reliable)
        group = MessageGroup(
            item.topic,
            sequence,
            self._received.later(item) if options.retain else int(item.published_at * 1e6),
            item.payloads[:],
            common_length(item.payloads) if item.length is None else item.length,
            options.type,
            item.json,
            KEEP if options.retain else LIVE,
            None if options.lifespan is None else milliseconds(options.lifespan),
            position,
            options.ordered or not options.reliable,
            options.metadata,
        )
        expires = inf if options.lifespan is None else now + options.lifespan
        priority = item.priority if item.priority == topic.priority else topic.classify(item.priority)
        if options.retain:
            self._values.keep(group, expires)
        if self.recording.recorder is not None:
            self.recording.record(now, group, expires)
        if self.subscriptions.index.match(item.topic) and (tokens := self.subscriptions.own(item.topic)):
            self._local.publish(group, expires, self._copies.wanted_by(group, tokens) if group.metadata else tokens)
            is_heard = True
        route = self.peers.index.match(item.topic)
        if self._held is not None and self._held.has_to_wait(now, options, route):
            self._held.add(Parcel(topic, group, priority, expires, options, is_heard))
        else:
            self._dispatch(topic, group, priority, expires, options, route, is_heard)

    def _dispatch(
        self,
        topic: PublishedTopic,
        group: MessageGroup,
        priority: int,
        expires: float,
        options: Options,
        route: tuple[str, ...],
        is_delivered_here: bool,
    ) -> None:
        """Send a group to these peers; `is_delivered_here`: this endpoint itself or a group gets it."""
        if self._sharing.dispatchers and self._sharing.offer(group, priority, expires, options.key):
            is_delivered_here = True
        if route:
            flow = route, priority
            after = self.published.follow(topic, flow) if options.reliable and options.ordered else ()
            self.statistics["messages owed"] += len(group.payloads) * len(route)
            self._outbox.add(flow, options.reliable, group, expires, after)
        elif not is_delivered_here:
            self.statistics["messages to nobody"] += len(group.payloads)
        if options.receipt is not None:
            self._news.append(Addressed(options.receipt, route, group.sequence + len(group.payloads) - 1))
            if route:
                self._outbox.receipt(flow, options.receipt)

    def _release(self, now: float, down: list[Downward], is_over: bool = False) -> None:
        """Send held parcels with a subscriber; all parcels if the waiting `is_over`."""
        held, match = self._held, self.peers.index.match
        if held is None:
            return
        for parcel in held.released(match, is_over):
            group, options, route = parcel.group, parcel.options, match(parcel.group.topic)
            if parcel.expires < inf:
                group.lifespan_ms = milliseconds(max(0.0, parcel.expires - now))
            if not route and parcel.is_lost and not self.asking.wants(group.topic):
                self.statistics[NOT_FOUND] += len(group.payloads)
            self._dispatch(
                parcel.topic, group, parcel.priority, parcel.expires, options, route, parcel.is_delivered_here
            )
        if is_over:
            self._held = None
        self._flush(now, down)

    def _subscribe(self, now: float, item: Subscribe) -> None:
        """Begin a subscription with the retained values known here; peers do not send those again."""
        self.subscriptions.add(item.token, item.patterns, item.local)
        self._values.keep_limited(item.patterns)
        for values in (self._values.table, self._received) if item.local else (self._received,):
            for value in values.matching(item.patterns, now):
                publisher = (value.publisher, value.publisher_id, value.incarnation)
                for delivery in deliveries(self.statistics, kept(value), *publisher, (item.token,), value.expires):
                    self._local.add_kept(delivery, value)

    def _flush(self, now: float, down: list[Downward]) -> None:
        if self._sharing.dispatchers or self._sharing.owed:
            self._sharing.dispatch(now, self.peers.table)
        interest = self.subscriptions.interest()
        if interest is not None:
            down.append(interest)
            for topic in self._received.topics(interest.removed):
                if not self.subscriptions.index.find(topic):
                    self._received.drop(topic)  # from now on it would grow stale unnoticed
        down += self._outbox.flush()

    # --------------------------------------------------------------------------------------------------- up

    def _take(self, now: float, item: Inbound, up: list[Event]) -> None:
        name = self.peers.name(item.peer)
        for body in item.bodies:
            try:
                groups = decode(body)
            except MalformedBundleError as error:
                self.statistics[f"malformed bundle: {error}"] += 1
                continue
            for group in groups:
                if group.topic[0] == "$" and self.asking.takes(now, item, group, up):
                    continue
                tokens = self._wanted(now, item, name, group, up)
                if tokens := self._copies.wanted_by(group, tokens) if group.metadata else tokens:
                    self.statistics["messages received"] += len(group.payloads)
                    expires = inf if group.lifespan_ms is None else now + group.lifespan_ms / 1000 - item.age
                    found = deliveries(self.statistics, group, name, item.peer, item.incarnation, tokens, expires)
                    if item.age:
                        for delivery in found:
                            delivery.age = item.age
                    up += map(unwrap, found) if group.topic[0] == "$" else found

    def _wanted(
        self, now: float, item: Inbound, name: str, group: MessageGroup, up: list[Event]
    ) -> tuple[Hashable, ...]:
        """Return the subscriptions of a group, none if it is old, late or a known replay; report a gap before it."""
        tokens = self.subscriptions.index.match(group.topic)
        if not tokens:
            self.statistics["messages not subscribed to"] += len(group.payloads)
            return ()
        if group.retain != KEPT:
            mark = self.subscriptions.mark
            dropped, jump = self._streams.receive(now, item.peer, item.incarnation, group, item.reliable, mark)
            if jump is not None:
                self._miss(group.topic, item.peer, jump, up)
            if dropped and not group.drop(dropped):
                return ()
        if group.lifespan_ms is not None and item.age * 1000 > group.lifespan_ms:
            self.statistics["messages expired"] += len(group.payloads)
            return ()
        elif group.retain and not self._received.remember(now, item, name, group, self.statistics):
            self.statistics["retained values seen before"] += 1
            return ()
        if group.retain == KEPT:
            self._streams.replayed(now, item.peer, item.incarnation, group.topic, group.sequence)
        return tokens

    def _miss(self, topic: str, peer: str, jump: Jump, up: list[Event]) -> None:
        tokens = self.subscriptions.since(jump.mark, topic)
        if tokens and not topic.startswith(SHARED):  # else another member gets it
            topic = unwrapped(topic)
            up.append(Missed(topic, self.peers.name(peer), peer, jump.count, jump.cause, tokens))

    # ------------------------------------------------------------------------------------------------- news

    def _note(self, now: float, news: News, down: list[Downward]) -> None:
        if isinstance(news, PeerInterest):
            added = self.peers.change(news)
            if added:
                self._values.keep_limited(added)
                self._values.replay(now, news.peer, added, self._held)
                self.asking.wills.replay(news.peer, added)
                self._flush(now, down)
                self._release(now, down)
        elif isinstance(news, FirstRoundOver):
            if self._held is not None:
                self._held.complete(news.until)
                self._release(now, down)
        elif isinstance(news, PeerAdded):
            self.peers.add(news)
            self.asking.wills.forget(news.peer)
        elif isinstance(news, PeerRemoved):
            self.peers.remove(news)
            self._streams.forget(news.peer)
        elif isinstance(news, Undelivered):
            self._sharing.doubt(news)
        elif isinstance(news, FrameGap):
            self._streams.give_up(now, news.peer, news.cause)
