"""The sources of streams: the door's ring of recent messages, before it the door's log, or history from a time on.

A client that was cut off says the token of the last message that it has. If the ring has had its patterns all the time
since, the client goes on there. Otherwise it goes on from the door's log if that keeps its patterns: after a restart of
the door, or when the ring is too short. Then messages of the last second may come twice, but none of the publisher and
topic of the last message. If the log does not keep the patterns either, the client is told that it may miss messages.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

import orjson
from aiohttp import web

from glue.aio import Subscription
from glue.endpoint.message import Message
from glue.errors import GlueError
from glue.gateway.http.door import Door
from glue.gateway.http.feed import described
from glue.gateway.http.lanes import matcher
from glue.gateway.http.places import LOGGED, Token, stream_key, token_of
from glue.gateway.http.records import described_record
from glue.gateway.http.routes import flag, start_time
from glue.gateway.http.signing import Item
from glue.storage import Log

TOGETHER: Final = 256
"""Events that are written at once."""
READ_SIZE: Final = 256 << 10
"""Bytes of payload that are read from the log at once."""
STREAMS: Final = 1_024
"""Streams whose numbers are known from the log, so that nothing of them comes twice."""
SETTLED: Final = 5.0
"""Seconds after which no message of the log comes from the ring any more, and none of history after the last one."""

Events = list[tuple[str, bytes]]


class LogPart:
    """The log's messages of some patterns, from a place on to its present end."""

    def __init__(self, log: Log, patterns: list[str], token: Token) -> None:
        self.seen: dict[str, int] = {token.stream: token.sequence + 1}
        """The next number of each stream, the latest streams last."""
        self._log = log
        self._offset = token.place
        matches = [matcher(pattern) for pattern in patterns]
        self._wants = lambda topic: any(one(topic) for one in matches)

    async def get(self) -> Events:
        """Return the next events; none at the end. Raises StorageError."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Events:
        log, events = self._log, Events()
        while not events and self._offset < log.durable:
            reading = log.read(self._wants, self._offset, READ_SIZE)
            for at, record in reading.records:
                key = stream_key(record.origin, record.life, record.topic)
                after = self.seen.pop(key, 0)
                for place in range(max(0, after - record.sequence), len(record.payloads)):
                    item = Item(at + place, record, place)
                    token = Token(LOGGED, 0, log.id, item.offset + 1, key, item.sequence)
                    events.append((token.text, orjson.dumps(described_record(item, log.id))))
                self.seen[key] = max(after, record.stop)
                if len(self.seen) > STREAMS:
                    del self.seen[next(iter(self.seen))]
            self._offset = max(reading.next, self._offset + 1)
        return events


class TailSource:
    """The messages of some patterns from the door's ring."""

    def __init__(self, door: Door, patterns: list[str], token: str | None, with_values: bool) -> None:
        self._door = door
        self._patterns = patterns
        self._event = asyncio.Event()
        self._first: Events = []
        self._seen: dict[str, int] = {}
        self._settled_at = 0.0
        feed, journal = door.feed, door.delivering.journal
        self._is_kept = journal.covers(patterns)
        cursor, self._part = (None, None) if token is None else self._places(token)
        self.is_lost = token is not None and cursor is None
        """Whether the client may have missed any number of messages."""
        feed.want(patterns)
        self._place = feed.tail.open(patterns, cursor, self._event.set)
        self.position = token if self._part is not None and token else self._token(self._place.cursor, "", 0)
        """What a client says that is cut off before its first message."""
        if with_values and cursor is None:
            self._first = [("", text) for text in feed.last_values(patterns)]

    def _places(self, text: str) -> tuple[int | None, LogPart | None]:
        """Return where in the ring a client goes on, None for nowhere; and what it gets from the log before that."""
        feed, recent, token = self._door.feed, self._door.delivering.journal.recent, token_of(text)
        if token is None:
            return None, None
        is_in_ring = token.ring == feed.tail.id and feed.listened(self._patterns, token.next)
        is_in_log = self._is_kept and token.log == recent.id and token.place >= recent.first
        if is_in_ring and (token.next >= feed.tail.first or not is_in_log):
            return token.next, None
        return (feed.tail.first, LogPart(recent.log, self._patterns, token)) if is_in_log else (None, None)

    def _token(self, after: int, stream: str, sequence: int, place: int | None = None) -> str:
        tail, journal = self._door.feed.tail, self._door.delivering.journal
        if not self._is_kept:
            return Token(tail.id, after).text
        return Token(
            tail.id, after, journal.recent.id, journal.settled if place is None else place, stream, sequence
        ).text  # fmt: skip

    async def get(self, timeout: float) -> Events | None:
        """Return the next events; None if there are none for so long. Raises StorageError."""
        if self._first:
            events, self._first = self._first[:TOGETHER], self._first[TOGETHER:]
            return events
        tail = self._door.feed.tail
        if self._part is not None:
            if events := await self._part.get():
                return events
            self._seen, self._part = self._part.seen, None
            self._settled_at = time.monotonic() + SETTLED
            tail.skip(self._place)
        while True:
            if events := [
                (self._token(offset + 1, entry.stream, entry.sequence, entry.place), entry.text)
                for offset, entry in tail.read(self._place, TOGETHER)
                if not self._seen or entry.sequence >= self._seen.get(entry.stream, 0)
            ]:
                if self._seen and time.monotonic() > self._settled_at:
                    self._seen = {}
                return events
            if not self._place.is_idle:
                continue
            self._event.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._event.wait()
            except TimeoutError:
                return None

    def take_missed(self) -> int:
        """Return how many messages left the ring unread since the last call."""
        missed, self._place.missed = self._place.missed, 0
        return missed

    def close(self) -> None:
        """Need the messages no more."""
        self._door.feed.tail.close(self._patterns, self._place)
        self._door.feed.release(self._patterns)


