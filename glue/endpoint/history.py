"""History of one endpoint, as far as threads, asyncio and the simulator share it.

The state machines of `glue.history` decide; here they get time, a lock, and the endpoint's topics. Pages and requests
come from the thread that received them; timers and news of peers from within a turn; readers take from any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from glue.contract import BULK, NORMAL, Delivery, Event, Missed, PeerInterest, PeerRemoved, Publication
from glue.contract.heads import MalformedError
from glue.contract.matching import meet
from glue.endpoint.fork import heirs
from glue.endpoint.history_room import HistoryRoom
from glue.endpoint.message import Peer
from glue.endpoint.offers import Offers, served_by
from glue.endpoint.queues import QueueOwner
from glue.endpoint.requests import Named
from glue.history import PublishedMemory, Reader, Server
from glue.history.names import ask_topic, page_topic
from glue.history.server import matcher
from glue.history.source import LATE
from glue.history.wire import Page, Request, Start, decode_page

if TYPE_CHECKING:  # imported when used: most programs keep nothing
    from glue.history.healing import Healer
    from glue.storage import Log, Record

Store = Callable[[Sequence["Record"]], None]
"""Stores records that were fetched."""

UNDER_WAY = 4 << 20
"""Bytes published and unacknowledged, up to which pages are sent at once: live messages wait behind no more."""
PACE = 0.005
"""Seconds until the next page while more than that is under way, so that history goes on beside a busy publisher."""
BURST = 8
"""Pages in that time at most; one takes 0.3 ms or more. So half of the time is left for live messages."""
SLICE = 0.002
"""Seconds of a turn that pages are made for, about: then the next turn goes on, and live messages pass between them."""


class Clocks(Protocol):
    """Where the time is read."""

    clock: Callable[[], float]
    unix_time: Callable[[], float]


class History:
    """The history that an endpoint keeps and serves, and its subscriptions to history."""

    def __init__(
        self,
        identity: Named,
        peers: Mapping[str, Peer],
        statistics: Counter[str],
        offers: Offers,
        clocks: Clocks,
        knows: Callable[[str, int, str], bool],
        luck: Random,
        wake: Callable[[], None],
        arrived: Callable[[int], None],
        opened: Callable[[Any], list[Delivery | Missed]],
        started_at: float,
    ) -> None:
        """`wake` has a turn run soon, from any thread; `arrived` counts messages that came to subscriptions;
        `opened` decodes payloads in a codec; `started_at` is when this endpoint started (Unix seconds)."""
        self._identity = identity
        self._peers = peers
        self._statistics = statistics
        self._offers = offers
        self._clocks = clocks
        self._luck = luck
        self.wake = wake
        self.arrived = arrived
        self.may_read: Callable[[str, str], bool] | None = None  # where rules say what peers may have
        self.opened = opened
        self._started_at = started_at
        self.memory = PublishedMemory()
        self._server = Server(self.memory, knows, statistics)
        self._rooms: dict[HistoryRoom, None] = {}
        self._healers: dict[Log, tuple[Healer, Store]] = {}
        self._poked: list[HistoryRoom] = []
        self._numbers = count(1)
        self._backlog = 0  # bytes, as of the last turn and with the pages since then
        self._next_page = self._burst_ends = 0.0
        self._burst = 0  # pages since the last burst began
        self._goes_on = False  # whether pages are made until the next turn's `SLICE` is over
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock; again in a forked child, where no thread is left to release it."""
        self.lock = RLock()

    # -------------------------------------------------------------------------------------------- readers

    def room(self, pattern: str, start: Start, limit: int, owner: QueueOwner, local: bool = True) -> HistoryRoom:
        """The queue of a new subscription that begins with history; not `local`: without what is published here."""
        with self.lock:
            id, luck = self._identity.endpoint_id, Random(self._luck.getrandbits(64))
            began = self._clocks.clock(), self._clocks.unix_time()
            reader = Reader(pattern, start, limit, self._numbers.__next__, luck, self._statistics, id, began)
            reader.local = local
            room = HistoryRoom(reader, self, owner, self._clocks.clock)
            self._rooms[room] = None
            for peer, interests in self._offers.interests.items():
                self._offer(reader, peer, interests)
            if began[1] >= self._started_at + LATE:
                reader.has_met_all()
            return room

    def heal(
        self, log: Log, store: Store, pattern: str, is_mine: Callable[[str], bool], has_room: Callable[[], bool],
        keeps: Callable[[str, str], bool],
    ) -> None:  # fmt: skip
        """Fetch what a log misses of a pattern from other keepers, and from publishers that remember.

        `store` stores records; `keeps` tells whether a peer is to keep a topic.
        """
        with self.lock:
            self._server.keeps, self._server.compared = keeps, self._compared
            if log not in self._healers:
                from glue.history.healing import Healer

                luck = Random(self._luck.getrandbits(64))
                healer = Healer(log, is_mine, has_room, self._numbers.__next__, luck, self._statistics)
                self._healers[log] = healer, store
            healer = self._healers[log][0]
            healer.patterns[pattern] = matcher(pattern)
            for peer, interests in self._offers.interests.items():
                self._meet(healer, peer, [*interests])

    def heal_no_more(self, log: Log, pattern: str) -> None:
        """A pattern is kept in a log no more."""
        with self.lock:
            if log in self._healers:
                self._healers[log][0].patterns.pop(pattern, None)

    def _compared(self, now: float, pattern: str) -> int:
        """Of how many other keepers of a pattern this one has everything, in all of its logs."""
        parts = [healer.compared(now, pattern) for healer, _ in self._healers.values()]
        return len({*chain.from_iterable(good for good, _ in parts)} - {*chain.from_iterable(bad for _, bad in parts)})

    def hurry(self) -> None:
        """A keeper misses something: compare soon."""
        with self.lock:
            for healer, _ in self._healers.values():
                healer.hurry(self._clocks.clock())
        self.wake()

    def _meet(self, healer: Healer, peer: str, interests: Sequence[str]) -> None:
        known = self._peers.get(peer)
        if known is None or peer == self._identity.endpoint_id:
            return
        for interest in interests:
            place, pattern, _ = served_by(interest)
            healer.met(self._clocks.clock(), peer, known.incarnation, known.name, pattern, bool(place))

    def ended(self, room: HistoryRoom) -> None:
        """A subscription was closed."""
        with self.lock:
            self._rooms.pop(room, None)

    def _offer(self, reader: Reader, peer: str, interests: Sequence[str] | dict[str, None]) -> None:
        identity, known = self._identity, self._peers.get(peer)
        if peer == identity.endpoint_id:
            life, name = identity.incarnation, identity.name
        elif known is not None:
            life, name = known.incarnation, known.name
        else:
            return
        now = self._clocks.clock()
        for interest in interests:
            place, pattern, replicas = served_by(interest)
            if not meet(pattern, reader.pattern):
                continue
            if place:
                reader.keepers.offered(now, peer, life, pattern, place, replicas)
            elif reader.local or peer != identity.endpoint_id:
                reader.offered(now, peer, life, name, pattern)

    def changed(self, peer: str, added: Sequence[str], removed: Sequence[str]) -> None:
        """A peer, or this endpoint, serves the history of other interests than before."""
        with self.lock:
            for room in self._rooms:
                for interest in removed:
                    place, pattern, _ = served_by(interest)
                    left = room.reader.keepers.withdrawn if place else room.reader.withdrawn
                    self._collect(room, lambda reader, left=left, pattern=pattern: left(peer, pattern))  # type: ignore[misc]
                self._collect(room, lambda reader: self._offer(reader, peer, added))
            for healer, _ in self._healers.values():
                for interest in removed:
                    place, pattern, _ = served_by(interest)
                    healer.parted(peer, pattern, bool(place))
                self._meet(healer, peer, added)

    def lost(self, news: PeerRemoved) -> None:
        """A peer is gone."""
        with self.lock:
            self._server.forget(news.peer)
            for healer, _ in self._healers.values():
                healer.lost(news.peer)
            for room in self._rooms:
                self._collect(room, lambda reader: reader.lost(news.peer, news.incarnation, news.reason))

    def _collect(self, room: HistoryRoom, act: Callable[[Reader], Any]) -> Any:
        """Let a reader do something, and tell its subscription what came of that."""
        reader = room.reader
        before, waiting = reader.pushed, len(reader.ready)
        result = act(reader)
        if reader.pushed > before:
            self.arrived(reader.pushed - before)
        if len(reader.ready) > waiting:
            self._poked.append(room)
        return result

    def take_pages(self, delivery: Delivery) -> list[HistoryRoom]:
        """Take pages; returns the rooms in which something new waits."""
        now = self._clocks.clock()
        with self.lock:
            for payload in delivery.payloads:
                try:
                    page = decode_page(payload)
                except MalformedError:
                    self._statistics["malformed pages of history"] += 1
                    continue
                peer, life = delivery.publisher_id, delivery.incarnation
                for room in self._rooms:
                    if self._collect(room, lambda reader: reader.page(now, peer, life, page)):  # noqa: B023
                        break
                else:
                    if not self._healed(now, peer, life, page):
                        self._statistics["pages of history not asked for"] += 1
            return self.poked()

    def _healed(self, now: float, peer: str, life: int, page: Page) -> bool:
        """Store what another keeper gave; returns whether it was asked for."""
        for healer, store in self._healers.values():
            records = healer.page(now, peer, life, page)
            if records is not None:
                if records:
                    store(records)
                return True
        return False

    def poked(self) -> list[HistoryRoom]:
        """The rooms in which something new waits, once."""
        with self.lock:
            found, self._poked = self._poked, []
            return found

    # -------------------------------------------------------------------------------------------- serving

    def record(self, now: float, group: Any, expires: float) -> None:
        """Record what was just published; called by topics within a turn."""
        with self.lock:
            self.memory.record(now, group, expires)

    def serve(self, log: Log) -> None:
        """Serve what is in the log of a keeper, too."""
        with self.lock:
            self._server.keep(log)

    def take_requests(self, delivery: Delivery) -> list[Publication]:
        """Take requests for history; returns the pages that can be sent now."""
        with self.lock:
            for payload in delivery.payloads:
                self._server.ask((delivery.publisher_id, delivery.incarnation), payload, self.may_read)
            return self._pages(self._clocks.clock())

    def _pages(self, now: float) -> list[Publication]:
        found: list[Publication] = []
        if now >= self._burst_ends:
            self._burst, self._burst_ends = 0, now + PACE
        began, self._goes_on = self._clocks.clock(), False
        while self._server and self._burst < BURST and (self._backlog < UNDER_WAY or now >= self._next_page):
            self.memory.expire(now)
            answer = self._server.answer(now)
            if answer is not None:
                reader, payload = answer
                self._backlog += len(payload)
                self._next_page = now + PACE
                self._burst += 1
                found.append(self._publication(page_topic(*reader), payload, BULK))
            if self._clocks.clock() - began > SLICE:
                self._goes_on = True
                break
        return found

    def _publication(self, topic: str, payload: bytes, priority: int) -> Publication:
        return Publication(topic, [payload], self._clocks.unix_time(), False, len(payload), priority)

    # --------------------------------------------------------------------------------------------- timers

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds)."""
        with self.lock:
            due = min((room.reader.deadline for room in self._rooms), default=float("inf"))
            due = min([due, *[healer.deadline for healer, _ in self._healers.values()]])
            wait = self._burst_ends if self._burst >= BURST else self._next_page
            if self._goes_on and self._burst < BURST and self._backlog < UNDER_WAY:
                wait = float("-inf")
            return min(due, wait) if self._server else due

    def requests(self, now: float) -> list[Publication]:
        """Requests of readers that are due."""
        with self.lock:
            found: list[tuple[str, Request]] = []
            for room in self._rooms:
                if room.reader.deadline <= now:
                    found += self._collect(room, lambda reader: reader.advance(now))
            for healer, _ in self._healers.values():
                if healer.deadline <= now and (asked := healer.advance(now, self._clocks.unix_time())) is not None:
                    found.append(asked)
            return [self._publication(ask_topic(peer), request.encode(), NORMAL) for peer, request in found]

    def advance(self, now: float, backlog: int) -> list[Publication]:
        """Do what is due, within a turn; returns what to publish."""
        self._backlog = backlog
        with self.lock:
            return [*self.requests(now), *self._pages(now)]

    def note(self, event: Event) -> None:
        """Take news of peers, within a turn."""
        if isinstance(event, PeerInterest):
            self.changed(event.peer, *self._offers.change(event))
        elif isinstance(event, PeerRemoved):
            self._offers.forget(event.peer)
            self.lost(event)
