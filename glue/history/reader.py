"""A reader: history and live messages of one subscription, joined without a gap and without a duplicate.

Each publisher that serves its history is a *source*. The reader scans it page by page up to its head, and holds what
comes live meanwhile. From then on live messages are handed over as they come. Whatever is missing before one of them,
or was dropped because the program reads too slowly, is asked for by number. Now and then the reader asks each source
for the last numbers, to find messages that were never sent live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random

from glue.contract import Delivery, Missed
from glue.history.keepers import Keepers
from glue.history.sequencer import Sequencer
from glue.history.source import CHECK, CHECK_SOON, GONE, GRACE, LIVE, REPEAT, RETURN, SCAN, STREAMS, Source
from glue.history.stream import Key, Stream, end_of, tail
from glue.history.wire import EARLIEST, HEAD_ROOM, LAST, LATEST, RANGES, Page, Range, Request, Start, json_size
from glue.topics.deliveries import deliveries


class Reader(Sequencer):
    """The messages of one subscription from `start` on. Not thread-safe: its owner guards it.

    `limit` is how many bytes wait at most to be read. `next_id` numbers requests. Counts go to `statistics`. `began` is
    when the subscription began, on the local clock and in Unix seconds.
    """

    def __init__(
        self,
        pattern: str,
        start: Start,
        limit: int,
        next_id: Callable[[], int],
        luck: Random,
        statistics: Counter[str],
        mine: str,
        began: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(start, limit, statistics, began)
        self.pattern = pattern
        self.local = True  # whether it wants what its own endpoint publishes
        self._next_id, self._luck, self._mine = next_id, luck, mine
        self._sources: dict[str, Source] = {}
        self.keepers = Keepers(self, pattern, mine, self._source_of, self._want, next_id, luck)
        self._unknown: dict[str, tuple[int, float]] = {}  # by publisher: its life, and until when its news is awaited
        self._met: dict[str, int] = {}  # publishers received before their offer, with their lives

    # ---------------------------------------------------------------------------------------------- peers

    def offered(self, now: float, peer: str, life: int, name: str, pattern: str) -> None:
        """A publisher serves its history of a pattern that overlaps this reader's."""
        self._supersede(peer, life)
        source = self._sources.get(peer)
        if source is None and (source := self._silent.pop(peer, None)) is not None:  # only what was missed is asked for
            source.asked, source.check_at = None, now
            self._sources[peer] = source
        if source is None:
            source = self._sources[peer] = Source(life, name, self.start_with(now, peer, life))
        self._lives[peer] = life
        if len(self._lives) > STREAMS:
            self._lives.clear()
        if pattern not in source.patterns:
            source.patterns.add(pattern)
            source.index.add(pattern, pattern)
            source.state, source.after, source.until, source.asked = SCAN, 0, 0, None
            if any(stream.next for _, stream in self._of(peer, life)):
                self._met[peer] = life
                self._doubt(source)

    def _doubt(self, source: Source) -> None:
        """A scan that does not begin at the beginning may leave out what follows on streams that came live before."""
        if source.start[0] != EARLIEST:
            source.verified = 0

    def withdrawn(self, peer: str, pattern: str) -> None:
        """A publisher serves a pattern no more."""
        source = self._sources.get(peer)
        if source is None or pattern not in source.patterns:
            return
        source.patterns.remove(pattern)
        source.index.remove(pattern, pattern)
        for key, stream in self._of(peer, source.life):
            if not source.index.match(key[2]):
                self._abandon(key, stream)
        if not source.patterns:
            del self._sources[peer]

    def lost(self, peer: str, life: int, reason: str) -> None:
        """Drop a lost peer. A leaving peer takes its memory away; a silent peer may bring it back."""
        self._met.pop(peer, None)
        self.keepers.lost(peer, life)
        source = self._sources.get(peer)
        if source is not None and source.life == life:
            self._silent[peer] = self._sources.pop(peer)
            for _, stream in self._of(peer, life):  # its history is not read further now
                self._drain(stream)
        if reason != "expired":
            self._silent.pop(peer, None)
            self._give_up(peer, life)

    def _supersede(self, peer: str, life: int) -> None:
        """Give up the former life of a publisher, if there is one."""
        for sources in (self._sources, self._silent):
            source = sources.get(peer)
            if source is not None and source.life != life:
                del sources[peer]
                self._give_up(peer, source.life)

    def _give_up(self, peer: str, life: int) -> None:
        """Hand over what is held of a publisher's life that is over, with the gaps in between."""
        for key, stream in self._of(peer, life):
            if self.keepers.covered(key[2]):
                self.keepers.behind[key] = None
            else:
                self._abandon(key, stream)
                self._streams.remove(key)

    def _source_of(self, key: Key) -> Source | None:
        """The publisher of a stream if it serves its history itself."""
        source = self._sources.get(key[0])
        return source if source is not None and source.covers(key[1], key[2]) else None

    def _want(self, key: Key, stream: Stream, source: Source | None) -> None:
        """Have what is missing asked for, of its publisher or of a keeper."""
        if stream.missing() is None:
            return
        if source is None or stream.is_kept:
            self.keepers.behind[key] = None
        else:
            if stream.newer is None:  # 0 is a place, too: then all history belongs to it
                stream.newer = source.after
            source.behind[key] = None

    # ----------------------------------------------------------------------------------------------- live

    def live(self, now: float, delivery: Delivery) -> None:
        """Take messages as they come from topics."""
        if getattr(delivery, "via", ""):  # a will, published by another endpoint: it has no number of its owner
            self._hand_over(delivery)
            return
        peer, life, topic = key = delivery.publisher_id, delivery.incarnation, delivery.topic
        stream = self._streams.get(key)
        if stream is None:
            self._supersede(peer, life)
            stream = self._open(key, delivery.publisher)
        else:
            self._streams.note_live(key, stream)
        source = self._sources.get(peer) or self._silent.get(peer)
        if delivery.retained and not stream.next and self.begins_with(now, key, source)[0] == LATEST:
            self._hand_over(delivery)  # what followed it is not wanted
        elif source is not None and source.covers(life, topic):
            if peer in self._silent:  # back, but not known to serve its history still
                self._unknown.setdefault(peer, (life, now + RETURN))
            self._splice(key, stream, source, delivery)
        elif self.keepers.covers(topic):
            if not stream.next and self.keepers.is_counting:  # else it began after this reader
                stream.next = delivery.sequence
            self._splice(key, stream, None, delivery)
        elif self._may_follow(stream, delivery) and self._is_early(now, key):
            stream.want = max(stream.want, end_of(delivery))
            self._hold(stream, delivery)
        else:
            self._let_go(stream, delivery.sequence)  # the wait for news may end just now
            self._follow(stream, delivery)
            self._drain(stream)

    def _splice(self, key: Key, stream: Stream, source: Source | None, delivery: Delivery) -> None:
        """Hand over live messages if next in order; else hold them, or leave them to history."""
        count = len(delivery.payloads)
        if end_of(delivery) <= stream.next and not stream.goes_back(delivery):
            self._statistics["messages of history known"] += count
            return
        is_next = delivery.sequence <= (stream.next or 1)
        stream.want = max(stream.want, end_of(delivery))
        if self.keepers.is_listing or (source is not None and source.state == SCAN):
            if source is not None:
                self._doubt(source)
            self._hold(stream, delivery)
            return
        if not self._has_room():
            self._statistics["messages left to history"] += count
        elif is_next or (delivery.retained and not stream.next and not stream.is_kept):
            fresh = tail(delivery, stream.next)
            assert fresh is not None
            stream.next, stream.is_live = end_of(delivery), True
            self._push(fresh)
            self._drain(stream)
        else:
            self._hold(stream, delivery)
        self._want(key, stream, source)

    def _is_early(self, now: float, key: Key) -> bool:
        """Whether the news that a publisher serves its history, or that a keeper is back, may still come."""
        peer, life, topic = key
        is_latest = self.start[0] == LATEST
        if peer == self._mine or self._met.get(peer) == life or (is_latest and not self.keepers.covered(topic)):
            return False
        if self._unknown.get(peer, (-1, 0.0))[0] != life:
            self._unknown[peer] = life, now + (RETURN if is_latest else GRACE)
        return now < self._unknown[peer][1]

    def missed(self, event: Missed) -> None:
        """A gap in what comes live: told now, unless it is found by number and read from history."""
        source = self._sources.get(event.publisher_id) or self._silent.get(event.publisher_id)
        is_served = source is not None and source.index.match(event.topic)
        if not is_served and not self.keepers.covers(event.topic):
            self.ready.append(event)

    # -------------------------------------------------------------------------------------------- history

    def page(self, now: float, peer: str, life: int, page: Page) -> bool:
        """Take a page; returns whether it answers a request of this reader."""
        if self.keepers.page(now, peer, life, page):
            return True
        source = self._sources.get(peer)
        if source is None or source.life != life or source.asked is None or source.asked.id != page.id:
            return False
        request, source.asked, source.repeat = source.asked, None, REPEAT
        if request.ranges:
            self._take_ranges(now, peer, source, request, page)
        elif request.heads:
            self._take_heads(now, peer, source, page, is_verifying=source.verified is not None)
        else:
            self._take_scan(now, peer, source, page)
        return True

    def _take_groups(self, now: float, peer: str, source: Source, page: Page) -> None:
        """Take messages of a publisher, in whatever order they come."""
        is_narrow = source.state == SCAN and source.start[0] != EARLIEST
        for group in page.groups:
            if not source.index.match(group.topic):
                self._statistics["messages of history not asked for"] += len(group.payloads)
                continue
            key = peer, source.life, group.topic
            stream = self._streams.get(key) or self._open(key, source.name)
            expires = inf if group.lifespan_ms is None else now + group.lifespan_ms / 1000
            is_kept = self.keepers.covers(group.topic)
            for delivery in deliveries(self._statistics, group, source.name, peer, source.life, (self,), expires):
                if not is_kept or not self._hold_beginning(stream, delivery, source):
                    self._take(key, stream, delivery, is_narrow or is_kept)
            stream.want = max(stream.want, stream.next)
            if is_kept and not is_narrow and stream.missing() is not None:
                stream.is_kept = True  # its publisher serves in order, so what was left out is with keepers at most
            if source.state == LIVE or (stream.is_kept and source.start[0] != LAST):
                self._want(key, stream, source)

    def _take_scan(self, now: float, peer: str, source: Source, page: Page) -> None:
        """Take a page of all that a publisher remembers; after the last one, messages are taken as they come."""
        self._take_groups(now, peer, source, page)
        source.after, source.until = max(source.after, page.next), page.until
        if page.next < page.head:
            return
        source.state = LIVE
        later = now + (self._pause(CHECK) if page.known else CHECK_SOON)
        source.check_at = later if source.verified is None else now
        if source.start[0] == LATEST:  # a live message may come now that is older, and what follows it was passed over
            source.verified = 0
        for key, stream in self._of(peer, source.life):
            self._drain(stream)
            self._want(key, stream, source)

    def _take_heads(self, now: float, peer: str, source: Source, page: Page, is_verifying: bool) -> None:
        """Take a page of a publisher's newest numbers, and note what is missing here."""
        for topic, last, *_ in page.heads:
            if not source.index.match(topic):
                continue
            key = peer, source.life, topic
            stream = self._streams.get(key)
            if stream is None and is_verifying:
                continue
            if stream is None:
                stream = self._open(key, source.name)
                stream.newer = source.after
            if last >= stream.next:
                stream.want = max(stream.want, last + 1)
                self._want(key, stream, source)
        is_all = page.next >= page.head
        if is_verifying:
            source.verified, source.check_at = None if is_all else page.next, now
            return
        source.after = max(source.after, page.next)
        source.check_at = now if not is_all else now + (self._pause(CHECK) if page.known else CHECK_SOON)

    def _take_ranges(self, now: float, peer: str, source: Source, request: Request, page: Page) -> None:
        """Take the messages that were asked for; what the publisher no longer has is with keepers, or gone."""
        self._take_groups(now, peer, source, page)
        for place, (topic, _, last, _, _, _) in enumerate(request.ranges):
            key = peer, source.life, topic
            stream = self._streams.get(key)
            if stream is None:
                continue
            if place < page.answered and stream.next <= last:
                source.unsure |= not stream.next
                if self.keepers.covers(topic) and (stream.next or self._may_begin_earlier(stream, source)):
                    stream.is_kept = True
                else:
                    if stream.next:
                        self._miss(key, stream, last + 1, GONE)
                    stream.next = last + 1
                    self._drain(stream)
            self._want(key, stream, source)

    def _pause(self, seconds: float) -> float:
        """About so many seconds, so that readers do not ask all at once."""
        return seconds * (0.75 + self._luck.random() / 2)

    # ------------------------------------------------------------------------------------------- requests

    @property
    def deadline(self) -> float:
        """When `advance` is due."""
        due = min((until for _, until in self._unknown.values()), default=inf)
        due = min(due, self.keepers.deadline(self._may_ask))
        for source in self._sources.values():
            if source.asked is not None:
                due = min(due, source.due)
            elif self._may_ask and (source.behind if source.state == LIVE else not self.keepers.is_listing):
                return -inf
            elif source.state == LIVE:
                due = min(due, source.check_at)
        return due

    @property
    def _may_ask(self) -> bool:
        """Whether there is room for a page."""
        return self.waiting * 2 <= self._limit

    def advance(self, now: float) -> list[tuple[str, Request]]:
        """Requests that are due now, with the peers to ask."""
        for peer, (life, until) in list(self._unknown.items()):
            if now >= until:
                self._release(peer, life)
        found: list[tuple[str, Request]] = []
        asked = self.keepers.request(now, self._may_ask, max(self._limit - self.waiting, 1))
        if asked is not None:
            found.append(asked)
        for peer, source in self._sources.items():
            request = source.asked
            if request is None:
                request = self._next_request(now, peer, source)
            elif now < source.due:
                continue
            else:
                self._statistics["requests for history repeated"] += 1
                source.lengthen()
            if request is not None:
                source.asked = request
                source.due = now + self._pause(source.repeat)
                found.append((peer, request))
        return found

    def _next_request(self, now: float, peer: str, source: Source) -> Request | None:
        """Return what to ask a publisher for now, if anything."""
        if self._may_ask:
            room = max(self._limit - self.waiting, 1)
            if source.state == SCAN:
                first = Request(self._next_id(), self.pattern, source.start, source.after, source.until, room)
                return None if self.keepers.is_listing else first
            if ranges := self._ranges(source):
                return Request(self._next_id(), room=room, ranges=ranges)
        if source.state == LIVE and now >= source.check_at:
            if source.unsure and source.verified is None:
                source.unsure, source.verified = False, 0
            after = source.after if source.verified is None else source.verified
            return Request(self._next_id(), self.pattern, after=after, heads=True)
        return None

    def _ranges(self, source: Source) -> list[Range]:
        """Return the ranges that streams of a publisher miss, and note that these streams are asked for."""
        found, size = list[Range](), 0
        while source.behind and len(found) < RANGES and size < HEAD_ROOM:
            key, _ = source.behind.popitem(last=False)
            size += json_size(key[2])
            stream = self._streams.get(key)
            missing = None if stream is None else stream.missing()
            if stream is not None and missing is not None:
                found.append((key[2], *missing, 0 if stream.next else stream.newer or 0, "", 0))
        return found

    def _release(self, peer: str, life: int) -> None:
        """A publisher does not serve history: hand over what waited for that."""
        del self._unknown[peer]
        self._met[peer] = life
        if peer in self._silent:  # it came back without its history
            del self._silent[peer]
            for key, stream in self._of(peer, life):
                self._abandon(key, stream)
        for key, stream in self._of(peer, life):
            source = self._source_of(key)
            is_begun = stream.next or self.start[0] != LATEST or self.keepers.covers(key[2])
            if self.keepers.covered(key[2]) and is_begun:
                self._want(key, stream, source)
            elif source is None:
                self._let_go(stream)
