"""Serves history: takes requests, and answers them one page at a time, each reader in turn.

Requests are bounded by number, for each reader and for all. Excess requests are dropped and counted; a reader repeats
requests without an answer. A request that comes again while the first one waits is dropped, too.

A keeper's log is read in small steps. Between them others have their turn, so that nothing waits long for one request.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Sequence
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, Protocol

from glue.contract.heads import MalformedError
from glue.errors import StorageError
from glue.history.memory import Part, Wanted
from glue.history.wire import HEAD_ROOM, HEADS, Origin, Page, Range, Request, Start, decode_request, json_size
from glue.topics.bundle import MessageGroup
from glue.topics.index import Index

if TYPE_CHECKING:
    from glue.history.kept import Head, KeptHistory
    from glue.storage import Log

READER_REQUESTS = 16
"""Requests of one life of a reader that wait at most; an honest one has a few for each of its subscriptions."""
REQUESTS = 2048
"""Requests of all readers that wait at most, of up to 256 KiB, by REQUEST_BYTES together."""
REQUEST_BYTES = 16 << 20
"""Bytes of the requests that wait at most."""
PAGE = 1 << 20
"""Bytes of a page at most, unless it is one message."""
PAGE_GROUPS = 4096
"""Groups of a page at most."""
BEGUN = 4
"""Requests whose answers are being read from logs at once: each holds a page at most."""
LISTINGS = 4
"""Lists of streams that are kept for readers that come for the next page: 20 MB for each of 200,000 streams."""
SORTED = 1024
"""Streams that are sorted in one step."""
TOGETHER = 1000
"""Microseconds: messages published within this time share the time of the first one in a page, as in live bundles."""

Reader = tuple[str, int]
"""A reader's endpoint id and life."""

Listed = list[tuple[str, int, str, int, int]]
"""Streams as pages have them, sorted."""


