"""Queues of messages between a subscription and its reader, a handler or an iterator, with a policy for slow readers.

The policy "block" keeps every message and finally stops the publishers (`Kept`). The other policies use a
`MessageBuffer`, bounded by messages and by bytes, and never stop a publisher. In a full buffer, "drop_oldest"
overwrites the oldest message and "drop_newest" refuses the new one. "disconnect" refuses the new message and ends the
subscription.

Gaps are reported in order, before the message that follows. Adjacent gaps are merged by cause, so that their number
is bounded. Each message has exactly one outcome (`glue.endpoint.accounting.OUTCOMES`), which is reported to the owner.
A queue is not thread-safe; its owner guards it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from glue.contract import Delivery, Missed
from glue.endpoint.message import Message, messages, weight
from glue.errors import ConfigurationError

LIMIT = 1024
"""Messages that wait, unless the subscription says otherwise: a second of a fast sensor."""

BLOCK = "block"
CAUSES = {"drop_oldest": "overwritten", "drop_newest": "refused", "disconnect": "disconnected"}
"""The policies that drop, and the cause that their gaps have; also the outcome of what they drop."""


class QueueOwner(Protocol):
    """The two functions of `glue.endpoint.owner.SubscriptionOwner` that a queue calls."""

    def handled(self, delivery: Delivery, /) -> None:
        """Stop counting the bytes of a delivery: it was read, or will never be."""

    def settled(self, outcome: str, count: int, /) -> None:
        """Count messages that came to this end."""


Clock = Callable[[], float]
"""Monotonic seconds."""


def waiting_room(
    policy: str, limit: int | None, bytes_limit: int, owner: QueueOwner, clock: Clock
) -> Kept | MessageBuffer:
    """Where messages wait under this policy; raises ConfigurationError for a policy or a limit that is none."""
    if policy == BLOCK:
        if limit is not None:
            raise ConfigurationError(f'limit={limit!r}: with policy="block" the setting receive_limit is the limit')
        return Kept(owner, clock)
    if policy not in CAUSES:
        raise ConfigurationError(f"policy={policy!r}: expected one of {', '.join((BLOCK, *CAUSES))}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ConfigurationError(f"limit={limit!r}: expected a number of messages, at least 1")
    return MessageBuffer(policy, limit or LIMIT, bytes_limit, owner, clock)


class Kept:
    """Everything that came, by reference to whole deliveries, which go on counting towards `receive_limit`."""

    __slots__ = ("_clock", "_closed", "_delivery", "_expired", "_owner", "_read", "_waiting", "owner")

    cause = ""
    """It drops nothing."""

    def __init__(self, owner: QueueOwner, clock: Clock) -> None:
        self._owner = self.owner = owner
        self._clock = clock
        self._closed = False
        self._waiting: deque[Delivery | Missed] = deque()
        self._delivery: Delivery | None = None  # the one that is being read
        self._read = self._expired = 0  # messages of it

    def __bool__(self) -> bool:
        """Whether anything can be taken."""
        return self._delivery is not None or bool(self._waiting)

    def put(self, delivery: Delivery) -> int:
        """Take what came; returns 0, as nothing is ever dropped."""
        delivery.to_owned()
        self._waiting.append(delivery)
        return 0

    def put_gap(self, missed: Missed) -> None:
        """Note what is missing before what comes next."""
        self._waiting.append(missed)

    def take(self) -> Message | Missed | None:
        """The next message that has not expired, or what is missing before it; None if there is neither."""
        while True:
            delivery = self._delivery
            if delivery is None:
                if not self._waiting:
                    return None
                first = self._waiting.popleft()
                if isinstance(first, Missed):
                    return first
                delivery = self._delivery = first
                self._read = self._expired = 0
            place = self._read
            self._read = place + 1
            expired = delivery.expires < inf and delivery.expires < self._clock()
            if expired:
                self._expired += 1
            if place + 1 == len(delivery.payloads):
                self._finish(delivery)
            if not expired:
                return Message(delivery.payloads[place], delivery.sequence + place, delivery)

    def _finish(self, delivery: Delivery) -> None:
        self._delivery = None
        if not self._closed:
            self._settle_read()
            self._owner.handled(delivery)

    def _settle_read(self) -> None:
        self._owner.settled("handled", self._read - self._expired)
        self._owner.settled("expired", self._expired)

    def close(self) -> None:
        """Close the queue: account for waiting messages as unread and release them; they can still be taken."""
        self._closed = True
        if self._delivery is not None:
            self._settle_read()
            self._owner.settled("unread", len(self._delivery.payloads) - self._read)
            self._owner.handled(self._delivery)
        for delivery in self._waiting:
            if isinstance(delivery, Delivery):
                self._owner.settled("unread", len(delivery.payloads))
                self._owner.handled(delivery)


class MissedTally:
    """A count of messages missing for one cause; topic and publisher are empty once several are involved."""

    __slots__ = ("cause", "count", "publisher", "publisher_id", "topic")

    def __init__(self, cause: str, like: Message | Missed) -> None:
        self.cause = cause
        self.count = 0
        self.topic = like.topic
        self.publisher = like.publisher
        self.publisher_id = like.publisher_id

    def missed(self) -> Missed:
        """Return this tally as a `Missed` event."""
        return Missed(self.topic, self.publisher, self.publisher_id, self.count, self.cause, ())


Tallies = dict[str, MissedTally]
"""By cause."""


def _add(tallies: Tallies, cause: str, like: Message | Missed, count: int) -> None:
    tally = tallies.get(cause)
    if tally is None:
        tally = tallies[cause] = MissedTally(cause, like)
    tally.count += count
    if tally.topic != like.topic:
        tally.topic = ""
    if tally.publisher_id != like.publisher_id:
        tally.publisher = tally.publisher_id = ""


class MessageBuffer:
    """The latest, or the first, messages: at most `limit`, and at most so many bytes unless it is one alone."""

    __slots__ = (
        "_ahead", "_behind", "_bytes_limit", "_clock", "_closed", "_limit", "_overwrites", "_owner", "_size",
        "_waiting", "cause",
    )  # fmt: skip

    def __init__(self, policy: str, limit: int, bytes_limit: int, owner: QueueOwner, clock: Clock) -> None:
        self.cause = CAUSES[policy]
        self._overwrites = policy == "drop_oldest"
        self._limit = limit
        self._bytes_limit = bytes_limit
        self._owner = owner
        self._clock = clock
        self._closed = False
        self._size = 0  # bytes waiting
        self._waiting: deque[tuple[Message, int, Tallies | None]] = deque()  # with weight, and what is missing before
        self._ahead: Tallies = {}  # missing before the first that waits
        self._behind: Tallies = {}  # missing after the last

    def __bool__(self) -> bool:
        """Whether anything can be taken."""
        return bool(self._waiting or self._ahead or self._behind)

    def put(self, delivery: Delivery) -> int:
        """Take what came; returns how many messages, of these or of those before, were dropped for it."""
        dropped = 0
        for message in messages(delivery):
            size = weight(message)
            while not self._has_room(size) and self._overwrites:
                self._drop_first()
                dropped += 1
            if not self._has_room(size):
                dropped = delivery.sequence + len(delivery.payloads) - message.sequence
                _add(self._behind, self.cause, message, dropped)
                break
            self._waiting.append((message, size, self._behind or None))
            self._size += size
            if self._behind:
                self._behind = {}
        self._owner.settled(self.cause, dropped)
        return dropped

    def put_gap(self, missed: Missed) -> None:
        """Note what is missing before what comes next."""
        _add(self._behind, missed.cause, missed, missed.count)

    def take(self) -> Message | Missed | None:
        """The next message that has not expired, or what is missing before it; None if there is neither."""
        while True:
            if self._ahead:
                return self._ahead.pop(next(iter(self._ahead))).missed()
            if not self._waiting:
                if not self._behind:
                    return None
                self._ahead, self._behind = self._behind, {}
                continue
            message, size, before = self._waiting[0]
            if before is not None:
                self._waiting[0] = message, size, None
                self._ahead = before
                continue
            self._waiting.popleft()
            self._size -= size
            expired = message.expired(self._clock())
            if not self._closed:
                self._owner.settled("expired" if expired else "handled", 1)
            if not expired:
                return message

    def close(self) -> None:
        """Close the queue: account for waiting messages as unread; they can still be taken."""
        self._closed = True
        self._owner.settled("unread", len(self._waiting))

    def _has_room(self, size: int) -> bool:
        waiting = len(self._waiting)
        return not waiting or (waiting < self._limit and self._size + size <= self._bytes_limit)

    def _drop_first(self) -> None:
        message, size, before = self._waiting.popleft()
        self._size -= size
        for tally in (before or {}).values():
            _add(self._ahead, tally.cause, tally.missed(), tally.count)
        _add(self._ahead, self.cause, message, 1)


class PokedRoom:
    """A queue that gets messages another way than by `put`, and tells its subscription."""

    cause = ""
    """It drops nothing."""

    def __init__(self) -> None:
        self.poke: Callable[[], Any] = lambda: None  # called when messages came another way than by `put`

    def __bool__(self) -> bool:
        """Whether anything can be taken."""
        raise NotImplementedError

    def put(self, delivery: Delivery) -> int:
        """Take what came live; returns the number of messages dropped."""
        raise NotImplementedError

    def put_gap(self, missed: Missed) -> None:
        """Take news of a gap in what comes live."""
        raise NotImplementedError

    def take(self) -> Message | Missed | None:
        """The next message, or what is missing before it; None if there is neither."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the queue, and account for what waits."""
        raise NotImplementedError