class HistorySource:
    """The messages of some patterns from a time on: first what publishers and keepers remember, then what comes.

    `position` is where a client goes on. History comes from several endpoints, and not in the order of time. So the
    position stays at the beginning until nothing has come for a while, and messages after it may come twice.
    """

    is_lost = False

    def __init__(self, door: Door, patterns: list[str], since: float) -> None:
        at = min(since, time.time() - 1e-3)
        self.position = f"t.{at:.6f}"
        self._latest = time.monotonic()  # when a message came
        start = datetime.fromtimestamp(at, UTC)
        self._subscriptions: list[Subscription] = []
        self._matches = [matcher(pattern) for pattern in patterns]
        self._getting: dict[asyncio.Task[Message], int] = {}  # what is waited for, and the place of its pattern
        try:
            for pattern in patterns:
                self._subscriptions.append(door.endpoint.subscribe(pattern, start=start))
        except GlueError:  # what nobody reads would hold up its publishers
            self.close()
            raise

    async def get(self, timeout: float) -> Events | None:
        """Return the next events; None if there are none for so long."""
        until = time.monotonic() + timeout
        while (left := until - time.monotonic()) > 0:
            for place in set(range(len(self._subscriptions))).difference(self._getting.values()):
                self._getting[asyncio.create_task(self._subscriptions[place].get())] = place
            done, _ = await asyncio.wait(self._getting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            found = [(self._getting.pop(task), task.result()) for task in done]
            events = [self._event(message) for place, message in found if self._is_first(place, message.topic)]
            if events:
                return events
        return None

    def _is_first(self, place: int, topic: str) -> bool:
        """Whether no earlier pattern gives the messages of a topic."""
        return not any(matches(topic) for matches in self._matches[:place])

    def _event(self, message: Message) -> tuple[str, bytes]:
        now = time.monotonic()
        if now > self._latest + SETTLED:  # all that came before was given out
            self.position = f"t.{time.time() - (now - self._latest) - SETTLED:.6f}"
        self._latest = now
        return self.position, orjson.dumps(described(message))

    def take_missed(self) -> int:
        """Gaps are told by the endpoint, in its log."""
        return 0

    def close(self) -> None:
        """Need the messages no more."""
        for task in self._getting:
            task.cancel()
        for subscription in self._subscriptions:
            subscription.close()


def source_of(door: Door, request: web.Request, patterns: list[str]) -> TailSource | HistorySource:
    """Return the source of a stream: where `Last-Event-ID`, `since` or neither says. Raises ProblemError."""
    token = request.headers.get("last-event-id") or request.query.get("last-event-id")
    since = request.query.get("since")
    if token is not None and token.startswith("t."):
        return HistorySource(door, patterns, start_time(token[2:]))
    if token is None and since is not None:
        return HistorySource(door, patterns, start_time(since))
    return TailSource(door, patterns, token, flag(request, "retained"))
