"""The segments of a log: files of records, each named by the offset of its first message, with an index beside each.

Only the last segment grows. A segment with a missing, damaged or wrong index is read as a whole, and its index is
written again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from glue.errors import CorruptStorageError
from glue.storage.directory import Directory
from glue.storage.framing import record as framed
from glue.storage.framing import size as framed_size
from glue.storage.log import Topics, every_topic
from glue.storage.records import Record, RecordDecoder, RecordEncoder, Stream
from glue.storage.replacing import replace_file
from glue.storage.salvage import Salvage
from glue.storage.segment import INDEX, SUFFIX, SUMMARY_SIZE, SegmentIndex, read_summary

OPEN_INDEXES = 32
"""Indexes of finished segments in memory: a few hundred kB each with thousands of topics, so some 10 MB."""

Lost = list[tuple[Stream, int, int]]
"""Streams with the first and the one after the last sequence number of messages that are damaged."""


class Segment:
    """A file of records with the offsets from `base` to `end` - 1, of which some may be removed."""

    __slots__ = ("base", "end", "index", "is_replaced", "last_at", "name", "size")

    def __init__(self, base: int, end: int = 0, size: int = 0, last_at: float = 0.0) -> None:
        self.name = f"{base:016x}"
        self.base = base
        self.end = max(base, end)
        self.size = size
        self.last_at = last_at
        self.is_replaced = False
        """Whether the file was removed or written anew, so that what was read of it may not fit any more."""
        self.index: SegmentIndex | None = None
        """Of the segment that grows; those of the others are read when needed."""

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.name + SUFFIX


class Segments:
    """Finds, reads and indexes the segments in a directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._decoder = RecordDecoder()
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()
        self.suspects: set[int] = set()  # bases of finished segments in which reading found damage
        self.damaged = 0  # records, or runs of bytes without one
        self.torn = 0  # bytes cut off
        self.rebuilt = 0  # indexes

    def bases(self) -> list[int]:
        """The first offsets of all segments, ascending."""
        names = [name.removesuffix(SUFFIX) for name in self._directory.names() if name.endswith(SUFFIX)]
        found = []
        for name in names:
            with suppress(ValueError):
                found.append(int(name, 16))
        return sorted(found)

    def summarized(self, base: int) -> Segment | None:
        """Return a finished segment by its index's summary; None if that is missing, damaged or does not fit."""
        segment = Segment(base)
        data = self._directory.read_at(segment.name + INDEX, 0, SUMMARY_SIZE)
        if data is None:
            return None
        try:
            first, segment.end, segment.size, segment.last_at = read_summary(data)
        except (CorruptStorageError, TypeError, ValueError):
            return None
        return segment if first == base and segment.size == self._directory.size(segment.file) else None

    def scanned(self, base: int) -> tuple[Segment, bool]:
        """Read a whole segment; returns it with its index, and whether damage was found. Cuts off a torn end."""
        segment, data = Segment(base), self._directory.read(f"{base:016x}{SUFFIX}") or b""
        index = segment.index = SegmentIndex()
        salvage, damaged = Salvage(data), 0
        for position, payload in salvage:
            try:
                offset, record = self._decoder.decode(payload)
            except CorruptStorageError:
                damaged += 1
                continue
            index.add(record, offset, position, framed_size(payload))
            segment.end = max(segment.end, offset + len(record.payloads))
        segment.size, segment.last_at = salvage.size, index.last_at if index.positions else 0.0
        if salvage.is_torn:
            self.torn += len(data) - salvage.size
            self._directory.truncate(segment.file, salvage.size)
            self._directory.sync(segment.file)
        damaged += len(salvage.damaged)
        self.damaged += damaged
        self.rebuilt += 1
        return segment, damaged > 0

    def save_index(self, segment: Segment) -> None:
        """Write the index of a finished segment beside it. Raises OSError, StorageFullError."""
        index = self.index(segment)
        replace_file(self._directory, segment.name + INDEX, index.encode(segment.base, segment.end, segment.size))
        self.remember(segment, index)

    def remember(self, segment: Segment, index: SegmentIndex) -> None:
        """Keep an index of a finished segment in memory for a while."""
        segment.index = None
        self._indexes[segment.base] = index
        self._indexes.move_to_end(segment.base)
        while len(self._indexes) > OPEN_INDEXES:
            self._indexes.popitem(last=False)

    def forget(self, segment: Segment) -> None:
        """Drop an index from memory."""
        self._indexes.pop(segment.base, None)

    def index(self, segment: Segment) -> SegmentIndex:
        """Return the index of a segment, from memory, from its file, or built again. Raises OSError."""
        index = segment.index or self._indexes.get(segment.base)
        if index is not None:
            return index
        data = self._directory.read(segment.name + INDEX)
        try:
            index = None if data is None else SegmentIndex.decode(data)
        except (CorruptStorageError, TypeError, ValueError):
            index = None
        if index is None:
            found, _ = self.scanned(segment.base)
            assert found.index is not None
            index = found.index
        self.remember(segment, index)
        return index

    def records(self, segment: Segment, begin: int, end: int, topics: Topics) -> Iterator[tuple[int, Record]]:
        """The records of some topics between two bytes of a segment, with their offsets. Counts what is damaged."""
        return ((offset, record) for _, _, offset, record in self.placed(segment, begin, end, topics))

    def placed(self, segment: Segment, begin: int, end: int, topics: Topics) -> Iterator[tuple[int, int, int, Record]]:
        """The records of some topics between two bytes: where each begins and ends, its offset, and the record."""
        data = self._directory.read_at(segment.file, begin, end - begin)
        if data is None:
            return
        salvage, decode, topic_of = Salvage(data), self._decoder.decode, self._decoder.topic
        damaged = 0
        try:
            for at, payload in salvage:
                try:
                    if topics(topic_of(payload)):
                        yield begin + at, begin + at + framed_size(payload), *decode(payload)
                except CorruptStorageError:
                    damaged += 1
        finally:  # also if the reader has enough
            damaged += len(salvage.damaged) + salvage.is_torn
            if damaged and not segment.is_replaced and segment.base not in self.suspects:
                self.suspects.add(segment.base)
                self.damaged += damaged

    def rewritten(self, segment: Segment, records: Sequence[tuple[int, Record]]) -> Segment:
        """Replace a finished segment by one with fewer records, atomically. Raises OSError, StorageFullError."""
        made, index, parts, at = Segment(segment.base, segment.end), SegmentIndex(), [], 0
        encoder, segment.is_replaced = RecordEncoder(), True
        for offset, record in records:
            data = framed(encoder.encode(record, offset))
            index.add(record, offset, at, len(data))
            parts.append(data)
            at += len(data)
        made.index, made.size, made.last_at = index, at, index.last_at
        replace_file(self._directory, segment.file, b"".join(parts))
        self.save_index(made)
        return made

    def mended(self, segment: Segment) -> Segment:
        """Write a damaged segment anew with what is whole. Raises OSError, StorageFullError."""
        self.suspects.add(segment.base)  # so that the damage is not counted again
        records = list(self.records(segment, 0, segment.size, every_topic))
        self.suspects.discard(segment.base)
        return self.rewritten(segment, records)

    def remove(self, segment: Segment) -> None:
        """Remove a segment, the records before the index."""
        segment.is_replaced = True
        self.forget(segment)
        self._directory.remove(segment.file)
        self._directory.remove(segment.name + INDEX)
