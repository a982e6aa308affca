"""What a responder remembers of requests that may come again."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.requests import Memory
from glue.requests import memory as module
from glue.requests.memory import AT_WORK, MARGIN
from glue.requests.wire import FORGOTTEN, FULL, refusal_tail


def key(number: int, caller: str = "a", incarnation: int = 1) -> tuple[str, int, int]:
    return caller, incarnation, number


def test_a_new_request_is_handled_and_one_at_work_is_left_alone() -> None:
    memory = Memory(Counter())
    assert memory.begin(0.0, key(1), 5.0) is None
    assert memory.begin(1.0, key(1), 5.0) == AT_WORK
    assert memory.begin(1.0, key(2), 5.0) is None
    assert memory.begin(1.0, key(1, incarnation=2), 5.0) is None
    assert memory.begin(1.0, key(1, "b"), 5.0) is None


def test_an_answer_is_given_again() -> None:
    memory = Memory(Counter())
    memory.begin(0.0, key(1), 5.0)
    memory.answer(key(1), b"answer")
    memory.answer(key(1), b"another")
    assert memory.begin(1.0, key(1), 5.0) == b"answer"


def test_it_is_forgotten_some_time_after_its_caller_gave_up() -> None:
    memory = Memory(Counter())
    memory.begin(0.0, key(1), 5.0)
    memory.answer(key(1), b"answer")
    assert memory.begin(5.0 + MARGIN - 0.1, key(1), 5.0) == b"answer"
    assert memory.begin(5.0 + MARGIN, key(2), 30.0) is None
    assert len(memory) == 1
    memory.answer(key(1), b"too late")
    assert len(memory) == 1


def test_answers_are_bounded_in_bytes_and_a_dropped_one_is_not_acted_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES", 100)
    memory = Memory(Counter())
    for number in range(5):
        assert memory.begin(0.0, key(number), 5.0) is None
        memory.answer(key(number), b"x" * 40)
    found = [memory.begin(0.0, key(number), 5.0) for number in range(5)]
    assert found == [refusal_tail(FORGOTTEN)] * 3 + [b"x" * 40] * 2


def test_requests_are_bounded_in_number_in_all_and_of_each_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDS", 10)
    monkeypatch.setattr(module, "CALLER_IDS", 6)
    memory = Memory(Counter())
    assert [memory.begin(0.0, key(number), 5.0) for number in range(8)] == [None] * 6 + [refusal_tail(FULL)] * 2
    others = [memory.begin(0.0, key(number, "b"), 5.0) for number in range(6)]
    assert others == [None] * 4 + [refusal_tail(FULL)] * 2
    assert len(memory) == 10
    assert memory.begin(5.0 + MARGIN, key(9), 30.0) is None
    assert len(memory) == 1
