"""The log of topics in files: `Log` in a directory.

Records of all topics are appended to one segment; one sync makes all earlier records durable. A segment that has grown
to 64 MiB is finished: synced, indexed, and followed by a new one. Its name is durable before anything in it is called
durable. What the log knows of streams is saved with each finished segment, so that opening reads little more than the
last segment.

After an error of the disk nothing is stored any more, and a sync is never tried again: the content of the disk is
unknown (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020). What was durable before can still
be read. A full disk is no such error: nothing of the refused records is kept, and later ones may find room.

Only one thread may append, sync and clean. Other threads may read meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from math import inf
from random import Random
from typing import NamedTuple

from glue.errors import StorageError, StorageFullError
from glue.storage.directory import Directory
from glue.storage.framing import record as framed
from glue.storage.log import READ_SIZE, Reading, StreamState, Topics, every_topic
from glue.storage.opening import FAILED, begin_segment, open_segments, save_streams
from glue.storage.records import Record, RecordEncoder, Stream
from glue.storage.replacing import NO_ROOM, full
from glue.storage.retention import Outdated, Retention, outdated_segments
from glue.storage.segment import SegmentIndex
from glue.storage.segments import Lost, Segment, Segments
from glue.storage.walking import Walker

SEGMENT = 64 << 20
"""Bytes of a segment; the last record may exceed it."""


class Ticket(NamedTuple):
    """The data that a sync under way makes durable."""

    file: str
    end: int
    noted: int


class FileLog:
    """A `Log` in a directory. All methods raise StorageError; `luck` draws the id of a new log."""

    def __init__(self, directory: Directory, luck: Random, segment_size: int = SEGMENT) -> None:
        self.failure = ""
        self._directory = directory
        self._segment_size = segment_size
        self._files = Segments(directory)
        self._walker = Walker(self._files)
        self._encoder = RecordEncoder()
        with self._failing():
            opened = open_segments(directory, self._files, luck)
        self.id = opened.id
        self.segments = opened.segments
        self.streams_known = opened.streams
        self.lost: Lost = opened.lost
        self.end = self.durable = self.segments[-1].end
        self._is_dirty = False

    @property
    def directory(self) -> Directory:
        """The directory, for files that belong to the log, such as positions of readers."""
        return self._directory

    # ------------------------------------------------------------------------------------------- positions

    @property
    def first(self) -> int:
        """The offset of the oldest segment; `end` if nothing is stored."""
        return next((segment.base for segment in self.segments if segment.size), self.end)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def damaged(self) -> int:
        """Damaged places that were found so far."""
        return self._files.damaged

    @property
    def torn(self) -> int:
        """Bytes that a crash had written in part, and that were cut off."""
        return self._files.torn

    # --------------------------------------------------------------------------------------------- writing

    def append(self, records: Sequence[Record]) -> int:
        """Store records, without what is stored already; see `Log`."""
        with self._failing():
            if self.segments[-1].size >= self._segment_size:
                self.roll()
            segment, offset, framed_records, places = self.segments[-1], self.end, [], []
            at = segment.size
            noted = self.streams_known.noted
            try:
                for record in records:
                    for part in self.streams_known.take(record):
                        data = framed(self._encoder.encode(part, offset))
                        framed_records.append(data)
                        places.append((part, offset, at, len(data)))
                        at += len(data)
                        offset += len(part.payloads)
                self._write(segment, b"".join(framed_records))
            except BaseException:
                self.streams_known.undo(noted)
                raise
            index = segment.index
            assert index is not None
            for place in places:
                index.add(*place)
            segment.size, segment.last_at = at, index.last_at if places else segment.last_at
            segment.end = self.end = offset
            return offset

    def _write(self, segment: Segment, data: bytes) -> None:
        """Append to a segment, all of it or nothing if the disk is full."""
        if not data:
            return
        try:
            self._directory.append(segment.file, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._directory.truncate(segment.file, segment.size)
            raise full(error, "this log") from error
        self._is_dirty = True

    def begin_sync(self) -> Ticket:
        """Begin a sync: `complete` makes it, in any thread, and `end_sync` follows."""
        return Ticket(self.segments[-1].file, self.end, self.streams_known.noted)

    def complete(self, ticket: Ticket) -> None:
        """Return once everything before the ticket is durable. Raises StorageError; after it the log has failed."""
        with self._failing():
            if self._is_dirty:
                self._directory.sync(ticket.file)

    def end_sync(self, ticket: Ticket) -> None:
        """Note that a sync has ended well."""
        self.durable = max(self.durable, ticket.end)
        self._is_dirty = self.end > ticket.end
        self.streams_known.synced(ticket.noted)

    def sync(self) -> None:
        """Make everything stored durable."""
        ticket = self.begin_sync()
        self.complete(ticket)
        self.end_sync(ticket)

    def roll(self) -> None:
        """Finish the segment that grows, and begin another one."""
        with self._failing():
            last = self.segments[-1]
            if not last.size:
                return
            self.sync()
            self._files.save_index(last)
            save_streams(self._directory, self.id, last.end, self.streams_known)
            self.segments = [*self.segments, begin_segment(self._directory, self.end)]

    def close(self) -> None:
        """Close the files. What was not synced may be lost."""
        self._directory.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn errors of the directory into StorageError. After the first one, nothing is stored any more."""
        if self.failure:
            raise StorageError(f"the log has failed before: {self.failure}")
        try:
            yield
        except StorageFullError:
            raise
        except StorageError as error:
            self.failure = self.failure or str(error)
            raise
        except OSError as error:
            self.failure = f"the disk refused, so nothing is stored any more: {error}"
            with suppress(OSError):
                self._directory.create(FAILED)
            raise StorageError(self.failure) from error

    # --------------------------------------------------------------------------------------------- reading

    def read(
        self, topics: Topics, offset: int, size: int = READ_SIZE, before: float = inf, until: int | None = None
    ) -> Reading:
        """Return durable records from `offset` on; see `Log`. Damaged records are left out, and counted."""
        found: list[tuple[int, Record]] = []
        stop = self.durable if until is None else min(until, self.durable)
        for segment in self.segments:
            if segment.end <= offset or segment.base >= stop:
                continue
            for at, record in self._from(segment, offset, topics):
                if at >= stop or record.published_at > before:
                    return Reading(found, min(max(at, offset), stop))
                begin, end = max(offset - at, 0), min(stop - at, len(record.payloads))
                if begin < end:
                    part = record.part(record.sequence + begin, record.sequence + end)
                    found.append((at + begin, part))
                    size -= part.size
                    if size <= 0:
                        return Reading(found, at + end)
            if segment.is_replaced:  # meanwhile: the caller comes again
                return Reading(found, found[-1][0] + len(found[-1][1].payloads) if found else offset)
        return Reading(found, stop)

    def _from(self, segment: Segment, offset: int, topics: Topics) -> Iterator[tuple[int, Record]]:
        """The records of some topics in a segment, from the block of an offset on."""
        with _reading():
            index = self._files.index(segment)
            yield from self._blocks(segment, index, index.block_at(offset), topics)

    def _blocks(
        self, segment: Segment, index: SegmentIndex, first: int, topics: Topics
    ) -> Iterator[tuple[int, Record]]:
        size, positions = segment.size, index.positions[:]
        wanted: set[int] = set()
        for topic, part in list(index.topics.items()):
            if topics(topic):
                wanted.update(part.blocks)
        for block in sorted(block for block in wanted if first <= block < len(positions)):
            end = positions[block + 1] if block + 1 < len(positions) else size
            yield from self._files.records(segment, positions[block], end, topics)

    def walk(self, topics: AbstractSet[str], offset: int, size: int, steps: int) -> Reading:
        """Return durable records of some topics from `offset` on, with little work; see `Log`."""
        with _reading():
            return self._walker.walk(self.segments, self.durable, topics, offset, size, steps)

    def near(self, numbers: Mapping[Stream, int], offset: int) -> tuple[int | None, int]:
        """Look in a part of the log for messages of these numbers, or later ones; see `Log`."""
        with _reading():
            return self._walker.near(self.segments, numbers, offset)

    def offset_at(self, time: float) -> int:
        """Return the offset of the first record published at or after a time, or `end`."""
        for segment in self.segments:
            if segment.last_at >= time:
                with _reading():
                    index = self._files.index(segment)
                    block = index.block_since(time)
                    for at, record in self._blocks(segment, index, block, every_topic):
                        if record.published_at >= time:
                            return at
        return self.end

    def locate(self, stream: Stream, sequence: int) -> int | None:
        """Return the offset of a message, or of the next stored message of the stream; None if there is none."""
        best: tuple[int, int] | None = None
        for segment in self.segments:
            with _reading():
                index = self._files.index(segment)
                part = index.streams.get(stream)
                if part is None or part.held.stop <= sequence:
                    continue
                for at, record in self._blocks(segment, index, 0, stream.topic.__eq__):
                    if record.stream == stream and record.stop > sequence:
                        number = max(record.sequence, sequence)
                        if best is None or number < best[0]:
                            best = number, at + number - record.sequence
                        if number == sequence:
                            return best[1]
        return None if best is None else best[1]

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one; None without one."""
        for segment in self.segments:
            with _reading():
                index = self._files.index(segment)
                wanted = {
                    stream: number
                    for stream, number in numbers.items()
                    if (part := index.streams.get(stream)) is not None and part.held.stop > number
                }
                topics = {stream.topic for stream in wanted}
                for at, record in self._blocks(segment, index, 0, topics.__contains__):
                    number = wanted.get(record.stream, record.stop)
                    if record.stop > number:
                        return at + max(number - record.sequence, 0)
        return None

    def streams(self, topics: Topics) -> Iterator[tuple[Stream, StreamState]]:
        """All streams of these topics that the log knows."""
        return self.streams_known.of(topics)

    def state(self, stream: Stream) -> StreamState | None:
        """Return the state of one stream."""
        return self.streams_known.state(stream)

    # ---------------------------------------------------------------------------------- retention and damage

    def retain(self, retentions: Sequence[Retention], now: float) -> int:
        """Remove what no rule keeps any more; returns the bytes that were freed. `now` is Unix seconds.

        Only finished segments are examined. A segment at least half outdated is written anew without outdated records.
        """
        with self._failing():
            before = self.size
            for segment, outdated in list(outdated_segments(self.segments, self._files.index, retentions, now)):
                self._replace(segment, outdated)
            return before - self.size

    def _replace(self, segment: Segment, outdated: Outdated) -> None:
        """Remove a finished segment, or write it anew without what is outdated."""
        records = []
        for at, record in self._files.records(segment, 0, segment.size, every_topic):
            if outdated(record, at):
                self.streams_known.removed(record.stream, record.stop)
            else:
                records.append((at, record))
        save_streams(self._directory, self.id, self.segments[-1].base, self.streams_known)
        position = self.segments.index(segment)
        if records:
            written = self._files.rewritten(segment, records)
            self.segments = [*self.segments[:position], written, *self.segments[position + 1 :]]
        else:
            self.segments = [*self.segments[:position], *self.segments[position + 1 :]]
            self._files.remove(segment)

    def trim(self, offset: int) -> None:
        """Remove the finished segments that end before an offset."""
        with self._failing():
            while len(self.segments) > 1 and self.segments[0].end <= offset:
                segment, self.segments = self.segments[0], self.segments[1:]
                self._files.remove(segment)

    def check(self, segment: Segment) -> Lost:
        """Read a finished segment as a whole; returns the messages that are damaged, which are no longer held.

        They are stored again when they come again, from another keeper for example.
        """
        with self._failing():
            known = self._files.index(segment)
            self._files.forget(segment)
            found, is_damaged = self._files.scanned(segment.base)
            assert found.index is not None
            lost: Lost = []
            for stream, part in known.streams.items():
                now = found.index.streams.get(stream)
                for start, stop in part.held:
                    gaps = [(start, stop)] if now is None else now.held.gaps(start, stop)
                    lost += [(stream, *gap) for gap in gaps]
            for stream, start, stop in lost:
                self.streams_known.lose(stream, start, stop)
            if is_damaged:
                found.end, segment.is_replaced = max(found.end, segment.end), True
                # Before the segment looks whole:
                save_streams(self._directory, self.id, self.segments[-1].base, self.streams_known)
                mended = self._files.mended(found)
                position = self.segments.index(segment)
                self.segments = [*self.segments[:position], mended, *self.segments[position + 1 :]]
            return lost

    def repair(self) -> Lost:
        """Check the segments in which reading has found damage; returns what was lost, at the opening as well."""
        lost, self.lost = self.lost, []
        suspects, self._files.suspects = self._files.suspects, set()
        counted = self._files.damaged  # reading has counted what is found again here
        for segment in self.segments[:-1]:
            if segment.base in suspects:
                lost += self.check(segment)
        self._files.damaged = counted
        return lost


@contextmanager
def _reading() -> Iterator[None]:
    """Turn errors of reading into StorageError, which is no failure of the log."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"the log cannot be read: {error}") from error
