"""The delivery machine step by step: when each attempt is made, and what is counted, told, held and stored."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import pytest

from glue.gateway.http import destinations
from glue.gateway.http.deliveries import Deliveries, replay_of
from glue.gateway.http.destinations import Destinations
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.lanes import KEPT_PAYLOAD, Lane, seen_of
from glue.gateway.http.limits import Limits
from glue.gateway.http.recent import RecentLog
from glue.gateway.http.subscriptions import Subscription
from glue.storage import MemoryLog, Record, Stream

URL = "http://10.0.0.1/hook"
DONE, DOWN = Outcome(204), Outcome(0, "connection refused", is_connected=False)


class Luck:
    """Chance that always is in the middle."""

    def random(self) -> float:
        return 0.5


class Bench:
    """A machine with its log, at a time that only the test moves."""

    def __init__(self, id: str = "log", limits: Limits | None = None, is_portable: bool = False) -> None:
        self.log = MemoryLog(id)
        self.recent = RecentLog(self.log)
        self.door = Deliveries(self.recent, Luck(), limits or Limits(), is_portable)  # type: ignore[arg-type]
        self.now = 1_000.0
        self.numbers = Counter[str]()

    def open(self, id: str = "s", offset: int = 0, log: str = "log", **settings: Any) -> Lane:
        """A subscription of `t/#` from an offset on."""
        position = {"log": log, "offset": offset, "since": settings.pop("since", 0.0), "seen": settings.pop("seen", [])}
        made = Subscription(id, settings.pop("topic", "t/#"), settings.pop("url", URL), **settings)
        self.door.open(self.now, made, position)
        return self.door.lanes[id]

    def publish(self, *payloads: bytes, topic: str = "t/x", at: float = 0.0) -> None:
        """Store messages of one record."""
        record = Record("a" * 16, "kitchen", 1, topic, self.numbers[topic] + 1, list(payloads), at)
        self.numbers[topic] += len(payloads)
        before = self.log.end
        end = self.log.append([record])
        self.recent.add(before, end, [record])
        self.door.stored(self.now, before, self.recent.sync(end))

    def attempts(self, now: float) -> list[Attempt]:
        """What is to be sent at a time."""
        self.now = now
        return self.door.advance(now)

    def answer(self, attempt: Attempt, outcome: Outcome = DONE) -> None:
        """Tell the machine what became of an attempt."""
        self.door.finished(self.now, attempt, outcome)


def sent(attempts: list[Attempt]) -> list[tuple[str, int, bytes, int]]:
    return [(one.lane, one.item.offset, one.item.payload, one.number) for one in attempts]


def test_a_message_that_fails_is_tried_at_growing_times_and_the_lane_tells_once() -> None:
    bench = Bench()
    lane = bench.open()
    bench.publish(b"1", b"2")
    times = [1_000.0 + after for after in (0, 1, 3, 8, 18, 48, 108)]
    for number, at in enumerate(times, 1):
        assert bench.door.deadline == at
        assert bench.door.advance(at - 0.01) == []
        (attempt,) = bench.attempts(at)
        assert sent([attempt]) == [("s", 0, b"1", number)]
        assert (bench.door.under_way, bench.door.doubtful) == (1, int(number > 1))
        assert bench.door.deadline == inf
        bench.answer(attempt, Outcome(500))
        assert bench.attempts(at) == []
        assert (bench.door.under_way, bench.door.doubtful, lane.failures) == (0, 0, number)
        assert lane.alerted == (at - 1_000 >= 60)
        assert not lane.buffer, "nothing is held but the message that fails"
    assert [*bench.door.events] == [("failing", "s", f"{URL}: answer 500")]
    assert bench.door.statistics == {"attempts that failed": 7}
    assert [(one["offset"], one["attempt"], one["result"], one["after"]) for one in lane.history] == [
        (0, number, "500", 1_000.0) for number in (3, 4, 5, 6, 7)
    ]
    (attempt,) = bench.attempts(1_228.0)
    bench.answer(attempt)
    assert bench.door.events[1:] == [("recovered", "s", URL)]
    assert (lane.failures, lane.failing_since, lane.alerted, lane.position) == (0, inf, False, 1)
    assert bench.door.changed == {"s"}
    (attempt,) = bench.attempts(1_228.0)
    assert sent([attempt]) == [("s", 1, b"2", 1)]
    bench.answer(attempt, Outcome(500))
    assert lane.failing_since == 1_228.0
    assert lane.history[-1]["result"] == "500"
    bench.attempts(1_229.0)
    assert len(bench.door.events) == 2, "it has failed for a second only"


@pytest.mark.parametrize(
    ("status", "asked", "alone", "later"),
    [(503, 90.0, 90.0, 90.0), (429, 5_000.0, 3_600.0, 3_600.0), (500, 90.0, 90.0, 0.0), (503, 0.5, 1.0, 1.0),
     (503, 0.0, 1.0, 0.0), (503, None, 1.0, 0.0)],
)  # fmt: skip
def test_retry_after_delays_the_message_and_for_some_answers_the_lane(
    status: int, asked: float | None, alone: float, later: float
) -> None:
    bench = Bench()
    lane = bench.open()
    bench.publish(b"1")
    (attempt,) = bench.attempts(1_000.0)
    bench.answer(attempt, Outcome(status, "", asked))
    assert bench.attempts(1_000.0) == []
    assert bench.door.deadline == 1_000.0 + alone
    assert lane.next_at == (1_000.0 + later if later else -inf)
    changed = Subscription("s", "t/#", URL, parallel=2)
    bench.door.change(1_000.5, changed)
    assert lane.next_at == (1_000.0 + later if later else -inf), "the address is the same"
    bench.door.change(1_000.5, Subscription("s", "t/#", URL + "/new"))
    assert lane.next_at == -inf
    assert sent(bench.attempts(1_000.5)) == [("s", 0, b"1", 2)]


def test_a_message_is_given_up_after_its_time_and_stored_before_the_next_one() -> None:
    bench = Bench()
    lane = bench.open(give_up_after=3.0)
    bench.publish(b"1", b"2")
    for at in (1_000.0, 1_001.0):
        (attempt,) = bench.attempts(at)
        bench.answer(attempt, Outcome(0, "no answer"))
        assert bench.door.take_burials() == []
    (attempt,) = bench.attempts(1_003.0)
    bench.answer(attempt, Outcome(0, "no answer"))
    (burial,) = bench.door.take_burials()
    assert (burial.lane, burial.item.payload, burial.reason) == ("s", b"1", "no answer, 3 attempts")
    assert bench.door.take_burials() == []
    assert bench.attempts(1_100.0) == [], "it waits until the dead letter is stored"
    bench.door.buried(1_100.0, burial, False)
    assert bench.attempts(1_100.9) == []
    (attempt,) = bench.attempts(1_101.0)
    assert sent([attempt]) == [("s", 0, b"1", 4)]
    bench.answer(attempt, Outcome(0, "no answer"))
    (burial,) = bench.door.take_burials()
    assert bench.door.statistics["dead letters"] == 0
    bench.door.changed.clear()
    bench.door.buried(1_101.0, burial, True)
    assert (bench.door.statistics["dead letters"], lane.position, bench.door.changed) == (1, 1, {"s"})
    assert sent(bench.attempts(1_101.0) + bench.attempts(1_101.002)) == [("s", 1, b"2", 1)]
    bench.door.buried(1_101.1, burial, True)
    assert bench.door.statistics["dead letters"] == 1, "the slot is gone"


def test_a_subscriber_that_is_gone_is_told_and_gets_nothing_more_until_it_is_active() -> None:
    bench = Bench()
    lane = bench.open(give_up_after=1e-6)
    bench.publish(b"1")
    (attempt,) = bench.attempts(1_000.0)
    bench.now += 5.0
    bench.answer(attempt, Outcome(410))
    assert (lane.subscription.state, bench.door.events) == ("gone", [("gone", "s", URL)])
    assert bench.door.take_burials() == [], "the message stays"
    assert bench.attempts(2_000.0) == []
    bench.door.change(2_000.0, Subscription("s", "t/#", URL))
    assert sent(bench.attempts(2_000.0)) == [("s", 0, b"1", 2)]


def test_attempts_are_limited_in_all_and_doubtful_ones_among_themselves() -> None:
    bench = Bench(limits=Limits(attempts=3, doubtful=1))
    for number in range(4):
        bench.open(f"s{number}", url=f"http://10.0.0.{number}/", parallel=2)
    bench.publish(b"1")
    first = bench.attempts(1_000.1) + bench.attempts(1_000.11)
    assert [one.lane for one in first] == ["s0", "s1", "s2"]
    assert bench.door.deadline == pytest.approx(1_000.26), "0.1 s later, and up to 0.1 s more by chance"
    for attempt in first:
        bench.answer(attempt, Outcome(500))
    assert [one.lane for one in bench.attempts(1_000.5) + bench.attempts(1_000.51)] == ["s3"]
    assert [one.lane for one in bench.attempts(1_001.5) + bench.attempts(1_001.51)] == ["s0"], "the others wait"
    assert (bench.door.under_way, bench.door.doubtful) == (2, 1)


def test_a_replay_ends_at_its_limit_and_leaves_no_lane() -> None:
    bench = Bench()
    bench.publish(b"1", topic="$dead/s")
    bench.publish(b"2", topic="$dead/s")
    position = {"log": "log", "offset": 0, "since": 0.0, "seen": [], "limit": 1}
    bench.door.open(bench.now, Subscription("s", "$dead/s", URL), position, replay_of("s"))
    assert bench.door.stored_position("s/replay") == position
    bench.door.change(bench.now, Subscription("s", "t", URL, parallel=3))
    lane = bench.door.lanes["s/replay"]
    assert (lane.subscription.topic, lane.subscription.parallel) == ("$dead/s", 3)
    (attempt,) = bench.attempts(1_000.0)
    bench.answer(attempt)
    assert bench.attempts(1_000.0) == []
    assert bench.door.events == [("replayed", "s/replay", "")]
    assert (bench.door.lanes, bench.door.changed) == ({}, {"s/replay"})


def test_a_position_without_a_limit_has_none_and_an_idle_lane_is_at_the_end() -> None:
    bench = Bench()
    bench.open(topic="other")
    assert bench.attempts(1_000.0) == []
    bench.publish(b"1", b"2")
    assert bench.attempts(1_000.0) == []
    assert bench.door.stored_position("s") == {"log": "log", "offset": 2, "since": 0.0, "seen": []}
    bench.publish(b"3", topic="other")
    assert bench.door.lanes["s"].position == 2
    bench.door.changed.add("s")
    (attempt,) = bench.attempts(1_000.0)
    bench.publish(b"4")
    assert bench.door.stored_position("s")["offset"] == 2, "a message is under way"
    bench.door.close("s")
    assert bench.door.changed == set()
    bench.answer(attempt)
    assert (bench.door.under_way, bench.door.statistics) == (0, {})
    bench.publish(b"5", topic="other")
    assert bench.attempts(1_001.0) == []


def test_messages_that_the_log_no_longer_has_are_told() -> None:
    bench = Bench()
    bench.log = MemoryLog("log", 1_000)
    bench.recent = RecentLog(bench.log, 1)
    bench.door = Deliveries(bench.recent, Luck(), Limits())  # type: ignore[arg-type]
    lane = bench.open()
    for number in range(8):
        bench.publish(b"%d" % number + bytes(300))
    first = bench.log.first
    assert first > 0
    (attempt,) = bench.attempts(1_000.0)
    assert attempt.item.offset == first
    assert bench.door.events == [("missed", "s", "the log no longer has the oldest messages that were waiting")]
    assert bench.door.statistics == {"times that messages were gone": 1}
    bench.answer(attempt, Outcome(500))
    lane.slots[first].item = None  # as of a large message
    for _ in range(8):
        bench.publish(bytes(300))
    bench.door.events.clear()
    found = bench.attempts(1_001.0) + bench.attempts(1_001.01)
    assert [event.detail for event in bench.door.events] == [
        "the log no longer has the message that was tried",
        "the log no longer has the oldest messages that were waiting",
    ]
    assert [one.item.offset for one in found] == [bench.log.first]


@pytest.mark.parametrize("count", [31, 32, 33])
def test_a_message_wakes_the_idle_lanes_of_its_topic_alone(count: int) -> None:
    bench = Bench()
    for number in range(count):
        bench.open(f"s{number}", topic=f"t/{number}", url=f"http://10.0.0.{number}/")
    assert bench.attempts(1_000.0) == []
    bench.publish(b"1", topic="t/7")
    assert sent(bench.attempts(1_000.0)) == [("s7", 0, b"1", 1)]
    assert sum(not lane.is_idle for lane in bench.door.lanes.values()) == 1


def test_another_door_passes_over_what_was_delivered_by_number_or_by_time() -> None:
    bench = Bench(is_portable=True)
    bench.publish(b"old", topic="t/y", at=100.0)
    bench.publish(b"1", b"2", b"3", at=200.0)
    bench.publish(b"new", topic="t/y", at=500.0)
    lane = bench.open(log="another", offset=99, since=560.0, seen=[["a" * 16, 1, "t/x", 3], ["bad"], 5])
    got = []
    for _ in range(3):
        for attempt in bench.attempts(bench.now + 1.0):
            got.append(attempt.item.payload)
            bench.answer(attempt)
    assert got == [b"3", b"new"], "600 s less a minute for clocks, and number 3 of t/x is next"
    stored = bench.door.stored_position("s")
    assert (stored["log"], stored["offset"], stored["since"]) == ("log", 5, 560.0)
    assert stored["seen"] == [["a" * 16, 1, "t/x", 4], ["a" * 16, 1, "t/y", 3]]
    assert lane.entered == 5


@pytest.mark.parametrize(("status", "is_success"), [(199, False), (200, True), (299, True), (300, False)])
def test_any_answer_of_the_two_hundreds_is_a_success(status: int, is_success: bool) -> None:
    bench = Bench()
    bench.open()
    bench.publish(b"1")
    (attempt,) = bench.attempts(1_000.0)
    bench.answer(attempt, Outcome(status))
    assert bench.door.statistics == {"deliveries" if is_success else "attempts that failed": 1}


def test_a_change_of_a_subscription_is_looked_at_at_once() -> None:
    bench = Bench()
    bench.open(state="paused")
    bench.publish(b"1")
    assert bench.attempts(1_000.0) == []
    bench.door.change(1_005.0, Subscription("s", "t/#", URL))
    assert bench.door.deadline == 1_005.0
    assert sent(bench.attempts(1_005.0)) == [("s", 0, b"1", 1)]
    bench.door.change(1_006.0, Subscription("unknown", "t/#", URL))
    assert [*bench.door.lanes] == ["s"]


def test_only_lists_of_four_with_a_number_are_taken_from_a_stored_position() -> None:
    wrong = [["a", 1, "t"], ["b", 1, "t", "5"], ["a", 1, "t", 5, 6], "abcd", {}]
    assert seen_of({"seen": [*wrong, ["a", "1", "t", 5]]}) == {Stream("a", 1, "t"): 5}
    assert seen_of({}) == {}


def test_a_failing_lane_holds_small_messages_only() -> None:
    for size, is_held in ((KEPT_PAYLOAD, True), (KEPT_PAYLOAD + 1, False)):
        bench = Bench()
        lane = bench.open()
        bench.publish(b"0", bytes(size))
        (attempt,) = bench.attempts(1_000.0)
        bench.answer(attempt)
        (attempt,) = bench.attempts(1_000.0)
        bench.answer(attempt, Outcome(500))
        (slot,) = lane.slots.values()
        assert (slot.item is not None) == is_held
        if slot.item is not None:
            assert (len(slot.item.record.payloads), slot.item.place, slot.item.sequence) == (1, 0, 2)
        (attempt,) = bench.attempts(1_001.0)
        assert (attempt.item.offset, len(attempt.item.payload), attempt.item.sequence) == (1, size, 2)


def test_destinations_give_turns_one_after_the_other() -> None:
    made, key, other = Destinations(), ("http", "a", 80), ("http", "b", 80)
    assert not made.is_answering(key)
    assert made.turn(10.0, key, "1") == (10.0, True)
    assert made.turn(10.0, other, "2") == (10.002, True), "500 a second"
    assert made.holds(key, 10.0)
    assert not made.holds(key, 9.0)
    assert made.turn(10.5, key, "3") == (11.0, False)
    assert made.turn(10.5, key, "4") == (12.0, False), "one a second"
    assert made.turn(11.0, key, "5") == (11.0, True), "the first one did not end"
    made.unreached(11.5, key, "5")
    assert made.turn(12.4, key, "6") == (13.0, False)
    assert made.turn(12.5, key, "7") == (12.5, True)
    assert made.reached(key) == (["3", "4", "5", "6"], True)
    assert made.is_answering(key)
    assert made.holds(key, 0.0), "it answers, so nobody waits for a turn"
    assert made.turn(12.5, key, "8") == (12.502, True)
    assert made.turn(20.0, key, "9") == (20.0, True)
    made.unreached(20.0, key, "9")
    assert not made.is_answering(key)
    assert made.turn(20.0, key, "9")[1] is False
    assert made.reached(other) == ([], False)
    for _ in range(400):
        latest = made.turn(20.0, key, "x")[0]
    assert latest == 320.0, "whoever waits looks again after five minutes"


def test_the_destination_that_answered_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "REMEMBERED", 2)
    made, keys = Destinations(), [("http", host, 80) for host in "abc"]
    for key in (*keys[:2], keys[0]):
        made.reached(key)
    assert [made.is_answering(key) for key in keys] == [True, True, False]
    made.reached(keys[2])
    assert [made.is_answering(key) for key in keys] == [False, True, True]
