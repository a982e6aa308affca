"""Opening a log: the id, the segments by summaries, and the streams by the state saved last.

    log.id     a record: the id
    streams    a record: the offset up to which it holds, and the streams; replaced whenever a segment is finished
    failed     there after an error of the disk

The last segment is read as a whole. So is a segment without a fitting index. Where damage is found, the streams are
counted anew from the records that are whole: damaged messages are not held any more, and may be fetched again from
another keeper.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import orjson

from glue.contract.ranges import RangeSet
from glue.errors import CorruptStorageError
from glue.storage.directory import Directory
from glue.storage.framing import record as framed
from glue.storage.framing import scan
from glue.storage.records import Stream
from glue.storage.replacing import replace_file
from glue.storage.segment import SegmentIndex
from glue.storage.segments import Lost, Segment, Segments
from glue.storage.streams import Streams

ID, STREAMS, FAILED = "log.id", "streams", "failed"
ID_BITS = 64

JUMP = 1 << 32
"""Offsets left out after a damaged end, whose offsets are unknown: more than a segment has messages."""


class Opened(NamedTuple):
    """An open log."""

    id: str
    segments: list[Segment]
    streams: Streams
    lost: Lost


def open_segments(directory: Directory, files: Segments, luck: Random) -> Opened:
    """Open or make a log. Raises OSError, StorageFullError."""
    bases = files.bases()
    id = _read_id(directory)
    if id is None:
        id = f"{luck.getrandbits(ID_BITS):016x}"
        replace_file(directory, ID, framed(id.encode()))
    segments, damaged = list[Segment](), list[int]()
    for number, base in enumerate(bases):
        segment = None if number == len(bases) - 1 else files.summarized(base)
        if segment is None:
            segment, damage = files.scanned(base)
            if damage:
                damaged.append(number)
            elif number < len(bases) - 1:
                files.save_index(segment)
        segments.append(segment)
    streams, covered = _read_streams(directory)
    lost: Lost = []
    if damaged:
        directory.sync(segments[-1].file)  # what is saved as durable must be so
        streams, lost = _recounted(streams, [files.index(segment) for segment in segments])
        save_streams(directory, id, segments[-1].end, streams)  # before the segments look whole
        for number in damaged:
            segments[number] = files.mended(segments[number])
    else:
        for segment in segments:
            if segment.end > covered or segment.index is not None:
                note_streams(streams, files.index(segment))
        if not covered and len(segments) > 1:  # it was lost: without it, each opening reads all indexes
            directory.sync(segments[-1].file)
            save_streams(directory, id, segments[-1].base, streams)
    if segments and segments[-1].index is not None:
        _make_durable(directory, segments[-1])
    else:
        last = segments[-1].end if segments else 0
        segments.append(begin_segment(directory, last + JUMP if damaged else last))
    return Opened(id, segments, streams, lost)


def _make_durable(directory: Directory, segment: Segment) -> None:
    """Make durable what is found in the last segment: a process that was killed may have left what was never synced.

    After a failed sync, the system may call pages clean that never reached the disk, and a sync would succeed without
    them. So the segment is written anew then.
    """
    if directory.read(FAILED) is not None:
        replace_file(directory, segment.file, (directory.read(segment.file) or b"")[: segment.size])
        directory.remove(FAILED)
    directory.sync(segment.file)
    directory.sync_names()


def begin_segment(directory: Directory, base: int) -> Segment:
    """Create an empty segment with a durable name."""
    segment = Segment(base)
    segment.index = SegmentIndex()
    directory.create(segment.file)
    directory.sync_names()
    return segment


def note_streams(streams: Streams, index: SegmentIndex) -> None:
    """Note all messages of a segment, which are durable."""
    for stream, part in index.streams.items():
        for start, stop in part.held:
            streams.note(stream, part.name, start, stop, part.last_at, part.clock, is_durable=True)


def _recounted(known: Streams, indexes: list[SegmentIndex]) -> tuple[Streams, Lost]:
    """Count the streams from what is whole, and what retention removed before; returns what is lost."""
    counted, lost = Streams(), Lost()
    for stream, state in known.of(lambda _: True):
        if state.first_kept > 1:
            counted.note(stream, state.name, 1, state.first_kept, state.last_at, state.clock, is_durable=True)
            counted.removed(stream, state.first_kept)
    for index in indexes:
        note_streams(counted, index)
    for stream, state in known.of(lambda _: True):
        now = counted.state(stream)
        for start, stop in state.held:
            gaps = [(start, stop)] if now is None else now.held.gaps(start, stop)
            lost += [(stream, *gap) for gap in gaps]
    return counted, lost


def save_streams(directory: Directory, id: str, end: int, streams: Streams) -> None:
    """Save the durable messages of the streams, all up to an offset included. Raises OSError, StorageFullError."""
    saved = [
        [*stream, state.name, [*state.durable], state.last_at, state.clock, state.first_kept]
        for stream, state in streams.of(lambda _: True)
    ]
    replace_file(directory, STREAMS, framed(orjson.dumps([1, id, end, saved])))


def _read_streams(directory: Directory) -> tuple[Streams, int]:
    """The saved streams and the offset of that state; no streams if missing or damaged."""
    streams, data = Streams(), directory.read(STREAMS)
    if data is None:
        return streams, 0
    try:
        payloads, _ = scan(data)
        version, _, end, saved = orjson.loads(payloads[0])
        if version != 1 or type(end) is not int:
            return streams, 0
        for origin, life, topic, name, ranges, last_at, clock, first_kept in saved:
            is_well_formed = (
                {type(origin), type(topic), type(name)} == {str}
                and {type(life), type(clock), type(first_kept)} == {int}
                and isinstance(last_at, float | int)
            )
            if not is_well_formed:
                raise ValueError(f"malformed stream: {origin!r}, {life!r}, {topic!r}")
            stream = Stream(origin, life, topic)
            held = RangeSet()
            held.replace([(start, stop) for start, stop in ranges])
            streams.restore(stream, name, held, last_at, clock, first_kept)
    except (CorruptStorageError, ValueError, TypeError, IndexError):
        return Streams(), 0
    return streams, end


def _read_id(directory: Directory) -> str | None:
    data = directory.read(ID)
    try:
        payloads, _ = scan(data or b"")
    except CorruptStorageError:
        return None
    return bytes(payloads[0]).decode(errors="replace") if payloads else None
