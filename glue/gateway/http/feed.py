"""The source of streams and last values: as few subscriptions of the endpoint as the clients need."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import orjson

from glue.aio import Endpoint, Subscription
from glue.contract.matching import covers
from glue.endpoint.message import Message
from glue.errors import GlueError
from glue.gateway.http.journal import Journal
from glue.gateway.http.lanes import matcher
from glue.gateway.http.limits import Limits
from glue.gateway.http.places import stream_key
from glue.gateway.http.tail import Entry, Tail
from glue.topics.index import Index

LINGER: Final = 60.0
"""Seconds for which the door goes on listening after the last client of a pattern has gone."""
LINGERING: Final = 1_000
"""Streams whose patterns linger at most."""
LOOKED_AT: Final = 100
"""Last values that are looked at for room, for each new topic without room."""


class Feed:
    """Subscribes to the patterns that clients stream now; each message goes into the tail once."""

    def __init__(self, endpoint: Endpoint, limits: Limits, id: str, journal: Journal) -> None:
        self.tail = Tail(id, limits.recent_bytes)
        self.statistics: Counter[str] = Counter()
        self._endpoint = endpoint
        self._limits = limits
        self._journal = journal
        self._began: dict[str, int] = {}
        self._wanted: Counter[str] = Counter()
        self._subscriptions: dict[str, Subscription] = {}
        self._lingering = 0
        self._is_closed = False
        self._seen: dict[tuple[str, int, str], tuple[int, str]] = {}
        self._patterns: Index[str] = Index()  # the wanted ones
        self._values: dict[str, tuple[int, bytes]] = {}  # where in the ring a message came, and its text
        self._doubtful: Iterator[str] = iter(())  # topics of values that perhaps nobody wants any more

    def want(self, patterns: list[str]) -> None:
        """Have the messages of some patterns from now on, or raise what the endpoint raises, and want none of them."""
        for pattern in patterns:
            if pattern not in self._wanted:
                self._began[pattern] = self._began_with(pattern)
                self._patterns.add(pattern, pattern)
            self._wanted[pattern] += 1
        try:
            self._follow()
        except GlueError:  # else it would be asked for again with each later stream
            self.unwant(patterns)
            raise

    def _began_with(self, pattern: str) -> int:
        """Return the offset of the ring from which on all messages of a pattern are there."""
        return min((at for one, at in self._began.items() if covers(one, pattern)), default=self.tail.end)

    def listened(self, patterns: list[str], offset: int) -> bool:
        """Whether all messages of some patterns have come in since the ring was at an offset, until now."""
        return all(
            any(at <= offset and covers(one, pattern) for one, at in self._began.items()) for pattern in patterns
        )

    def unwant(self, patterns: list[str]) -> None:
        """Need the messages of some patterns no more."""
        for pattern in patterns:
            self._wanted[pattern] -= 1
            if self._wanted[pattern] <= 0:
                del self._wanted[pattern], self._began[pattern]
                self._patterns.remove(pattern, pattern)
        if any(pattern not in self._wanted for pattern in patterns):
            self._doubtful = iter(tuple(self._values))
        self._follow()

    def release(self, patterns: list[str]) -> None:
        """Need some patterns no more in a while: a client that was cut off comes back and goes on."""
        if self._lingering >= LINGERING or self._is_closed:
            self.unwant(patterns)
            return
        self._lingering += 1

        def end() -> None:
            self._lingering -= 1
            if not self._is_closed:
                self.unwant(patterns)

        asyncio.get_running_loop().call_later(LINGER, end)

    def covers(self, topic: str) -> bool:
        """Whether the messages of a topic come in now."""
        return any(matcher(pattern)(topic) for pattern in self._subscriptions)

    def last(self, topic: str) -> bytes | None:
        """Return the last message of a topic as JSON text, if there was one and the feed has covered it since."""
        return self._values[topic][1] if self._is_last(topic) else None

    def last_values(self, patterns: list[str]) -> Iterator[bytes]:
        """Return the last messages of the topics of some patterns."""
        matches = [matcher(pattern) for pattern in patterns]
        return (
            text for topic, (_, text) in list(self._values.items())
            if any(one(topic) for one in matches) and self._is_last(topic)
        )  # fmt: skip

    def _is_last(self, topic: str) -> bool:
        """Whether there is a value of a topic, and no later message can have been missed."""
        at, _ = self._values.get(topic, (-1, b""))
        return at >= 0 and any(self._began[pattern] <= at for pattern in self._patterns.match(topic))

    def close(self) -> None:
        """End all subscriptions."""
        self._is_closed = True
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()

    def _follow(self) -> None:
        """Subscribe to the wanted patterns that no other covers; new patterns first, so nothing is missed."""
        wanted = {
            one for one in self._wanted
            if not any(other != one and covers(other, one) for other in self._wanted)
        }  # fmt: skip
        for pattern in wanted - self._subscriptions.keys():
            self._subscriptions[pattern] = self._endpoint.subscribe(pattern, self._receive)
        for pattern in self._subscriptions.keys() - wanted:
            self._subscriptions.pop(pattern).close()
        if not self._subscriptions:
            self._values.clear()  # they would grow old unnoticed
            self._seen.clear()

    def _receive(self, message: Message) -> None:
        key = (message.publisher_id, message.incarnation, message.topic)
        known, stream = self._seen.get(key) or (0, stream_key(*key))
        topic = message.topic
        if message.sequence <= known and (topic not in self._values or self._is_last(topic)):
            return  # came by two patterns, or as a retained value of what came live
        if len(self._seen) >= 2 * self._limits.last_values:
            self._seen.clear()
        self._seen[key] = max(message.sequence, known), stream
        text = orjson.dumps(described(message))
        if topic in self._values or self._has_room():
            self._values[topic] = self.tail.end, text
        else:
            self.statistics["last values left out"] += 1
        self.statistics["messages"] += 1
        self.tail.append(Entry(topic, text, stream, message.sequence, self._journal.settled))

    def _has_room(self) -> bool:
        """Whether there is room for the last value of one more topic; takes it from topics that nobody wants now."""
        if len(self._values) >= self._limits.last_values:
            for topic in islice(self._doubtful, LOOKED_AT):
                if not self._is_last(topic):
                    self._values.pop(topic, None)
        return len(self._values) < self._limits.last_values


def described(message: Message) -> dict[str, Any]:
    """Return a message as clients see it: a JSON `payload`, or bytes in base64 as `payload_base64`."""
    found: dict[str, Any] = {"topic": message.topic}
    payload = message.payload
    if message.encoded is not None:
        found["payload_base64"] = base64.b64encode(message.encoded).decode()
        found["codec"] = message.codec
    elif isinstance(payload, bytes):
        found["payload_base64"] = base64.b64encode(payload).decode()
    else:
        found["payload"] = payload
    found |= {
        "publisher": message.publisher, "sequence": message.sequence, "published_at": message.published_at,
    }  # fmt: skip
    if message.type is not None:
        found["type"] = message.type
    if message.retained:
        found["retained"] = True
    if message.properties:
        found["properties"] = dict(message.properties)
    return found
