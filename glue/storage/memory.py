"""A log of topics in memory: the simplest implementation of `Log`, for tests, simulations and volatile history.

Messages are durable at once unless told otherwise. What is beyond `limit` bytes of payload is removed, oldest first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from glue.storage.log import READ_SIZE, Reading, StreamState, Topics
from glue.storage.records import Record, Stream
from glue.storage.streams import Streams

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
        self._offsets: list[int] = []
        self._records: list[Record] = []
        self._times: list[float] = []  # the latest of publishing up to each record
        self._streams = Streams()

    @property
    def first(self) -> int:
        """The offset of the oldest message."""
        return self._offsets[0] if self._offsets else self.end

    def append(self, records: Sequence[Record]) -> int:
        """Store records; see `Log`."""
        for record in records:
            for part in self._streams.take(record):
                self._offsets.append(self.end)
                self._records.append(part)
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
        index = max(bisect_right(self._offsets, offset) - 1, 0)
        while index < len(self._records):
            at, record = self._offsets[index], self._records[index]
            index += 1
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

    def offset_at(self, time: float) -> int:
        """Return the offset of the first record published at or after this time, or `end`."""
        index = bisect_left(self._times, time)
        return self._offsets[index] if index < len(self._offsets) else self.end

    def locate(self, stream: Stream, sequence: int) -> int | None:
        """Return the offset of a message, or of the next one of its stream; None if there is none."""
        found = [
            (max(record.sequence, sequence), offset + max(sequence - record.sequence, 0))
            for offset, record in zip(self._offsets, self._records, strict=True)
            if record.stop > sequence and record.stream == stream
        ]
        return min(found)[1] if found else None

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one; None without one."""
        for offset, record in zip(self._offsets, self._records, strict=True):
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
        while self.size > self._limit and count < len(self._records) - 1:
            record = self._records[count]
            self.size -= record.size
            self._streams.removed(record.stream, record.stop)
            count += 1
        if count:
            del self._offsets[:count], self._records[:count], self._times[:count]
