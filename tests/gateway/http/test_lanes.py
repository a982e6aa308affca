"""Lanes of deliveries: what they hold, what wakes them, which turn they take, and what is left when they end."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from glue.gateway.http import lanes
from glue.gateway.http.deliveries import Deliveries
from glue.gateway.http.items import Outcome
from glue.gateway.http.lanes import KEPT_PAYLOAD, Lane, Slot, matcher, retry_delay
from glue.gateway.http.limits import Limits
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import Subscription
from glue.storage import Reading, Record, Stream
from tests.gateway.http.test_machine import DOWN, URL, Bench, Luck, sent


def test_a_position_that_says_nothing_is_the_beginning_of_the_log() -> None:
    bench = Bench()
    bench.publish(b"1")
    bench.door.open(bench.now, Subscription("s", "t/#", URL), {"log": "log"})
    assert bench.door.stored_position("s") == {"log": "log", "offset": 0, "since": 0.0, "seen": []}
    assert sent(bench.attempts(bench.now)) == [("s", 0, b"1", 1)]
    assert Deliveries(bench.recent, Luck(), Limits())._is_portable is False  # type: ignore[arg-type]


@pytest.mark.parametrize("others", [0, 40])
def test_a_lane_that_is_closed_wakes_for_nothing_also_under_its_next_topic(others: int) -> None:
    bench = Bench()
    for number in range(others):
        bench.open(f"o{number}", topic=f"other/{number}", url=f"http://10.0.1.{number}/")
    bench.open()
    assert bench.attempts(1_000.0) == []
    bench.door.close("s")
    bench.publish(b"1")
    assert (bench.attempts(1_000.0), bench.door.deadline) == ([], inf)
    bench.open(topic="u", offset=1)
    bench.door.close("s")
    assert bench.attempts(1_000.0) == [], "it was about to be looked at"
    bench.open(topic="u", offset=1)
    assert bench.attempts(1_000.0) == []
    bench.publish(b"2")
    assert bench.door.deadline == inf, "nobody has this topic any more"
    bench.publish(b"3", topic="u")
    assert sent(bench.attempts(1_000.0)) == [("s", 2, b"3", 1)]


def test_what_is_under_way_holds_the_position_when_more_comes() -> None:
    bench = Bench()
    lane = bench.open(parallel=2)
    bench.publish(b"0")
    (before,) = bench.attempts(1_000.0)
    bench.answer(before)
    bench.publish(b"1")
    (first,) = bench.attempts(1_000.0)
    bench.publish(b"2")
    assert bench.door.stored_position("s")["offset"] == 1
    (second,) = bench.attempts(1_000.0)
    bench.door.changed.clear()
    bench.answer(second)
    assert (lane.position, bench.door.changed) == (1, set())
    bench.answer(first)
    assert (lane.position, bench.door.changed) == (3, {"s"})


def test_a_lane_without_a_message_of_its_own_passes_over_the_others() -> None:
    bench = Bench()
    for number in range(3):
        bench.publish(b"%d" % number, topic="other")
    lane = bench.open()
    assert bench.attempts(1_000.0) == []
    assert (lane.position, bench.door.changed, lane.is_idle) == (3, {"s"}, True)
    bench.publish(b"3", topic="other")
    bench.publish(b"4")
    assert lane.position == 4, "what is of no concern is not read after a restart"


def test_a_lane_that_waits_for_its_client_holds_nothing_of_the_log() -> None:
    bench = Bench()
    lane = bench.open()
    for number in range(4):
        bench.publish(b"%d" % number)
    (attempt,) = bench.attempts(1_000.0)
    bench.answer(attempt)
    (attempt,) = bench.attempts(1_000.0)
    assert len(lane.buffer) == 2, "read ahead while the subscriber answers"
    bench.door.change(1_000.0, Subscription("s", "t/#", URL, state="paused"))
    assert bench.attempts(1_000.0) == []
    assert not lane.buffer
    bench.answer(attempt)
    assert (bench.attempts(1_000.0), lane.position) == ([], 2), "what was under way counts"
    bench.door.change(1_001.0, Subscription("s", "t/#", URL))
    assert sent(bench.attempts(1_001.0)) == [("s", 2, b"2", 1)]


def test_a_lane_reads_ahead_once_its_subscriber_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, reads, read = Bench(), list[int](), Bench().recent.read

    def counted(topics: Callable[[str], bool], offset: int, size: int) -> Reading:
        reads.append(size)
        return read(topics, offset, size)

    read = bench.recent.read
    monkeypatch.setattr(bench.recent, "read", counted)
    for number in range(9):
        bench.publish(b"%d" % number)
    bench.open()
    for _ in range(9):
        (attempt,) = bench.attempts(1_000.0)
        bench.answer(attempt)
    assert bench.attempts(1_000.0) == []
    assert reads == [1, 64 << 10], "the first message alone, as nobody knows whether it will be taken"


def test_uncertain_attempts_that_are_due_together_begin_one_after_the_other() -> None:
    bench = Bench()
    for number in range(3):
        bench.open(f"s{number}", url=f"http://10.0.0.{number}/")
    bench.publish(b"1")
    first = [one for at in (1_000.0, 1_000.003, 1_000.005) for one in bench.attempts(at)]
    assert [one.lane for one in first] == ["s0", "s1", "s2"]
    for attempt in first:
        bench.answer(attempt, Outcome(500))
    assert bench.attempts(1_000.005) == []
    due = 1_001.005
    assert bench.door.deadline == pytest.approx(due)
    again = [[one.lane for one in bench.attempts(due + after)] for after in (0.0001, 0.0003, 0.0022, 0.0042)]
    assert again == [["s0"], [], ["s1"], ["s2"]], "five hundred a second, also where the host has answered"


def test_a_subscriber_is_told_as_failing_exactly_at_its_time() -> None:
    bench = Bench()
    bench.door = Deliveries(bench.recent, Luck(), Limits(), alert_after=3.0)  # type: ignore[arg-type]
    bench.open()
    bench.publish(b"1")
    for at, kinds in ((1_000.0, []), (1_001.0, []), (1_003.0, ["failing"]), (1_008.0, ["failing"])):
        (attempt,) = bench.attempts(at)
        bench.answer(attempt, Outcome(500))
        assert [event.kind for event in bench.door.events] == kinds, at


def test_who_waited_for_a_host_that_is_back_begins_within_a_second() -> None:
    bench = Bench()
    bench.open("s0")
    bench.open("s1")
    bench.publish(b"1")
    (first,) = bench.attempts(1_000.0)
    bench.answer(first, DOWN)
    (first,) = bench.attempts(1_001.0)
    assert first.lane == "s0", "one of the two tries"
    bench.answer(first)
    assert bench.attempts(1_001.0) == []
    assert bench.door.deadline == 1_001.5, "by chance, so that a thousand do not come at once"
    assert bench.attempts(1_001.4) == []
    assert [one.lane for one in bench.attempts(1_001.5)] == ["s1"]


def test_who_waited_for_a_host_and_has_left_it_is_not_hurried_when_it_is_back() -> None:
    bench = Bench()
    bench.open("s0")
    bench.open("s1")
    bench.publish(b"1")
    (first,) = bench.attempts(1_000.0)
    bench.door.change(1_000.1, Subscription("s1", "t/#", "http://10.0.0.9/"))
    (other,) = bench.attempts(1_000.1)
    assert (first.lane, other.lane, other.subscription.url) == ("s0", "s1", "http://10.0.0.9/")
    bench.answer(other, Outcome(500))
    bench.answer(first)
    assert bench.attempts(1_000.2) == []
    assert [one.lane for one in bench.attempts(1_001.1)] == ["s1"]


def test_a_large_dead_letter_counts_where_another_door_goes_on() -> None:
    bench = Bench(is_portable=True)
    bench.open(give_up_after=1e-6, parallel=2)
    bench.publish(bytes(KEPT_PAYLOAD + 1), at=500.0)
    (attempt,) = bench.attempts(1_000.0)
    bench.now += 1.0
    bench.answer(attempt, Outcome(500))
    (burial,) = bench.door.take_burials()
    assert attempt.slot.item is None, "a failing lane holds no large payload"
    bench.door.buried(1_001.0, burial, True)
    stored = bench.door.stored_position("s")
    assert (stored["since"], stored["seen"]) == (500.0, [["a" * 16, 1, "t/x", 2]])


# ---------------------------------------------------------------------------------------------------------- a lane


def record(number: int, *payloads: bytes, topic: str = "t", at: float = 0.0, life: int = 1) -> Record:
    return Record("a" * 16, "kitchen", life, topic, number, list(payloads), at)


def made(position: int = 0, **settings: object) -> Lane:
    return Lane(Subscription("s", "t/#", URL, **settings), position, 0.0)  # type: ignore[arg-type]


def taken(lane: Lane) -> list[tuple[int, bytes]]:
    """All that a lane has read ahead, with its offsets."""
    found = []
    while (item := lane.next_item()) is not None:
        found.append((item.offset, item.payload))
    return found


def test_a_lane_takes_what_it_read_from_its_place_on() -> None:
    lane = made(3)
    lane.fill(Reading([(2, record(1, b"0", b"1", b"2")), (7, record(4, b"3"))], 9))
    assert taken(lane) == [(3, b"1"), (4, b"2"), (7, b"3")]
    assert (lane.cursor, lane.read_to) == (9, 9)
    assert taken(lane) == []


def test_what_another_door_delivered_is_passed_over_by_number_and_else_by_time() -> None:
    lane = made()
    lane.begins, lane.skips = 100.0, {Stream("a" * 16, 1, "t"): 3}
    lane.fill(Reading([
        (0, record(2, b"2", b"3", at=999.0)), (2, record(1, b"new", at=100.0, life=2)),
        (3, record(1, b"old", at=99.9, topic="u")), (4, record(4, b"4", at=0.0)),
    ], 5))  # fmt: skip
    assert [payload for _, payload in taken(lane)] == [b"3", b"new", b"4"]


def test_a_failing_lane_keeps_small_payloads_and_what_is_on_its_way() -> None:
    lane = made(parallel=9)
    large, small = bytes(KEPT_PAYLOAD + 1), bytes(KEPT_PAYLOAD)
    for offset, payloads in enumerate(([large], [small], [large], [b"0", small])):
        lane.slots[offset] = Slot(offset, Item(offset, record(5, *payloads), len(payloads) - 1), 0.0)
    lane.slots[2].is_flying = True
    lane.fill(Reading([(9, record(1, b"x"))], 12))
    lane.cursor = 9
    lane.release()
    assert (list(lane.buffer), lane.read_to) == ([], 9), "it is read again"
    held = [None if slot.item is None else (slot.item.payload, slot.item.sequence) for slot in lane.slots.values()]
    assert held == [None, (small, 5), (large, 5), (small, 6)]
    assert len(lane.slots[3].item.record.payloads) == 1  # type: ignore[union-attr]
    assert lane.slots[3].item.offset == 3  # type: ignore[union-attr]


def test_a_lane_has_room_for_as_many_as_its_client_says_and_for_one_while_it_fails() -> None:
    lane = made(parallel=2)
    rooms = []
    for offset in range(3):
        rooms.append(lane.has_room)
        lane.slots[offset] = Slot(offset, Item(offset, record(1, b"x"), 0), 0.0)
    lane.failures = 1
    for offset in range(3):
        del lane.slots[offset]
        rooms.append(lane.has_room)
    assert rooms == [True, True, False, False, False, True]
    assert [made(state=state).is_active for state in ("active", "paused", "gone")] == [True, False, False]


def test_streams_of_a_position_are_bounded_and_the_one_that_was_silent_longest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "STREAMS", 2)
    lane = made()
    for offset, (topic, number) in enumerate((("a", 5), ("b", 1), ("a", 3), ("c", 1))):
        item = Item(offset, record(number, b"x", topic=topic, at=float(number)), 0)
        slot = lane.slots[offset] = Slot(offset, item, 0.0)
        lane.cursor = offset + 1
        assert lane.settle(slot, portable=True)
    assert lane.stored("log") == {
        "log": "log", "offset": 4, "since": 5.0, "seen": [["a" * 16, 1, "a", 6], ["a" * 16, 1, "c", 2]],
    }  # fmt: skip
    monkeypatch.setattr(lanes, "SEEN", 1)
    assert lane.stored("log")["seen"] == [["a" * 16, 1, "c", 2]], "a value of a model has an end"
    lane.slots[9] = Slot(9, Item(9, record(9, b"x", topic="d"), 0), 0.0)
    lane.settle(lane.slots[9], portable=False)
    assert len(lane.seen) == 2
    assert not any(stream.topic == "d" for stream in lane.seen), "only other doors need it"


def test_patterns_match_as_elsewhere_and_delays_differ_by_a_fifth() -> None:
    for pattern, yes, no in (("a/b", "a/b", "a"), ("a/+", "a/b", "a/b/c"), ("a/#", "a/b/c", "b"), ("#", "a", "$x")):
        assert (matcher(pattern)(yes), matcher(pattern)(no)) == (True, False)
    assert [retry_delay(2, luck) for luck in (0.0, 0.5, 1.0)] == pytest.approx([1.6, 2.0, 2.4])
    assert [retry_delay(failures, 0.0) for failures in (1, 8, 9)] == pytest.approx([0.8, 240.0, 240.0])
