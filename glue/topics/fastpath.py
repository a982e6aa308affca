"""The fast path of topics, for plain messages: only numbers and payload differ from the message before.

The ordinary way handles options, merging of groups, full bundles and changing routes. The fast path only numbers the
messages. Every message that is not plain takes the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

import orjson

from glue.contract import (
    NORMAL,
    PLAIN,
    Delivery,
    Downward,
    Event,
    Inbound,
    Outbound,
    Partner,
    Publication,
    Request,
    Upward,
)
from glue.topics.bundle import (
    BUNDLE_MESSAGES,
    BUNDLE_SIZE,
    COPY_LIMIT,
    GROUP_SIZE,
    INTEGER_LIMIT,
    common_length,
    encode_lone,
    encode_plain,
)
from glue.topics.layer import Topics
from glue.topics.plain import PLAIN_INDEX_PATTERN, Recipients
from glue.topics.published import LoneRoute, PublishedTopic
from glue.topics.streams import Stream

NOWHERE = ((), NORMAL)


class PlainPublications:
    """Plain publications of one endpoint to peers only, along the route of the topic's previous message."""

    __slots__ = ("_asking", "_changes", "_peers", "_published", "_recorded", "_statistics", "_subscriptions")

    def __init__(self, layer: Topics) -> None:
        self._asking = layer.asking
        self._published = layer.published
        self._peers = layer.peers.index
        self._subscriptions = layer.subscriptions
        self._recorded = layer.recording.index
        self._changes = layer.changes
        self._statistics = layer.statistics

    def take(self, item: Request) -> Outbound | None:
        """The bundle of a publication; None, and nothing is done, if it has to take the ordinary way."""
        if item.__class__ is not Publication or item.options is not PLAIN:
            return None
        topic = self.topic(item.topic, item.priority)
        if topic is None:
            return None
        route = topic.lone_route
        assert route is not None
        payloads, length = item.payloads, item.length
        count = len(payloads)
        if count != 1 and not _fits(route.topic, common_length(payloads) if length is None else length, count):
            return None
        sequence = topic.sequence + 1
        topic.sequence = topic.counts[True] = topic.sequence + count
        self._statistics["messages published"] += count
        self._statistics["messages owed"] += count * len(route.peers)
        at = int(item.published_at * 1e6)
        if count == 1 and len(payloads[0]) < COPY_LIMIT:
            body: Sequence[bytes] = [encode_lone(route.topic, sequence, at, payloads[0], item.json)]
        else:
            body = encode_plain(route.topic, sequence, at, payloads, item.json)
        return Outbound(route.peers, body, None, True, inf, (), None, count, (), item.priority)

    def topic(self, name: str, priority: int) -> PublishedTopic | None:
        """The record of a topic, with the route of its plain messages of this class; None if there is none."""
        topic = self._published.known(name)
        if topic is None:
            return None
        route = topic.lone_route
        if route is None or route.changes != self._changes.count:
            route = topic.lone_route = self._lone_route(topic, name)
        return topic if route.peers and route.priority == priority else None

    def _lone_route(self, topic: PublishedTopic, name: str) -> LoneRoute:
        flow = topic.sent[-1] if topic.sent and topic.is_all_reliable else NOWHERE
        is_same = flow[1] == topic.priority  # else its class changed while no peer was subscribed
        is_open = is_same and flow[0] == self._peers.match(name) and not self._subscriptions.own(name)
        is_open = is_open and not self._asking.wants(name) and not self._recorded.match(name)
        is_open = is_open and not self._asking.is_sampled(name)
        return LoneRoute(self._changes.count, orjson.dumps(name), flow if is_open else NOWHERE)


def _fits(topic: bytes, length: int | None, count: int) -> bool:
    """Whether `count` payloads of equal `length` fit into one bundle; False for no payloads. `topic` is as JSON."""
    return (
        count > 0
        and length is not None
        and count <= BUNDLE_MESSAGES
        and GROUP_SIZE + len(topic) + length * count <= BUNDLE_SIZE
    )


