"""Reads the log of a keeper for requests for history: messages of single streams by number, and last numbers.

A log has the messages of many publishers in the order of arrival. Messages from another keeper came late. Therefore
readers ask by streams and numbers, and any keeper can go on where another one stopped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from glue.contract.metadata import Metadata
from glue.contract.ranges import RangeSet
from glue.history.eras import Borders, Digests, Hashes, digests, era_of
from glue.history.memory import Wanted
from glue.history.wire import FROM, LAST, SINCE, Origin, Range, Start
from glue.storage import JSON, Log, Record, Stream
from glue.storage.log import StreamState
from glue.topics.bundle import BUNDLE_MESSAGES, MessageGroup, common_length

SINCE_RECORDS = 8000
"""Records looked at to find where streams begin since a time: 40 ms. Other streams are told from their beginning on,
and the reader drops what is older than it wants."""
HINTS = 8192
"""Streams of which is remembered where a reader will probably go on, at some 300 bytes: 2.4 MB."""
LOOKED = 2048
"""Records looked at for a page, about: 20 ms, so that a reader takes no keeper for silent."""
STEP, LONGEST_STEP = 4096, 32_768
"""Messages of the log that a read covers; twice as many after each read that found nothing."""
READS, READ = 8, 1 << 16
"""Reads for a page at most, and the bytes of payload of one at least."""
NEAR = 1 << 20
"""Messages of the log between two streams that are read together."""

Found = tuple[Origin, MessageGroup]
"""Messages, and who published them."""


class Head(NamedTuple):
    """A stream of a keeper: the last number, and the number at which a reader begins."""

    topic: str
    last: int
    origin: str
    life: int
    first: int


class KeptHistory:
    """The history in a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._hashes: Hashes = {}
        self._hints: OrderedDict[tuple[Stream, int], int] = OrderedDict()  # by next number: the offset

    def digests(self, wanted: Wanted, limits: Borders) -> Digests:
        """The digests of some topics by era."""
        return digests(self._log.streams(wanted), limits, self._hashes)

    def heads(self, wanted: Wanted, start: Start, limits: Borders | None = None, era: int = -1) -> list[Head]:
        """The streams of some topics; of one era, or of all with -1."""
        known = [(stream, state) for stream, state in self._log.streams(wanted) if state.durable.stop > 1]
        if era >= 0 and limits is not None:
            known = [(stream, state) for stream, state in known if era_of(state.last_at, limits) == era]
        since, is_all = self._since(wanted, start[1] / 1e6) if start[0] == SINCE else ({}, True)
        found = []
        for stream, state in known:
            last = state.durable.stop - 1
            first = max(1, state.first_kept)
            if start[0] == LAST:
                first = max(first, last - start[1] + 1)
            elif start[0] == FROM:
                first = max(1, start[1])
            elif start[0] == SINCE:
                is_unseen = not is_all and state.last_at >= start[1] / 1e6
                first = since.get(stream, first if is_unseen else last + 1)
            found.append(Head(stream.topic, last, stream.origin, stream.life, min(first, last + 1)))
        return found

    def has(self, one: Range) -> bool:
        """Whether the log knows the stream of a range."""
        return self._log.state(Stream(one[4], one[5], one[0])) is not None

    def _since(self, wanted: Wanted, time: float) -> tuple[dict[Stream, int], bool]:
        """The number of the first message since a time for streams that are seen soon; and whether these are all."""
        first: dict[Stream, int] = {}
        offset, looked = self._log.offset_at(time), 0
        while offset < self._log.end and looked < SINCE_RECORDS:
            records, next = self._log.read(wanted, offset)
            for _, record in records:
                looked += 1
                if record.published_at >= time:
                    number = first.get(record.stream, record.sequence)
                    first[record.stream] = min(number, record.sequence)
            if next <= offset:
                break
            offset = next
        return first, looked < SINCE_RECORDS

    def ranges(self, asked: Sequence[Range], room: int, groups: int) -> tuple[list[Found], set[int]]:
        """Return messages of several streams by number, in the order of the log, so that it is read once for all.

        Returns at most so many `groups` with their publishers, and the places of the ranges that were answered as a
        whole. The first range is looked at in any case, others if they lie near. Raises StorageError.
        """
        parts = [Part(place, one) for place, one in enumerate(asked)]
        begin = self._locate(parts)
        near = [part for part in parts if not part.is_over and begin <= part.offset < begin + NEAR]
        sweep = Sweep(near, room, groups)
        offset, step, looked, reads = begin, STEP, 0, 0
        while sweep.topics and offset < self._log.durable:
            records, next = self._log.read(sweep.topics.__contains__, offset, max(room, READ), until=offset + step)
            looked, reads = looked + len(records), reads + 1
            stopped = sweep.take(records)
            offset = next if stopped is None else stopped
            if stopped is not None:
                break
            is_worth = sweep.found or all(part.is_passed_in_order for part in near)  # it is known where to go on
            if is_worth and (looked >= LOOKED or reads >= READS):
                break
            step = STEP if records else min(2 * step, LONGEST_STEP)
        for part in near:
            part.is_over |= offset >= self._log.durable
            if not part.is_over and part.is_passed_in_order:
                self._hints.pop((part.stream, part.next), None)
                self._hints[part.stream, part.next] = offset
        while len(self._hints) > HINTS:
            self._hints.popitem(last=False)
        return sweep.found, {part.place for part in parts if part.is_over}

    def _locate(self, parts: Sequence[Part]) -> int:
        """Set from where on each stream is to be read; returns the offset for the first one that has anything."""
        unknown = []
        for part in parts:
            part.leave_out(self._log.state(part.stream))
            hint = self._hints.get((part.stream, part.next))
            if hint is not None:
                part.offset = hint
            elif not part.is_over:
                unknown.append(part)
        begin = next((part.offset for part in parts if not part.is_over), inf)
        if begin == inf and unknown:  # of several ranges of one stream, the first one counts
            first = self._log.first_of({part.stream: part.next for part in reversed(unknown)})
            for part in unknown:
                part.offset, part.is_over = first or 0, first is None
            begin = inf if first is None else first
        return self._log.end if begin == inf else int(begin)


