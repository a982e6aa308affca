"""A swarm over the delivery machine: subscribers fail in all ways, doors are killed, and no promise may break.

A seed gives the subscribers, their troubles, the messages and the kills. After the troubles all subscribers are well,
and everything must arrive.
"""

from __future__ import annotations

import heapq
from itertools import count
from math import inf
from random import Random
from typing import Any

from glue.gateway.http import deliveries
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RecentLog
from glue.gateway.http.signing import message_id
from glue.gateway.http.subscriptions import Subscription
from glue.storage import MemoryLog, Record

TROUBLES = ("down", "error", "busy", "slow", "lying", "redirect")
SOON = 0.5
"""Seconds within which a subscriber that is always well gets a message, whatever the others do."""


class Receiver:
    """A subscriber, and what it has seen."""

    def __init__(self, subscription: Subscription, is_well: bool) -> None:
        self.subscription = subscription
        self.is_always_well = is_well
        self.trouble = ""
        self.accepted: dict[int, str] = {}  # offset → message id
        self.answered: set[int] = set()  # offsets whose success reached the door
        self.buried: set[int] = set()
        self.under_way = 0
        self.news = ""
        self.well_at = 0.0  # when an answer last was a success, or the door began
        self.busy_until = -inf

    def take(self, offset: int, id: str) -> None:
        """Take a message. Breaks if it is out of order, or known under another id."""
        known = self.accepted.get(offset)
        assert known in (None, id), f"{offset} came again under another id"
        self.accepted[offset] = id


class Host:
    """An address that several subscribers may share: they are down together."""

    def __init__(self) -> None:
        self.tried_at = -inf
        self.is_known = False
        """Whether the door has seen that it is down."""


