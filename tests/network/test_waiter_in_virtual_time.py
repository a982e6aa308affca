"""How long a wait looks and sleeps, what it learns, and what it tells, on a clock that moves as a test says."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from glue.network import waiter as module
from glue.network.waiter import NEITHER, Waiter

SOCKET, OTHER, SPIN = 101, 102, 0.001
FRESH, GATHER, PREEMPTED, SOBER_ONCE = 20e-6, 50e-6, 300e-6, 0.001
EXCHANGE, LASTING, UNANSWERED = 4, 16, 2  # answers
Answer = tuple[float, list[int]]


class Clocked:
    """A waiter whose looks and sleeps take so long and find these descriptors; without an answer, all the time left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spin: float = SPIN) -> None:
        self.now = 100.0
        self.answers: list[Answer] = []
        self.asked: list[float] = []
        self.slept: list[float] = []
        self.registered: list[tuple[int, int]] = []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        monkeypatch.setattr(module, "select", SimpleNamespace(poll=lambda: self, POLLIN=1))
        self.waiter = Waiter([SOCKET, OTHER], spin)

    def register(self, fileno: int, events: int) -> None:
        self.registered.append((fileno, events))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        self.asked.append(round(milliseconds, 6))
        seconds, found = self.answers.pop(0) if self.answers else (milliseconds / 1000, [])
        self.now += seconds
        return [(fileno, 1) for fileno in found]

    def wait(self, timeout: float | None, *answers: Answer, patient: bool = False) -> list[float]:
        """Wait; what poll(2) was asked."""
        self.answers, self.asked = [*answers], []
        self.waiter.wait(timeout, patient)
        assert self.answers == []
        return self.asked

    def answered(self, count: int, patient: bool = False) -> None:
        """So many waits that end at once."""
        for _ in range(count):
            self.answers = [(1e-6, [SOCKET])]
            self.waiter.wait(10.0, patient)

    @property
    def count(self) -> int:
        """How many answers are remembered, once the latest wait is learned from."""
        self.waiter._learn(False)
        self.waiter._latest = module.NOTHING
        return self.waiter._answers


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocked]:
    made = Clocked(monkeypatch)
    yield made
    made.waiter.close()


def test_a_new_waiter_has_learned_nothing(clocked: Clocked) -> None:
    waiter = clocked.waiter
    assert clocked.registered == [(fileno, 1) for fileno in (waiter.wake_fileno, SOCKET, OTHER)]
    assert (waiter.woken, waiter.fresh, waiter.patience, waiter.is_eager) == (False, False, 0.0, False)
    clocked.now = 0.5  # after the start of the machine
    clocked.answered(EXCHANGE)
    assert clocked.count == EXCHANGE
    assert waiter.is_eager


@pytest.mark.parametrize(("timeout", "milliseconds"), [
    (None, 3_600_000.0), (7_200.0, 3_600_000.0), (3_600.0, 3_600_000.0), (0.5, 500.0), (0.0, 0.0), (-1.0, 0.0),
])  # fmt: skip
def test_a_wait_is_as_long_as_asked_for_and_an_hour_at_most(
    timeout: float | None, milliseconds: float, clocked: Clocked
) -> None:
    assert clocked.wait(timeout) == [milliseconds]
    assert (clocked.waiter.woken, clocked.slept) == (False, [])


@pytest.mark.parametrize(("patience", "timeout", "slept", "asked", "left"), [
    (GATHER, 1.0, [GATHER], [999.95], 0.0), (GATHER, GATHER, [], [0.05], GATHER), (0.0, 1.0, [], [1000.0], 0.0),
    (GATHER, GATHER + 1e-6, [GATHER], [0.001], 0.0), (GATHER, None, [GATHER], [3_599_999.95], 0.0),
])  # fmt: skip
def test_a_stream_gathers_in_a_sleep_if_there_is_time_for_it(
    patience: float, timeout: float | None, slept: list[float], asked: list[float], left: float, clocked: Clocked
) -> None:
    clocked.waiter.patience = patience
    assert (clocked.wait(timeout), clocked.slept, clocked.waiter.patience) == (asked, slept, left)


@pytest.mark.parametrize(("answers", "fresh"), [
    ([(FRESH, [SOCKET])], False), ([(1.1 * FRESH, [SOCKET])], True), ([(0.0, [])], False), ([(0.5, [])], True),
])  # fmt: skip
def test_what_ends_a_sleep_has_come_just_now(answers: list[Answer], fresh: bool, clocked: Clocked) -> None:
    clocked.now = 0.0  # where no rounding blurs the limit
    clocked.wait(1.0, *answers)
    assert clocked.waiter.fresh is fresh
    clocked.wait(1.0, (0.0, [SOCKET]))
    assert not clocked.waiter.fresh


def test_sockets_are_told_and_wakes_are_read(clocked: Clocked) -> None:
    waiter = clocked.waiter
    waiter.wake()
    for found, expected, woken in (
        ([SOCKET, waiter.wake_fileno, OTHER], [SOCKET, OTHER], True), ([OTHER], [OTHER], False), ([], [], False),
    ):  # fmt: skip
        clocked.answers = [(0.0, found)]
        assert (waiter.wait(1.0), waiter.woken) == (expected, woken)
    with pytest.raises(BlockingIOError):
        os.read(waiter.wake_fileno, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe cannot be set")
def test_wakes_without_number_neither_block_nor_last() -> None:
    waiter = Waiter([])
    fcntl.fcntl(waiter._wake_writer, fcntl.F_SETPIPE_SZ, 8192)
    for _ in range(9000):
        waiter.wake()
    turns = 0
    while waiter.wait(0.0) == [] and waiter.woken:
        turns += 1
    assert turns == 2, "4,096 at a time"
    read, write = waiter._wake_reader, waiter._wake_writer
    waiter.close()
    waiter.wake()
    for fileno in (read, write):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fileno)