class LoneReceiver:
    """Receive messages of one topic of one peer in a session."""

    __slots__ = "_next", "_peer", "_recipients", "_statistics", "_stream", "_topic"

    def __init__(self, statistics: Counter[str], stream: Stream, recipients: Recipients, peer: str, topic: str) -> None:
        self._statistics = statistics
        self._stream = stream
        self._recipients = recipients
        self._peer = peer
        self._topic = topic
        self._next = stream.plain

    def read(self, numbers: tuple[Any, ...], data: bytes, start: int) -> Delivery | None:
        """The next message, its payload being `data` from `start` on; None for any other. Changes no state."""
        sequence, at, length, many, is_json = numbers
        number, micros, size = int(sequence), int(at), int(length)
        if many or number != self._next or start + size != len(data) or not number < INTEGER_LIMIT >= micros:
            return None
        payload: Any = data[start:]
        if is_json:
            try:
                payload = orjson.loads(payload)
            except orjson.JSONDecodeError:
                return None
        to = self._recipients
        return Delivery(self._topic, [payload], None, to.publisher, self._peer, self._stream.incarnation, number,
                        micros / 1e6, False, to.tokens, inf, None if is_json else size)  # fmt: skip

    def advance(self) -> None:
        """Expect the next message: the caller has taken this one."""
        self._next += 1

    def commit(self, now: float) -> None:
        """Count the messages taken; `now` is when the last one arrived."""
        first = self._stream.plain
        count = self._next - first
        if count:
            self._stream.go_on(now, first, count, self._recipients.mark)
            self._statistics["messages received"] += count


class LoneSender:
    """Send messages on a topic with one receiving peer in a session; `largest` is the payload limit in bytes."""

    __slots__ = ("_first", "_statistics", "_text", "_topic", "largest", "peer")

    def __init__(self, statistics: Counter[str], topic: PublishedTopic, route: LoneRoute, size: int) -> None:
        self._statistics = statistics
        self._topic = topic
        self._text = route.topic
        self._first = topic.sequence
        self.peer = route.peers[0]
        self.largest = size - GROUP_SIZE - len(route.topic)

    def write(self, at: float, payload: bytes, json: bool) -> bytes:
        """Number and encode the next message, published `at` (Unix seconds)."""
        topic = self._topic
        topic.sequence = topic.counts[True] = topic.sequence + 1
        return encode_lone(self._text, topic.sequence, int(at * 1e6), payload, json)

    def commit(self) -> None:
        """Count the messages written since the session began."""
        count = self._topic.sequence - self._first
        self._statistics["messages published"] += count
        self._statistics["messages owed"] += count


class TopicsFastPath:
    """Plain messages, one item at a time; see `glue.contract.fastpath` and `glue.fastpath.parts`."""

    __slots__ = ("_bundles", "_publications", "_statistics")
    pattern = PLAIN_INDEX_PATTERN.pattern

    def __init__(self, layer: Topics) -> None:
        self._bundles = layer.plain_bundles
        self._publications = PlainPublications(layer)
        self._statistics = layer.statistics

    def receive_one(self, now: float, item: Upward) -> Event | None:
        """The delivery of a plain bundle that is the next of its stream."""
        return self._bundles.take(now, item) if isinstance(item, Inbound) else None

    def send_one(self, now: float, item: Request) -> Downward | None:
        """The bundle of a plain publication on a topic that others went on before."""
        return self._publications.take(item)

    def session_part(self) -> TopicsFastPath:
        """The part that this layer takes in a session."""
        return self

    def receiver(self, partner: Partner, topic: bytes) -> LoneReceiver | None:
        """One topic of a peer, if it was received before and a subscription here matches."""
        name = topic.decode("utf-8", "surrogateescape")  # what is not UTF-8 becomes what no topic is
        stream = self._bundles.stream(partner.id, partner.incarnation, name)
        if stream is None or not stream.plain:
            return None
        recipients = self._bundles.recipients(stream, partner.id, name)
        return LoneReceiver(self._statistics, stream, recipients, partner.id, name) if recipients.tokens else None

    def sender(self, topic: str, size: int) -> LoneSender | None:
        """A sender for a topic with exactly one receiving peer, else None; bodies have at most `size` bytes."""
        known = self._publications.topic(topic, NORMAL)
        if known is None or known.lone_route is None or len(known.lone_route.peers) != 1:
            return None
        return LoneSender(self._statistics, known, known.lone_route, size)
