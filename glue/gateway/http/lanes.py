"""The state of one subscription's deliveries: its position in the log, and the few messages under way.

Waiting messages are in the log and nowhere else: a lane holds a position, at most `parallel` messages under way, and
while the subscriber answers, a part of the log that was read ahead. After a failure, a lane holds small messages only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import ACTIVE, Subscription
from glue.storage import Reading, Record, Stream
from glue.topics.index import Index

RETRIES: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds to the next attempt; the last one repeats."""
KEPT_PAYLOAD: Final = 1_024
"""Bytes of a payload that a failing lane holds; a larger one is read again."""
HISTORY: Final = 5
"""Attempts that a lane remembers for people: some 200 bytes each."""
STREAMS: Final = 1_024
"""Streams whose numbers a lane knows for its next owner: with the oldest forgotten, some messages come twice there."""
SEEN: Final = 128 << 10
"""Characters of topics in a stored position: 1,024 topics of 128; a value of a model holds six times as many bytes."""
SKEW: Final = 60.0
"""Seconds by which clocks of publishers may differ, when another door goes on by time."""

Position = dict[str, Any]
"""A position as it is stored: log, offset, since (Unix seconds), seen ([origin, life, topic, next number] each)."""


def retry_delay(failures: int, luck: float) -> float:
    """Return the seconds after the n-th failure, with a jitter of a fifth; `luck` is between 0 and 1."""
    return min(RETRIES[min(failures, len(RETRIES)) - 1] * (0.8 + 0.4 * luck), RETRIES[-1])


class Slot:
    """A message that is being delivered, and how that goes."""

    __slots__ = (
        "attempts", "began", "due", "is_burying", "is_doubtful", "is_flying", "item", "offset", "reason", "turn_at",
    )  # fmt: skip

    def __init__(self, offset: int, item: Item, now: float) -> None:
        self.offset = offset
        self.item: Item | None = item  # None: to be read again
        self.attempts = 0
        self.began = self.due = now
        self.turn_at = inf
        """When an attempt whose end is uncertain may begin; inf while no such time is reserved."""
        self.is_flying = self.is_burying = self.is_doubtful = False
        self.reason = ""


class Lane:
    """The deliveries of one subscription, or the replay of its dead letters."""

    __slots__ = (
        "alerted", "begins", "buffer", "cursor", "entered", "failing_since", "failures", "history", "is_idle", "limit",
        "next_at", "position", "queued_at", "read_to", "seen", "since", "skips", "slots", "subscription", "topics",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, position: int, since: float, limit: int | None = None) -> None:
        """`limit` is the offset at which a replay ends."""
        self.subscription = subscription
        self.topics = matcher(subscription.topic)
        self.position = self.cursor = self.read_to = position
        self.limit = limit
        self.since = since
        self.seen: dict[Stream, int] = {}
        self.skips: dict[Stream, int] | None = None
        """What another door delivered: to be left out when this one reads from an earlier place."""
        self.begins = -inf
        self.entered = 0
        """The end of the log when the lane came: much of what is below was delivered, and is passed over quickly."""
        self.is_idle = False
        """Whether everything up to the end of the log was looked at."""
        self.buffer: deque[tuple[int, Record]] = deque()
        self.slots: dict[int, Slot] = {}
        self.failures = 0
        self.failing_since = inf
        self.alerted = False
        self.next_at = -inf
        self.queued_at = inf
        self.history: deque[dict[str, Any]] = deque(maxlen=HISTORY)

    @property
    def is_active(self) -> bool:
        """Whether anything is to be delivered."""
        return self.subscription.state == ACTIVE

    @property
    def has_room(self) -> bool:
        """Whether one more message may be under way."""
        most = 1 if self.failures else self.subscription.parallel
        return len(self.slots) < most

    def next_item(self) -> Item | None:
        """Take the next message that was read ahead."""
        while self.buffer:
            offset, record = self.buffer[0]
            self.cursor = max(self.cursor, offset)
            place = self.cursor - offset
            self.cursor += 1
            if place + 1 >= len(record.payloads):
                self.buffer.popleft()
                if not self.buffer:
                    self.cursor = max(self.cursor, self.read_to)
            if self.skips is None or not self._is_skipped(record, place):
                return Item(offset + place, record, place)
        self.cursor = max(self.cursor, self.read_to)
        return None

    def fill(self, reading: Reading) -> None:
        """Hold records that were just read from the log, to be delivered in order."""
        self.buffer.extend(reading.records)
        self.read_to = reading.next

    def release(self) -> None:
        """Hold no more than a failing lane may."""
        self.buffer.clear()
        self.read_to = self.cursor
        for slot in self.slots.values():
            if slot.item is not None and len(slot.item.payload) > KEPT_PAYLOAD and not slot.is_flying:
                slot.item = None
            elif slot.item is not None and len(slot.item.record.payloads) > 1:
                record, place = slot.item.record, slot.item.place
                number = record.sequence + place
                slot.item = Item(slot.offset, record.part(number, number + 1), 0)

    def settle(self, slot: Slot, portable: bool) -> bool:
        """A message is delivered, or given up for good; returns whether the position has moved."""
        del self.slots[slot.offset]
        if slot.item is not None:
            record = slot.item.record
            self.since = max(self.since, record.published_at)
            if portable:
                self._note(record.stream, slot.item.sequence + 1)
        return self.move()

    def move(self) -> bool:
        """Move the position up to the oldest message that is not settled; returns whether it has moved."""
        before = self.position
        self.position = min(self.slots, default=self.cursor)
        return self.position != before

    def stored(self, log: str) -> Position:
        """Return the position as it is stored."""
        seen: list[list[Any]] = []
        left = SEEN
        for stream, stop in reversed(self.seen.items()):
            left -= len(stream.topic)
            if left < 0:
                break
            seen.append([*stream, stop])
        seen.reverse()
        return {"log": log, "offset": self.position, "since": self.since, "seen": seen}

    def _note(self, stream: Stream, stop: int) -> None:
        known = self.seen.pop(stream, 0)
        self.seen[stream] = max(known, stop)
        if len(self.seen) > STREAMS:
            del self.seen[next(iter(self.seen))]

    def _is_skipped(self, record: Record, place: int) -> bool:
        assert self.skips is not None
        stop = self.skips.get(record.stream)
        if stop is not None:
            return record.sequence + place < stop
        return record.published_at < self.begins


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a topic matches a pattern, as a function."""
    if "+" not in pattern and "#" not in pattern:
        return pattern.__eq__
    index: Index[str] = Index()
    index.add(pattern, pattern)
    return lambda topic: bool(index.match(topic))


def seen_of(position: Mapping[str, Any]) -> dict[Stream, int]:
    """Return what a stored position says of streams; malformed entries are left out."""
    found = {}
    for entry in position.get("seen", ()):
        if isinstance(entry, list) and len(entry) == 4 and isinstance(entry[3], int):
            found[Stream(str(entry[0]), int(entry[1]), str(entry[2]))] = entry[3]
    return found
