"""Plain messages in a rally: the next one of a peer, and the next one that only one peer hears."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import orjson

from glue.contract import NORMAL, Delivery, Partner
from glue.topics.bundle import GROUP_SIZE, INTEGER_LIMIT, encode_lone
from glue.topics.express import PLAIN_INDEX, Arrivals, Departures, Heard
from glue.topics.published import PublishedTopic, Way
from glue.topics.streams import Stream


class Hearing:
    """One topic of one peer."""

    __slots__ = "_next", "_peer", "_statistics", "_stream", "_topic", "_way"

    def __init__(self, statistics: Counter[str], stream: Stream, way: Heard, peer: str, topic: str) -> None:
        self._statistics = statistics
        self._stream = stream
        self._way = way
        self._peer = peer
        self._topic = topic
        self._next = stream.plain

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
        way = self._way
        return Delivery(self._topic, [payload], None, way.publisher, self._peer, self._stream.incarnation, number,
                        micros / 1e6, False, way.tokens, inf, None if is_json else size)  # fmt: skip

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
        topic = self._topic
        topic.sequence = topic.counts[True] = topic.sequence + 1
        return encode_lone(self._text, topic.sequence, int(at * 1e6), payload, json)

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
        return Hearing(self._statistics, stream, way, partner.id, name) if way.tokens else None

    def saying(self, topic: str, size: int) -> Saying | None:
        """A topic, if it was published before, plainly, to one peer that hears it still; `size` of a body at most."""
        known = self._departures.topic(topic, NORMAL)
        if known is None or known.way is None or len(known.way.peers) != 1:
            return None
        return Saying(self._statistics, known, known.way, size)
