"""The index of one segment of a log: the beginnings of its records by offset and time, and the topics in each block.

The index is sparse: one entry a block of 256 KiB. A reader reads whole blocks, and only blocks with a wanted topic. The
index of a finished segment lies in a file beside it: a summary, sufficient for opening a log, and the rest. A lost
index is built again from the records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from math import inf
from typing import Any

import orjson

from glue.contract.ranges import RangeSet
from glue.errors import CorruptStorageError
from glue.storage.framing import record as framed
from glue.storage.framing import scan
from glue.storage.records import Record, Stream

SUFFIX, INDEX = ".log", ".index"
BLOCK = 256 << 10
"""Bytes between two entries of the index; 256 entries a segment. A read of one message costs a block."""
SUMMARY_SIZE = 512
"""Bytes that surely hold the summary at the beginning of an index file: six numbers in JSON."""


@dataclass(slots=True)
class TopicPart:
    """The part of a topic in a segment: messages, bytes of records, and the blocks in which records begin."""

    count: int = 0
    size: int = 0
    blocks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class StreamPart:
    """The part of one stream in a segment."""

    name: str
    held: RangeSet = field(default_factory=RangeSet)
    last_at: float = 0.0
    clock: int = 0


class SegmentIndex:
    """The sparse index of a segment, while it is written and after."""

    __slots__ = ("_newest", "offsets", "positions", "streams", "times", "topics")

    def __init__(self) -> None:
        self.positions: list[int] = []  # of blocks: the byte where the first record begins,
        self.offsets: list[int] = []  # its offset,
        self.times: list[float] = []  # and the latest time of publishing up to the end of the block
        self.topics: dict[str, TopicPart] = {}
        self.streams: dict[Stream, StreamPart] = {}
        self._newest = -inf

    def add(self, record: Record, offset: int, position: int, size: int) -> None:
        """Note a record that was written at a byte position."""
        if not self.positions or position >= self.positions[-1] + BLOCK:
            self.positions.append(position)
            self.offsets.append(offset)
            self.times.append(self._newest)
        self._newest = self.times[-1] = max(self._newest, record.published_at)
        block = len(self.positions) - 1
        part = self.topics.get(record.topic)
        if part is None:
            part = self.topics[record.topic] = TopicPart()
        part.count += len(record.payloads)
        part.size += size
        if not part.blocks or part.blocks[-1] != block:
            part.blocks.append(block)
        stream = record.stream
        held = self.streams.get(stream)
        if held is None:
            held = self.streams[stream] = StreamPart(record.name)
        held.held.add(record.sequence, record.stop)
        held.last_at = max(held.last_at, record.published_at)
        held.clock = max(held.clock, record.clock)

    def block_at(self, offset: int) -> int:
        """The block in which the record with this offset begins, or the last block before."""
        return max(bisect_right(self.offsets, offset) - 1, 0)

    def block_since(self, time: float) -> int:
        """The first block with a record published at `time` or later; the number of blocks if there is none."""
        return bisect_left(self.times, time)

    @property
    def last_at(self) -> float:
        """The latest time of publishing."""
        return self._newest

    def encode(self, base: int, end: int, size: int) -> bytes:
        """Return the content of the index file of a segment with these offsets and bytes."""
        summary = [1, base, end, size, self._newest if self.positions else 0.0]
        details = [
            self.positions, self.offsets, self.times,
            [[topic, part.count, part.size, part.blocks] for topic, part in self.topics.items()],
            [[*stream, part.name, [*part.held], part.last_at, part.clock] for stream, part in self.streams.items()],
        ]  # fmt: skip
        return framed(orjson.dumps(summary)) + framed(orjson.dumps(details))

    @classmethod
    def decode(cls, data: bytes) -> SegmentIndex:
        """Read the content of an index file. Raises CorruptStorageError."""
        payloads, _ = scan(data)
        if len(payloads) != 2:
            raise CorruptStorageError("an index is not whole")
        made = cls()
        try:
            made._take(_loaded(payloads[1]))
        except (ValueError, TypeError) as error:
            raise CorruptStorageError(f"an index is malformed: {error}") from None
        return made

    def _take(self, details: Any) -> None:
        """Take over the content of an index file. Raises ValueError, TypeError."""
        self.positions, self.offsets, self.times, topics, streams = details
        self.topics = {topic: TopicPart(count, size, blocks) for topic, count, size, blocks in topics}
        for origin, life, topic, name, ranges, last_at, clock in streams:
            part = self.streams[Stream(origin, life, topic)] = StreamPart(name, RangeSet(), last_at, clock)
            part.held.replace([(start, stop) for start, stop in ranges])
        if not len(self.positions) == len(self.offsets) == len(self.times):
            raise ValueError("blocks without a beginning")
        self._newest = self.times[-1] if self.times else -inf


def read_summary(data: bytes) -> tuple[int, int, int, float]:
    """Return base, end, bytes and latest time from the beginning of an index file. Raises CorruptStorageError."""
    payloads, _ = scan(data)  # the second record is cut short
    if not payloads:
        raise CorruptStorageError("an index has no summary")
    try:
        version, base, end, size, last_at = _loaded(payloads[0])
    except (ValueError, TypeError) as error:
        raise CorruptStorageError(f"the summary of an index is malformed: {error}") from None
    if version != 1:
        raise CorruptStorageError(f"an index has version {version}")
    return base, end, size, last_at


def _loaded(payload: memoryview) -> Any:
    try:
        return orjson.loads(payload)
    except ValueError as error:
        raise CorruptStorageError(f"an index is malformed: {error}") from None
