"""Plain messages in a rally: the next one of a peer, and the next one that only one peer hears."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import orjson

from glue.contract import NORMAL, Delivery, Partner
from glue.topics.bundle import GROUP_SIZE, INTEGER_LIMIT, encode_lone, lone_format
from glue.topics.express import PLAIN_INDEX, Arrivals, Departures, Heard
from glue.topics.published import PublishedTopic, Way
from glue.topics.streams import Stream


class Hearing:
    """One topic of one peer."""

    __slots__ = (
        "_delivery", "_digits", "_is_json", "_name", "_next", "_peer", "_size", "_statistics", "_stream", "_topic",
        "_way",
    )  # fmt: skip

    def __init__(
        self, statistics: Counter[str], stream: Stream, way: Heard, peer: str, name: bytes, topic: str
    ) -> None:
        """`name` is the topic as it stands in an index."""
        self._statistics = statistics
        self._stream = stream
        self._way = way
        self._peer = peer
        self._name = name
        self._topic = topic
        self._next = stream.plain
        self._size, self._is_json, self._digits = 0, False, 0  # of the latest payload, and of when it was published
        self._delivery: Delivery | None = None  # the next, once it is foreseen, but for its payload and time

    def read(self, numbers: tuple[Any, ...], data: bytes, start: int) -> Delivery | None:
        """The message whose payload is the rest of the data, if it is the next; nothing was done yet."""
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
        self._size, self._is_json, self._digits = size, is_json is not None, len(at)
        delivery = self._empty()
        delivery.payloads, delivery.published_at = [payload], micros / 1e6
        return delivery

    def foresee(self) -> tuple[tuple[bytes, bytes], int, int] | None:
        """The index of a next message like the latest; see `glue.fastpath.parts`."""
        if self._next >= INTEGER_LIMIT:
            return None
        self._delivery = self._empty()
        before = b'{"groups":[{"topic":"%b","sequence":%d,"at":' % (self._name, self._next)
        behind = b',"length":%d%b}]}\n' % (self._size, b',"json":1' if self._is_json else b"")
        return (before, behind), self._digits, self._size

    def take_foreseen(self, at: bytes, payload: bytes) -> Delivery | None:
        """Take the message that was foreseen, of this payload and time, if it can be it."""
        delivery, micros, value = self._delivery, int(at), payload
        assert delivery is not None
        if micros > INTEGER_LIMIT:
            return None
        if self._is_json:
            try:
                value = orjson.loads(payload)
            except orjson.JSONDecodeError:
                return None
        delivery.payloads = [value]
        delivery.published_at = micros / 1e6
        self._next += 1
        return delivery

    def _empty(self) -> Delivery:
        """The next message."""
        way = self._way
        return Delivery(self._topic, (), None, way.publisher, self._peer, self._stream.incarnation, self._next, 0.0,
                        False, way.tokens, inf, None if self._is_json else self._size)  # fmt: skip

    def go_on(self) -> None:
        """It was taken."""
        self._next += 1

    def book(self, now: float) -> None:
        """Do the rest for all that was taken, the last of it by then."""
        first = self._stream.plain
        count = self._next - first
        if count:
            self._stream.go_on(now, first, count, self._way.mark)
            self._statistics["messages received"] += count


class Saying:
    """A topic that only one peer hears; `largest` is the largest payload (bytes)."""

    __slots__ = ("_first", "_statistics", "_text", "_topic", "largest", "peer")

    def __init__(self, statistics: Counter[str], topic: PublishedTopic, way: Way, size: int) -> None:
        self._statistics = statistics
        self._topic = topic
        self._text = way.topic
        self._first = topic.sequence
        self.peer = way.peers[0]
        self.largest = size - GROUP_SIZE - len(way.topic)

    def write(self, at: float, payload: bytes, json: bool) -> bytes:
        """The next message, published `at` (Unix seconds): its index and payload; with its number it is published."""
        self.wrote()
        return encode_lone(self._text, self._topic.sequence, int(at * 1e6), payload, json)

    def wrote(self) -> None:
        """A message is published."""
        topic = self._topic
        topic.sequence = topic.counts[True] = topic.sequence + 1

    def foresee(self, json: bool) -> bytes:
        """The next message, as a format; see `glue.fastpath.parts`."""
        return lone_format(self._text, self._topic.sequence + 1, json)

    def book(self) -> None:
        """Do the rest for all that was written."""
        count = self._topic.sequence - self._first
        self._statistics["messages published"] += count
        self._statistics["messages owed"] += count


class Talk:
    """What is heard and said plainly."""

    pattern = PLAIN_INDEX.pattern

    def __init__(self, arrivals: Arrivals, departures: Departures, statistics: Counter[str]) -> None:
        self._arrivals = arrivals
        self._departures = departures
        self._statistics = statistics

    def hearing(self, partner: Partner, topic: bytes) -> Hearing | None:
        """One topic of a peer, if it was heard before and somebody here wants it."""
        name = topic.decode("utf-8", "surrogateescape")  # what is not UTF-8 becomes what no topic is
        stream = self._arrivals.stream(partner.id, partner.incarnation, name)
        if stream is None or not stream.plain:
            return None
        way = self._arrivals.way(stream, partner.id, name)
        return Hearing(self._statistics, stream, way, partner.id, topic, name) if way.tokens else None

    def saying(self, topic: str, size: int) -> Saying | None:
        """A topic, if it was published before, plainly, to one peer that hears it still; `size` of a body at most."""
        known = self._departures.topic(topic, NORMAL)
        if known is None or known.way is None or len(known.way.peers) != 1:
            return None
        return Saying(self._statistics, known, known.way, size)
