"""A log of topics in memory: the simplest implementation of `Log`, for tests, simulations and volatile history.

Messages are durable at once unless told otherwise. What is beyond `limit` bytes of payload is removed, oldest first.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from glue.storage.log import READ_SIZE, Reading, StreamState, Topics
from glue.storage.records import Record, Stream
from glue.storage.streams import Streams

LOOKED = 4096
"""Records that `walk` looks at: half a millisecond."""
LIMIT = 64 << 20
"""Bytes of payload that are kept unless told otherwise, and a record more."""


class MemoryLog:
    """A `Log` in memory. With `syncs=False` messages are durable only after `sync`."""

    def __init__(self, id: str, limit: int = LIMIT, syncs: bool = True) -> None:
        self.id = id
        self.end = 0
        self.durable = 0
        self.failure = ""
        self.size = 0
        self._limit = limit
        self._syncs = syncs
        self._entries: list[tuple[int, Record]] = []  # offset and record in one list, because other threads read it
        self._times: list[float] = []  # the latest of publishing up to each record
        self._streams = Streams()

    @property
    def first(self) -> int:
        """The offset of the oldest message."""
        return self._entries[0][0] if self._entries else self.end

    def append(self, records: Sequence[Record]) -> int:
        """Store records; see `Log`."""
        for record in records:
            for part in self._streams.take(record):
                self._entries.append((self.end, part))
                self._times.append(max([part.published_at, *self._times[-1:]]))
                self.end += len(part.payloads)
                self.size += part.size
        self._trim()
        if self._syncs:
            self.sync()
        return self.end

    def sync(self) -> None:
        """Make all messages durable."""
        self.durable = self.end
        self._streams.synced()

    def read(
        self, topics: Topics, offset: int, size: int = READ_SIZE, before: float = inf, until: int | None = None
    ) -> Reading:
        """Return records from `offset` on; see `Log`."""
        found: list[tuple[int, Record]] = []
        stop = self.durable if until is None else min(until, self.durable)
        for at, record in self._from(offset):
            if at >= stop or record.published_at > before:
                return Reading(found, min(max(at, offset), stop))
            begin, end = max(offset - at, 0), min(stop - at, len(record.payloads))
            if begin < end and topics(record.topic):
                part = record.part(record.sequence + begin, record.sequence + end)
                found.append((at + begin, part))
                size -= part.size
                if size <= 0:
                    return Reading(found, at + end)
        return Reading(found, stop)

    def walk(self, topics: AbstractSet[str], offset: int, size: int, steps: int) -> Reading:
        """Return records from `offset` on with little work; see `Log`."""
        found: list[tuple[int, Record]] = []
        durable = self.durable  # before the entries: more may come meanwhile
        entries = self._from(offset, LOOKED)
        for at, record in entries:
            if at >= durable:
                return Reading(found, durable)
            if record.topic in topics and at + len(record.payloads) > offset:
                if at >= offset + steps:
                    return Reading(found, at)
                begin = max(offset - at, 0)
                found.append((at + begin, record.part(record.sequence + begin, record.stop)))
                size -= record.size
                if size <= 0:
                    return Reading(found, at + len(record.payloads))
        last = entries[-1][0] + len(entries[-1][1].payloads) if len(entries) == LOOKED else durable
        return Reading(found, min(last, durable))

    def _from(self, offset: int, count: int = sys.maxsize) -> list[tuple[int, Record]]:
        """At most so many records, the first of which has this offset; again if old ones were removed meanwhile."""
        while True:
            first = self._entries[:1]
            index = max(bisect_right(self._entries, offset, key=_offset) - 1, 0)
            found = self._entries[index : index + count]
            if first == self._entries[:1]:
                return found

    def near(self, numbers: Mapping[Stream, int], offset: int) -> tuple[int | None, int]:
        """Return the beginning if any of these messages was ever held; see `Log`."""
        states = ((self._streams.state(stream), number) for stream, number in numbers.items())
        is_there = any(state is not None and state.held.stop > number for state, number in states)
        return (max(self.first, offset) if is_there else None), self.end

    def offset_at(self, time: float) -> int:
        """Return the offset of the first record published at or after this time, or `end`."""
        index = bisect_left(self._times, time)
        return self._entries[index][0] if index < len(self._entries) else self.end

    def locate(self, stream: Stream, sequence: int) -> int | None:
        """Return the offset of a message, or of the next one of its stream; None if there is none."""
        found = [
            (max(record.sequence, sequence), offset + max(sequence - record.sequence, 0))
            for offset, record in [*self._entries]
            if record.stop > sequence and record.stream == stream
        ]
        return min(found)[1] if found else None

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one; None without one."""
        for offset, record in [*self._entries]:
            number = numbers.get(record.stream)
            if number is not None and record.stop > number:
                return offset + max(number - record.sequence, 0)
        return None

    def streams(self, topics: Topics) -> Iterator[tuple[Stream, StreamState]]:
        """All streams of these topics."""
        return self._streams.of(topics)

    def state(self, stream: Stream) -> StreamState | None:
        """Return the state of one stream."""
        return self._streams.state(stream)

    def _trim(self) -> None:
        count = 0
        while self.size > self._limit and count < len(self._entries) - 1:
            record = self._entries[count][1]
            self.size -= record.size
            self._streams.removed(record.stream, record.stop)
            count += 1
        if count:
            del self._entries[:count], self._times[:count]


def _offset(entry: tuple[int, Record]) -> int:
    return entry[0]
