"""The keepers that a reader may ask for what others published, as long as there are any.

One keeper is asked at a time; `known_keepers.py` says which. If each of several keepers keeps some topics only, all are
asked for their streams. A keeper that is silent for 50 ms is passed over for a while, and the next one is asked. What a
keeper leaves out shows as a gap in the numbers of a stream, and the others are asked for it before it counts as gone. A
keeper that took longer for its last answer is given twice that time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from random import Random

from glue.contract.matching import meet
from glue.history.known_keepers import KnownKeepers
from glue.history.sequencer import Sequencer
from glue.history.source import GONE, RETURN, SILENCE, STREAMS, Source
from glue.history.stream import Key, Stream
from glue.history.wire import EARLIEST, HEAD_ROOM, LATEST, RANGES, SINCE, Page, Range, Request, json_size
from glue.topics.deliveries import deliveries
from glue.topics.index import Index

SILENCE_LIMIT, OTHERS_WAIT = 2.0, 0.2
"""Seconds up to which a keeper is given twice as long after each silence: the only one, and one of several."""
PASSED_OVER = 5.0
"""Seconds for which a silent keeper is asked only if there is no other."""
CHECK = 4.0
"""Seconds between two looks at what a keeper has: a stream may reach it late, from another keeper."""
SETTLE = 1.0
"""Seconds until all keepers are asked once more for what none has; `RETURN` if its publisher is silent."""
AGAIN = 0.2
"""Seconds until keepers are asked again for what none had."""
FEW = 64
"""Streams of a page, below which the next page of a list is not asked for at once."""
LISTING = 2.0
"""Seconds for which a reader waits at the beginning for a keeper that has what the others have, or for those."""


class Keepers:
    """The requests of one reader to keepers. `source_of` gives a publisher that serves a stream; `want` asks again."""

    def __init__(
        self,
        reader: Sequencer,
        pattern: str,
        mine: str,
        source_of: Callable[[Key], Source | None],
        want: Callable[[Key, Stream, Source | None], None],
        next_id: Callable[[], int],
        luck: Random,
    ) -> None:
        self.is_listing = False  # whether the streams at the beginning are not all known yet, and live messages wait
        self.is_counting = False  # likewise of a reader from now on, which learns where streams end, and has none wait
        self.behind: OrderedDict[Key, None] = OrderedDict()  # streams with something to ask for
        self._reader = reader
        self._start = reader.start
        self._pattern = pattern
        self._wanted: Index[str] = Index()
        self._wanted.add(pattern, pattern)
        self._source_of = source_of
        self._want = want
        self._next_id = next_id
        self._luck = luck
        self._keepers = KnownKeepers(mine, pattern)
        self._later: dict[Key, float] = {}  # streams to ask for again
        self._listed = self._told = self._turn = 0  # of a list that is under way: its next place, the streams told
        self._listed_of = ""
        self._is_listed = False  # whether a keeper of everything has told all of its streams
        self._to_list: set[str] = set()  # keepers that are to tell their streams before live messages go on
        self._list_at = -inf  # when the next one is asked for its streams at the beginning
        self._list_until = inf  # from then on a keeper that may lack something counts, too
        self._asked: Request | None = None
        self._asked_of = ""
        self._asked_at, self._due = -inf, inf
        self._check_at = inf

    # ---------------------------------------------------------------------------------------------- peers

    @property
    def _is_beginning(self) -> bool:
        return self.is_listing or self.is_counting

    def covered(self, topic: str) -> bool:
        """Whether a keeper keeps this topic, or one that may come back did."""
        return self._keepers.covered(topic)

    def covers(self, topic: str) -> bool:
        """Whether a keeper keeps this topic."""
        return self._keepers.cover(topic)

    def offered(self, now: float, peer: str, life: int, pattern: str, place: str = "memory", replicas: int = 0) -> None:
        """A keeper keeps a pattern that overlaps the reader's."""
        keeper = self._keepers.of_life(peer, life)
        if keeper is None:
            if not self._keepers and self._check_at == inf:
                self._start = self._reader.start_of(now)
                self.is_counting = self._start[0] == LATEST
                self.is_listing = not self.is_counting
                self._list_until = now + LISTING
            keeper = self._keepers.meet(peer, life)
            self._check_at = now + self._pause(CHECK / 4)
        self._keepers.offer(keeper, pattern, place, replicas)
        if self._is_beginning and keeper.is_partial:
            self._to_list.add(peer)

    def withdrawn(self, peer: str, pattern: str) -> None:
        """A keeper keeps a pattern no more."""
        if self._keepers.withdraw(peer, pattern):
            self._drop(peer)

    def lost(self, peer: str, life: int) -> None:
        """A peer is gone."""
        if self._keepers.of_life(peer, life) is not None:
            self._drop(peer)

    def _drop(self, peer: str) -> None:
        self._keepers.remove(peer)
        if self._asked is not None and self._asked_of == peer:
            self._requeue()
        self._listed_by(peer)

    def _listed_by(self, peer: str) -> None:
        """Stop waiting for the streams of a keeper; end the listing if no other is awaited."""
        self._to_list.discard(peer)
        if not self._is_beginning or self._to_list or (self._keepers.whole() and not self._is_listed):
            return
        self.is_listing = self.is_counting = False
        for key, stream in self._reader._streams:
            self._reader._drain(stream)
            if self._source_of(key) is None and stream.missing() is not None:
                self.behind[key] = None

    def _requeue(self) -> None:
        """Queue the ranges of the current request again, perhaps for another keeper."""
        request, self._asked, self._due = self._asked, None, inf
        for topic, _, _, _, origin, life in request.ranges if request is not None else ():
            self.behind[origin, life, topic] = None

    # ------------------------------------------------------------------------------------------- requests

    def deadline(self, may_ask: bool) -> float:
        """When `request` is due; `may_ask`: there is room for a page."""
        if self._asked is not None:
            return self._due
        if not self._keepers:
            return inf
        if self._is_beginning:
            return self._list_at
        if may_ask and self.behind:
            return -inf
        return min(self._check_at, min(self._later.values(), default=inf))

    def request(self, now: float, may_ask: bool, room: int) -> tuple[str, Request] | None:
        """The request that is due, with the keeper to ask."""
        if self._asked is not None and now >= self._due:
            silent, is_alone = self._keepers[self._asked_of], len(self._keepers) == 1
            silent.silent_until = now + PASSED_OVER
            self._reader._statistics["keepers silent"] += 1
            silent.silence = max(silent.silence, min(2 * silent.silence, SILENCE_LIMIT if is_alone else OTHERS_WAIT))
            if is_alone:  # it may be busy with this request
                self._due = now + silent.silence
                return self._asked_of, self._asked
            silent.late = self._asked, self._asked_at
            self._requeue()
        if self._asked is not None or not self._keepers:
            return None
        for key in [key for key, due in self._later.items() if due <= now]:
            del self._later[key]
            self.behind[key] = None
        if self._is_beginning and now < self._list_at:
            return None
        has_turn = not (self._listed and may_ask and self.behind)  # a list may be long, or never end
        if self._is_beginning or (now >= self._check_at and has_turn):
            target = self._next_to_list(now)
            if target != self._listed_of:
                self._listed, self._listed_of = 0, target
            start = self._start if self._is_beginning else (EARLIEST, 0)  # what began since comes as a whole
            self._asked = Request(self._next_id(), self._pattern, start, self._listed, heads=True, kept=True)
        elif may_ask and self.behind:
            target, ranges = self._ranges(now)
            if not ranges:
                return None
            self._asked = Request(self._next_id(), room=room, ranges=ranges, kept=True)
        else:
            return None
        self._asked_of, self._asked_at, self._due = target, now, now + self._keepers[target].silence
        return target, self._asked

    def _next_to_list(self, now: float) -> str:
        """The keeper to ask next for its streams."""
        if self._is_beginning:
            return self._keepers.next_to_list(now, self._to_list)
        if not self._listed:
            self._turn += 1
        return self._keepers.in_turn(now, self._turn)

    def _ranges(self, now: float) -> tuple[str, list[Range]]:
        """Return a keeper, and what to ask it for: what the streams that are behind miss, as far as it may have it."""
        found: list[Range] = []
        target, size = "", 0
        for key in [*self.behind]:
            stream = self._reader._streams.get(key)
            missing = None if stream is None else stream.missing()
            if stream is None or missing is None:
                del self.behind[key]
                continue
            one = self._keepers.target(now, stream.tried, key[2])
            if not one:  # those that had not been tried are gone
                del self.behind[key]
                stream.tried.clear()
                self._later[key] = now + AGAIN
                continue
            target = target or one
            if one != target:
                continue
            del self.behind[key]
            found.append((key[2], *missing, 0, key[0], key[1]))
            size += json_size(key[2])
            if len(found) >= RANGES or size >= HEAD_ROOM:
                break
        return target, found

    # ---------------------------------------------------------------------------------------------- pages

    def page(self, now: float, peer: str, life: int, page: Page) -> bool:
        """Take a page; returns whether it answers a request of this reader."""
        keeper = self._keepers.of_life(peer, life)
        if keeper is None:
            return False
        is_in_time = peer == self._asked_of and self._asked is not None and self._asked.id == page.id
        request, asked_at = (self._asked, self._asked_at) if is_in_time else keeper.late or (None, 0.0)
        if request is None or request.id != page.id:
            return False
        if is_in_time:
            self._asked, self._due = None, inf
        keeper.silence = min(max(SILENCE, 2 * (now - asked_at)), SILENCE_LIMIT)
        keeper.silent_until, keeper.late = -inf, None
        if request.heads and is_in_time:
            self._take_heads(now, peer, page)
        elif not request.heads:
            self._take_ranges(now, peer, request, page)
        return True

    def _may_lack(self, peer: str, page: Page) -> bool:
        """Whether another keeper may have something of the same topics that this one has not fetched yet."""
        mine = self._keepers[peer].patterns
        others = [keeper.patterns for keeper in self._keepers.others(peer)]
        return page.compared < sum(any(meet(one, two) for one in mine for two in other) for other in others)

    def _take_heads(self, now: float, peer: str, page: Page) -> None:
        """Take a page of a list of streams: open what is new, and note what is behind what a keeper has."""
        reader = self._reader
        if self._is_beginning and now < self._list_until and self._may_lack(peer, page):
            self._listed, self._list_at = 0, now + SILENCE
            self._keepers[peer].lacks_until = now + LISTING
            return
        self._list_at = -inf
        for topic, last, origin, life, first in page.heads:
            key = origin, life, topic
            stream = reader._streams.told(key, peer)
            if not self._wanted.match(topic) or (not self._is_beginning and self._source_of(key) is not None):
                continue
            if stream is None:
                stream = reader._open(key, origin, peer)
                if reader._streams.get(key) is not stream:  # it found no room
                    continue
                if self.is_counting:
                    stream.next, stream.skipped = last + 1, (1, last + 1)  # what comes from now on
            elif self.is_counting:
                continue
            elif self._is_beginning or self._start[0] == EARLIEST:  # else this list tells of older messages than wanted
                reader._find_late(key, stream, first)
            if not stream.next:
                stream.oldest = self._start[1] / 1e6 if self._is_beginning and self._start[0] == SINCE else 0.0
                stream.next = reader._first(stream, first, self._is_beginning)
                stream.skipped = 1, stream.next
                reader._drain(stream)
            stream.want = max(stream.want, last + 1)
            if stream.missing() is not None:
                self.behind[key] = None
        self._told = len(page.heads) + (self._told if self._listed else 0)
        is_endless = self._told > STREAMS or (self._is_beginning and now >= self._list_until + LISTING)
        if self._listed < page.next < page.head and page.heads and not is_endless:
            self._listed = page.next
            self._check_at = self._list_at = now if len(page.heads) >= FEW else now + SILENCE
            return
        self._listed, self._check_at = 0, now + self._pause(CHECK)
        self._is_listed |= not self._keepers[peer].is_partial
        self._listed_by(peer)

    def _take_ranges(self, now: float, peer: str, request: Request, page: Page) -> None:
        """Take the messages that were asked for, and note what the keeper does not have."""
        asked = {(origin, life, topic) for topic, _, _, _, origin, life in request.ranges}
        groups, reader = iter(page.groups), self._reader
        for id, name, life, count in page.origins:
            for _ in range(count):
                group = next(groups)
                key = id, life, group.topic
                stream = reader._streams.get(key)
                if key not in asked or stream is None:
                    reader._statistics["messages of history not asked for"] += len(group.payloads)
                    continue
                stream.name = name
                expires = inf if group.lifespan_ms is None else now + group.lifespan_ms / 1000
                for delivery in deliveries(reader._statistics, group, name, id, life, (self,), expires):
                    reader._take_kept(key, stream, delivery)
        is_endless = self._keepers[peer].gives_nothing(any(self._has_changed(one) for one in request.ranges))
        for place, (topic, _, last, _, id, life) in enumerate(request.ranges):
            key = id, life, topic
            stream = reader._streams.get(key)
            if stream is None:
                continue
            if (stream.next or stream.first) > last or stream.missing() is None:
                self._found(key, stream)
            elif place < page.answered or is_endless:
                self._missed(now, peer, key, stream)
            else:
                self.behind[key] = None

    def _has_changed(self, asked: Range) -> bool:
        """Whether less is missing than was asked for."""
        topic, first, last, _, id, life = asked
        stream = self._reader._streams.get((id, life, topic))
        missing = None if stream is None else stream.missing()
        return missing is None or missing[0] > first or missing[1] < last

    def _found(self, key: Key, stream: Stream) -> None:
        """Nothing more of this range is missing."""
        stream.is_kept, stream.since = False, 0.0
        stream.tried.clear()
        self._want(key, stream, self._source_of(key))

    def _missed(self, now: float, peer: str, key: Key, stream: Stream) -> None:
        """A keeper does not have the next messages: ask another one, or later again; else they are gone."""
        stream.since = stream.since or now
        if not stream.tried:
            stream.round_since = now
        stream.tried.add(peer)
        if self._keepers.target(now, stream.tried):
            self.behind[key] = None
        elif not stream.is_kept and self._source_of(key) is not None:  # its publisher is back, and is asked now
            self._found(key, stream)
        elif stream.round_since < stream.since + (RETURN if key[0] in self._reader._silent else SETTLE):
            stream.tried.clear()
            self._later[key] = now + AGAIN
        else:
            missing = stream.missing()
            if missing is not None:
                if stream.next:
                    self._reader._miss(key, stream, missing[1] + 1, GONE)
                stream.next = missing[1] + 1
                stream.skipped = missing[0], stream.next
                self._reader._drain(stream)
            self._found(key, stream)

    def _pause(self, seconds: float) -> float:
        return seconds * (0.75 + self._luck.random() / 2)