# ------------------------------------------------------------------------------------------------------- what it learns


def test_answers_are_counted_up_to_a_bound_and_forgotten_by_what_is_none(clocked: Clocked) -> None:
    def after(answers: list[Answer], timeout: float = 10.0, patient: bool = False, before: int = 10) -> int:
        """How many there are then."""
        clocked.waiter._answers, clocked.waiter._latest = before, module.NOTHING
        clocked.waiter._sober_until = 1e9  # no look
        clocked.wait(timeout, *answers, patient=patient)
        clocked.waiter._learn(patient)
        return clocked.waiter._answers

    clocked.now = 0.0
    assert after([(SPIN / 2, [SOCKET])]) == 11
    clocked.now = 0.0
    assert after([(SPIN, [SOCKET])]) == after([(0.5, [SOCKET])]) == 10 - EXCHANGE
    assert after([(SPIN / 2, [SOCKET])], patient=True) == 10 - UNANSWERED
    assert after([], timeout=SPIN) == 10, "it tells nothing"
    assert after([], timeout=1.1 * SPIN) == 10 - EXCHANGE
    assert after([(0.5, [])], timeout=0.0) == 10
    assert after([(0.5, [SOCKET])], before=EXCHANGE - 1) == after([(0.0, [SOCKET])], before=1, patient=True) == 0
    clocked.waiter._latest, clocked.waiter._answers, clocked.waiter._sober_until = module.NOTHING, 0, 1e9
    clocked.answered(LASTING + 5)
    assert clocked.count == LASTING


@pytest.mark.parametrize(("answers", "eager"), [(EXCHANGE - 1, False), (EXCHANGE, True)])
def test_a_wait_begins_with_looks_in_an_exchange(answers: int, eager: bool, clocked: Clocked) -> None:
    clocked.answered(answers)
    assert clocked.count == answers
    assert clocked.waiter.is_eager is eager
    answers_then: list[Answer] = [(0.0, []), (1e-5, [SOCKET])] if eager else [(1e-5, [SOCKET])]
    assert clocked.wait(1.0, *answers_then) == ([0, 0] if eager else [1000.0])


def exchanging(clocked: Clocked) -> Clocked:
    """One that looks before it sleeps."""
    clocked.now = 0.0
    clocked.waiter._sober_until = -1.0
    clocked.waiter._answers = LASTING
    return clocked


@pytest.mark.parametrize(("timeout", "answers", "asked", "fresh"), [
    (1.0, [(0.0, [SOCKET])], [0], False), (1.0, [(0.0, []), (1e-5, [SOCKET])], [0, 0], True),
    (1.0, [(0.0, []), *[(SPIN / 4, [])] * 4, (0.0, [SOCKET])], [0, 0, 0, 0, 0, 999.0], True),
    (SPIN / 2, [(0.0, []), *[(SPIN / 4, [])] * 2, (0.0, [])], [0, 0, 0, 0], True),
    (1.0, [(0.0, []), (PREEMPTED, []), (0.0, [SOCKET])], [0, 0, 0], True),
    (1.0, [(0.0, []), (1.1 * PREEMPTED, []), (0.0, [SOCKET])], [0, 0, 999.67], False),
])  # fmt: skip
def test_looks_end_with_what_comes_or_the_spin_or_a_lost_core(
    timeout: float, answers: list[Answer], asked: list[float], fresh: bool, clocked: Clocked
) -> None:
    assert (exchanging(clocked).wait(timeout, *answers), clocked.waiter.fresh) == (asked, fresh)
    is_preempted = 999.67 in asked
    assert clocked.waiter.is_eager is not is_preempted
    if is_preempted:
        assert clocked.waiter._sober_until == pytest.approx(1.1 * PREEMPTED + SOBER_ONCE)


def test_a_wait_that_is_patient_or_for_a_stream_or_sober_does_not_look(clocked: Clocked) -> None:
    exchanging(clocked)
    assert clocked.wait(1.0, (0.0, [SOCKET]), patient=True) == [1000.0]
    exchanging(clocked).waiter.patience = GATHER
    assert clocked.wait(1.0, (0.0, [SOCKET])) == [999.95]
    for until, asked in ((0.0, [1000.0]), (-1e-9, [0])):
        exchanging(clocked).waiter._sober_until = until
        assert clocked.waiter.is_eager is (until < 0)
        assert clocked.wait(1.0, (0.0, [SOCKET])) == asked


@pytest.mark.parametrize(("answers", "found", "asked"), [
    ([(0.0, [SOCKET])], SOCKET, 1), ([(0.0, []), (0.0, [OTHER])], OTHER, 2), ([(0.0, [SOCKET, OTHER])], NEITHER, 1),
    ([(0.0, []), (0.0002, []), (0.0003, [])], NEITHER, 3),
])  # fmt: skip
def test_a_glance_finds_one_descriptor_and_teaches_nothing(
    answers: list[Answer], found: int, asked: int, clocked: Clocked
) -> None:
    clocked.wait(1.0, (0.5, [SOCKET]))  # late: it would cost four answers
    exchanging(clocked)
    clocked.answers, clocked.asked = [*answers], []
    assert clocked.waiter.glance(0.0005) == found
    assert (clocked.asked, clocked.answers) == ([0] * asked, [])
    assert clocked.count == LASTING
    assert NEITHER == -1
