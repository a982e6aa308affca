"""Subscriptions with a limited rate: the publisher sends them the latest value of a topic once in an interval at most.

The first value goes at once. What follows within the interval waits, each value in the place of the one before, and the
last one goes when the interval is over. Endpoints with the same interval share what is sent (see `wrapped.py`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from glue.contract import Publication
from glue.topics.index import Index
from glue.topics.wrapped import interval_of, limited

if TYPE_CHECKING:
    from glue.topics.samples import Samples

TOPICS = 65_536
"""Topics and intervals that are limited at once, until an interval is over without a value. 30 MB without payloads."""
WAITING_SIZE = 64 << 20
"""Bytes of payloads that wait for the end of an interval. What has no room here is sent at once, and counted."""


class Pace:
    """A topic at an interval, and the value that waits, if any."""

    __slots__ = ("expires", "size", "waiting")

    def __init__(self) -> None:
        self.waiting: Publication | None = None
        self.size = 0
        self.expires = inf


class Limits:
    """The limited interests of this endpoint and its peers, and the values that wait for the end of an interval.

    `samples` has what endpoints ask for that only watch; the times of both are in one heap.
    """

    __slots__ = ("_index", "_paces", "_size", "_statistics", "heap", "samples", "users")

    def __init__(self, statistics: Counter[str]) -> None:
        self._statistics = statistics
        self._index: Index[int] = Index()  # intervals by pattern
        self.users: Counter[str] = Counter()  # by interest
        self._paces: dict[tuple[int, str], Pace] = {}
        self.heap: list[tuple[float, int, str]] = []  # a heap: when an interval of a topic ends; 0: for the samples
        self._size = 0
        self.samples: Samples | None = None  # made when an endpoint asks for any

    def __bool__(self) -> bool:
        """Whether there is any limited interest."""
        return bool(self.users)

    @property
    def deadline(self) -> float:
        """When the next interval is over (monotonic seconds)."""
        return self.heap[0][0] if self.heap else inf

    def add(self, interest: str) -> None:
        """Take a limited interest of an endpoint."""
        asked = interval_of(interest)
        if asked is None:
            self._statistics["malformed interest"] += 1
            return
        self.users[interest] += 1
        if self.users[interest] == 1:
            self._index.add(asked[1], asked[0])

    def remove(self, interest: str) -> None:
        """Drop a limited interest of an endpoint."""
        if interest not in self.users:
            return
        self.users[interest] -= 1
        if not self.users[interest]:
            del self.users[interest]
            interval, pattern = interval_of(interest) or (0, "")
            self._index.remove(pattern, interval)

    def intervals(self, topic: str) -> tuple[int, ...]:
        """The intervals (milliseconds) at which endpoints want a topic."""
        return self._index.match(topic)

    def offer(self, now: float, item: Publication) -> Iterator[Publication]:
        """Take a publication; return what of it goes to the limited interests at once, on wrapped topics."""
        for interval in self.intervals(item.topic):
            self._statistics["messages for limited rates"] += len(item.payloads)
            wanted = _latest(item, limited(interval, item.topic))
            key, size = (interval, item.topic), wanted.size
            pace = self._paces.get(key)
            if pace is None and len(self._paces) < TOPICS:
                self._paces[key] = Pace()
                heapq.heappush(self.heap, (now + interval / 1000, *key))
                yield wanted
            elif pace is None or self._size - pace.size + size > WAITING_SIZE:
                self._statistics["limited rates exceeded: too many topics"] += 1
                yield wanted
            else:
                self._size += size - pace.size
                pace.size, pace.waiting = size, wanted
                lifespan = wanted.options.lifespan
                pace.expires = inf if lifespan is None else now + lifespan

    def due(self, now: float) -> Iterator[Publication]:
        """Yield the values that waited for the end of an interval, once the interval is over."""
        while self.heap and self.heap[0][0] <= now:
            _, interval, topic = heapq.heappop(self.heap)
            if not interval:
                if self.samples is not None:
                    self.samples.rung(now)
                continue
            pace = self._paces[interval, topic]
            waiting = pace.waiting
            if waiting is None:
                del self._paces[interval, topic]
                continue
            pace.waiting = None
            self._size -= pace.size
            pace.size = 0
            heapq.heappush(self.heap, (now + interval / 1000, interval, topic))
            if pace.expires < inf:
                waiting.options = waiting.options.replaced(lifespan=pace.expires - now)
            if pace.expires > now:
                yield waiting


def _latest(item: Publication, topic: str) -> Publication:
    """The last message of a publication, on a wrapped topic."""
    payload, options = item.payloads[-1], item.options
    if options.receipt is not None:
        options = options.replaced(receipt=None)
    return item.__class__(topic, [payload], item.published_at, item.json, len(payload), item.priority, options)
