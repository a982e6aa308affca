"""Reads the log of a keeper for requests for history: messages of single streams by number, and last numbers.

A log has the messages of many publishers in the order of arrival. Messages from another keeper came late. Therefore
readers ask by streams and numbers, and any keeper can go on where another one stopped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from glue.contract.metadata import Metadata
from glue.history.eras import Borders, Digests, Hashes, digests, era_of
from glue.history.memory import Wanted
from glue.history.wire import FROM, LAST, SINCE, Origin, Range, Start
from glue.storage import JSON, Log, Record, Stream
from glue.topics.bundle import BUNDLE_MESSAGES, MessageGroup, common_length

SINCE_RECORDS = 100_000
"""Records looked at to find where streams begin since a time: 0.3 s."""
HINTS = 1024
"""Streams of which is remembered where a reader will probably go on, at some 300 bytes: 0.3 MB."""


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
        since = self._since(wanted, start[1] / 1e6) if start[0] == SINCE else {}
        found = []
        for stream, state in known:
            last = state.durable.stop - 1
            first = max(1, state.first_kept)
            if start[0] == LAST:
                first = max(first, last - start[1] + 1)
            elif start[0] == FROM:
                first = max(1, start[1])
            elif start[0] == SINCE:
                first = since.get(stream, last + 1)
            found.append(Head(stream.topic, last, stream.origin, stream.life, min(first, last + 1)))
        return found

    def _since(self, wanted: Wanted, time: float) -> dict[Stream, int]:
        """For each stream, the number of its first message that was published since a time."""
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
        return first

    def range(self, one: Range, room: int) -> tuple[list[tuple[Origin, MessageGroup]], bool, int]:
        """Return messages of one stream by number: with publishers, whether all were found, and the size.

        Raises StorageError.
        """
        topic, first, last, _, origin, life = one
        stream = Stream(origin, life, topic)
        found: list[tuple[Origin, MessageGroup]] = []
        size, number, left = 0, first, BUNDLE_MESSAGES
        offset = self._hints.pop((stream, first), None)
        while number <= last:
            if offset is None:
                offset = self._log.locate(stream, number)
            if offset is None:
                break
            records, next = self._log.read(topic.__eq__, offset, min(room, 1 << 20))
            fitting = [record.part(number, last + 1) for _, record in records if _meets(record, stream, number, last)]
            if not fitting:  # what comes next of this stream lies elsewhere, or there is no more
                located = self._log.locate(stream, number)
                if located is None or located == offset or not records:
                    break
                offset = located
                continue
            for record in fitting:
                if record.sequence < number:
                    continue  # a message that another keeper gave later lies between
                weight = record.size + 8 * len(record.payloads) + len(topic) + 128
                if found and size + weight > room:
                    self._hint(stream, number, offset)
                    return found, False, size
                record = record.part(record.sequence, record.sequence + left)
                size += weight
                left -= len(record.payloads)
                found.append(((record.origin, record.name, record.life), group_of(record)))
                number = record.stop
                if not left:
                    return found, number > last, size
            offset = next if next > offset else None
        return found, True, size

    def _hint(self, stream: Stream, number: int, offset: int) -> None:
        self._hints[stream, number] = offset
        while len(self._hints) > HINTS:
            self._hints.popitem(last=False)


def _meets(record: Record, stream: Stream, first: int, last: int) -> bool:
    return record.stream == stream and record.stop > first and record.sequence <= last


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
