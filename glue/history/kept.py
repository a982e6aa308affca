"""Reads the log of a keeper for requests for history: messages of single streams by number, and last numbers.

A log has the messages of many publishers in the order of arrival. Messages from another keeper came late. Therefore
readers ask by streams and numbers, and any keeper can go on where another one stopped.

A log may be long, and what is asked for rare. Therefore it is read in small steps: generators yield after each, and
return what they found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from math import inf
from typing import NamedTuple

from glue.contract.metadata import Metadata
from glue.contract.ranges import RangeSet
from glue.history.eras import STREAMS, Borders, EraSums, Hashes, era_of, in_steps
from glue.history.memory import Wanted
from glue.history.wire import FROM, LAST, SINCE, Origin, Range, Start
from glue.storage import JSON, Log, Record, Stream
from glue.storage.log import StreamState, every_topic
from glue.topics.bundle import BUNDLE_MESSAGES, MessageGroup, common_length

SINCE_RECORDS = 8000
"""Records looked at to find where streams begin since a time: 40 ms in all. Other streams are told from their beginning
on, and the reader drops what is older than it wants."""
HINTS = 8192
"""Streams of which is remembered where a reader will probably go on, at some 300 bytes: 2.4 MB."""
LOOKED = 2048
"""Records looked at for a page, about: 20 ms, so that a reader takes no keeper for silent."""
STEP, LONGEST_STEP, FEW = 128, 1024, 32
"""Messages of the log of one step, 1 or 2 ms; twice as many after each step that found few."""
READ = 1 << 17
"""Bytes of payload of one step."""
READS = 64
"""Steps for a page at most, once something was found."""
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


class Hint(NamedTuple):
    """Before this offset, a log has no message of a stream from one number to the last one."""

    offset: int
    last: float


class KeptHistory:
    """The history in a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._hashes: Hashes = {}
        self._hints: OrderedDict[tuple[Stream, int], Hint] = OrderedDict()  # by next number

    def add_to(self, sums: EraSums, wanted: Wanted) -> Iterator[None]:
        """Add some topics to digests, in small steps."""
        return sums.add_all(self._log.streams(every_topic), wanted, self._hashes)

    def _streams(self, wanted: Wanted) -> Iterator[list[tuple[Stream, StreamState]]]:
        """The streams of some topics, in small steps."""
        for some in in_steps(self._log.streams(every_topic)):
            yield [one for one in some if wanted(one[0].topic)]

    def heads(
        self, wanted: Wanted, start: Start, limits: Borders | None = None, era: int = -1
    ) -> Generator[None, None, list[Head]]:
        """The streams of some topics; of one era, or of all with -1."""
        known: list[tuple[Stream, StreamState]] = []
        for some in self._streams(wanted):
            known += [
                (stream, state) for stream, state in some
                if state.durable.stop > 1 and (era < 0 or limits is None or era_of(state.last_at, limits) == era)
            ]  # fmt: skip
            yield
        since, is_all = dict[Stream, int](), True
        if start[0] == SINCE:
            since, is_all = yield from self._since({stream.topic for stream, _ in known}, start[1] / 1e6)
        found = list[Head]()
        for stream, state in known:
            if len(found) % STREAMS == STREAMS - 1:
                yield
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

    def _since(self, topics: set[str], time: float) -> Generator[None, None, tuple[dict[Stream, int], bool]]:
        """The number of the first message since a time for streams that are seen soon; and whether these are all."""
        first: dict[Stream, int] = {}
        offset, looked, end = self._log.offset_at(time), 0, self._log.durable
        while offset < end and looked < SINCE_RECORDS:
            records, offset = self._log.walk(topics, offset, READ, STEP)
            for _, record in records:
                looked += 1
                if record.published_at >= time:
                    number = first.get(record.stream, record.sequence)
                    first[record.stream] = min(number, record.sequence)
            yield
        return first, looked < SINCE_RECORDS

    def ranges(
        self, asked: Sequence[Range], room: int, groups: int
    ) -> Generator[None, None, tuple[list[Found], set[int]]]:
        """Return messages of several streams by number, in the order of the log, so that it is read once for all.

        Returns at most so many `groups` with their publishers, and the places of the ranges that were answered as a
        whole. The first range is looked at in any case, others if they lie near. Raises StorageError.
        """
        parts = [Part(place, one) for place, one in enumerate(asked)]
        begin = yield from self._locate(parts)
        end = self._log.durable  # after the states of the streams: what they call durable lies before it
        near = [part for part in parts if not part.is_over and begin <= part.offset < begin + NEAR]
        sweep = Sweep(near, room, groups)
        offset, step, looked, reads = begin, STEP, 0, 0
        while sweep.topics and offset < end:
            records, next = self._log.walk(sweep.topics, offset, READ, step)
            looked, reads = looked + len(records), reads + 1
            stopped = sweep.take(records)
            offset = next if stopped is None else stopped
            if stopped is not None or (sweep.found and (looked >= LOOKED or reads >= READS)):
                break
            step = STEP if len(records) >= FEW else min(2 * step, LONGEST_STEP)
            yield
        for part in near:
            part.is_over |= offset >= end
            if not part.is_over:
                self._hints.pop((part.stream, part.next), None)
                self._hints[part.stream, part.next] = Hint(offset, inf if part.is_passed_in_order else part.last)
        while len(self._hints) > HINTS:
            self._hints.popitem(last=False)
        return sweep.found, {part.place for part in parts if part.is_over}

    def _locate(self, parts: Sequence[Part]) -> Generator[None, None, int]:
        """Set from where on each stream is to be read; returns the offset for the first one that has anything."""
        unknown = []
        for part in parts:
            part.leave_out(self._log.state(part.stream))
            hint = self._hints.get((part.stream, part.next))
            if hint is not None and part.last <= hint.last:
                part.offset = hint.offset
            elif not part.is_over:
                unknown.append(part)
        begin = next((part.offset for part in parts if not part.is_over), inf)
        if begin == inf and unknown:  # of several ranges of one stream, the first one counts
            numbers = {part.stream: part.next for part in reversed(unknown)}
            first, offset = self._log.near(numbers, self._log.first)
            while first is None and offset < self._log.end:
                yield
                first, offset = self._log.near(numbers, offset)
            for part in unknown:
                part.offset, part.is_over = first or 0, first is None
            begin = inf if first is None else first
        return self._log.end if begin == inf else int(begin)


