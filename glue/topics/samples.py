"""Samples: a bounded look at the topics of publishers, for an endpoint that watches them without subscribing.

A watcher has the interest `$glue/sample/INTERVAL/COUNT/PATTERN`. Each publisher sends it one message of each matching
topic an interval, with best effort, and COUNT of all topics at most. A sample has the sequence number of the message
itself, so two samples tell how many messages there were between them. A watcher is no subscriber: it is in no receipt,
no publisher waits for it, and `Topics.subscribers` leaves it out.

Only sampled messages cost anything. Once a topic was sampled, its messages take the fast path again until the interval
is over. If more topics are published than there is room for, each is sampled every second interval only, every third,
and so on: so each has its turn. Several watchers get the same samples, as many as the most modest of them asks for.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import orjson

from glue.contract import BULK, Delivery, Event, Inbound, Publication
from glue.contract.metadata import Metadata
from glue.errors import TopicError
from glue.topics.bundle import KEPT, LIVE, MessageGroup
from glue.topics.index import Changes, Index
from glue.topics.names import check_pattern
from glue.topics.retained import RetainedValue, RetainedValues, kept
from glue.topics.wrapped import INTERVAL_LIMIT, SAMPLED, sampled, unwrapped

if TYPE_CHECKING:
    from glue.topics.local import LocalDeliveries
    from glue.topics.outbox import BundleOutbox
    from glue.topics.published import PublishedTopics

COUNT_LIMIT: Final = 10_000
"""Samples that one publisher sends in an interval at most: 5 MB while they wait, beside the payloads."""
BYTES: Final = 512 << 10
"""Bytes of payloads in the samples of one interval at most; the last one may exceed it."""
WHOLE: Final = 8 << 10
"""Bytes of the largest payload that is sampled whole. Of a larger one its first bytes are sent, and its size."""
START: Final = 256
"""Bytes that are sent of a payload that is too large."""
SIZE: Final = "$glue/size"
CODEC: Final = "$glue/codec"
"""Properties of a sample that is not whole: bytes of the payload, and the tag of its codec, if it has one."""
SPREAD: Final = 0.05
"""Seconds for which samples are gathered, so that they fill datagrams."""
LIFESPAN: Final = 1.0
"""Seconds after which a sample that could not leave is dropped."""
LONGEST_STRIDE: Final = 64
"""Intervals between two samples of one topic at most, which suffices for 640,000 topics."""
TOPICS: Final = 65_536
"""Topics of which the last sample is remembered, at some 150 bytes: 10 MB. Then all are forgotten."""

Around = tuple[
    Changes, Container[str], Callable[[str], str], Callable[[str], tuple[Hashable, ...]],
    Callable[[str], tuple[Hashable, ...]],
]  # fmt: skip
"""Of a topics layer: changes of routes; ids and names of peers; who subscribes to a topic, and to own messages."""

Asked = tuple[int, int]
"""An interval (milliseconds), and how many samples an interval may have."""


def asked_of(interest: str) -> tuple[Asked, str] | None:
    """Return what an interest in samples asks for, and its pattern; None for one that is malformed."""
    if interest.count("/") < 4:
        return None
    _, _, interval, count, pattern = interest.split("/", 4)
    if not (_is_number(interval, INTERVAL_LIMIT) and _is_number(count, COUNT_LIMIT)):
        return None
    try:
        check_pattern(pattern)
    except TopicError:
        return None
    return (int(interval), int(count)), pattern


def _is_number(text: str, limit: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= limit


class Samples:
    """The interests in samples at one publisher, and the samples that wait to be sent."""

    __slots__ = (
        "_asked",
        "_changes",
        "_ends_at",
        "_heap",
        "_index",
        "_is_running",
        "_is_short",
        "_left",
        "_local",
        "_match",
        "_name",
        "_number",
        "_outbox",
        "_own",
        "_peers",
        "_published",
        "_room",
        "_sampled",
        "_send_at",
        "_statistics",
        "_stride",
        "_waiting",
        "users",
    )  # fmt: skip

    def __init__(
        self,
        heap: list[tuple[float, int, str]],
        published: PublishedTopics,
        outbox: BundleOutbox,
        local: LocalDeliveries,
        around: Around,
    ) -> None:
        """`heap` has the times at which `rung` is called, as `(due, 0, "")`; it belongs to the limited rates."""
        self._published, self._outbox, self._local = published, outbox, local
        self._changes, self._peers, self._name, self._match, self._own = around
        self._statistics = published.statistics
        self.users: Counter[tuple[str, str]] = Counter()  # by endpoint and interest
        self._heap = heap
        self._index: Index[tuple[Asked, str]] = Index()  # what endpoints ask for, by pattern
        self._asked: Asked = (1, 0)  # what counts: that of the most modest
        self._number = 1  # of the interval
        self._sampled: dict[str, int] = {}  # the interval in which a topic was last sampled
        self._stride = 1
        self._left = self._room = 0  # samples and bytes that this interval may still have
        self._is_running = self._is_short = False  # whether it has any sample, and whether it had no room for one
        self._ends_at = self._send_at = 0.0
        self._waiting: list[tuple[MessageGroup, tuple[tuple[Asked, str], ...]]] = []

    # ------------------------------------------------------------------------------------- who asks for them

    def add(self, endpoint_id: str, interest: str) -> None:
        """Take an interest of an endpoint."""
        found = asked_of(interest)
        if found is None:
            self._statistics["malformed interest"] += 1
            return
        self.users[endpoint_id, interest] = 1
        self._index.add(found[1], (found[0], endpoint_id))
        self._count_anew()

    def remove(self, endpoint_id: str, interest: str) -> None:
        """Drop an interest of an endpoint."""
        found = asked_of(interest) if self.users.pop((endpoint_id, interest), 0) else None
        if found is not None:
            self._index.remove(found[1], (found[0], endpoint_id))
            self._count_anew()

    def _count_anew(self) -> None:
        asked = [found[0] for _, interest in self.users if (found := asked_of(interest))]
        if asked:
            self._asked = max(interval for interval, _ in asked), min(count for _, count in asked)
        self._sampled.clear()
        self._is_short = False
        self._next_interval()
        self._stride = 1

    def _next_interval(self) -> None:
        """Begin an interval: all topics may be sampled again, and their messages leave the fast path for that."""
        if self._is_short:
            self._stride = min(self._stride + 1, LONGEST_STRIDE)
        elif self._left * 2 > self._asked[1] and self._stride > 1:
            self._stride -= 1
        self._number += 1
        self._left, self._room = self._asked[1], BYTES
        self._is_running = self._is_short = False
        self._changes.count += 1

    # --------------------------------------------------------------------------------------- what is sampled

    def wants(self, topic: str) -> bool:
        """Whether the next message of a topic is to be sampled."""
        return bool(self.users) and self._left > 0 and self._is_due(topic) and bool(self._index.match(topic))

    def _is_due(self, topic: str) -> bool:
        return self._sampled.get(topic, -LONGEST_STRIDE) + self._stride <= self._number

    def offer(self, now: float, item: Publication) -> None:
        """Take the last message of a publication that was numbered just now, if its topic is due."""
        if self._is_running and self._ends_at <= now:
            self._next_interval()
        if not self._is_due(item.topic):
            return
        to = self._index.match(item.topic)
        if not to:
            return
        topic = self._published.topic(item.topic)
        topic.lone_route = None  # so that the next message finds its way anew
        if self._left <= 0:
            self._is_short = True
            return
        if len(self._sampled) >= TOPICS:
            self._sampled.clear()
        self._sampled[item.topic] = self._number
        options, payload = item.options, item.payloads[-1]
        group = MessageGroup(
            item.topic, topic.sequence, int(item.published_at * 1e6), [payload], len(payload), options.type, item.json,
            KEPT if options.retain else LIVE, metadata=options.metadata,
        )  # fmt: skip
        self._take(now, group, to)

    def begin(self, now: float, peer: str, patterns: list[str], values: RetainedValues) -> None:
        """Sample the retained values for the new interests of a peer, as many as an interval may have."""
        for interest in patterns:
            found = asked_of(interest) if interest.startswith(SAMPLED) else None
            if found is not None:
                wanted: Iterator[RetainedValue] = values.matching([found[1]], now)
                for value in islice(wanted, max(self._left, 0)):
                    self._take(now, kept(value), ((found[0], peer),))

    def _take(self, now: float, group: MessageGroup, to: tuple[tuple[Asked, str], ...]) -> None:
        _shorten(group)
        self._left -= 1
        self._room -= group.size
        if self._room <= 0:
            self._left = 0
        if not self._is_running:
            interval = self._asked[0] / 1000
            self._is_running = True
            self._ends_at = (self._ends_at if now < self._ends_at + interval else now) + interval  # without a pause
            heapq.heappush(self._heap, (self._ends_at, 0, ""))
        if not self._waiting:
            self._send_at = now + SPREAD
            heapq.heappush(self._heap, (self._send_at, 0, ""))
        self._waiting.append((group, to))

    def rung(self, now: float) -> None:
        """Send the samples that waited, and begin an interval, as far as it is time."""
        if self._waiting and self._send_at <= now:
            waiting, self._waiting = self._waiting, []
            for group, to in waiting:
                self._send(now, group, to)
        if self._is_running and self._ends_at <= now:
            self._next_interval()

    def _send(self, now: float, group: MessageGroup, to: tuple[tuple[Asked, str], ...]) -> None:
        """Send a sample to those who asked for it, as far as they still do."""
        routes: dict[Asked, list[str]] = {}
        for asked, endpoint_id in to:
            routes.setdefault(asked, []).append(endpoint_id)
        inner = group.topic
        for (interval, count), ids in routes.items():
            copy = group.part(0, 1)
            copy.topic = sampled(interval, count, inner)
            own = self._local.endpoint_id in ids
            peers = tuple(sorted(one for one in ids if one in self._peers))
            if own and (tokens := self._own(copy.topic)):
                for delivery in delivered(self._statistics, copy, *self._local.identity, tokens):
                    self._local.add(delivery, inf, copy.size)
            if peers:
                self._statistics["samples sent"] += 1
                self._statistics["messages owed"] += len(peers)
                self._outbox.add((peers, BULK), False, copy, now + LIFESPAN, ())

    # ---------------------------------------------------------------------------------------- at the watcher

    def receive(self, item: Inbound, group: MessageGroup) -> list[Event]:
        """The deliveries of samples that a peer sent."""
        tokens = self._match(group.topic)
        if not tokens:
            self._statistics["messages not subscribed to"] += len(group.payloads)
            return []
        self._statistics["messages received"] += len(group.payloads)
        name = self._name(item.peer)
        return [*delivered(self._statistics, group, name, item.peer, item.incarnation, tokens)]


def delivered(
    statistics: Counter[str],
    group: MessageGroup,
    name: str,
    endpoint_id: str,
    incarnation: int,
    tokens: tuple[Hashable, ...],
) -> list[Delivery]:
    """The deliveries of samples: with the payload also as it travelled, and no codec applied."""
    topic, found = unwrapped(group.topic), []
    if not topic:
        statistics["malformed wrapped topic"] += 1
        return []
    for place, payload in enumerate(group.payloads):
        value = payload
        if group.json:
            try:
                value = orjson.loads(payload)
            except orjson.JSONDecodeError:
                statistics["malformed JSON payload"] += 1
                continue
        one = Delivery(
            topic, [value], group.type, name, endpoint_id, incarnation, group.sequence + place, group.at / 1e6,
            group.retain == KEPT, tokens, length=len(payload),
        )  # fmt: skip
        one.encoded, one.wrapped = [payload], group.topic
        if group.metadata is not None:
            one.metadata = group.metadata
        found.append(one)
    return found


def _shorten(group: MessageGroup) -> None:
    """Make a group of one message that is too large carry the first bytes of its payload, and its size."""
    payload = group.payloads[0]
    if len(payload) <= WHOLE:
        group.payloads = [bytes(payload)]
        return
    properties = {SIZE: str(len(payload))}
    if group.metadata is not None and group.metadata.codec is not None:
        properties[CODEC] = str(group.metadata.codec)
    group.payloads, group.length, group.json = [bytes(payload[:START])], START, False
    group.metadata = Metadata(MappingProxyType(properties))
