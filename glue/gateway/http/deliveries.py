"""The delivery machine: which message goes to which subscriber now. Time in, "POST this" out; no clock, socket or file.

* Each subscription has a lane: a position in the log and the messages under way. Messages of a lane go one at a time
  and in order, or `parallel` at a time.
* An attempt that fails is made again after 1, 2, 5, 10, 30 s and so on up to 5 minutes, without end unless the
  subscription says `give_up_after`. Then the message becomes a dead letter, and the lane goes on.
* A destination that has not answered, or cannot be connected to, is tried by one lane at a time (`destinations.py`).
* Lanes with a failed last attempt share a part of the connections, so they hold up no other lane.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import replace
from itertools import count
from math import inf
from random import Random
from typing import Final

from glue.errors import GlueError
from glue.gateway.http.destinations import Destinations
from glue.gateway.http.guard import destination
from glue.gateway.http.items import Attempt, Burial, Event, Outcome, Source
from glue.gateway.http.lanes import SKEW, Lane, Position, Slot, retry_delay, seen_of
from glue.gateway.http.limits import Limits
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import GONE, Subscription
from glue.storage import Record
from glue.topics.index import Index

READ_AHEAD: Final = 64 << 10
"""Bytes of payload that a lane reads at once."""
ALERT_AFTER: Final = 60.0
"""Seconds of failures after which a subscriber is reported, once."""
RETRY_AFTER_LIMIT: Final = 3_600.0
"""The longest `Retry-After` that counts: a mistake of a subscriber must not stop it for ever."""
FEW: Final = 32
"""Idle lanes that are asked one by one whether they want a topic; more are looked up."""
BURY_PAUSE: Final = 1.0
"""Seconds until a dead letter that could not be stored is stored again."""
READ_PAUSE: Final = 1.0
"""Seconds until a lane reads again after the log could not be read: the disk, or a log in memory that shrank."""


class Deliveries:
    """All lanes of one door. Bounded: `limits.subscriptions` lanes, each with its slots and what it read ahead."""

    def __init__(
        self, source: Source, luck: Random, limits: Limits, is_portable: bool = False, alert_after: float = ALERT_AFTER
    ) -> None:
        """`is_portable`: positions are to be usable at another door, which has another log."""
        self.lanes: dict[str, Lane] = {}
        self.events: list[Event] = []
        self.changed: set[str] = set()
        """Lanes whose positions have moved; taken by the caller, which stores them."""
        self.problem: Exception | None = None
        """Why the log could not be read last; taken by the caller, which tells it."""
        self.statistics: Counter[str] = Counter()
        self.under_way = self.doubtful = 0
        self._source = source
        self._luck = luck
        self._limits = limits
        self._is_portable = is_portable
        self._alert_after = alert_after
        self._index: Index[str] = Index()
        self._idle: dict[str, Lane] = {}  # lanes that have looked at everything
        self._due: list[tuple[float, int, str]] = []
        self._order = count()
        self._destinations = Destinations()
        self._burials: list[Burial] = []

    # ------------------------------------------------------------------------------------------------- lanes

    def open(self, now: float, subscription: Subscription, position: Position, lane: str | None = None) -> None:
        """Begin to deliver from a position; the caller checks `limits.subscriptions`."""
        name = subscription.id if lane is None else lane
        offset, since = int(position.get("offset", 0)), float(position.get("since", 0.0))
        made = Lane(subscription, offset, since, position.get("limit"))
        made.seen = seen_of(position)
        if position.get("log") != self._source.id:
            self._enter(made)
        self.lanes[name] = made
        self._index.add(subscription.topic, name)
        self._queue(now, name, made)

    def _enter(self, lane: Lane) -> None:
        """Find the place in this log of a lane that comes from another one: early rather than late."""
        lane.begins, lane.skips, lane.entered = lane.since - SKEW, dict(lane.seen), self._source.durable
        unseen, recent = self._source.first_of(lane.seen), self._source.offset_at(lane.begins)
        lane.position = lane.cursor = lane.read_to = recent if unseen is None else min(unseen, recent)

    def change(self, now: float, subscription: Subscription) -> None:
        """Use other settings from now on; attempts under way end as they began."""
        for name in (subscription.id, replay_of(subscription.id)):
            lane = self.lanes.get(name)
            if lane is None:
                continue
            if subscription.url != lane.subscription.url or (subscription.state != lane.subscription.state):
                lane.next_at = -inf
                for slot in lane.slots.values():
                    slot.due = min(slot.due, now)
            if name != subscription.id:  # the replay keeps its topic
                lane.subscription = replace(subscription, topic=lane.subscription.topic)
            else:
                lane.subscription = subscription
            self._queue(now, name, lane)

    def close(self, name: str) -> None:
        """Deliver no more; what is under way is forgotten."""
        lane = self.lanes.pop(name, None)
        self._idle.pop(name, None)
        if lane is not None:
            self._index.remove(lane.subscription.topic, name)
            self.changed.discard(name)

    def stored_position(self, name: str) -> Position:
        """Return the position of a lane as it is stored."""
        lane = self.lanes[name]
        if lane.is_idle and not lane.slots:
            lane.position = max(lane.position, self._source.durable)
        found = lane.stored(self._source.id)
        if lane.limit is not None:
            found["limit"] = lane.limit
        return found

    # --------------------------------------------------------------------------------------------------- log

    def stored(self, now: float, before: int, records: list[tuple[int, Record]] | None) -> None:
        """The log has grown from the offset `before`, by these records or, with None, by what has to be read."""
        if records is None:
            for name, lane in list(self._idle.items()):
                self._wake(now, name, lane, before)
            return
        for offset, record in records:
            if len(self._idle) <= FEW:  # the others are busy or fail, and look by themselves
                names = [name for name, lane in self._idle.items() if lane.topics(record.topic)]
            else:
                names = [name for name in self._index.match(record.topic) if name in self._idle]
            for name in names:
                self._wake(now, name, self.lanes[name], offset)

    def _wake(self, now: float, name: str, lane: Lane, offset: int) -> None:
        lane.is_idle = False
        self._idle.pop(name, None)
        lane.cursor = lane.read_to = max(lane.cursor, offset)
        if not lane.slots:
            lane.position = lane.cursor
        self._queue(now, name, lane)

    # -------------------------------------------------------------------------------------------------- time

    @property
    def deadline(self) -> float:
        """When `advance` is to be called, in the seconds of `now`; `inf` if nothing is due."""
        return self._due[0][0] if self._due else inf

    def advance(self, now: float) -> list[Attempt]:
        """Return the attempts to make now."""
        attempts: list[Attempt] = []
        while self._due and self._due[0][0] <= now:
            at, _, name = heapq.heappop(self._due)
            lane = self.lanes.get(name)
            if lane is not None and lane.queued_at == at:
                lane.queued_at = inf
                try:
                    self._run(now, name, lane, attempts)
                except (GlueError, OSError, IndexError) as error:
                    self.problem = error
                    self._queue(now + READ_PAUSE, name, lane)
        return attempts

    def take_burials(self) -> list[Burial]:
        """Return the dead letters to store now."""
        found, self._burials = self._burials, []
        return found

    def _queue(self, at: float, name: str, lane: Lane) -> None:
        """Look at a lane at a time, or earlier if it is queued earlier."""
        if at < lane.queued_at:
            lane.queued_at = at
            heapq.heappush(self._due, (at, next(self._order), name))

    def _run(self, now: float, name: str, lane: Lane, attempts: list[Attempt]) -> None:
        """Start what is due in a lane, and read further."""
        if not lane.is_active:
            lane.release()
            return
        while lane.has_room and not lane.is_idle:
            item = lane.next_item()
            if item is not None and (lane.limit is None or item.offset < lane.limit):
                lane.slots[item.offset] = Slot(item.offset, item, now)
            elif item is not None or not self._read(name, lane):
                break
        if lane.move():
            self.changed.add(name)
        if self._is_replayed(name, lane):
            return
        earliest = inf
        for slot in list(lane.slots.values()):
            if slot.is_flying or slot.is_burying:
                continue
            due = max(slot.due, lane.next_at)
            if due > now:
                earliest = min(earliest, due)
            elif not self._start(now, name, lane, slot, attempts):
                earliest = min(earliest, max(slot.due, lane.next_at))
        if self._is_uncertain(lane):
            lane.release()
        if earliest < inf:
            self._queue(earliest, name, lane)

    def _read(self, name: str, lane: Lane) -> bool:
        """Read further; returns whether there may be something to take."""
        source = self._source
        if lane.cursor < source.first:
            self.events.append(Event("missed", name, "the log no longer has the oldest messages that were waiting"))
            self.statistics["times that messages were gone"] += 1
            lane.cursor = lane.read_to = source.first
        if lane.cursor >= source.durable or (lane.limit is not None and lane.cursor >= lane.limit):
            lane.is_idle = lane.limit is None
            if lane.is_idle:
                self._idle[name] = lane
            return False
        is_alone = self._is_uncertain(lane) and lane.cursor >= lane.entered
        lane.fill(source.read(lane.topics, lane.cursor, 1 if is_alone else READ_AHEAD))
        if lane.buffer:
            return True
        return lane.cursor < lane.read_to  # `next_item` goes on there

    def _is_replayed(self, name: str, lane: Lane) -> bool:
        if lane.limit is None or lane.slots or lane.cursor < lane.limit:
            return False
        self.events.append(Event("replayed", name, ""))
        self.close(name)
        self.changed.add(name)
        return True

    def _start(self, now: float, name: str, lane: Lane, slot: Slot, attempts: list[Attempt]) -> bool:
        """Make an attempt, if there is a connection for it. Otherwise the slot's time is when to look again."""
        limits = self._limits
        if self.under_way >= limits.attempts or (lane.failures and self.doubtful >= limits.doubtful):
            slot.due = now + 0.1 + 0.1 * self._luck.random()
            return False
        if self._is_uncertain(lane):
            key = destination(lane.subscription.url)
            if slot.turn_at == inf or not self._destinations.holds(key, slot.turn_at):
                slot.turn_at = inf
                at, is_turn = self._destinations.turn(now, key, name)
                if not is_turn:
                    slot.due = at
                    return False
                slot.turn_at = at
            if slot.turn_at > now:
                slot.due = slot.turn_at
                return False
        slot.turn_at = inf
        if slot.item is None:
            slot.item = self._again(lane, slot.offset)
            if slot.item is None:
                self.events.append(Event("missed", name, "the log no longer has the message that was tried"))
                lane.settle(slot, self._is_portable)
                self._queue(now, name, lane)
                return True
        slot.is_flying = True
        slot.attempts += 1
        self.under_way += 1
        slot.is_doubtful = lane.failures > 0
        self.doubtful += slot.is_doubtful
        attempts.append(Attempt(name, slot, slot.item, lane.subscription, slot.attempts))
        return True

    def _is_uncertain(self, lane: Lane) -> bool:
        """Whether the next attempt may well fail: then nothing is read ahead for it."""
        return lane.failures > 0 or not self._destinations.is_answering(destination(lane.subscription.url))

    def _again(self, lane: Lane, offset: int) -> Item | None:
        for at, record in self._source.read(lane.topics, offset, 1).records:
            if at == offset:
                return Item(offset, record, 0)
        return None

    # -------------------------------------------------------------------------------------------------- outcomes

    def finished(self, now: float, attempt: Attempt, outcome: Outcome) -> None:
        """Take what became of an attempt."""
        slot = attempt.slot
        self.under_way -= 1
        self.doubtful -= slot.is_doubtful
        slot.is_flying = False
        lane = self.lanes.get(attempt.lane)
        if lane is None or lane.slots.get(slot.offset) is not slot:
            return  # closed meanwhile
        self._note_destination(now, attempt, outcome)
        is_success = 200 <= outcome.status < 300
        said = str(outcome.status) if outcome.status else outcome.error
        lane.history.append({"offset": slot.offset, "attempt": slot.attempts, "result": said, "after": slot.began})
        if is_success:
            self._succeeded(attempt.lane, lane, slot)
        else:
            self._failed(now, attempt, lane, outcome)
        self._queue(now, attempt.lane, lane)

    def _succeeded(self, name: str, lane: Lane, slot: Slot) -> None:
        self.statistics["deliveries"] += 1
        lane.failures = 0
        lane.failing_since = inf
        if lane.alerted:
            lane.alerted = False
            self.events.append(Event("recovered", name, lane.subscription.url))
        if lane.settle(slot, self._is_portable):
            self.changed.add(name)

    def _failed(self, now: float, attempt: Attempt, lane: Lane, outcome: Outcome) -> None:
        slot, name = attempt.slot, attempt.lane
        self.statistics["attempts that failed"] += 1
        lane.failures += 1
        lane.failing_since = min(lane.failing_since, now)
        slot.reason = f"answer {outcome.status}" if outcome.status else outcome.error
        if outcome.status == 410:
            lane.subscription = replace(lane.subscription, state=GONE)
            self.events.append(Event("gone", name, lane.subscription.url))
        elif not lane.alerted and now - lane.failing_since >= self._alert_after:
            lane.alerted = True
            self.events.append(Event("failing", name, f"{lane.subscription.url}: {slot.reason}"))
        delay = retry_delay(slot.attempts, self._luck.random())
        if outcome.retry_after is not None and outcome.retry_after > 0:
            delay = max(delay, min(outcome.retry_after, RETRY_AFTER_LIMIT))
            if outcome.status in (429, 503):
                lane.next_at = now + delay
        slot.due = now + delay
        give_up = lane.subscription.give_up_after
        if give_up is not None and now - slot.began >= give_up and lane.subscription.state != GONE:
            self._bury(name, lane, slot)
        lane.release()

    def _note_destination(self, now: float, attempt: Attempt, outcome: Outcome) -> None:
        """Remember whether a destination answers; wake the lanes that waited for it."""
        key = destination(attempt.subscription.url)
        if not outcome.is_connected:
            self._destinations.unreached(now, key, attempt.lane)
            return
        waiting, was_down = self._destinations.reached(key)
        for name in waiting:
            lane = self.lanes.get(name)
            if lane is not None and destination(lane.subscription.url) == key:
                at = now + (self._luck.random() if was_down else 0.0)
                for slot in lane.slots.values():
                    slot.due = min(slot.due, at)
                self._queue(at, name, lane)

    # ---------------------------------------------------------------------------------------------- dead letters

    def _bury(self, name: str, lane: Lane, slot: Slot) -> None:
        assert slot.item is not None  # it was just tried
        slot.is_burying = True
        self._burials.append(Burial(name, slot, slot.item, f"{slot.reason}, {slot.attempts} attempts"))

    def buried(self, now: float, burial: Burial, is_stored: bool) -> None:
        """A dead letter is stored, or could not be."""
        lane, slot = self.lanes.get(burial.lane), burial.slot
        if lane is None or lane.slots.get(slot.offset) is not slot:
            return
        slot.is_burying = False
        if is_stored:
            self.statistics["dead letters"] += 1
            slot.item = burial.item
            if lane.settle(slot, self._is_portable):
                self.changed.add(burial.lane)
        else:  # tried once more, and then again
            slot.due = now + BURY_PAUSE
        self._queue(now, burial.lane, lane)


def replay_of(subscription: str) -> str:
    """Return the name of the lane that replays the dead letters of a subscription."""
    return f"{subscription}/replay"
