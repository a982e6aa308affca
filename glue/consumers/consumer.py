"""A consumer at its home: reads the log, gives each message to one member, and moves the position.

The dispatcher of shared subscriptions assigns messages to members. A *share* is an assignment to a member: messages of
one record, with a number that counts up for each member. A member that is silent for SILENT ticks is removed, and
others get its shares. From then on its acknowledgements do not count: only the present member of a share acknowledges.
Therefore each message is committed once, by one member.

If a handler raised, its message comes again after a pause, which doubles each time. No other message waits for this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Any

from glue.consumers.positions import Positions, Stored
from glue.errors import StorageError
from glue.storage import Log, Record, Stream
from glue.topics.index import Index
from glue.topics.shared.dispatcher import Dispatcher

TICK = 0.25
"""Seconds between two looks at the members of a home."""
SILENT = 6
"""Ticks without a word after which a member is removed: 1.5 s, some four of its heartbeats."""
UNREAD = 12
"""Ticks after which a member that has not got what it was sent, and gets nothing more, is removed."""
WINDOW = 8192
"""Messages of a consumer in memory at most: what members have, what waits for one, and what is to be tried again."""
WINDOW_SIZE = 4 << 20
"""Bytes of them at most, a first larger record aside."""
READ, LOOK, READS = 1 << 18, 1 << 16, 8
"""Bytes that one read gives, with members and to see whether anything waits; and reads in a row, a few ms each. What
stores messages waits meanwhile."""
REACH = 256
"""Messages beyond those given away for which `reach` is stored, so that it costs one sync for as many."""
PAUSE, PAUSE_LIMIT = 1.0, 60.0
"""Seconds until a message whose handler raised comes again: at first, and at most."""
MEMBERS = 1024
"""Members of one consumer at most, of some 2 kB each."""

Left = Callable[[Stream, int, int], Iterator[tuple[int, int]]]
"""Tells which of the messages of a stream, from a number to before another, are not done."""


class Content:
    """Messages of one record, as the content of a job. `attempts`: how often a handler raised."""

    __slots__ = ("attempts", "is_again", "offset", "record")

    def __init__(self, offset: int, record: Record, is_again: bool, attempts: int = 0) -> None:
        self.offset = offset
        self.record = record
        self.is_again = is_again
        self.attempts = attempts

    @property
    def count(self) -> int:
        """How many messages it has."""
        return len(self.record.payloads)

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.record.size

    def part(self, start: int, stop: int) -> Content:
        """The messages from `start` to before `stop`."""
        first = self.record.sequence
        record = self.record.part(first + start, first + stop)
        return Content(self.offset + start, record, self.is_again, self.attempts)


class Share:
    """A share at a member: `next` is the number of the first unfinished message, counted from 1."""

    __slots__ = ("content", "next")

    def __init__(self, content: Content) -> None:
        self.content = content
        self.next = 1


class Member:
    """A member as its home sees it."""

    __slots__ = ("address", "got", "shares", "silent", "stalled", "total")

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address  # endpoint id and life
        self.shares: dict[int, Share] = {}
        self.total = self.got = 0  # shares sent to this member, and how many have arrived
        self.silent = self.stalled = 0  # ticks


class Consumer:
    """The members and the position of one consumer."""

    def __init__(self, id: str, positions: Positions, log: Log, statistics: Counter[str]) -> None:
        """`positions` has the state; `about` has name, pattern, epoch and order."""
        self.id = id
        self.members: dict[str, Member] = {}
        self.stuck_since = inf
        self.is_stuck = False
        self.failures = 0
        self.goes_on = False  # whether there may be more to read now
        self.rests = False  # whether its home may not read for it, until the next tick at least
        self.retry_at = -inf  # when the log is read again, after that failed
        self.sent = 0  # the offset after the last message that was given to a member
        self.left: Left | None = None  # what is not done of a stream, where several keepers answer for the consumer
        self.on_done: Callable[[Stream, int, int], None] | None = None  # told likewise of what is done
        self._positions = positions
        self._log = log
        self._statistics = statistics
        self._index: Index[str] = Index()
        self._index.add(self.pattern, self.pattern)
        self._old = min(self.stored.reach, log.end)  # offsets below it may have been given away in an earlier life
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        """Read on from the position, with no member."""
        self.members = {}
        self._dispatcher = Dispatcher(Counter())
        self._later: list[tuple[float, int, Content]] = []
        self._later_size = 0
        self._cursor = self.position.next
        self._seen = -1  # the position at which it was stuck, perhaps

    # ----------------------------------------------------------------------------------------------- state

    @property
    def stored(self) -> Stored:
        """The stored state."""
        return self._positions.stored[self.id]

    @property
    def position(self) -> Any:
        """The position."""
        return self.stored.position

    @property
    def name(self) -> str:
        """The consumer's name."""
        return str(self.stored.about["name"])

    @property
    def pattern(self) -> str:
        """The topics that it is for."""
        return str(self.stored.about["pattern"])

    @property
    def epoch(self) -> int:
        """The epoch; older ones are refused."""
        return int(self.stored.about["epoch"])

    def wants(self, topic: str) -> bool:
        """Whether a topic matches its pattern."""
        return bool(self._index.find(topic))

    @property
    def in_memory(self) -> int:
        """Messages that were read, and are not done."""
        return self._dispatcher.count + len(self._later)

    # --------------------------------------------------------------------------------------------- members

    def join(self, member: str, address: tuple[str, int]) -> bool:
        """Take a member in; False if there are too many. One that is there stays as it is."""
        if member not in self.members:
            if len(self.members) >= MEMBERS:
                return False
            self.members[member] = Member(address)
            self._dispatcher.join(member)
        return True

    def leave(self, member: str) -> None:
        """Remove a member; others get what it is not done with."""
        if self.members.pop(member, None) is not None:
            self._dispatcher.leave(member)

    def here(self, member: str, got: int) -> bool:
        """A member is alive, and has so many shares; False if it is none."""
        known = self.members.get(member)
        if known is None:
            return False
        known.silent = 0
        if got > known.got:
            known.got, known.stalled = min(got, known.total), 0
        return True

    def tick(self) -> list[str]:
        """Count a tick; returns the members that have to be removed."""
        found = []
        for name, member in self.members.items():
            member.silent += 1
            member.stalled = member.stalled + 1 if member.got < member.total else 0
            if member.silent > SILENT or member.stalled > UNREAD:
                found.append(name)
        return found

    # ------------------------------------------------------------------------------------------- messages

    def feed(self, now: float) -> None:
        """Read what there is room for, in a few steps: much may be done already. Raises StorageError."""
        while self._later and self._later[0][0] <= now:
            content = heappop(self._later)[2]
            self._later_size -= content.size
            self._offer(content)
        if self._cursor < self._log.first:
            self._skip(self._log.first)
        self.goes_on = self.rests = False
        for _ in range(READS):
            if not (room := self._room()):
                break
            records, stop = self._log.read(self.wants, self._cursor, room)
            for offset, record in records:
                self._pass(offset)
                end = offset + len(record.payloads)
                for first, last in self._left(offset, end, record):
                    part = record.part(record.sequence + first - offset, record.sequence + last - offset)
                    self._offer(Content(first, part, first < self._old))
                self._cursor = end
            if stop > self._cursor:
                self._pass(stop)
            if not records:
                break
        else:
            self.goes_on = True

    def _left(self, offset: int, end: int, record: Record) -> list[tuple[int, int]]:
        """The ranges of offsets of a record that are not done."""
        if self.left is not None:
            shift, begin = offset - record.sequence, offset
            for first, last in [*self.left(record.stream, record.sequence, record.stop), (end - shift, end - shift)]:
                self.position.done(begin, first + shift)
                begin = last + shift
        return [*self.position.left(offset, end)]

    def _room(self) -> int:
        """Bytes that may be read: while there is no member, no more than shows whether anything waits."""
        if not self.members:
            return 0 if self.in_memory else LOOK
        size = self._dispatcher.size + self._later_size
        return 0 if self.in_memory >= WINDOW else max(0, min(WINDOW_SIZE - size, READ))

    def _pass(self, offset: int) -> None:
        """Nothing from the cursor to an offset is for this consumer."""
        if offset > self._cursor:
            self.position.done(self._cursor, offset)
            self._cursor = offset

    def _skip(self, offset: int) -> None:
        """Retention has removed messages below an offset before they were read."""
        lost = sum(stop - first for first, stop in self.position.left(self._cursor, offset))
        self._statistics["offsets that retention removed before a consumer read them"] += lost
        self.stored.about["passed"] = self.stored.about.get("passed", 0) + lost
        self._pass(offset)

    def _offer(self, content: Content) -> None:
        key = content.record.topic if self.stored.about.get("ordered") else None
        self._dispatcher.offer(content, content.count, key)

    def assign(self, now: float) -> Iterator[tuple[str, int, Content]]:
        """Assign messages; yield each member, the share's number, and the messages.

        Store `reach` before the messages leave.
        """
        for member, job in self._dispatcher.assign(now):
            known = self.members[member]
            known.total += 1
            content: Content = job.content
            content.is_again = content.is_again or job.is_again
            known.shares[known.total] = Share(content)
            self._dispatcher.sent(now, member, known.total, 1, job)
            end = content.offset + content.count
            self.sent = max(self.sent, end)
            if end > self.stored.reach:
                self._positions.reach(self.id, end + REACH)
            yield member, known.total, content

    def done(self, now: float, member: str, number: int, first: int, last: int) -> bool:
        """A member is done with messages of a share, which it handles in order; False if it does not have them."""
        known = self.members.get(member)
        share = known.shares.get(number) if known is not None else None
        if known is None or share is None or first != share.next or last > share.content.count:
            return False
        self._dispatcher.acknowledge(now, member, number, first, last)
        offset, record = share.content.offset, share.content.record
        self._positions.done(self.id, offset + first - 1, offset + last)
        if self.on_done is not None:
            self.on_done(record.stream, record.sequence + first - 1, record.sequence + last)
        self._after(known, number, share, last)
        return True

    def failed(self, now: float, member: str, number: int, first: int, last: int) -> bool:
        """The handler of a member raised: its messages come again later. False if it does not have them."""
        known = self.members.get(member)
        share = known.shares.get(number) if known is not None else None
        if known is None or share is None or first != share.next or last > share.content.count:
            return False
        self._dispatcher.acknowledge(now, member, number, first, last)
        for place in range(first - 1, last):
            part = share.content.part(place, place + 1)
            pause = min(PAUSE * 2.0 ** min(part.attempts, 10), PAUSE_LIMIT)
            part.attempts += 1
            part.is_again = True
            self._number += 1
            self._later_size += part.size
            heappush(self._later, (now + pause, self._number, part))
            self.failures += 1
        self._after(known, number, share, last)
        return True

    @staticmethod
    def _after(member: Member, number: int, share: Share, last: int) -> None:
        share.next = last + 1
        if share.next > share.content.count:
            del member.shares[number]

    # ------------------------------------------------------------------------------------------- outlook

    @property
    def deadline(self) -> float:
        """When messages are to be read, or to be tried again."""
        if self.rests:
            return inf
        if self.goes_on:
            return -inf
        return self._later[0][0] if self._later else inf

    @property
    def is_behind(self) -> bool:
        """Whether any message waits, or is being handled."""
        return self.in_memory > 0 or self._cursor < self._log.durable

    def look(self, now: float, limit: float) -> bool:
        """Whether the oldest message has become stuck: nothing moved for `limit` seconds although it waits."""
        moved, self._seen = self.position.next != self._seen, self.position.next
        if not self.is_behind:
            self.stuck_since, self.is_stuck = inf, False
            return False
        if moved or self.stuck_since == inf:  # it waits since now, however long nothing came before
            self.stuck_since, self.is_stuck = now, False
            return False
        if self.is_stuck or now - self.stuck_since < limit:
            return False
        self.is_stuck = True
        return True

    def lag(self) -> int:
        """Messages that wait or are being handled: all in the log that match the pattern. Reads what is unread."""
        count, offset = self.in_memory, self._cursor
        while offset < self._log.durable:
            records, stop = self._log.read(self.wants, offset)
            count += sum(len(record.payloads) for _, record in records)
            if stop <= offset:
                break
            offset = stop
        return count

    def oldest(self) -> tuple[str, float] | None:
        """The topic and the time of publishing of the oldest message that is not done; None if there is none."""
        try:
            records, _ = self._log.read(self.wants, self.position.next, 1)
        except StorageError:
            return None
        return (records[0][1].topic, records[0][1].published_at) if records else None

    def describe(self, now: float, keeper: str) -> dict[str, Any]:
        """Describe the consumer; `lag` is -1 if the log cannot be read."""
        try:
            lag = self.lag()
        except StorageError:
            lag = -1
        oldest = self.oldest() if lag else None
        return {
            "name": self.name, "pattern": self.pattern, "keeper": keeper, "lag": lag, "epoch": self.epoch,
            "next": self.position.next, "members": [*self.members], "failures": self.failures,
            "passed": self.stored.about.get("passed", 0),
            "still": max(0.0, now - self.stuck_since) if self.stuck_since < inf else 0.0,
            "stuck": self.is_stuck, "oldest": list(oldest) if oldest else None,
        }  # fmt: skip

    def move(self, stored: Stored) -> None:
        """Go on from another position, with a new epoch; members have to join again."""
        self._positions.put(self.id, stored)
        self._old = 0
        self._begin()