class Part:
    """What is asked of one stream, and what of it was found."""

    __slots__ = ("_found", "_last", "_newest", "is_over", "offset", "place", "stream")

    def __init__(self, place: int, asked: Range) -> None:
        topic, first, last, _, origin, life = asked
        self.place = place
        self.stream = Stream(origin, life, topic)
        self.offset: float = inf  # nothing lies before it in the log; not known yet
        self.is_over = False
        self._last = last
        self._newest = 0  # the highest number that was seen
        self._found = RangeSet()
        if first > 1:
            self._found.add(1, first)

    def leave_out(self, state: StreamState | None) -> None:
        """Note what the log does not have."""
        if state is None:
            self.is_over = True
            return
        if state.first_kept > 1:
            self._found.add(1, state.first_kept)
        for start, stop in [*state.durable.gaps(1, self._last + 1)]:
            self._found.add(start, stop)
        self.is_over = self.next > self._last

    @property
    def next(self) -> int:
        """The first number that was not found."""
        return next((start for start, _ in self._found.gaps(1, self._last + 1)), self._last + 1)

    @property
    def is_passed_in_order(self) -> bool:
        """Whether only lower numbers than `next` were seen, so that all others come later in the log."""
        return self._newest < self.next

    def fitting(self, record: Record) -> list[Record]:
        """The parts of a record that are asked for and new."""
        stop = min(record.stop, self._last + 1)
        gaps = self._found.gaps(record.sequence, stop) if stop > record.sequence else ()
        return [record.part(*gap) for gap in gaps]

    def pass_by(self, record: Record) -> None:
        """Note that of a record nothing more is to be taken."""
        self._newest = max(self._newest, record.stop - 1)

    def note(self, record: Record) -> None:
        """Note what was found."""
        self._found.add(record.sequence, record.stop)
        self.is_over = record.stop > self._last and self.next > self._last


class Sweep:
    """A walk along the log that picks up what fits into a page."""

    def __init__(self, parts: Sequence[Part], room: int, groups: int) -> None:
        self.found: list[Found] = []
        self._size = 0
        self.topics = {part.stream.topic for part in parts}
        self._parts: dict[Stream, list[Part]] = {}
        for part in parts:
            self._parts.setdefault(part.stream, []).append(part)
        self._room = room
        self._groups = groups
        self._messages = BUNDLE_MESSAGES

    def take(self, records: Sequence[tuple[int, Record]]) -> int | None:
        """Take records; returns the offset of the first one that finds no room."""
        for at, record in records:
            parts = self._parts.get(record.stream, [])
            for part in parts:
                for piece in part.fitting(record):
                    weight = piece.size + 8 * len(piece.payloads) + len(piece.topic) + 128
                    is_full = self._size + weight > self._room or len(self.found) >= self._groups
                    if self.found and (is_full or len(piece.payloads) > self._messages):
                        return at
                    cut = piece.part(piece.sequence, piece.sequence + self._messages)
                    self._size += weight
                    self._messages -= len(cut.payloads)
                    self.found.append(((cut.origin, cut.name, cut.life), group_of(cut)))
                    part.note(cut)
                    if cut.stop < piece.stop:
                        return at
                part.pass_by(record)
            if parts and all(part.is_over for part in parts):
                self._leave(record.stream)
        return None

    def _leave(self, stream: Stream) -> None:
        """Look no more for a stream of which all was found."""
        self._parts.pop(stream, None)
        if all(other.topic != stream.topic for other in self._parts):
            self.topics.discard(stream.topic)


def group_of(record: Record) -> MessageGroup:
    """The messages of a record as a group of a bundle."""
    has_metadata = record.codec is not None or record.properties
    return MessageGroup(
        record.topic,
        record.sequence,
        int(record.published_at * 1e6),
        record.payloads,
        common_length(record.payloads),
        record.type,
        bool(record.flags & JSON),
        metadata=Metadata(record.properties or None, record.codec) if has_metadata else None,
    )
