"""A door's log names each cause of a refusal, and cannot be filled by a client that tries again and again."""

from __future__ import annotations

from glue.gateway.refusals import AGAIN, CAUSES, LINES, PAUSE, Refusals


def test_a_cause_is_told_once_and_after_a_while_with_how_often_it_came() -> None:
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for number in range(100):
        refusals.tell(number * 0.1, f"10.0.0.1:{number}: wrong password", "10.0.0.1: wrong password")
    assert lines == ["10.0.0.1:0: wrong password"]
    refusals.tell(AGAIN, "10.0.0.1:7: wrong password", "10.0.0.1: wrong password")
    assert lines[1:] == ["10.0.0.1:7: wrong password (100 times since the last line about it)"]


def test_many_causes_at_once_leave_a_bounded_number_of_lines_and_their_count() -> None:
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for number in range(10 * CAUSES):
        refusals.tell(0.0, f"topic {number}")
    assert len(lines) == LINES
    refusals.tell(PAUSE, "one more")
    assert lines[-1] == f"one more; {10 * CAUSES - LINES} other refusals were not logged"
    refusals.tell(2 * PAUSE, "and one more")
    assert lines[-1] == "and one more", "what was told is left out no more"


def test_a_cause_that_found_no_room_is_told_when_it_comes_again() -> None:
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for number in range(LINES + 1):
        refusals.tell(0.0, f"topic {number}")
    refusals.tell(PAUSE, f"topic {LINES}")
    assert lines[-1].startswith(f"topic {LINES};")


def test_only_so_many_causes_are_remembered() -> None:
    lines: list[str] = []
    refusals = Refusals(lines.append)
    for number in range(CAUSES + 1):
        refusals.tell(number * PAUSE * 1e-3 + number * PAUSE, f"topic {number}")
    assert len(refusals._told) <= CAUSES
