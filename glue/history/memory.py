"""The memory of a publisher for its own messages, to serve late joiners.

A message has a *place*: how many messages were recorded before it. Readers follow the places of all topics together,
or ask for messages of one topic by number. Each remembered pattern limits its messages by number for each topic, by
age, and by bytes; the oldest go first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from math import inf
from typing import Generic, TypeVar

from glue.history.wire import EARLIEST, FROM, HEAD_ROOM, LAST, LATEST, SINCE, Start, json_size
from glue.topics.bundle import MessageGroup, milliseconds
from glue.topics.index import Index

COST = 512
"""Bytes that one recorded run of messages takes beside its payloads: objects, and its place in three tables."""
SIZE = 64 << 20
"""Bytes that a pattern remembers, unless it says otherwise: as many as retained values may take."""
LOOKED_AT = 65_536
"""Runs looked at for one page: 20 ms, after which the page is sent as it is."""
PAGE_MESSAGES = 8192
"""Messages of a page at most, half of what a bundle may hold."""

Item = TypeVar("Item")
Wanted = Callable[[str], bool]
"""Tells whether a topic is wanted."""


class Line(Generic[Item]):
    """A list that also loses items at its beginning, at constant cost."""

    __slots__ = ("items", "start")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.start = 0

    def __len__(self) -> int:
        return len(self.items) - self.start

    def __iter__(self) -> Iterator[Item]:
        for place in range(self.start, len(self.items)):
            yield self.items[place]

    def append(self, item: Item) -> None:
        """Add an item at the end."""
        self.items.append(item)

    @property
    def first(self) -> Item:
        """The oldest item."""
        return self.items[self.start]

    @property
    def last(self) -> Item:
        """The newest item."""
        return self.items[-1]

    def drop(self) -> None:
        """Drop the oldest item."""
        self.start += 1
        if self.start > 64 and self.start * 2 > len(self.items):
            del self.items[: self.start]
            self.start = 0

    def reach(self, value: float, key: Callable[[Item], float]) -> int:
        """The index in `items` of the last item with a key of at most `value`, or of the first item."""
        return max(self.start, bisect_right(self.items, value, self.start, key=key) - 1)


class Limits:
    """The limits of one pattern: `last` messages of each topic, so many seconds (`age`), so many bytes (`size`)."""

    __slots__ = ("age", "last", "line", "pattern", "size", "used")

    def __init__(self, pattern: str, last: int | None = None, age: float | None = None, size: int = SIZE) -> None:
        self.pattern = pattern
        self.last = last
        self.age = inf if age is None else age
        self.size = size
        self.used = 0
        self.line: Line[Run] = Line()  # its runs, some of which may be empty


class Run:
    """Messages of one topic that were recorded together. `at` is monotonic seconds; empty once dropped."""

    __slots__ = ("at", "expires", "group", "limits", "place", "size")

    def __init__(self, place: int, group: MessageGroup, at: float, expires: float, limits: Limits) -> None:
        self.place = place
        self.group = group
        self.at = at
        self.expires = expires
        self.limits = limits
        self.size = COST + group.size

    @property
    def end(self) -> int:
        """The place after it."""
        return self.place + len(self.group.payloads)


class Remembered:
    """One topic with messages: the runs, the count of messages, and the limits while there are messages."""

    __slots__ = ("count", "limits", "runs")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.runs: Line[Run] = Line()
        self.count = 0


class Part:
    """Messages to serve: `group` starts at `place`."""

    __slots__ = ("group", "place")

    def __init__(self, group: MessageGroup, place: int) -> None:
        self.group = group
        self.place = place


class PublishedMemory:
    """The messages that this endpoint published on the remembered patterns. Not thread-safe: its owner guards it."""

    def __init__(self) -> None:
        self._limits: dict[str, Limits] = {}
        self._index: Index[str] = Index()
        self._topics: dict[str, Remembered] = {}
        self._log: Line[Run] = Line()
        self._empty = 0  # runs of the log that were dropped
        self.head = 0

    @property
    def size(self) -> int:
        """Bytes remembered."""
        return sum(limits.used for limits in self._limits.values())

    def remember(self, limits: Limits) -> None:
        """Remember a pattern from now on; of patterns that match the same topic, the first in the alphabet counts."""
        before = self._limits.get(limits.pattern)
        if before is not None:  # it keeps what it has, under the new limits
            before.last, before.age, before.size = limits.last, limits.age, limits.size
            return
        self._limits[limits.pattern] = limits
        self._index.add(limits.pattern, limits.pattern)

    def forget(self, pattern: str) -> None:
        """Drop what was recorded for a pattern, and record no more for it."""
        limits = self._limits.pop(pattern)
        self._index.remove(pattern, pattern)
        for run in limits.line:
            self._drop_payloads(run, len(run.group.payloads))
        self._trim_log()

    def record(self, now: float, group: MessageGroup, expires: float) -> None:
        """Record messages that were just numbered. The group belongs to this memory from now on."""
        topic = self._topics.get(group.topic)
        if topic is None:
            patterns = self._index.match(group.topic)
            if not patterns:
                return
            topic = self._topics[group.topic] = Remembered(self._limits[patterns[0]])
        limits = topic.limits
        run = Run(self.head, group, now, expires, limits)
        self.head = run.end
        topic.runs.append(run)
        topic.count += len(group.payloads)
        self._log.append(run)
        limits.line.append(run)
        limits.used += run.size
        if limits.last is not None:
            while topic.count > limits.last:
                oldest = topic.runs.first
                self._drop_payloads(oldest, min(topic.count - limits.last, len(oldest.group.payloads)))
        while limits.used > limits.size and len(limits.line) > 1:
            self._drop_oldest(limits)
        self.expire(now, limits)
        self._trim_log()

    def expire(self, now: float, limits: Limits | None = None) -> None:
        """Drop what is too old."""
        for one in (limits,) if limits is not None else self._limits.values():
            while len(one.line) and one.line.first.at < now - one.age:
                self._drop_oldest(one)
        if limits is None:
            self._trim_log()

    def _drop_oldest(self, limits: Limits) -> None:
        run = limits.line.first
        limits.line.drop()
        self._drop_payloads(run, len(run.group.payloads))

    def _drop_payloads(self, run: Run, count: int) -> None:
        """Drop the first messages of a run, which are the oldest of their topic."""
        if not count:
            return
        group, topic = run.group, self._topics[run.group.topic]
        topic.count -= count
        if count < len(group.payloads):
            freed = sum(map(len, group.payloads[:count]))
            group.drop(count)
            run.place += count
        else:
            freed = run.size
            run.place, group.payloads = run.end, []
            topic.runs.drop()
            self._empty += 1
            if not len(topic.runs):
                del self._topics[group.topic]
        run.size -= freed
        run.limits.used -= freed

    def _trim_log(self) -> None:
        log = self._log
        while len(log) and not log.first.group.payloads:
            log.drop()
            self._empty -= 1
        if self._empty > 64 and self._empty * 2 > len(log):
            self._empty = 0
            for line in (log, *[limits.line for limits in self._limits.values()]):
                line.items = [run for run in line if run.group.payloads]
                line.start = 0

    # ------------------------------------------------------------------------------------------- reading

    def scan(
        self, now: float, wanted: Wanted, start: Start, after: int, until: int, room: int
    ) -> tuple[list[Part], int, int]:
        """Messages from the place `after` on, in recorded order; at least one if there is one.

        Returns them, the place to go on from, and the place up to which `start` narrows the choice: the next `until` (0
        at first).
        """
        until = until or self.head
        if start[0] == LATEST:
            return [], max(after, self.head), until
        found: list[Part] = []
        size = count = looked = 0
        narrow = _Narrow(self._topics, start, until)
        log, place = self._log, after
        for index in range(log.reach(after, lambda run: run.place) if len(log) else 0, len(log.items)):
            run = log.items[index]
            if run.end <= after:
                continue
            looked += 1
            if looked > LOOKED_AT or count >= PAGE_MESSAGES:
                return found, place, until
            if run.expires >= now and run.group.payloads and wanted(run.group.topic):
                first = max(after - run.place, narrow.skipped(run), 0)
                stop, size = _fitting(run.group, first, PAGE_MESSAGES - count, room, size, not found)
                if stop > first:
                    found.append(_part(run, first, stop, now))
                    count += stop - first
                    place = run.place + stop
                if stop < len(run.group.payloads) and stop >= first:
                    return found, place, until
            place = run.end
        return found, max(place, self.head), until

    def range(
        self, now: float, topic: str, first: int, last: int, newer: int, room: int
    ) -> tuple[list[Part], bool, int]:
        """Messages of a topic from number `first` to `last`, at places from `newer` on.

        Returns the parts, whether all are included, and the size.
        """
        found: list[Part] = []
        known, size = self._topics.get(topic), 0
        if known is None or not len(known.runs):
            return found, True, size
        runs = known.runs
        count = 0
        for index in range(runs.reach(first, lambda run: run.group.sequence), len(runs.items)):
            run = runs.items[index]
            if run.group.sequence > last:
                break
            skip = max(first - run.group.sequence, newer - run.place, 0)
            stop = min(len(run.group.payloads), last + 1 - run.group.sequence)
            if skip >= stop or run.expires < now:
                continue
            end, size = _fitting(run.group, skip, min(PAGE_MESSAGES - count, stop - skip), room, size, not found)
            if end > skip:
                found.append(_part(run, skip, end, now))
                count += end - skip
            if end < stop:
                return found, False, size
        return found, True, size

    def heads(self, wanted: Wanted, after: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        """The last number of each topic with messages at places from `after` on; and the place to go on from."""
        found: dict[str, int] = {}
        size, log, place = 0, self._log, after
        for index in range(log.reach(after, lambda run: run.place) if len(log) else 0, len(log.items)):
            run = log.items[index]
            if run.end > after and run.group.payloads and wanted(run.group.topic):
                if run.group.topic not in found:
                    size += json_size(run.group.topic)
                    if found and (len(found) >= limit or size > HEAD_ROOM):
                        return [*found.items()], place
                found[run.group.topic] = run.group.sequence + len(run.group.payloads) - 1
            place = max(place, run.end)
        return [*found.items()], max(place, self.head)


class _Narrow:
    """How many messages at the beginning of a run the start of a scan leaves out."""

    def __init__(self, topics: dict[str, Remembered], start: Start, until: int) -> None:
        self._topics = topics
        self._kind, self._value = start
        self._until = until
        self._first: dict[str, int] = {}  # by topic: the first number of the last n

    def skipped(self, run: Run) -> int:
        group = run.group
        if self._kind == EARLIEST or run.place >= self._until > 0:
            return 0
        if self._kind == FROM:
            return min(max(0, self._value - group.sequence), len(group.payloads))
        if self._kind == SINCE:
            return len(group.payloads) if group.at < self._value else 0
        assert self._kind == LAST
        first = self._first.get(group.topic)
        if first is None:
            first = self._first[group.topic] = self._last_of(group.topic) - self._value + 1
        return min(max(0, first - group.sequence), len(group.payloads))

    def _last_of(self, topic: str) -> int:
        """The number of the last message recorded before `until`."""
        runs = self._topics[topic].runs
        run = runs.items[runs.reach(self._until - 1, lambda run: run.place)]
        return run.group.sequence + min(self._until - run.place, len(run.group.payloads)) - 1


def _fitting(group: MessageGroup, first: int, most: int, room: int, size: int, is_first: bool) -> tuple[int, int]:
    """Up to where messages of a group fit into a page of which `size` bytes are taken; the first always does."""
    payloads = group.payloads
    stop = min(len(payloads), first + most)
    index = first
    while index < stop:
        size += len(payloads[index]) + (len(group.topic) + 128 if index == first else 8)
        if size > room and not (is_first and index == first):
            break
        index += 1
    return index, size


def _part(run: Run, first: int, stop: int, now: float) -> Part:
    group = run.group.part(first, stop)
    if run.expires < inf:
        group.lifespan_ms = milliseconds(max(0.0, run.expires - now))
    return Part(group, run.place + first)