class Source(Protocol):
    """Where messages are read from."""

    @property
    def head(self) -> int:
        """The place of the next message to be recorded."""

    def scan(
        self, now: float, wanted: Wanted, start: Start, after: int, until: int, room: int
    ) -> tuple[list[Part], int, int]:
        """Messages in recorded order; see `PublishedMemory.scan`."""

    def range(
        self, now: float, topic: str, first: int, last: int, newer: int, room: int
    ) -> tuple[list[Part], bool, int]:
        """Messages of one topic; see `PublishedMemory.range`."""

    def heads(self, wanted: Wanted, after: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Last numbers; see `PublishedMemory.heads`."""


class Server:
    """The requests that wait for their answers."""

    def __init__(self, source: Source, knows: Callable[[str, int, str], bool], statistics: Counter[str]) -> None:
        """`knows` tells whether the interest of a reader (its id and life) in a pattern is known here."""
        self._source = source
        self._kept: dict[Log, KeptHistory] = {}  # the logs of keepers
        self._knows = knows
        self.keeps: Callable[[str, str], bool] = lambda peer, topic: True
        """Whether another keeper is to keep a topic."""
        self.compared: Callable[[float, str], int] = lambda now, pattern: 0
        """Of how many other keepers of a pattern this keeper has everything."""
        self._statistics = statistics
        self._waiting: OrderedDict[Reader, deque[tuple[Request, int]]] = OrderedDict()
        self._begun: OrderedDict[tuple[Reader, int], Generator[None, None, Page]] = OrderedDict()  # by request
        self._listings: OrderedDict[tuple[object, ...], tuple[Listed, int]] = OrderedDict()
        self._count = self._bytes = 0

    def __bool__(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def ask(self, reader: Reader, payload: object, may_read: Callable[[str, str], bool] | None = None) -> None:
        """Take a request; `may_read` tells whether a peer may have the history of a topic or a pattern."""
        try:
            request = decode_request(payload)
        except MalformedError:
            self._statistics["malformed requests for history"] += 1
            return
        if may_read is not None:
            wanted = [one[0] for one in request.ranges] or [request.pattern]
            if not all(may_read(reader[0], topic) for topic in wanted):
                self._statistics["requests for history refused: rules"] += 1
                return
        size = len(payload)  # type: ignore[arg-type]  # bytes, as it was decoded
        waiting = self._waiting.get(reader, ())
        if any(other.id == request.id for other, _ in waiting):
            self._statistics["requests for history received again"] += 1
            return
        if len(waiting) >= READER_REQUESTS or self._count >= REQUESTS or self._bytes + size > REQUEST_BYTES:
            self._statistics["requests for history refused: too many"] += 1
            return
        self._waiting.setdefault(reader, deque()).append((request, size))
        self._count += 1
        self._bytes += size

    def forget(self, reader_id: str) -> None:
        """A peer left: drop its requests."""
        for reader in [reader for reader in self._waiting if reader[0] == reader_id]:
            for _, size in self._waiting.pop(reader):
                self._count -= 1
                self._bytes -= size
        for key in [key for key in self._begun if key[0][0] == reader_id]:
            del self._begun[key]

    def answer(self, now: float) -> tuple[Reader, bytes] | None:
        """The next page, with its reader; None if no request waits, or if a log is to be read further for it."""
        if not self._waiting:
            return None
        reader = next(filter(self._may_go_on, self._waiting))
        waiting = self._waiting.pop(reader)
        request, size = waiting[0]
        page, is_over = None, True
        try:
            page = self._read_on(now, reader, request) if request.kept else self._page(now, reader, request)
            is_over = page is not None
        except StorageError:  # without an answer, the reader asks another keeper
            self._statistics["history unreadable"] += 1
        if is_over:
            waiting.popleft()
            self._count -= 1
            self._bytes -= size
        if waiting:
            self._waiting[reader] = waiting  # behind the others
        if page is None:
            return None
        self._statistics["pages of history"] += 1
        self._statistics["messages of history served"] += sum(len(group.payloads) for group in page.groups)
        return reader, page.encode()

    def _may_go_on(self, reader: Reader) -> bool:
        """Whether a reader's next request may be answered now, or read for."""
        request = self._waiting[reader][0][0]
        return not request.kept or len(self._begun) < BEGUN or (reader, request.id) in self._begun

    def _read_on(self, now: float, reader: Reader, request: Request) -> Page | None:
        """Read a step further for a request; returns the page once it is whole."""
        reading = self._begun.pop((reader, request.id), None)
        if reading is None:
            reading = self._from_logs(now, request, min(max(request.room, 1), PAGE), reader[0])
        try:
            next(reading)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        self._begun[reader, request.id] = reading
        return None

    def _page(self, now: float, reader: Reader, request: Request) -> Page:
        room = min(max(request.room, 1), PAGE)
        source = self._source
        if request.ranges:
            return self._ranges(now, request, room)
        known = self._knows(*reader, request.pattern)  # before the head is read: what comes later is sent live
        wanted = matcher(request.pattern)
        if request.after > source.head:
            self._statistics["requests for history of the future"] += 1
            return Page(request.id, source.head, source.head, known)
        if request.heads:
            heads, next = source.heads(wanted, request.after, HEADS)
            return Page(request.id, next, source.head, known, heads=[(topic, last, "", 0, 0) for topic, last in heads])
        head = source.head
        parts, next, until = source.scan(now, wanted, request.start, request.after, request.until, room)
        return Page(request.id, next, head, known, merged(parts), until=until)

    def _ranges(self, now: float, request: Request, room: int) -> Page:
        found: list[Part] = []
        answered = 0
        for topic, first, last, newer, _, _ in request.ranges:
            parts, is_all, size = self._source.range(now, topic, first, last, newer, room)
            if found and (size > room or len(found) + len(parts) > PAGE_GROUPS):
                break
            found += parts
            room -= size
            if not is_all:
                break
            answered += 1
        head = self._source.head
        return Page(request.id, head, head, False, merged(found), answered=answered)

    def keep(self, log: Log) -> None:
        """Serve what is in a log, too."""
        if log not in self._kept:
            from glue.history.kept import KeptHistory  # imported when used: most programs keep nothing

            self._kept[log] = KeptHistory(log)

    def _from_logs(self, now: float, request: Request, room: int, reader: str) -> Generator[None, None, Page]:
        """The answer of a keeper; without one, nothing is known."""
        if not request.ranges:
            wanted = matcher(request.pattern)
            if request.eras is not None:  # another keeper asks, for the topics that it is to keep
                matches, keeps = wanted, self.keeps
                wanted = lambda topic: matches(topic) and keeps(reader, topic)  # noqa: E731
            if request.digest:
                return (yield from self._digests_of_logs(request, wanted))
            compared = self.compared(now, request.pattern)  # before the list: what is fetched meanwhile may be in it
            return (yield from self._heads_of_logs(request, wanted, reader, compared))
        found: list[tuple[Origin, MessageGroup]] = []
        by_log = self._by_log(request.ranges)
        over = {*range(len(request.ranges))}.difference(*by_log.values())  # no log has these streams
        for kept, places in by_log.items():
            if found:
                break
            try:
                ranges = [request.ranges[place] for place in places]
                groups, done = yield from kept.ranges(ranges, room, PAGE_GROUPS)
            except StorageError:  # as if it were not there: another keeper is asked
                self._statistics["history unreadable"] += 1
                groups, done = [], {*range(len(places))}
            found += groups
            over.update(places[place] for place in done)
        found.sort(key=lambda one: one[0])  # so that each publisher is named once
        runs = [(*origin, len([*groups])) for origin, groups in groupby(found, lambda one: one[0])]
        answered = next(place for place in range(len(request.ranges) + 1) if place not in over)
        return Page(request.id, 0, 0, False, [group for _, group in found], runs, answered)

    def _by_log(self, ranges: Sequence[Range]) -> dict[KeptHistory, list[int]]:
        """The places of ranges by the first log that has their streams."""
        found: dict[KeptHistory, list[int]] = {}
        for place, one in enumerate(ranges):
            kept = next((kept for kept in self._kept.values() if kept.has(one)), None)
            if kept is not None:
                found.setdefault(kept, []).append(place)
        return found

    def _digests_of_logs(self, request: Request, wanted: Wanted) -> Generator[None, None, Page]:
        """The digests of all logs, combined: those of one keeper with several logs never settle, and are compared."""
        from glue.history.eras import EraSums  # only keepers need it

        assert request.eras is not None
        sums = EraSums(request.eras)
        for kept in [*self._kept.values()]:
            yield from kept.add_to(sums, wanted)
        return Page(request.id, 0, sums.looked, False, digests=sums.digests)

    def _heads_of_logs(
        self, request: Request, wanted: Wanted, reader: str, compared: int
    ) -> Generator[None, None, Page]:
        """The streams of all logs, sorted, from the place `after` on, all from one list that the first page makes."""
        key = (reader, request.pattern, request.start, request.eras, request.era)
        known = self._listings.pop(key, None) if request.after else None
        if known is None:
            known = (yield from self._listing(request, wanted)), compared
        listed, compared = known
        heads, size = Listed(), 0
        for head in islice(listed, request.after, request.after + HEADS):
            size += json_size(head[0])
            if heads and size > HEAD_ROOM:
                break
            heads.append(head)
        next = request.after + len(heads)
        if next < len(listed):
            self._listings[key] = known
            while len(self._listings) > LISTINGS:
                self._listings.popitem(last=False)
        return Page(request.id, next, len(listed), False, heads=heads, compared=compared)

    def _listing(self, request: Request, wanted: Wanted) -> Generator[None, None, Listed]:
        """The streams of all logs, sorted; if one is in several logs, the one with the most."""
        known: dict[tuple[str, str, int], Head] = {}
        for kept in [*self._kept.values()]:
            heads = yield from kept.heads(wanted, request.start, request.eras, request.era)
            for place, head in enumerate(heads):
                key = head.topic, head.origin, head.life
                if key not in known or known[key].last < head.last:
                    known[key] = head
                if place % SORTED == SORTED - 1:
                    yield
        parts = []
        left = iter(known)
        while part := sorted(islice(left, SORTED)):
            parts.append(part)
            yield
        listed, keys = Listed(), merge(*parts)
        while part := [*islice(keys, SORTED)]:
            listed += [(*known[key],) for key in part]
            yield
        return listed


def merged(parts: list[Part]) -> list[MessageGroup]:
    """Return groups of these parts; parts that were published together and continue each other form one group."""
    groups: list[MessageGroup] = []
    for part in parts:
        group = part.group
        if groups and group.at - groups[-1].at < TOGETHER and groups[-1].is_continued_by(group):
            groups[-1].merge(group)
        else:
            groups.append(group)
    return groups


def matcher(pattern: str) -> Wanted:
    """Tells whether a topic matches a well-formed pattern; it remembers what it told."""
    index: Index[str] = Index()
    index.add(pattern, pattern)
    return lambda topic: bool(index.match(topic))
