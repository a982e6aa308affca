"""Order of the reliable messages of a publisher on a topic, whatever comes late; and what one wrong number can do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.contract import Delivery, Event, FrameGap, Missed, Subscribe
from glue.topics import Topics
from glue.topics.bundle import KEPT, SEQUENCE_LIMIT, MessageGroup, encode
from glue.topics.streams import DOUBT, DOUBT_STEP, FASTEST, LEAP, NOT_SENT
from tests.topics.parties import added, endpoint_id, groups, inbound, message, removed, topics, wants


class Reader:
    """A layer that knows ann and wants everything; what it hands up of her topic "t" is kept."""

    def __init__(self) -> None:
        self.layer: Topics = topics()
        self.now = 0.0
        self.heard: list[int] = []
        self.missed: list[int] = []
        self.causes: list[str] = []
        self.layer.receive(0.0, [added("ann")])
        self.layer.send(0.0, [Subscribe("all", "#")])

    def take(self, sequence: int, count: int = 1, *, reliable: bool = True, **options: Any) -> list[int]:
        """Receive one bundle; returns the sequence numbers that are handed up for it."""
        data = encode([MessageGroup("t", sequence, 1, [b"x"] * count, 1, **options)])
        return self._note(self.layer.receive(self.now, [inbound("ann", data, reliable=reliable)])[0])

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._note(self.layer.receive(self.now, [])[0])

    def first_heard(self, sequence: int, interval: float) -> int:
        """Receive a message each interval, from this number on; returns the first that is handed up."""
        while not self.take(sequence):
            self.now += interval
            sequence += 1
        return sequence

    def _note(self, events: list[Event]) -> list[int]:
        fresh: list[int] = []
        for event in events:
            if isinstance(event, Missed):
                self.missed.append(event.count)
                self.causes.append(event.cause)
            elif isinstance(event, Delivery):
                fresh += range(event.sequence, event.sequence + len(event.payloads))
        self.heard += fresh
        return fresh

    @property
    def late(self) -> int:
        return self.layer.statistics["messages too late"]


def test_what_comes_behind_later_messages_is_dropped_counted_and_told_once() -> None:
    reader = Reader()
    reader.take(1, 30)
    reader.take(347)
    for sequence in range(31, 347):
        assert reader.take(sequence) == []
    assert reader.take(348) == [348]
    assert (reader.missed, reader.late) == ([316], 316)
    assert len(reader.heard) + sum(reader.missed) == 348


def test_a_message_that_comes_twice_is_handed_up_once() -> None:
    reader = Reader()
    reader.take(1, 5)
    assert reader.take(1, 5) == []
    assert reader.take(4, 5) == [6, 7, 8]
    assert (reader.missed, reader.late) == ([], 7)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.integers(1, 4), st.randoms(use_true_random=False))
def test_channels_interleaved_at_random_are_heard_in_order_and_add_up(
    counts: list[int], channels: int, rng: Any
) -> None:
    """Bundles of one stream, spread over channels each of which keeps its order, are read channel by channel.

    Long pauses are fewer than it takes to doubt a stream of which nothing but late bundles comes (`DOUBT`).
    """
    rows: list[list[tuple[int, int]]] = [[] for _ in range(channels)]
    sequence = 1
    for count in counts:
        rng.choice(rows).append((sequence, count))
        sequence += count
    reader, pauses = Reader(), [20.0] * (math.ceil(DOUBT / DOUBT_STEP) - 1)
    while rows := [row for row in rows if row]:
        reader.take(*rng.choice(rows).pop(0))
        is_long = bool(pauses) and rng.random() < 0.3
        reader.now += pauses.pop() if is_long else rng.choice((0.0, 0.001))
    assert reader.heard == sorted(set(reader.heard))
    assert len(reader.heard) + sum(reader.missed) == reader.heard[-1] - reader.heard[0] + 1
    assert len(reader.heard) + reader.late == sequence - 1


def test_unordered_messages_may_come_behind_later_ones() -> None:
    reader = Reader()
    for sequence in (1, 4, 2, 3, 5):
        assert reader.take(sequence, ordered=False) == [sequence]


def test_what_is_published_unordered_says_so_if_it_is_reliable() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann"), wants("ann", "#")])
    down = layer.send(0.0, [message("a", b"x", ordered=False), message("b", b"x", ordered=False, reliable=False)])
    assert {group.topic: group.ordered for group in groups([*down, *layer.send(0.0, [message("c", b"x")])])} == {
        "a": False,
        "b": True,
        "c": True,
    }


@pytest.mark.parametrize("is_reliable", [True, False])
def test_a_jump_that_no_publisher_can_make_is_refused_and_harms_nothing(is_reliable: bool) -> None:
    reader = Reader()
    reader.take(1, 30, reliable=is_reliable)
    reader.now += 1.0
    for sequence in (SEQUENCE_LIMIT, 32 + LEAP + FASTEST, 2**53 - 1):
        assert reader.take(sequence, reliable=is_reliable) == []
    assert reader.take(SEQUENCE_LIMIT, reliable=is_reliable, position=31) == []
    for sequence in range(31, 40):
        assert reader.take(sequence, reliable=is_reliable) == [sequence]
    reader.wait(3.0)
    assert reader.missed == []
    assert reader.layer.statistics["messages numbered out of bounds"] == 3
    assert reader.layer.statistics["malformed bundle: malformed sequence"] == 1


def test_a_jump_by_as_much_as_the_fastest_publisher_sends_meanwhile_is_told_as_missing() -> None:
    reader = Reader()
    reader.take(1)
    reader.now += 1.0
    assert reader.take(2 + LEAP + FASTEST) == [2 + LEAP + FASTEST]
    assert reader.missed == [LEAP + FASTEST]


def test_a_huge_jump_is_believed_once_the_stream_goes_on_from_there() -> None:
    """The machine of this endpoint was suspended, and its clock stood still."""
    reader = Reader()
    reader.take(1)
    assert reader.take(10**12) == []
    assert reader.take(10**12 + 1) == [10**12 + 1]
    assert reader.missed == [10**12 - 1]


def test_one_wrong_number_silences_a_stream_for_seconds_at_most() -> None:
    reader = Reader()
    reader.take(1, 30)
    assert reader.take(1_000_000) == [1_000_000]
    first = reader.first_heard(31, 0.02)
    assert (first - 31) * 0.02 <= DOUBT + 0.1
    assert reader.take(first + 1) == [first + 1]
    assert reader.layer.statistics["streams begun anew"] == 1
    assert sum(reader.missed) == 1_000_000 - 31


def test_a_stream_that_began_with_a_wrong_number_is_healed_too() -> None:
    reader = Reader()
    reader.take(SEQUENCE_LIMIT)
    first = reader.first_heard(1, 0.1)
    assert first * 0.1 <= DOUBT + 0.5
    assert reader.take(first + 1) == [first + 1]


def test_the_backlog_of_a_stopped_host_heals_nothing_however_often_it_is_stopped() -> None:
    reader = Reader()
    reader.take(1)
    sequence = 2
    for newest in range(10_000, 10_010):
        reader.take(newest)
        for _ in range(int(DOUBT / DOUBT_STEP)):
            assert reader.take(sequence) == reader.take(sequence + 1) == []
            sequence += 2
            reader.now += 20.0
    assert reader.layer.statistics["streams begun anew"] == 0


def test_a_count_that_begins_anew_goes_on_and_what_is_older_stays_too_late() -> None:
    reader = Reader()
    reader.take(1, 30)
    assert reader.take(5_000_000_000, position=1) == [5_000_000_000]
    assert reader.take(31) == reader.take(2) == []
    assert reader.take(5_000_000_001, position=2) == [5_000_000_001]
    assert (reader.missed, reader.late) == ([], 2)


def test_a_best_effort_message_ahead_does_not_make_reliable_ones_late() -> None:
    reader = Reader()
    reader.take(1)
    reader.take(10, reliable=False, position=1)
    assert reader.take(2, 8) == list(range(2, 10))
    assert (reader.missed, reader.late) == ([], 0)


def test_what_is_older_than_a_replay_that_was_handed_up_comes_too_late() -> None:
    reader = Reader()
    reader.take(1, 30)
    assert reader.take(340, retain=KEPT) == [340]
    assert reader.take(31) == []
    assert reader.take(335, 10) == list(range(341, 345))
    assert reader.missed == [310]
    assert reader.take(50, retain=KEPT) == []  # it was had: what was kept is newer


def test_an_older_live_message_is_too_late_also_after_a_replay_with_which_the_stream_began() -> None:
    reader = Reader()
    assert reader.take(340, retain=KEPT) == [340]
    assert reader.take(339) == []
    assert reader.take(341) == [341]
    assert reader.missed == []


def test_a_gap_is_told_with_the_cause_for_which_the_peer_gave_frames_up_since_the_message_before() -> None:
    reader = Reader()

    def give_up(name: str, cause: str) -> None:
        reader.layer.receive(reader.now, [FrameGap(endpoint_id(name), 3, cause)])

    give_up("ann", "before everything")
    reader.wait(1)
    reader.take(1)
    reader.take(3)
    give_up("ann", "expired")
    give_up("bob", "of another peer")
    reader.wait(1)
    reader.take(5)
    reader.wait(1)
    reader.take(7)
    give_up("ann", "expired")
    reader.layer.receive(reader.now, [removed("ann"), added("ann")])
    reader.take(9)
    assert reader.causes == [NOT_SENT, "expired", NOT_SENT, NOT_SENT]
    assert reader.missed == [1, 1, 1, 1]
