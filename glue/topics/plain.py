"""Plain bundles: one group of messages of equal length on a known topic, read with one regular expression.

A plain bundle differs only in numbers and payloads from the topic's previous bundle. A regular expression reads its
index, and the topic is known to be well-formed. `bundle.decode` handles and checks every other bundle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf

import orjson

from glue.contract import (
    Delivery,
    Inbound,
)
from glue.contract.pattern import LazyPattern
from glue.contract.pieces import Pieces
from glue.topics.bundle import (
    BUNDLE_MESSAGES,
    INTEGER_LIMIT,
    equal_parts,
)
from glue.topics.index import Changes
from glue.topics.peers import Peers
from glue.topics.streams import Stream, Streams
from glue.topics.subscriptions import Subscriptions
from glue.topics.wrapped import is_wrapped

ALONE = 32 << 10  # bytes of a payload from which on it is joined by itself, rather than cut from what was joined
CHUNK_SIZE = 256 << 10  # bytes that are joined at once, to be cut: few enough to be in a near cache still when they are

PLAIN_INDEX_PATTERN = LazyPattern(
    rb'\{"groups":\[\{"topic":"([^"\\\x00-\x1f]{1,65535})","sequence":([1-9][0-9]{0,15}),"at":([1-9][0-9]{0,15}),'
    rb'"length":(0|[1-9][0-9]{0,15})(?:,"count":([1-9][0-9]{0,4}))?(,"json":1)?\}\]\}\n'
)
"""The index of a group of plain messages of one length, on a topic in which nothing needs to be escaped.
Every repetition is bounded. Without bounds, a message of 256 MiB with such a beginning would stop this endpoint for
10 seconds."""


class Recipients:
    """The recipients of one stream; valid until a subscription or peer changes."""

    __slots__ = ("mark", "publisher", "tokens")

    def __init__(self, publisher: str, tokens: tuple[Hashable, ...], mark: int) -> None:
        self.publisher = publisher
        self.tokens = tokens
        self.mark = mark  # which subscriptions there are


class PlainBundles:
    """A reader of plain bundles that continue their stream without a gap."""

    __slots__ = ("_peers", "_recipients", "_statistics", "_streams", "_subscriptions")
    LIMIT = 32_768  # recipients known, of some 200 bytes: 7 MB; cleared when full

    def __init__(
        self,
        streams: Streams,
        peers: Peers,
        subscriptions: Subscriptions,
        changes: Changes,
        statistics: Counter[str],
    ) -> None:
        """`changes` counts changes to peers and own patterns, and holds the cache of recipients."""
        self._streams = streams
        self._peers = peers
        self._subscriptions = subscriptions
        self._recipients: dict[Stream, Recipients] = changes.found
        self._statistics = statistics

    def take(self, now: float, item: Inbound) -> Delivery | None:
        """The delivery of a plain bundle; None, and nothing is done, if it has to take the ordinary way."""
        bodies = item.bodies
        if len(bodies) != 1 or not item.reliable:
            return None
        pieces = bodies if bodies.__class__ is not list and isinstance(bodies, Pieces) else None
        if pieces is not None and pieces.length < ALONE:
            pieces = None
        text = bodies[0] if pieces is None else pieces.parts[0]
        found = PLAIN_INDEX_PATTERN.match(text)
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
        recipients = self.recipients(stream, item.peer, name)
        if not recipients.tokens:
            return None
        if pieces is not None and size:
            payloads = pieces.copies(start, size, count, CHUNK_SIZE // size if size < ALONE else 1)
        else:
            payloads = [bodies[0][start:]] if count == 1 else equal_parts(bodies[0], start, size, count)
        if is_json:
            try:
                payloads = [orjson.loads(payload) for payload in payloads]
            except orjson.JSONDecodeError:
                return None
        stream.go_on(now, number, count, recipients.mark)
        self._statistics["messages received"] += count
        return Delivery(name, payloads, None, recipients.publisher, item.peer, item.incarnation, number, micros / 1e6,
                        False, recipients.tokens, inf, None if is_json else size)  # fmt: skip

    def stream(self, peer: str, incarnation: int, topic: str) -> Stream | None:
        """The stream of one topic of a peer's life; None if nothing was received."""
        stream = self._streams.get(peer, topic)
        return stream if stream is not None and stream.incarnation == incarnation else None

    def recipients(self, stream: Stream, peer: str, topic: str) -> Recipients:
        """The recipients of a stream, cached until something changes."""
        return self._recipients.get(stream) or self._find_recipients(stream, peer, topic)

    def _find_recipients(self, stream: Stream, peer: str, topic: str) -> Recipients:
        if len(self._recipients) >= self.LIMIT:
            self._recipients.clear()
        subscriptions = self._subscriptions
        tokens = () if is_wrapped(topic) else subscriptions.index.match(topic)  # else it takes the ordinary way
        recipients = Recipients(self._peers.name(peer), tokens, subscriptions.mark)
        self._recipients[stream] = recipients
        return recipients