class World:
    """One run: a door, its log and stored positions, and the subscribers."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.now = 0.0
        self.log = MemoryLog("log", syncs=False)
        self.topics = [f"t/{number}" for number in range(random.randint(1, 3))]
        self.numbers = dict.fromkeys(self.topics, 1)
        self.published: list[tuple[int, str, float]] = []  # offset, topic, time
        self.receivers: dict[str, Receiver] = {}
        self.stored: dict[str, Any] = {}
        self.before: Record | None = None
        self.life = 0
        self._events: list[tuple[float, int, Any]] = []
        self._order = count()
        for number in range(random.randint(1, 6)):
            is_well = number == 0 or random.random() < 0.3
            pattern = random.choice([*self.topics, "t/#", "t/+"])
            made = Subscription(
                f"s{number}", pattern, f"http://10.0.0.{random.randint(1, 3) if not is_well else 100 + number}/",
                parallel=random.choice([1, 1, 1, 3]),
                give_up_after=random.choice([None, None, 30.0]) if not is_well else None,
            )  # fmt: skip
            self.receivers[made.id] = Receiver(made, is_well)
            self.stored[made.id] = {"log": "log", "offset": 0, "since": 0.0, "seen": []}
        self.hosts = {one.subscription.url: Host() for one in self.receivers.values()}
        self.start()

    # ------------------------------------------------------------------------------------------------- the door

    def start(self) -> None:
        """Begin a life of the door, from what is stored."""
        self.life += 1
        self.recent = RecentLog(self.log, self.random.choice([1, 2_000, 1 << 20]))
        self.recent.durable = self.log.durable
        limits = Limits(attempts=self.random.choice([50, 500]), doubtful=2)
        self.door = deliveries.Deliveries(self.recent, Random(self.random.random()), limits)
        for host in self.hosts.values():
            host.is_known = False
        for name, receiver in self.receivers.items():
            receiver.under_way = 0
            receiver.news = ""
            receiver.well_at, receiver.busy_until = self.now, -inf
            self.door.open(self.now, receiver.subscription, self.stored[name])
        self.run_door()

    def kill(self) -> None:
        """End the door at once, and start it again: what was not stored is forgotten."""
        self.start()

    def store_positions(self) -> None:
        """Store the positions that have moved."""
        for name in self.door.changed & self.door.lanes.keys():
            self.stored[name] = self.door.stored_position(name)
        self.door.changed.clear()

    def publish(self, messages: int, topic: str | None = None) -> None:
        """Append messages of a topic, by default of any, to the log; a sync follows."""
        topic = topic or self.random.choice(self.topics)
        record = Record("a" * 16, "a", 1, topic, self.numbers[topic], [b"x" * self.random.choice([1, 2000])] * messages)
        record.published_at = self.now
        self.numbers[topic] += messages
        begin = self.log.end
        records = [self.before, record] if self.before is not None and self.random.random() < 0.1 else [record]
        self.before = record
        end = self.log.append(records)  # one that comes again is not stored again
        self.recent.add(begin, end, records)
        self.published += [(offset, topic, self.now) for offset in range(begin, end)]
        if self.random.random() < 0.7:
            self.sync()

    def sync(self) -> None:
        """Make the log durable, and tell the door."""
        self.log.sync()
        before = self.recent.durable
        self.door.stored(self.now, before, self.recent.sync(self.log.durable))
        self.run_door()

    def run_door(self) -> None:
        """Make the attempts that are due, and look at the news."""
        for attempt in self.door.advance(self.now):
            self.attempted(attempt)
        for burial in self.door.take_burials():
            receiver, give_up = self.receivers[burial.lane], self.receivers[burial.lane].subscription.give_up_after
            assert give_up is not None, "given up, and nobody said when"
            assert self.now - self.published[burial.slot.offset][2] >= give_up, "given up too early"
            is_stored = self.random.random() < 0.8
            if is_stored:
                self.receivers[burial.lane].buried.add(burial.slot.offset)
            self.door.buried(self.now, burial, is_stored)
        for event in self.door.events:
            receiver = self.receivers[event.lane]
            assert event.kind in ("failing", "recovered"), event
            assert event.kind != receiver.news, "the same news twice"
            assert event.kind == "failing" or receiver.news == "failing", "back without having been away"
            since = self.now - receiver.well_at
            assert event.kind != "failing" or since >= deliveries.ALERT_AFTER, (
                "told as failing, and it was well just now"
            )
            receiver.news = event.kind
        self.door.events.clear()

    # ------------------------------------------------------------------------------------------- the subscribers

    def attempted(self, attempt: Attempt) -> None:
        """Deliver, or not, as the subscriber's trouble says; check what must hold at each attempt."""
        receiver, offset = self.receivers[attempt.lane], attempt.slot.offset
        subscription = receiver.subscription
        receiver.under_way += 1
        assert receiver.under_way <= subscription.parallel, "more at a time than the subscription allows"
        assert offset < self.log.durable, "delivered before it was durable"
        assert offset >= self.stored[attempt.lane]["offset"], "delivered again although the position was stored"
        topic = self.published[offset][1]
        assert self.door.lanes[attempt.lane].topics(topic), "a message of another topic"
        assert attempt.item.record.topic == topic
        if subscription.parallel == 1:
            for earlier in self.wanted(receiver):
                if earlier >= offset:
                    break
                assert earlier in receiver.accepted or earlier in receiver.buried, f"{offset} before {earlier}"
        assert self.now >= receiver.busy_until, "called again before it said so"
        trouble = "" if receiver.is_always_well else receiver.trouble
        if trouble == "down":
            host = self.hosts[subscription.url]
            assert self.now >= host.tried_at + 0.99 or not host.is_known, "a dead host is tried too often"
            host.tried_at = self.now
        takes = 20.0 if trouble == "slow" else self.random.uniform(0.001, 0.01)
        outcome = {
            "down": Outcome(0, "connection refused", is_connected=False), "error": Outcome(500),
            "busy": Outcome(429, retry_after=7.0), "slow": Outcome(0, "timeout"), "lying": Outcome(0, "reset"),
            "redirect": Outcome(302),
        }.get(trouble, Outcome(204))  # fmt: skip
        if trouble in ("", "lying"):
            receiver.take(offset, message_id(attempt.lane, attempt.item))
        self.at(self.now + takes, (self.life, attempt, outcome))

    def answered(self, life: int, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt has ended; a door of another life does not hear of it."""
        if life != self.life:
            return
        receiver = self.receivers[attempt.lane]
        receiver.under_way -= 1
        self.hosts[attempt.subscription.url].is_known = not outcome.is_connected
        if outcome.status == 204:
            receiver.well_at = self.now
        if outcome.retry_after is not None:
            receiver.busy_until = self.now + outcome.retry_after
        self.door.finished(self.now, attempt, outcome)
        self.run_door()

    def wanted(self, receiver: Receiver) -> list[int]:
        """Offsets of the messages that a subscriber is to get."""
        matches = self.door.lanes[receiver.subscription.id].topics
        return [offset for offset, topic, _ in self.published if matches(topic) and offset < self.log.durable]

    # ------------------------------------------------------------------------------------------------------ time

    def at(self, time: float, what: Any) -> None:
        """Do something later."""
        heapq.heappush(self._events, (time, next(self._order), what))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with everything that is due."""
        end = self.now + seconds
        while True:
            event_at = self._events[0][0] if self._events else inf
            door_at = self.door.deadline
            at = min(event_at, door_at)
            if at > end:
                break
            self.now = max(self.now, at)
            if event_at <= door_at:
                self.answered(*heapq.heappop(self._events)[2])
            else:
                self.run_door()
        self.now = end

    def give_trouble(self, receiver: Receiver, trouble: str) -> None:
        """Give trouble to a subscriber; an address is down for all subscribers there, or for none."""
        same = [one for one in self.receivers.values() if one.subscription.url == receiver.subscription.url]
        was_down = any(one.trouble == "down" for one in same)
        for one in same:
            if trouble == "down" or was_down or one is receiver:
                one.trouble = trouble
        if was_down != (trouble == "down"):
            self.hosts[receiver.subscription.url].is_known = False

    def check_well(self) -> None:
        """Subscribers without trouble have everything that is durable."""
        for receiver in self.receivers.values():
            if receiver.is_always_well:
                late = [offset for offset in self.wanted(receiver) if offset not in receiver.accepted]
                assert not late, f"{receiver.subscription.id} waits for {len(late)} messages because of others"

    def check_memory(self) -> None:
        """A lane that fails holds next to nothing."""
        for lane in self.door.lanes.values():
            if lane.failures and not any(slot.is_flying for slot in lane.slots.values()):
                held = sum(len(slot.item.payload) for slot in lane.slots.values() if slot.item is not None)
                assert not lane.buffer, "a lane whose subscriber fails holds messages"
                assert held <= 1_024 * lane.subscription.parallel, "a lane whose subscriber fails holds payloads"


def run(seed: int) -> None:
    """Run one seed. Raises AssertionError where a promise is broken."""
    world = World(seed)
    random = world.random
    for _ in range(random.randint(5, 25)):
        for receiver in world.receivers.values():
            if random.random() < 0.4:
                world.give_trouble(receiver, random.choice(["", *TROUBLES]))
        for _ in range(random.randint(1, 6)):
            world.publish(random.randint(1, 4))
            world.pass_time(random.choice([0.0, 0.01, 0.3]))
            if random.random() < 0.3:
                world.store_positions()
        world.sync()
        world.pass_time(random.choice([SOON, 5.0, 100.0]))
        world.check_well()
        world.check_memory()
        if random.random() < 0.2:
            world.kill()
    for receiver in world.receivers.values():
        receiver.trouble = ""
    for topic in world.topics:  # a subscriber whose last message became a dead letter is only heard of by the next one
        world.publish(1, topic)
    world.sync()
    world.pass_time(700.0)
    for receiver in world.receivers.values():
        missing = [o for o in world.wanted(receiver) if o not in receiver.accepted and o not in receiver.buried]
        assert not missing, f"{receiver.subscription.id} never got {missing[:5]}"
        assert receiver.news != "failing", "back, and nobody was told"
    world.store_positions()
    for name in world.receivers:
        lane = world.door.lanes[name]
        assert lane.position == world.log.durable or lane.is_idle, "all is delivered, and the position does not say so"