class Part:
    """The range of numbers that is asked for of one stream, and the numbers found so far."""

    __slots__ = ("_found", "_newest", "is_over", "last", "offset", "place", "stream")

    def __init__(self, place: int, asked: Range) -> None:
        topic, first, last, _, origin, life = asked
        self.place = place
        self.stream = Stream(origin, life, topic)
        self.offset: float = inf  # nothing lies before it in the log; not known yet
        self.is_over = False
        self.last = last
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
        for start, stop in [*state.durable.gaps(1, self.last + 1)]:
            self._found.add(start, stop)
        self.is_over = self.next > self.last

    @property
    def next(self) -> int:
        """The first number that was not found."""
        return next((start for start, _ in self._found.gaps(1, self.last + 1)), self.last + 1)

    @property
    def is_passed_in_order(self) -> bool:
        """Whether only lower numbers than `next` were seen, so that all others come later in the log."""
        return self._newest < self.next

    def fitting(self, record: Record) -> list[Record]:
        """The parts of a record that are asked for and new."""
        stop = min(record.stop, self.last + 1)
        gaps = self._found.gaps(record.sequence, stop) if stop > record.sequence else ()
        return [record.part(*gap) for gap in gaps]

    def pass_by(self, record: Record) -> None:
        """Note that of a record nothing more is to be taken."""
        self._newest = max(self._newest, record.stop - 1)

    def note(self, record: Record) -> None:
        """Note what was found."""
        self._found.add(record.sequence, record.stop)
        self.is_over = record.stop > self.last and self.next > self.last


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
