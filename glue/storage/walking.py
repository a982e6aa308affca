"""Reading of a log in small steps, for readers that must not hold up anything else.

A step reads one block of 256 KiB, two at most. The next step goes on within the block: where a step has stopped is
remembered by its offset, so that no record is looked at twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from glue.storage.log import Reading
from glue.storage.records import Record, Stream
from glue.storage.segment import SegmentIndex
from glue.storage.segments import Segment, Segments

PLACES = 256
"""Places that are remembered, of one walk each; cleared when full."""
MANY = 256
"""Topics above which each block counts as one that has some of them."""


class Walker:
    """Walks along the segments of a log."""

    __slots__ = ("_files", "_places")

    def __init__(self, files: Segments) -> None:
        self._files = files
        self._places: dict[tuple[int, int], tuple[Segment, int]] = {}  # by segment and offset: the byte of the record

    def walk(
        self, segments: Sequence[Segment], durable: int, topics: AbstractSet[str], offset: int, size: int, steps: int
    ) -> Reading:
        """Return what comes next in the first of these segments that has anything; see `Log.walk`."""
        found: list[tuple[int, Record]] = []
        segment = next((one for one in segments if one.end > offset), None)
        if segment is None or offset >= durable:
            return Reading([], durable)
        offset = max(offset, segment.base)
        for begins, ends, at, record in self._records(segment, offset, topics):
            stop = at + len(record.payloads)
            if stop > durable:
                return Reading(found, durable)
            if at >= offset + steps:
                return self._stopped(segment, found, at, begins)
            if stop > offset:
                begin = max(offset - at, 0)
                part = record.part(record.sequence + begin, record.stop)
                found.append((at + begin, part))
                size -= part.size
                if size <= 0:
                    return self._stopped(segment, found, stop, ends)
        if segment.is_replaced:  # meanwhile: the caller comes again
            return Reading(found, found[-1][0] + len(found[-1][1].payloads) if found else offset)
        return Reading(found, min(segment.end, durable))

    def _stopped(self, segment: Segment, found: list[tuple[int, Record]], offset: int, place: int) -> Reading:
        if len(self._places) >= PLACES:
            self._places.clear()
        self._places[segment.base, offset] = segment, place
        return Reading(found, offset)

    def _records(
        self, segment: Segment, offset: int, topics: AbstractSet[str]
    ) -> Iterator[tuple[int, int, int, Record]]:
        index, size = self._files.index(segment), segment.size
        known, place = self._places.pop((segment.base, offset), (None, 0))
        block = index.block_at(offset) if known is not segment else max(bisect_right(index.positions, place) - 1, 0)
        while (begin := _next_block(index, block, topics)) is not None:
            positions = index.positions[begin : begin + 2]
            end = positions[1] if len(positions) > 1 else size
            start = place if known is segment and begin == block else positions[0]
            yield from self._files.placed(segment, start, end, topics.__contains__)
            known, block = None, begin + 1

    def near(self, segments: Sequence[Segment], numbers: Mapping[Stream, int], offset: int) -> tuple[int | None, int]:
        """Look in the first of these segments that has anything from an offset on; see `Log.near`."""
        segment = next((one for one in segments if one.end > offset), None)
        if segment is None:
            return None, offset
        index = self._files.index(segment)
        topics = {
            stream.topic
            for stream, number in numbers.items()
            if (part := index.streams.get(stream)) is not None and part.held.stop > number
        }
        block = _next_block(index, 0, topics) if topics else None
        return (None if block is None else max(index.offsets[block], offset)), segment.end


def _next_block(index: SegmentIndex, first: int, topics: AbstractSet[str]) -> int | None:
    """The next block, from one on, with a record of some topics."""
    count = len(index.positions)
    if len(topics) > MANY:
        return first if first < count else None
    best = count
    for topic in topics:
        part = index.topics.get(topic)
        if part is not None:
            place = bisect_left(part.blocks, first)
            if place < len(part.blocks):
                best = min(best, part.blocks[place])
    return best if best < count else None
