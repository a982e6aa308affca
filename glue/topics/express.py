"""Plain messages of one length, one or many, on a topic that others went on before: most of what they need is ready.

What topics do with publications and bundles serves all options, groups that are merged, bundles that fill, routes that
change. Plain messages differ from those before them on their topic in their numbers and payloads alone. So of all that
is done on their way down only the numbering is done anew; and on their way up their index is read as the one text that
such an index is, the topic in it, once heard, being known to be well-formed. Whatever is out of the ordinary goes the
long way, and so does, for its checks, whatever does not look exactly like that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from math import inf

import orjson

from glue.contract import NORMAL, PLAIN, Delivery, Inbound, Outbound, Publication, Request
from glue.contract.pieces import Pieces
from glue.topics.bundle import (
    APART,
    BUNDLE_MESSAGES,
    BUNDLE_SIZE,
    GROUP_SIZE,
    INTEGER_LIMIT,
    common_length,
    encode_lone,
    encode_plain,
    equal_parts,
)
from glue.topics.index import Changes, Index
from glue.topics.peers import Peers
from glue.topics.published import PublishedTopic, PublishedTopics, Way
from glue.topics.streams import Stream, Streams
from glue.topics.subscriptions import Subscriptions

NOWHERE = ((), NORMAL)
ALONE = 32 << 10  # bytes of a payload from which on it is joined by itself, rather than cut from what was joined
PORTION = 256 << 10  # bytes that are joined at once, to be cut: few enough to be in a near cache still when they are

PLAIN_INDEX = re.compile(
    rb'\{"groups":\[\{"topic":"([^"\\\x00-\x1f]{1,65535})","sequence":([1-9][0-9]{0,15}),"at":([1-9][0-9]{0,15}),'
    rb'"length":(0|[1-9][0-9]{0,15})(?:,"count":([1-9][0-9]{0,4}))?(,"json":1)?\}\]\}\n'
)
"""The index of a group of plain messages of one length, on a topic in which nothing needs to be escaped.
Nothing repeats without an end: whoever sends a message of 256 MiB that only begins like that would stop this endpoint
for 10 seconds."""


class Departures:
    """Plain publications of one endpoint: to peers only, by the way that the message before them took."""

    __slots__ = ("_changes", "_peers", "_published", "_statistics", "_subscriptions")

    def __init__(
        self,
        published: PublishedTopics,
        peers: Index[str],
        subscriptions: Index[Hashable],
        changes: Changes,
        statistics: Counter[str],
    ) -> None:
        """`changes` are those to the peers' and the own patterns."""
        self._published = published
        self._peers = peers
        self._subscriptions = subscriptions
        self._changes = changes
        self._statistics = statistics

    def take(self, item: Request) -> Outbound | None:
        """The bundle of a publication; None, and nothing is done, if it is not plain or has to go the long way."""
        if item.__class__ is not Publication or item.options is not PLAIN:
            return None
        topic = self.topic(item.topic, item.priority)
        if topic is None:
            return None
        way = topic.way
        assert way is not None
        payloads = item.payloads
        count = len(payloads)
        if count != 1 and not _fits(way.topic, common_length(payloads) if item.length is None else item.length, count):
            return None
        sequence = topic.sequence + 1
        topic.sequence = topic.counts[True] = topic.sequence + count
        self._statistics["messages published"] += count
        self._statistics["messages owed"] += count * len(way.peers)
        at = int(item.published_at * 1e6)
        if count == 1 and len(payloads[0]) < APART:
            body: Sequence[bytes] = [encode_lone(way.topic, sequence, at, payloads[0], item.json)]
        else:
            body = encode_plain(way.topic, sequence, at, payloads, item.json)
        return Outbound(way.peers, body, None, True, inf, (), None, count, (), item.priority)

    def topic(self, name: str, priority: int) -> PublishedTopic | None:
        """The record of a topic, with the way that its plain messages of this class take; None if there is none."""
        topic = self._published.known(name)
        if topic is None:
            return None
        way = topic.way
        if way is None or way.changes != self._changes.count:
            way = topic.way = self._way(topic, name)
        return topic if way.peers and way.priority == priority else None

    def _way(self, topic: PublishedTopic, name: str) -> Way:
        flow = topic.sent[-1] if topic.sent and topic.is_all_reliable else NOWHERE
        is_same = flow[1] == topic.priority  # else it changed its class while nobody listened
        is_open = is_same and flow[0] == self._peers.match(name) and not self._subscriptions.match(name)
        return Way(self._changes.count, orjson.dumps(name), flow if is_open else NOWHERE)


