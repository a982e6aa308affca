"""Operations of a log of interests fill a frame to its last byte, and never beyond."""

from __future__ import annotations

import orjson

from glue.discovery.interests import InterestLog

BOTH = len(b'"+a","+b"')


def log() -> InterestLog:
    made = InterestLog()
    made.record(["a", "b"], [])
    return made


def test_the_newest_operations_fill_the_room_exactly() -> None:
    assert [len(log().newest(room)) for room in (3, 4, BOTH - 1, BOTH)] == [0, 1, 1, 2]


def test_frames_of_operations_fill_the_room_exactly() -> None:
    operations = [orjson.dumps("+a"), orjson.dumps("+b")]
    assert list(log().frames(0, BOTH, 9)) == [(0, operations, True)]
    assert list(log().frames(0, BOTH - 1, 9)) == [(0, operations[:1], False), (1, operations[1:], True)]


def test_a_frame_has_one_operation_at_least_and_frames_are_limited() -> None:
    assert [len(operations) for _, operations, _ in log().frames(0, 0, 9)] == [1, 1]
    assert [(first, is_last) for first, _, is_last in log().frames(0, 0, 1)] == [(0, True)]
