"""The last values of topics, for late joiners.

A table keeps one value per topic and publisher. A publisher keeps its own values and sends them to late joiners. Each
endpoint also keeps the values received from peers, for its own late subscriptions. The two tables differ when full. A
publisher refuses further values, as each kept value is a promise. The table of received values is a cache, and forgets
the topic that has not changed for longest.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from copy import copy
from math import inf

from glue.contract import Inbound, Metadata, Publication
from glue.topics.bundle import KEPT, MessageGroup
from glue.topics.index import Index
from glue.topics.names import is_wildcard

RETAINED_VALUES = 65_536
"""Values kept: with 16 MB of bookkeeping."""

DRIFT = 60_000_000
"""Microseconds by which a value may be ahead of the own clock and still be followed."""

RETAINED_SIZE = 64 << 20
"""Bytes of payloads and topics kept: what a small device can spare, and 1 kB for each of 65,536 topics."""


class RetainedValue:
    """A message kept, with its identity. `at` is in microseconds since 1970; `expires` in monotonic seconds.

    `via` is the endpoint that sent a will, else "".
    """

    __slots__ = (
        "at", "expires", "incarnation", "json", "metadata", "payload", "publisher", "publisher_id", "sequence", "topic",
        "type", "via",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        payload: bytes,
        publisher: str,
        publisher_id: str,
        incarnation: int,
        sequence: int,
        at: int,
        type: str | None = None,
        json: bool = False,
        expires: float = inf,
        metadata: Metadata | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.publisher = publisher
        self.publisher_id = publisher_id
        self.incarnation = incarnation
        self.sequence = sequence
        self.at = at
        self.type = type
        self.json = json
        self.expires = expires
        self.metadata = metadata
        self.via = ""

    @property
    def size(self) -> int:
        """Accounted size of the value in bytes: payload, topic and properties."""
        size = len(self.payload) + len(self.topic)
        return size if self.metadata is None else size + self.metadata.size

    def wrapped(self, topic: str, sequence: int) -> RetainedValue:
        """Return a copy of this value on another topic, with its number there."""
        value = copy(self)
        value.topic, value.sequence = topic, sequence
        return value

    def covers(self, incarnation: int, sequence: int) -> bool:
        """Whether this value is as new as message `sequence` of life `incarnation`, or newer."""
        return self.incarnation == incarnation and self.sequence >= sequence


class RetainedValues:
    """Values by topic and publisher, bounded by number and bytes."""

    __slots__ = ("_count", "_size", "_topics")

    def __init__(self) -> None:
        self._topics: OrderedDict[str, dict[str, RetainedValue]] = OrderedDict()  # the latest change last
        self._count = 0
        self._size = 0

    def get(self, topic: str, publisher_id: str) -> RetainedValue | None:
        """The value kept of this publisher."""
        values = self._topics.get(topic)
        return values.get(publisher_id) if values else None

    def put(self, value: RetainedValue) -> bool:
        """Replace a publisher's value; False if there is no room. The former value is dropped in either case."""
        self.discard(value.topic, value.publisher_id)
        if self._count >= RETAINED_VALUES or self._size + value.size > RETAINED_SIZE:
            return False
        self._topics.setdefault(value.topic, {})[value.publisher_id] = value
        self._topics.move_to_end(value.topic)
        self._count += 1
        self._size += value.size
        return True

    def put_anyway(self, value: RetainedValue) -> int:
        """Keep a value, forgetting older ones for it; returns how many were forgotten."""
        forgotten = 0
        if value.size > RETAINED_SIZE:
            self.discard(value.topic, value.publisher_id)
            return 1
        while not self.put(value):
            forgotten += self.drop(next(iter(self._topics)))
        return forgotten

    def later(self, item: Publication) -> int:
        """The time of a retained publication: later than the values of its topic that were received (µs since 1970).

        So it is a hybrid logical clock (Kulkarni et al. 2014). A value that is from far in the future is not followed.
        """
        at = int(item.published_at * 1e6)
        newest = max((value.at for value in self._topics.get(item.topic, {}).values()), default=0)
        return newest + 1 if at <= newest <= at + DRIFT else at

    def __iter__(self) -> Iterator[RetainedValue]:
        return (value for values in [*self._topics.values()] for value in [*values.values()])

    def of(self, topic: str) -> list[RetainedValue]:
        """The values of a topic, by publisher."""
        return list(self._topics.get(topic, {}).values())

    def discard(self, topic: str, publisher_id: str) -> None:
        """Forget this publisher's value, if there is one."""
        values = self._topics.get(topic)
        value = values.pop(publisher_id, None) if values else None
        if value is None:
            return
        self._count -= 1
        self._size -= value.size
        if not values:
            del self._topics[topic]

    def drop(self, topic: str) -> int:
        """Forget all values of a topic; returns how many."""
        publishers = list(self._topics.get(topic, ()))
        for publisher_id in publishers:
            self.discard(topic, publisher_id)
        return len(publishers)

    def topics(self, patterns: Iterable[str]) -> list[str]:
        """Topics with values that match any of these patterns; looks at all topics only for a wildcard."""
        index: Index[str] = Index()
        found: dict[str, None] = {}
        wildcards = False
        for pattern in patterns:
            if is_wildcard(pattern):
                index.add(pattern, pattern)
                wildcards = True
            elif pattern in self._topics:
                found[pattern] = None
        if wildcards:
            found.update(dict.fromkeys(topic for topic in self._topics if index.find(topic)))
        return list(found)

    def matching(self, patterns: Iterable[str], now: float) -> Iterator[RetainedValue]:
        """Unexpired values of topics that match any of these patterns."""
        for topic in self.topics(patterns):
            for value in self._topics[topic].values():
                if value.expires >= now:
                    yield value

    def remember(self, now: float, item: Inbound, name: str, group: MessageGroup, statistics: Counter[str]) -> bool:
        """Keep a peer's retained value for later subscriptions; return whether the group still has new messages.

        May remove the last message of `group` if its replay arrived before.
        """
        known = self.get(group.topic, item.peer)
        last = group.sequence + len(group.payloads) - 1
        if known is not None and known.covers(item.incarnation, last):
            if group.retain == KEPT:
                return False
            if known.sequence == last:  # live, but overtaken by its replay: best effort keeps no order
                group.payloads = group.payloads[:-1]
            return bool(group.payloads)
        if not group.payloads[-1]:
            self.discard(group.topic, item.peer)
            return True
        expires = inf if group.lifespan_ms is None else now - item.age + group.lifespan_ms / 1000
        forgotten = self.put_anyway(retained(group, name, item.peer, item.incarnation, expires))
        if forgotten:
            statistics["retained values forgotten: too many"] += forgotten
        return True


def retained(group: MessageGroup, name: str, endpoint_id: str, incarnation: int, expires: float) -> RetainedValue:
    """The last message of a group as a value to keep."""
    sequence = group.sequence + len(group.payloads) - 1
    payload = group.payloads[-1]
    return RetainedValue(
        group.topic, payload, name, endpoint_id, incarnation, sequence, group.at, group.type, group.json, expires,
        group.metadata,
    )  # fmt: skip


def kept(value: RetainedValue) -> MessageGroup:
    """A kept value as a group of its own, marked as such."""
    size = len(value.payload)
    return MessageGroup(
        value.topic, value.sequence, value.at, [value.payload], size, value.type, value.json, KEPT,
        metadata=value.metadata,
    )  # fmt: skip
