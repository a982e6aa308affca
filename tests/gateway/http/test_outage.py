"""Outages in virtual time: what waits costs a position, and a subscriber that was away gets everything in order."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from glue.gateway.http.deliveries import Deliveries
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RecentLog, Topics
from glue.gateway.http.subscriptions import Subscription
from glue.storage import MemoryLog, Reading, Record

DOWN = Outcome(0, "connection refused", is_connected=False)


class Bench:
    """A door in virtual time; the subscribers at 10.0.1.x are down until `is_up`."""

    def __init__(self, dead: int, hosts: int = 1) -> None:
        """`hosts`: on how many hosts the dead ones are."""
        self.now, self.is_up, self.number = 0.0, False, 0
        self.log = MemoryLog("log", 1 << 30)
        self.recent = RecentLog(self.log)
        self.door = Deliveries(self.recent, Random(1), Limits(), alert_after=60.0)
        self.got: dict[str, list[int]] = {}
        self.late: list[float] = []
        self.tries: list[float] = []
        for name in ["live", *(f"dead{number}" for number in range(dead))]:
            host = "2.0" if name == "live" else f"1.{len(self.got) % hosts}"
            subscription = Subscription(name, "t/#", f"http://10.0.{host}/")
            self.door.open(0.0, subscription, {"log": "log", "offset": 0, "since": 0.0, "seen": []})
            self.got[name] = []

    def publish(self, count: int) -> None:
        """Store some messages."""
        record = Record("a" * 16, "a", 1, "t/x", self.number + 1, [b"%d" % self.now] * count, self.now)
        self.number += count
        before = self.log.end
        end = self.log.append([record])
        self.recent.add(before, end, [record])
        self.door.stored(self.now, before, self.recent.sync(end))

    def deliver(self, until: float) -> None:
        """Let time pass; a subscriber that is up takes a message in a millisecond."""
        while True:
            attempts = self.door.advance(self.now)
            for attempt in attempts:
                self.answer(attempt)
            if not attempts:
                if self.door.deadline > until:
                    break
                self.now = max(self.now, self.door.deadline)
        self.now = until

    def answer(self, attempt: Attempt) -> None:
        """Take a message, or refuse the connection."""
        if attempt.lane == "live" or self.is_up:
            self.got[attempt.lane].append(attempt.item.sequence)
            if attempt.lane == "live":
                self.late.append(self.now - attempt.item.record.published_at)
            self.door.finished(self.now, attempt, Outcome(204))
        else:
            self.tries.append(self.now)
            self.door.finished(self.now, attempt, DOWN)


def test_a_subscriber_that_was_away_for_an_hour_gets_all_in_order() -> None:
    bench = Bench(dead=1)
    for second in range(0, 3600, 10):
        bench.publish(1)
        bench.deliver(second + 10.0)
    assert len(bench.tries) < 30
    assert [event.kind for event in bench.door.events] == ["failing"]
    bench.is_up = True
    bench.deliver(3600.0 + 361.0)
    assert bench.got["dead0"] == bench.got["live"] == list(range(1, 361))
    assert [event.kind for event in bench.door.events] == ["failing", "recovered"]


def test_a_thousand_dead_subscribers_cost_positions_and_hold_nobody_up() -> None:
    bench = Bench(dead=1000)
    for _ in range(10):
        bench.publish(1000)
        bench.deliver(bench.now + 1.0)
    assert len(bench.got["live"]) == 10_000
    assert max(bench.late) == 0.0, "delivered in the moment of publishing"
    assert len(bench.tries) <= 11, "one a second, however many wait for the host"
    lanes = [lane for name, lane in bench.door.lanes.items() if name != "live"]
    assert not any(lane.buffer for lane in lanes)
    held = {id(slot.item.record): slot.item for lane in lanes for slot in lane.slots.values() if slot.item}
    assert sum(len(item.record.payloads) for item in held.values()) <= 1000


def test_all_subscribers_of_a_host_go_on_when_it_is_back() -> None:
    bench = Bench(dead=50)
    bench.publish(20)
    bench.deliver(1000.0)
    bench.is_up = True
    bench.deliver(1302.0)
    assert all(got == list(range(1, 21)) for got in bench.got.values())


def test_the_dead_of_many_hosts_are_tried_one_after_the_other() -> None:
    bench = Bench(dead=1000, hosts=250)
    bench.publish(1)
    bench.deliver(0.9)
    assert bench.got["live"] == [1]
    assert len(bench.tries) == 250, "one of each host"
    spread = [later - earlier for earlier, later in zip(bench.tries, bench.tries[1:], strict=False)]
    assert min(spread) > 0.0019, "never two in one moment, which would take the processor from a live one"


def test_the_first_answer_of_a_host_wakes_all_who_wait_for_it() -> None:
    bench = Bench(dead=50)
    bench.publish(1)
    bench.is_up = True
    bench.deliver(0.0005)
    (first,) = bench.door.advance(0.005)
    assert bench.door.deadline > 0.9, "the host has not answered yet"
    bench.now = 0.05
    bench.answer(first)
    bench.deliver(0.06)
    assert all(got == [1] for got in bench.got.values())


def test_a_door_that_takes_a_lane_over_reads_what_was_delivered_by_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(dead=0)
    for _ in range(2000):
        bench.publish(1)
    reads, read = Counter[str](), bench.recent.read

    def counted(topics: Topics, offset: int, size: int) -> Reading:
        reads["all"] += 1
        return read(topics, offset, size)

    monkeypatch.setattr(bench.recent, "read", counted)
    subscription = Subscription("taken", "t/#", "http://10.0.3.0/")
    position = {"log": "another", "offset": 5, "since": 0.0, "seen": [["a" * 16, 1, "t/x", 2000]]}
    bench.door.open(0.0, subscription, position)
    bench.got["taken"] = []
    tried = [one for now in (0.0, 0.01) for one in bench.door.advance(now)]
    (attempt,) = [one for one in tried if one.lane == "taken"]
    assert attempt.item.sequence == 2000
    assert reads["all"] < 20
