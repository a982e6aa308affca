"""Gaps, repetitions and restarts as the commands count them."""

from __future__ import annotations

import pytest

from glue.cmd import tally as tallying
from glue.cmd.tally import Tally
from glue.contract import Delivery
from glue.endpoint.message import Message


def message(sequence: int, incarnation: int = 1, retained: bool = False) -> Message:
    delivery = Delivery("demo", [b""], None, "garden", "0" * 16, incarnation, sequence, 0.0, retained, [])
    return Message(b"", sequence, delivery)


def counts(tally: Tally) -> list[tuple[object, object]]:
    return [(stream["received"], stream["missing"]) for stream in tally.fields()]


def test_numbers_in_order_are_no_trouble() -> None:
    tally = Tally()
    assert [tally.add(message(number)) for number in (1, 2, 3)] == ["", "", ""]
    assert counts(tally) == [(3, 0)]


def test_a_late_joiner_misses_nothing() -> None:
    tally = Tally()
    assert tally.add(message(500)) == ""
    assert counts(tally) == [(1, 0)]


def test_a_gap_is_told_and_counted() -> None:
    tally = Tally()
    tally.add(message(1))
    assert tally.add(message(5)) == "gap: 3 missing before #5"
    assert counts(tally) == [(2, 3)]


def test_a_step_back_is_told() -> None:
    tally = Tally()
    tally.add(message(2))
    assert tally.add(message(2)) == "out of order or repeated: #2 after #2"


def test_a_restarted_publisher_starts_anew() -> None:
    tally = Tally()
    tally.add(message(7))
    assert tally.add(message(1, incarnation=2)) == ""
    assert counts(tally) == [(1, 0), (1, 0)]
    assert tally.received_of("0" * 16) == 2


def test_a_retained_message_is_no_part_of_the_order() -> None:
    tally = Tally()
    tally.add(message(7, retained=True))
    assert tally.add(message(9)) == ""
    assert counts(tally) == [(1, 0)]
    assert "garden" in tally.lines()[1]


def test_hearing_nothing_is_said() -> None:
    assert Tally().lines() == ["nothing received"]


def test_everything_that_was_counted_is_in_the_table_and_in_the_fields() -> None:
    tally = Tally()
    for number in (7, 5, 9, 9, 12):
        tally.add(message(number))
    tally.add(message(3, retained=True))
    tally.add(message(4, retained=True))
    tally.add(message(1, incarnation=2, retained=True))
    assert tally.lines() == [
        "publisher  topic  received  first  last  missing  repeated  retained",
        "garden     demo          5  7      12          5         2         2",
        "garden     demo          0                     0         0         1",
    ]
    first, second = tally.fields()
    assert first == {
        "publisher": "garden", "topic": "demo", "received": 5, "first": 7, "last": 12, "missing": 5, "repeated": 2,
        "retained": 2,
    }  # fmt: skip
    assert second["first"] is second["last"] is None
    assert (tally.received_of("0" * 16), tally.received_of("1" * 16)) == (5, 0)


def test_only_so_many_streams_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tallying.STREAM_LIMIT == 10_000
    monkeypatch.setattr(tallying, "STREAM_LIMIT", 2)
    tally = Tally()
    for incarnation in (1, 2, 3, 1):
        assert tally.add(message(incarnation, incarnation)) in ("", "out of order or repeated: #1 after #1")
    assert counts(tally) == [(2, 0), (1, 0)]
