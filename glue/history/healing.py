"""Heals a keeper: compares with other keepers and with publishers that remember, and fetches missing messages.

Keepers compare digests of the streams that both keep, by era: hot, warm and cold, after the time of the last message.
Where an era differs, the keeper asks for the last numbers of the streams, and then for messages it has never had. One
request is under way at a time. Keepers compare on meeting, and then one after another about once a second; publishers
that remember are asked on meeting and after a gap.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from math import inf
from random import Random

from glue.contract.matching import meet
from glue.contract.ranges import RangeSet
from glue.history.comparison import Partner, Work
from glue.history.eras import Digests, EraSums, borders
from glue.history.memory import Wanted
from glue.history.source import EMPTY
from glue.history.wire import HEAD_ROOM, RANGES, Page, Range, Request, json_size
from glue.storage import JSON, Log, Record, Stream
from glue.storage.log import every_topic
from glue.storage.records import REPLAYED
from glue.topics.bundle import MessageGroup

INTERVAL, MANY = 1.0, 10_000
"""Seconds between two comparisons, an announcement interval; of one keeper after another. With more streams than MANY
in the log it is longer in proportion, so that counting them takes some 3 % of a core; in a hurry four times as much."""
LONGEST = 60.0
"""Seconds between two comparisons at most, whatever number of streams a partner tells."""
OF_LATE, DOUBT = 1.5, 2
"""Rounds that may have passed since the last comparison with a keeper, and requests that it may have left unanswered
(0.3 s), while this keeper says that it has what that one has."""
MEETING = 0.05
"""Seconds from a meeting to the comparison at most, so that keepers do not ask all at once."""
AGAIN = 0.25
"""Seconds until a comparison that fetched something is repeated: what was stored meanwhile counts then."""
REPEAT, TRIES = 0.1, 5
"""Seconds until an unanswered request is repeated, each time twice as long; and how often it is asked at all."""
TURN = 5.0
"""Seconds after which a comparison gives way to one with another partner that is due, and begins anew after it."""
PAGES = 2
"""Pages that were fetched and are not stored yet, at most: a slow disk is waited for, and nothing is fetched twice."""
LOOK, REFUSED = 0.02, 30.0
"""Seconds between two looks whether a page is stored, and after which it counts as refused."""
STREAM_GAPS = 64
"""Gaps of one stream that are asked for in one comparison."""
WANTED = 4096
"""Ranges that are still to be asked for, at most, if pages leave some out; the next comparison finds further ones."""
ROOM = 1 << 17
"""Bytes of a page, so small that live messages wait for some milliseconds at most while it is read."""


class Healer:
    """The requests of one keeper to others, for one log. Not thread-safe: the owner guards it."""

    def __init__(
        self,
        log: Log,
        is_mine: Callable[[str], bool],
        has_room: Callable[[], bool],
        next_id: Callable[[], int],
        luck: Random,
        statistics: Counter[str],
    ) -> None:
        """`is_mine` tells whether a topic is to be kept here, `has_room` whether old messages still find a place."""
        self.patterns: dict[str, Wanted] = {}
        """The patterns that are kept here, with what tells whether a topic matches."""
        self._log = log
        self._is_mine = is_mine
        self._has_room = has_room
        self._next_id = next_id
        self._luck = luck
        self._statistics = statistics
        self._partners: OrderedDict[tuple[str, bool], Partner] = OrderedDict()
        self._settled: dict[tuple[str, str], tuple[Digests, Digests]] = {}
        self._hashes: dict[Stream, tuple[int, int, int, int]] = {}
        self._work: Work | None = None
        self._interval, self._rest_until = INTERVAL, -inf
        self._asked: Request | None = None
        self._due = inf
        self._tries = 0
        self._unstored: deque[tuple[Stream, int]] = deque()  # last messages of fetched pages, until they are durable
        self._look_at, self._refused_at = inf, inf

    # ---------------------------------------------------------------------------------------------- peers

    def met(self, now: float, peer: str, life: int, name: str, pattern: str, is_keeper: bool) -> None:
        """A keeper, or a publisher that remembers, serves a pattern."""
        if not any(meet(pattern, mine) for mine in self.patterns):
            return
        key = peer, is_keeper
        partner = self._partners.get(key)
        if partner is None or partner.life != life:
            partner = self._partners[key] = Partner(life, name, is_keeper)
        partner.patterns.add(pattern)
        partner.check_at = min(partner.check_at, now + MEETING * self._luck.random())

    def parted(self, peer: str, pattern: str, is_keeper: bool) -> None:
        """A partner serves a pattern no more."""
        partner = self._partners.get((peer, is_keeper))
        if partner is not None:
            partner.patterns.discard(pattern)
            if not partner.patterns:
                self._drop(peer, is_keeper)

    def lost(self, peer: str) -> None:
        """A peer is gone."""
        for is_keeper in (False, True):
            self._drop(peer, is_keeper)

    def _drop(self, peer: str, is_keeper: bool) -> None:
        gone, work = self._partners.pop((peer, is_keeper), None), self._work
        if gone is not None and work is not None and (work.peer, work.is_keeper) == (peer, is_keeper):
            self._work = self._asked = None
            self._due, self._tries = inf, 0

    def hurry(self, now: float) -> None:
        """Something is missing: compare soon."""
        for partner in self._partners.values():
            partner.check_at = min(partner.check_at, now + MEETING * (1 + self._luck.random()))
            partner.compared_at = -inf

    def compared(self, now: float, pattern: str) -> tuple[set[str], set[str]]:
        """Ids of the keepers of a pattern with which this one compared of late, and of the others."""
        found: tuple[set[str], set[str]] = set(), set()
        count = sum(partner.is_keeper for partner in self._partners.values())
        for (peer, is_keeper), partner in self._partners.items():
            if is_keeper and any(meet(pattern, one) for one in partner.patterns):
                is_silent = self._work is not None and self._work.peer == peer and self._tries >= DOUBT
                is_late = partner.compared_at < now - OF_LATE * max(self._interval * count, partner.rest)
                found[is_silent or is_late].add(peer)
        return found

    # ------------------------------------------------------------------------------------------- requests

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds)."""
        if self._asked is not None:
            return self._due
        if self._unstored and self._look_at < inf:
            return self._look_at
        if self._work is not None:
            return -inf
        return max(min((partner.check_at for partner in self._partners.values()), default=inf), self._rest_until)

    def advance(self, now: float, unix_time: float) -> tuple[str, Request] | None:
        """The request that is due, with the peer to ask."""
        if self._asked is not None and self._work is not None:
            if now < self._due:
                return None
            self._tries += 1
            if self._tries < TRIES:
                self._statistics["requests for history repeated"] += 1
                self._due = now + REPEAT * 2**self._tries
                return self._work.peer, self._asked
            self._end(now)
        while not self._waits_for_disk(now) and (self._work is not None or self._begin(now)):
            assert self._work is not None
            if self._is_counting(now, self._work, unix_time):
                return None
            request = self._next(now, self._work)
            if request is not None:
                self._asked, self._tries, self._due = request, 0, now + REPEAT
                return self._work.peer, request
        return None

    def _waits_for_disk(self, now: float) -> bool:
        """Whether what was fetched is to be stored first; before anything but further pages, it is to be durable.

        So nothing is fetched twice, and a comparison ends only when no power cut can undo what it fetched.
        """
        while self._unstored and self._has(self._unstored[0], is_durable=True):
            self._unstored.popleft()
        if now >= self._refused_at and self._unstored:
            self._unstored.clear()
            if self._work is not None:
                self._work.is_refused = True
        if self._work is not None and self._work.wanted:
            waits = sum(not self._has(one, is_durable=False) for one in self._unstored) >= PAGES
        else:
            waits = bool(self._unstored)
        self._look_at = now + LOOK if waits else inf
        return waits

    def _has(self, message: tuple[Stream, int], is_durable: bool) -> bool:
        """Whether a message is stored here, or durable."""
        state = self._log.state(message[0])
        return state is not None and message[1] in (state.durable if is_durable else state.held)

    def _begin(self, now: float) -> bool:
        """Begin the comparison that is due; returns whether there is one."""
        due = [(partner.check_at, key) for key, partner in self._partners.items() if partner.check_at <= now]
        if not due or now < self._rest_until:
            return False
        peer, is_keeper = min(due)[1]
        partner = self._partners[peer, is_keeper]
        todo = [mine for mine in self.patterns if any(meet(one, mine) for one in partner.patterns)]
        if not todo:
            partner.check_at = inf
            return self._begin(now)
        self._work = Work(peer, is_keeper, todo.pop(), todo, now)
        self._partners.move_to_end((peer, is_keeper))
        return True

    def _next(self, now: float, work: Work) -> Request | None:
        """The next request of a comparison; None if it has ended, or goes on with another pattern or later."""
        others = [one for key, one in self._partners.items() if key != (work.peer, work.is_keeper)]
        if now > work.turn_from + TURN and any(one.check_at <= now for one in others):
            self._partners[work.peer, work.is_keeper].check_at = now + AGAIN
            self._work = None
            return None
        if work.wanted:
            ranges, size = list[Range](), 0
            for one in islice(work.wanted, RANGES):
                size += json_size(one[0])
                if ranges and size > HEAD_ROOM:
                    break
                ranges.append(one)
            return Request(self._next_id(), room=ROOM, ranges=ranges, kept=bool(ranges[0][4]))
        if not work.is_keeper:  # a publisher: no eras in its memory
            work.lacks_room |= not self._has_room()
            if work.after >= 0 and not work.lacks_room:
                return Request(self._next_id(), work.pattern, after=work.after, heads=True)
        elif work.theirs is None:
            work.mine = work.sums.digests
            return Request(self._next_id(), work.pattern, digest=True, eras=work.sums.limits, kept=True)
        elif work.eras:
            era = work.eras[0]
            return Request(
                self._next_id(), work.pattern, after=work.after, heads=True, eras=work.sums.limits, era=era, kept=True
            )
        self._end(now)
        return None

    def _is_counting(self, now: float, work: Work, unix_time: float) -> bool:
        """Take a step of the digests of what is here; returns whether there are more of them, for further turns."""
        if not work.is_keeper or work.theirs is not None:
            return False
        if work.counting is None:
            work.sums = EraSums(borders(unix_time))
            wanted, is_mine = self.patterns.get(work.pattern, _nothing), self._is_mine
            work.counting = work.sums.add_all(
                self._log.streams(every_topic), lambda topic: wanted(topic) and is_mine(topic), self._hashes
            )
            work.counted_from = now
        if next(work.counting, self) is None:
            return True
        work.turn_from += now - work.counted_from
        work.counted_from = now
        self._interval = _interval(work.sums.looked * len(self.patterns))
        self._rest_until = now + (self._interval - INTERVAL) / 4
        return False

    def _end(self, now: float) -> None:
        """End a comparison, or go on with the next pattern."""
        work = self._work
        assert work is not None
        is_answered = self._tries < TRIES
        if is_answered and work.theirs is not None and not work.fetched and not work.lacks_room:
            self._settled[work.peer, work.pattern] = work.mine, work.theirs
        partner = self._partners.get((work.peer, work.is_keeper))
        self._work, self._asked, self._due = None, None, inf
        if partner is None:
            return
        if work.todo and is_answered:
            self._work = Work(work.peer, work.is_keeper, work.todo[0], work.todo[1:], work.began_at)
            self._work.fetched, self._work.is_refused = work.fetched, work.is_refused
            self._work.lacks_room, self._work.turn_from = work.lacks_room, work.turn_from
            return
        self._tries = 0
        if is_answered and not work.is_refused:
            partner.compared_at = work.began_at
        if work.fetched:
            partner.check_at = now + AGAIN
        elif work.is_keeper or work.lacks_room:
            count = sum(one.is_keeper for one in self._partners.values())
            partner.check_at = now + max(self._interval * max(count, 1), partner.rest) * (
                0.75 + self._luck.random() / 2
            )
        else:
            partner.check_at = inf

    # ---------------------------------------------------------------------------------------------- pages

    def page(self, now: float, peer: str, life: int, page: Page) -> list[Record] | None:
        """Take a page; returns the records to store, None if the page answers no request of this healer."""
        work, request = self._work, self._asked
        if work is None or request is None or work.peer != peer or request.id != page.id:
            return None
        partner = self._partners.get((peer, request.kept))
        if partner is None or partner.life != life:
            return None
        self._asked, self._due, self._tries = None, inf, 0
        if request.ranges:
            records = self._take_ranges(work, partner, request, page)
            if records:
                self._unstored.append((records[-1].stream, records[-1].stop - 1))
                self._refused_at = now + REFUSED
            return records
        if request.digest:
            partner.rest = _interval(page.head)
            self._take_digests(work, page)
        else:
            self._take_heads(work, partner, request, page)
        return []

    def _take_digests(self, work: Work, page: Page) -> None:
        work.theirs = page.digests or ("", "", "")
        if self._settled.get((work.peer, work.pattern)) == (work.mine, work.theirs):
            return
        if not self._has_room():
            work.lacks_room = True
            return
        work.eras = [era for era in range(3) if work.mine[era] != work.theirs[era]]
        self._statistics["eras of keepers that differed"] += len(work.eras)

    def _take_heads(self, work: Work, partner: Partner, request: Request, page: Page) -> None:
        wanted = self.patterns.get(work.pattern)
        for topic, last, origin, life, first in page.heads:
            if wanted is None or not wanted(topic) or not self._is_mine(topic):
                continue
            stream = Stream(origin, life, topic) if partner.is_keeper else Stream(work.peer, partner.life, topic)
            for start, stop in self._gaps(stream, max(first, 1), last):
                work.wanted.append((topic, start, stop - 1, 0, origin, life))
        is_last = page.next >= page.head or page.next <= work.after
        work.after = page.next
        if not self._has_room():
            work.wanted.clear()
            work.lacks_room = True
        if is_last:
            work.after = 0 if request.kept else -1
            if request.kept:
                del work.eras[:1]

    def _gaps(self, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
        state = self._log.state(stream)
        if state is None:
            return [(first, last + 1)] if first <= last else []
        return [*islice(state.held.gaps(first, last + 1), STREAM_GAPS)]

    def _take_ranges(self, work: Work, partner: Partner, request: Request, page: Page) -> list[Record]:
        asked: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for topic, first, stop, _, origin, life in request.ranges:
            asked.setdefault((topic, origin, life), []).append((first, stop))
        given: dict[tuple[str, str, int], RangeSet] = {}
        found: list[Record] = []
        for origin, name, life, group in _groups(page):
            key = group.topic, origin, life
            last = group.sequence + len(group.payloads) - 1
            if not any(start <= group.sequence and last <= stop for start, stop in asked.get(key, ())):
                self._statistics["messages of history not asked for"] += len(group.payloads)
                continue
            who = (origin, name, life) if partner.is_keeper else (work.peer, partner.name, partner.life)
            found.append(_record(*who, group))
            given.setdefault(key, RangeSet()).add(group.sequence, last + 1)
            work.fetched += len(group.payloads)
        for place in range(min(len(request.ranges), len(work.wanted))):
            one = work.wanted.popleft()
            if place < page.answered:
                continue
            left = given.get((one[0], one[4], one[5]), RangeSet()).gaps(one[1], one[2] + 1)
            gaps = [(one[0], start, stop - 1, *one[3:]) for start, stop in left]
            work.wanted.extend(gaps[: max(WANTED - len(work.wanted), 0)])
        work.empty = 0 if found else work.empty + 1
        if work.empty > EMPTY:
            work.wanted.clear()
        self._statistics["messages fetched by keepers"] += sum(len(record.payloads) for record in found)
        return found


def _nothing(topic: str) -> bool:
    return False


def _interval(streams: int) -> float:
    """Seconds between two comparisons for each of which so many streams are looked at."""
    return INTERVAL * min(max(1.0, streams / MANY), LONGEST)


def _groups(page: Page) -> list[tuple[str, str, int, MessageGroup]]:
    """The groups of a page with their publishers; "" for the server."""
    if not page.origins:
        return [("", "", 0, group) for group in page.groups]
    groups = iter(page.groups)
    return [(id, name, life, next(groups)) for id, name, life, count in page.origins for _ in range(count)]


def _record(origin: str, name: str, life: int, group: MessageGroup) -> Record:
    metadata = group.metadata
    return Record(
        origin, name, life, group.topic, group.sequence, [*map(bytes, group.payloads)], group.at / 1e6, 0,
        REPLAYED | (JSON if group.json else 0), group.type, metadata.codec if metadata else None,
        dict(metadata.properties) if metadata and metadata.properties else {},
    )  # fmt: skip