def _fits(topic: bytes, length: int | None, count: int) -> bool:
    """Whether so many payloads, at least one, have this one length, and fit into one bundle on this topic (as JSON)."""
    return (
        count > 0
        and length is not None
        and count <= BUNDLE_MESSAGES
        and GROUP_SIZE + len(topic) + length * count <= BUNDLE_SIZE
    )


class Heard:
    """To whom the messages of one stream go, as long as nothing changes."""

    __slots__ = ("mark", "publisher", "tokens")

    def __init__(self, publisher: str, tokens: tuple[Hashable, ...], mark: int) -> None:
        self.publisher = publisher
        self.tokens = tokens
        self.mark = mark  # which subscriptions there are


class Arrivals:
    """Plain bundles from peers that go on where the one before them on their topic ended."""

    __slots__ = ("_heard", "_peers", "_statistics", "_streams", "_subscriptions")
    LIMIT = 32_768  # ways known, of some 200 bytes: 7 MB; cleared when full

    def __init__(
        self,
        streams: Streams,
        peers: Peers,
        subscriptions: Subscriptions,
        changes: Changes,
        statistics: Counter[str],
    ) -> None:
        """`changes` are those to the peers and the own patterns."""
        self._streams = streams
        self._peers = peers
        self._subscriptions = subscriptions
        self._heard: dict[Stream, Heard] = changes.found
        self._statistics = statistics

    def take(self, now: float, item: Inbound) -> Delivery | None:
        """The delivery of a plain bundle; None, and nothing is done, if this is none or has to go the long way."""
        bodies = item.bodies
        if len(bodies) != 1 or not item.reliable:
            return None
        pieces = bodies if bodies.__class__ is not list and isinstance(bodies, Pieces) else None
        if pieces is not None and pieces.length < ALONE:
            pieces = None
        text = bodies[0] if pieces is None else pieces.parts[0]
        found = PLAIN_INDEX.match(text)
        if found is None:
            return None
        topic, sequence, at, length, many, is_json = found.groups()
        start, end = found.end(), len(text) if pieces is None else pieces.length
        name = topic.decode("utf-8", "surrogateescape")  # what is not UTF-8 becomes what no topic is
        stream = self.stream(item.peer, item.incarnation, name)
        size, count = int(length), int(many) if many else 1
        if stream is None or start + size * count != end:
            return None
        number, micros = int(sequence), int(at)
        if number != stream.plain or not number + count <= INTEGER_LIMIT >= micros or count > BUNDLE_MESSAGES:
            return None
        way = self.way(stream, item.peer, name)
        if not way.tokens:
            return None
        if pieces is not None and size:
            payloads = pieces.copies(start, size, count, PORTION // size if size < ALONE else 1)
        else:
            payloads = [bodies[0][start:]] if count == 1 else equal_parts(bodies[0], start, size, count)
        if is_json:
            try:
                payloads = [orjson.loads(payload) for payload in payloads]
            except orjson.JSONDecodeError:
                return None
        stream.go_on(now, number, count, way.mark)
        self._statistics["messages received"] += count
        delivery = Delivery(name, payloads, None, way.publisher, item.peer, item.incarnation, number, micros / 1e6,
                            False, way.tokens, inf, None if is_json else size)  # fmt: skip
        if item.age:
            delivery.age = item.age
        return delivery

    def stream(self, peer: str, incarnation: int, topic: str) -> Stream | None:
        """A topic of a life of a peer, if it was heard."""
        stream = self._streams.get(peer, topic)
        return stream if stream is not None and stream.incarnation == incarnation else None

    def way(self, stream: Stream, peer: str, topic: str) -> Heard:
        """To whom it goes."""
        return self._heard.get(stream) or self._way(stream, peer, topic)

    def _way(self, stream: Stream, peer: str, topic: str) -> Heard:
        if len(self._heard) >= self.LIMIT:
            self._heard.clear()
        subscriptions = self._subscriptions
        way = Heard(self._peers.name(peer), subscriptions.index.match(topic), subscriptions.mark)
        self._heard[stream] = way
        return way
