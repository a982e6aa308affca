"""The door's log as deliveries read it: the newest records from memory, older ones from the log.

A log reads from its disk by blocks of 256 KiB: right for a subscriber that catches up, too much for the next message.
Therefore stored records are also held here for a while.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from glue.storage import Log, Reading, Record, Stream

RECENT_BYTES: Final = 16 << 20
"""Payloads and RECORD_COST of each record: what 2,000 messages a second of 1 kB make in seven seconds."""
RECORD_COST: Final = 300

Topics = Callable[[str], bool]


class RecentLog:
    """A log with its newest records in memory. Belongs to one thread; the log itself is read from any."""

    def __init__(self, log: Log, limit: int = RECENT_BYTES) -> None:
        self.log = log
        self.durable = log.durable
        """As far as deliveries may read."""
        self._limit = limit
        self._size = 0
        self._records: deque[tuple[int, Record]] = deque()
        self._waiting: deque[tuple[int, Record]] = deque()
        self._end = log.durable

    @property
    def id(self) -> str:
        """The id of the log."""
        return self.log.id

    @property
    def first(self) -> int:
        """The offset of the oldest message."""
        return self.log.first

    def add(self, begin: int, end: int, records: Sequence[Record]) -> None:
        """Note the records appended from offset `begin` to `end`, to be read once they are durable."""
        if begin != self._end or sum(len(record.payloads) for record in records) != end - begin:
            self._records.clear()  # some were stored already, or came another way: the log has the offsets
            self._waiting.clear()
            self._size = 0
            self._end = end
            return
        for record in records:
            self._waiting.append((begin, record))
            begin += len(record.payloads)
        self._end = end

    def sync(self, durable: int) -> list[tuple[int, Record]] | None:
        """Everything below this offset may be read now; returns what is new, or None if only the log has it."""
        found, before, self.durable = [], self.durable, max(self.durable, durable)
        while self._waiting and self._waiting[0][0] + len(self._waiting[0][1].payloads) <= durable:
            found.append(self._waiting.popleft())
        is_whole = self.durable == before or (
            bool(found) and found[0][0] == before and found[-1][0] + len(found[-1][1].payloads) == self.durable
        )
        if not is_whole:
            self._records.clear()
            self._size = 0
            return None
        for pair in found:
            self._records.append(pair)
            self._size += pair[1].size + RECORD_COST
        while self._size > self._limit and len(self._records) > 1:
            self._size -= self._records.popleft()[1].size + RECORD_COST
        return found

    def read(self, topics: Topics, offset: int, size: int) -> Reading:
        """Return records of some topics from an offset on, as `Log.read` does."""
        if offset >= self.durable:
            return Reading([], self.durable)
        if not self._records or offset < self._records[0][0]:
            until = self._records[0][0] if self._records else self.durable
            return self.log.read(topics, offset, size, until=until)
        found: list[tuple[int, Record]] = []
        start = max(bisect_right(self._records, offset, key=_offset) - 1, 0)
        for at, record in islice(self._records, start, None):
            if not topics(record.topic):
                continue
            begin = max(offset - at, 0)
            if begin < len(record.payloads):
                found.append((at + begin, record.part(record.sequence + begin, record.stop)))
                size -= record.size
                if size <= 0:
                    return Reading(found, at + len(record.payloads))
        return Reading(found, self.durable)

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one."""
        return self.log.first_of(numbers)

    def offset_at(self, time: float) -> int:
        """Return the offset of the first message published at a time (Unix seconds) or later."""
        return min(self.log.offset_at(time), self.durable)


def _offset(pair: tuple[int, Record]) -> int:
    return pair[0]
