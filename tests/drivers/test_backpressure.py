"""Who waits how long for space in the queue, and for a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from glue.drivers import backpressure as module
from glue.drivers.backpressure import LONG_PATIENCE, PATIENCE, Backpressure
from glue.endpoint.locks import asked_whether_held
from tests.support.lan import PATIENCE as SOON

LIMIT = 1000


@pytest.fixture
def backpressure(monkeypatch: pytest.MonkeyPatch) -> Backpressure:
    monkeypatch.setattr(module, "LOOK", 0.001)
    return Backpressure(LIMIT)


class Looks:
    """Counts the looks of who waits; at each of them, something happens."""

    def __init__(self, each: Callable[[], None] = lambda: None, enough: int = 1 << 30) -> None:
        self.count = 0
        self._each, self._enough = each, enough

    def has_room(self) -> bool:
        return self.count >= self._enough

    def wake(self) -> None:
        self.count += 1
        self._each()


def test_the_main_thread_gives_up_when_no_turn_ends_and_then_at_once_until_one_does(backpressure: Backpressure) -> None:
    looks = Looks()
    assert not backpressure.wait(looks.has_room, looks.wake, lambda: LIMIT)
    assert looks.count == PATIENCE
    assert not backpressure.wait(looks.has_room, looks.wake, lambda: LIMIT)
    assert looks.count == PATIENCE
    backpressure.in_vain = False
    assert not backpressure.wait(looks.has_room, looks.wake, lambda: LIMIT)
    assert looks.count == 2 * PATIENCE


def test_beyond_twice_the_limit_each_message_waits_longer(backpressure: Backpressure) -> None:
    looks = Looks()
    backpressure.in_vain = True
    assert not backpressure.wait(looks.has_room, looks.wake, lambda: 2 * LIMIT + 1)
    assert looks.count == LONG_PATIENCE


def test_the_main_thread_waits_as_long_as_turns_end(backpressure: Backpressure) -> None:
    def turn() -> None:
        backpressure.turns += looks.count % (PATIENCE - 1) == 0

    looks = Looks(turn, enough=10 * PATIENCE)
    assert backpressure.wait(looks.has_room, looks.wake, lambda: LIMIT)


def test_space_made_just_before_a_publisher_waits_is_not_missed(backpressure: Backpressure) -> None:
    rooms = iter([False, True, True])
    wakes: list[None] = []
    assert backpressure.wait(lambda: next(rooms), lambda: wakes.append(None), lambda: LIMIT)
    assert not wakes
    assert not backpressure.is_awaited


def test_a_publisher_whose_wait_is_broken_off_waits_no_more(backpressure: Backpressure) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backpressure.wait(lambda: False, interrupt, lambda: LIMIT)
    assert not backpressure.is_awaited


def test_another_thread_never_gives_up(backpressure: Backpressure) -> None:
    backpressure.in_vain = True
    waits, lets_in = threading.Event(), threading.Event()
    ended: list[bool] = []
    thread = threading.Thread(
        target=lambda: ended.append(backpressure.wait(lets_in.is_set, waits.set, lambda: 3 * LIMIT))
    )
    thread.start()
    assert waits.wait(SOON)
    thread.join(LONG_PATIENCE * module.LOOK * 2)
    assert backpressure.is_awaited
    lets_in.set()
    backpressure.admit()
    thread.join(SOON)
    assert ended == [True]
    assert not backpressure.is_awaited


def test_the_main_thread_leaves_a_turn_that_does_not_end_to_the_others(backpressure: Backpressure) -> None:
    lock, is_held, is_over = threading.RLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait(SOON)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(SOON)
    assert not backpressure.wait_for_turn(lock)
    assert backpressure.in_vain
    is_over.set()
    thread.join(SOON)
    backpressure.in_vain = False
    assert backpressure.wait_for_turn(lock)
    lock.release()


def test_a_thread_knows_which_locks_it_holds() -> None:
    lock = threading.RLock()
    is_held = asked_whether_held(lock)
    elsewhere: list[bool] = []
    assert not is_held()
    with lock, lock:
        thread = threading.Thread(target=lambda: elsewhere.append(is_held()))
        thread.start()
        thread.join(SOON)
        assert is_held()
    assert not is_held()
    assert elsewhere == [False]
