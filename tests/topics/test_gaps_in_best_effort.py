"""When a gap in what is sent with best effort is told: after a second of grace, and after a sleep no earlier."""

from __future__ import annotations

import pytest

from glue.contract import Event, Missed, Subscribe
from glue.topics import Topics
from glue.topics.bundle import LIVE, MessageGroup, encode
from glue.topics.streams import GRACE
from tests.topics.parties import added, deliveries, inbound, topics


def subscriber() -> Topics:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe("t", "a")])
    return layer


def best(layer: Topics, now: float, sequence: int) -> list[Event]:
    item = inbound("ann", encode([MessageGroup("a", sequence, 0, [b"x"], 1, None, False, LIVE, None, sequence)]))
    item.reliable = False
    return layer.receive(now, [item])[0]


def missed(up: list[Event]) -> list[tuple[int, str]]:
    return [(item.count, item.cause) for item in up if isinstance(item, Missed)]


def test_a_gap_is_told_once_the_grace_is_over_and_not_before() -> None:
    layer = subscriber()
    best(layer, 100.0, 1)
    assert missed(best(layer, 100.0, 4)) == []
    assert layer.deadline == pytest.approx(100.0 + GRACE)
    assert missed(layer.receive(100.0 + 0.9 * GRACE, [])[0]) == []
    assert missed(layer.receive(100.0 + GRACE, [])[0]) == [(2, "best effort")]
    assert layer.deadline == float("inf")
    assert missed(best(layer, 102.0, 5)) == []


def test_what_comes_within_the_grace_is_not_missed() -> None:
    layer = subscriber()
    for sequence in (1, 4, 2):
        assert len(deliveries(best(layer, 100.0, sequence))) == 1
    assert missed(layer.receive(101.0, [])[0]) == [(1, "best effort")]
    for sequence in (8, 5, 6, 7):
        best(layer, 102.0, sequence)
    assert missed(layer.receive(103.5, [])[0]) == []


def test_after_a_sleep_the_grace_begins_anew_for_what_waits_in_the_socket() -> None:
    layer = subscriber()
    best(layer, 100.0, 1)
    best(layer, 100.0, 4)
    late = 100.0 + 3 * GRACE
    assert missed(layer.receive(late, [])[0]) == []
    assert layer.deadline == pytest.approx(late + GRACE)
    best(layer, late + 0.5, 2)
    assert missed(layer.receive(late + GRACE, [])[0]) == [(1, "best effort")]
    assert layer.deadline == float("inf")


def test_a_turn_that_is_a_little_late_tells_all_the_same() -> None:
    layer = subscriber()
    best(layer, 100.0, 1)
    best(layer, 100.0, 4)
    assert missed(layer.receive(100.0 + 1.9 * GRACE, [])[0]) == [(2, "best effort")]


def test_beyond_the_most_gaps_that_wait_others_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.streams.OVERDUE", 2)
    layer = subscriber()
    assert [missed(best(layer, 100.0, sequence)) for sequence in (1, 3, 5, 8)] == [[], [], [], [(2, "best effort")]]
    assert missed(layer.receive(101.0, [])[0]) == [(1, "best effort")] * 2
