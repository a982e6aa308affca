"""Recorded runs of the machine that calls webhooks: each attempt and what came of it, positions, dead letters, news.

Subscribers answer well, fail, are down, are busy, or go away; subscriptions are changed, replayed and closed; a door
ends and goes on from the stored positions, also another door with another log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import inf
from random import Random
from typing import Any
from zlib import crc32

from glue.gateway.http.deliveries import Deliveries, replay_of
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RecentLog
from glue.gateway.http.subscriptions import ACTIVE, PAUSED, Subscription
from glue.storage import MemoryLog, Record

ANSWERS = {
    "well": Outcome(204), "down": Outcome(0, "connection refused", is_connected=False), "error": Outcome(500),
    "busy": Outcome(429, retry_after=7.0), "later": Outcome(503, retry_after=9_000.0), "slow": Outcome(0, "timeout"),
    "again": Outcome(500, retry_after=40.0), "gone": Outcome(410), "redirect": Outcome(302),
}  # fmt: skip


class Hooks:
    """A door with subscribers whose answers a seed draws."""

    def __init__(self, seed: int, is_portable: bool, log_size: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.lines: list[str] = []
        self.moods: dict[str, str] = {}
        self.stored: dict[str, Any] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self._is_portable, self._log_size = is_portable, log_size
        self._numbers = dict.fromkeys(("t/1", "t/2", "u/1/x"), 1)
        self._events: list[tuple[float, int, Attempt]] = []
        self._order = count()
        self._logs = 0
        self.begin_log()
        self.start()

    def begin_log(self) -> None:
        """Give the door an empty log."""
        self._logs += 1
        self.log = MemoryLog(f"log {self._logs}", limit=self._log_size, syncs=False)

    def start(self) -> None:
        """Begin a life of the door, from the stored positions."""
        self._events.clear()
        self.recent = RecentLog(self.log, 1500)
        limits = Limits(attempts=5, doubtful=2)
        self.door = Deliveries(self.recent, Random(1), limits, self._is_portable, alert_after=20.0)
        for name, position in self.stored.items():
            self.door.open(self.now, self.subscriptions[name.partition("/")[0]], position, name)

    def say(self, text: str) -> None:
        """Write down something with its time."""
        self.lines.append(f"{self.now:9.3f} {text}")

    def subscribe(self, name: str, topic: str, host: int, **options: Any) -> None:
        """Begin a subscription from now on."""
        made = Subscription(name, topic, f"http://10.0.0.{host}/", **options)
        self.subscriptions[name], self.moods[name] = made, "well"
        self.stored[name] = {"log": self.log.id, "offset": self.log.durable, "since": self.now, "seen": []}
        self.door.open(self.now, made, self.stored[name])
        self.say(f"{name} subscribes to {topic} at {host} {options or ''}".rstrip())

    def publish(self, topic: str, count: int, size: int) -> None:
        """Append messages, which are durable at once."""
        record = Record("origin", "o", 1, topic, self._numbers[topic], [bytes(size)] * count)
        record.published_at = self.now
        self._numbers[topic] += count
        begin, before = self.log.end, self.recent.durable
        end = self.log.append([record])
        self.recent.add(begin, end, [record])
        self.log.sync()
        self.say(f"{count} of {topic}, {begin} to {end}")
        self.door.stored(self.now, before, self.recent.sync(self.log.durable))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            self._look()
            at = min(self._events[0][0] if self._events else inf, self.door.deadline)
            if at > end:
                break
            self.now = max(self.now, at)
            if self._events and self._events[0][0] <= self.now:
                self._answer(heapq.heappop(self._events)[2])
        self.now = end

    def _look(self) -> None:
        for attempt in self.door.advance(self.now):
            item = attempt.item
            what = f"{item.record.topic} {item.sequence} at {attempt.slot.offset}, attempt {attempt.number}"
            self.say(f"{attempt.lane} is called: {what}")
            takes = 20.0 if self.moods[attempt.lane.partition("/")[0]] == "slow" else 0.01
            heapq.heappush(self._events, (self.now + takes, next(self._order), attempt))
        for burial in self.door.take_burials():
            is_stored = self.random.random() < 0.6
            self.say(f"{burial.lane} gives {burial.slot.offset} up: {burial.reason}; {'stored' * is_stored}")
            self.door.buried(self.now, burial, is_stored)
        for event in self.door.events:
            self.say(f"{event.lane} {event.kind} {event.detail}")
        self.door.events.clear()
        for name in sorted(self.door.changed):
            self.stored[name] = self.door.stored_position(name) if name in self.door.lanes else None
            if self.stored[name] is None:
                del self.stored[name]
        self.door.changed.clear()

    def _answer(self, attempt: Attempt) -> None:
        mood = self.moods[attempt.lane.partition("/")[0]]
        if mood != "well":
            self.say(f"{attempt.lane} answers {attempt.slot.offset}: {mood}")
        self.door.finished(self.now, attempt, ANSWERS[mood])

    def end(self) -> str:
        """Return all lines, with where each lane is, and the counters."""
        for name, lane in self.door.lanes.items():
            facts = self.door.stored_position(name), lane.subscription.state, lane.failures, lane.is_idle
            self.lines.append(f"{name}: {facts}, {list(lane.history)[-2:]}")
        self.lines.append(", ".join(f"{what} {count}" for what, count in sorted(self.door.statistics.items())))
        return "\n".join(self.lines) + "\n"

    # ------------------------------------------------------------------------------------------ what may happen

    def turn(self, name: str) -> None:
        """A subscriber answers in another way from now on."""
        mood = self.random.choice(["well", "well", *ANSWERS])
        self.moods[name] = mood
        self.say(f"{name} is {mood}")

    def change(self, name: str) -> None:
        """A client changes a subscription: its address, its state, or how many are under way."""
        host, state = self.random.choice((1, 2, 3)), self.random.choice((ACTIVE, ACTIVE, PAUSED))
        known, parallel = self.subscriptions[name], self.random.choice((1, 3))
        made = replace(known, url=f"http://10.0.0.{host}/", state=state, parallel=parallel)
        self.subscriptions[name] = made
        self.say(f"{name} is changed: at {host}, {state}, {parallel} at a time")
        self.door.change(self.now, made)

    def replay(self, name: str) -> None:
        """What the log has of the last while is delivered once more."""
        lane = replay_of(name)
        if lane not in self.door.lanes:
            begin, end = max(self.log.first, self.log.durable - 6), self.log.durable
            self.say(f"{lane} begins, {begin} to {end}")
            position = {"log": self.log.id, "offset": begin, "limit": end}
            self.stored[lane] = position
            self.door.open(self.now, self.subscriptions[name], position, lane)

    def close(self, name: str) -> None:
        """A subscription ends, with what is under way, and begins anew."""
        known = self.subscriptions[name]
        self.say(f"{name} is closed")
        for lane in (name, replay_of(name)):
            self.door.close(lane)
            self.stored.pop(lane, None)
        self.subscribe(name, known.topic, 1, parallel=known.parallel, give_up_after=known.give_up_after)

    def restart(self, name: str) -> None:
        """The door ends and is there again; or another one goes on, which has another log."""
        if self._is_portable and self.random.random() < 0.5:
            self.stored = {name: place for name, place in self.stored.items() if "/" not in name}
            self.begin_log()
        self.say(f"a door with {self.log.id} goes on")
        self.start()


def crowd(seed: int, steps: int, is_portable: bool = False, log_size: int = 1 << 20) -> str:
    """Let things happen: the first steps are written down, and of the rest a hash of each hundred steps."""
    hooks = Hooks(seed, is_portable, log_size)
    random = hooks.random
    hooks.subscribe("all", "#", 1)
    hooks.subscribe("one", "t/1", 1, give_up_after=30.0)
    hooks.subscribe("some", "t/+", 2, parallel=3, give_up_after=90.0)
    hooks.subscribe("late", "u/#", 3)
    acts = [hooks.turn] * 4 + [hooks.change] * 2 + [hooks.replay, hooks.close, hooks.restart]
    begin = 0
    for step in range(steps):
        if random.random() < 0.55:
            hooks.publish(random.choice(list(hooks._numbers)), random.choice((1, 1, 4)), random.choice((3, 2000)))
        else:
            random.choice(acts)(random.choice(list(hooks.moods)))
        hooks.run(random.choice((0.0, 0.004, 0.3, 2.0, 25.0)))
        if step % 100 == 39:
            if begin:
                text = repr(hooks.lines[begin:]).encode()
                hooks.lines[begin:] = [f"to {step + 1}: {len(hooks.lines) - begin} lines, {crc32(text):08x}"]
            begin = len(hooks.lines)
    return hooks.end()


HOOKS: dict[str, Callable[[], str]] = {
    "webhooks": lambda: crowd(1, 1140),
    "webhooks-moving": lambda: crowd(2, 740, is_portable=True),
    "webhooks-gone": lambda: crowd(3, 440, log_size=3_000),
}
