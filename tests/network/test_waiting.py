"""Waiting for datagrams: asleep or spinning, it ends when something comes, when it is woken, or when time is up."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from glue.network.waiter import EXCHANGE, GATHER, LASTING, PREEMPTED, SOBER, SOBER_ONCE, UNANSWERED, Waiter


@pytest.fixture(params=[0.0, 10.0], ids=["asleep", "spinning"])
def waiter(request: pytest.FixtureRequest) -> Iterator[tuple[Waiter, int]]:
    reader, writer = os.pipe()
    made = Waiter([reader], request.param)
    busy(made, reader, writer, EXCHANGE + 1)  # so that the next wait may spin
    yield made, writer
    made.close()
    os.close(reader)
    os.close(writer)


def busy(waits: Waiter, reader: int, writer: int, count: int, patient: bool = False) -> None:
    """So many waits that end at once."""
    for _ in range(count):
        os.write(writer, b"x")
        assert waits.wait(1.0, patient) == [reader]
        os.read(reader, 1)


def test_it_ends_when_something_comes(waiter: tuple[Waiter, int]) -> None:
    waits, writer = waiter
    threading.Timer(0.01, os.write, (writer, b"x")).start()
    assert len(waits.wait(10.0)) == 1


class Polled:
    """A `select.poll` that gives these answers, each after so many seconds on this clock."""

    def __init__(self, clock: list[float], answers: list[tuple[float, bool]]) -> None:
        self._clock = clock
        self.left = answers

    def register(self, fileno: int, events: int) -> None:
        self._fileno = fileno

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        seconds, found = self.left.pop(0)
        self._clock[0] += seconds
        return [(self._fileno, select.POLLIN)] if found else []


@pytest.mark.parametrize(
    ("spin", "answers", "fresh"),
    [
        (0.0, [(0.0, True)], False),
        (0.0, [(0.01, True)], True),
        (10.0, [(0.0, True)], False),
        (10.0, [(1e-6, False), (1e-6, True)], True),
        (10.0, [(1e-6, False), (0.01, False), (0.0, True)], False),  # it may have come while another had the core
    ],
)
def test_only_what_was_not_there_at_first_has_come_just_now(
    monkeypatch: pytest.MonkeyPatch, spin: float, answers: list[tuple[float, bool]], fresh: bool
) -> None:
    clock = [100.0]
    polled = Polled(clock, [(0.0, True)] * (EXCHANGE + 2) + answers)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(select, "poll", lambda: polled)
    waits = Waiter([-1], spin)
    for _ in range(EXCHANGE + 2):  # so that the next wait may spin
        waits.wait(10.0)
    waits.wait(10.0)
    assert waits.fresh == fresh
    waits.close()


def test_it_ends_when_woken_and_when_time_is_up(waiter: tuple[Waiter, int]) -> None:
    waits, _ = waiter
    threading.Timer(0.01, waits.wake).start()
    assert waits.wait(10.0) == []
    begun = time.monotonic()
    assert waits.wait(0.01) == []
    assert time.monotonic() - begun >= 0.0099


def test_a_wake_may_be_interrupted_by_another_as_of_a_signal_handler() -> None:
    waits = Waiter([])
    woken = threading.Event()

    def handler(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_return" and argument is os.write:
            sys.setprofile(None)
            waits.wake()
            woken.set()

    def wake() -> None:
        sys.setprofile(handler)
        waits.wake()

    threading.Thread(target=wake, daemon=True).start()
    assert woken.wait(20.0)
    assert waits.wait(0.0) == []
    waits.close()


@pytest.mark.parametrize(("gather", "patient"), [(GATHER, False), (0.0, True)], ids=["a stream", "patiently"])
def test_a_stream_is_waited_for_asleep_and_so_does_who_is_patient(gather: float, patient: bool) -> None:
    reader, writer = os.pipe()
    waits = Waiter([reader], spin=10.0)
    busy(waits, reader, writer, EXCHANGE + 1)
    waits.patience = gather
    before = time.thread_time()
    assert waits.wait(0.05, patient) == []
    assert time.thread_time() - before < 0.04  # it would have spun all the while
    waits.close()
    os.close(reader)
    os.close(writer)


def test_what_gathered_in_a_sleep_has_not_come_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    reader, writer = os.pipe()
    os.write(writer, b"x")
    waits = Waiter([reader])
    waits.patience = GATHER
    assert waits.wait(1.0) == [reader]
    assert clock[0] > 100.0
    assert not waits.fresh
    waits.close()
    os.close(reader)
    os.close(writer)


class Line:
    """A waiter and what it finds, on a clock that stands still but while it looks."""

    SPIN = 0.0002

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock = clock = [100.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock[0])
        self._polled = Polled(clock, [])
        monkeypatch.setattr(select, "poll", lambda: self._polled)
        self.waits = Waiter([-1], self.SPIN)

    def answered(self, count: int, patient: bool = False) -> None:
        """So many waits that end at once."""
        for _ in range(count):
            self._polled.left[:] = [(1e-6, True)]
            self.waits.wait(10.0, patient)

    def pass_time(self, seconds: float) -> None:
        """Nothing happens."""
        self._clock[0] += seconds

    def preempted(self) -> float:
        """A spin in which the core was taken away for a while; after how many seconds the next is allowed."""
        self._polled.left[:] = [(1e-6, False), (2 * PREEMPTED, False), (1e-6, True)]
        self.waits.wait(10.0)
        began = time.monotonic()
        while not self.waits.is_eager:
            self.pass_time(1e-5)
        return time.monotonic() - began

    def spins(self) -> bool:
        """Whether the next wait begins with a spin; what ends it comes later."""
        self._polled.left[:] = [(1e-6, False), (self.SPIN, False), (self.SPIN, True)]
        self.waits.wait(10.0)
        return not self._polled.left


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A line on which nothing has happened."""
    made = Line(monkeypatch)
    yield made
    made.waits.close()


def test_who_lost_the_core_in_a_spin_is_sober_for_ever_longer_as_long_as_that_happens_again(line: Line) -> None:
    sober: list[float] = []
    for _ in range(8):
        line.answered(LASTING)
        assert line.spins()
        line.answered(EXCHANGE)
        sober.append(line.preempted())
    assert sober == pytest.approx([SOBER_ONCE * 2**times for times in range(5)] + [SOBER] * 3, abs=1e-4)
    line.pass_time(10.0)
    line.answered(LASTING)
    assert line.preempted() == pytest.approx(SOBER_ONCE, abs=1e-4)


def test_an_exchange_is_worth_a_spin_once_it_lasts(line: Line) -> None:
    line.answered(EXCHANGE - 1)
    assert not line.spins()
    line.answered(EXCHANGE)
    assert line.spins()


def test_who_only_hears_does_not_spin_however_often_something_comes(line: Line) -> None:
    line.answered(100, patient=True)
    assert not line.spins()
    for _ in range(100):  # what is said now and then is no answer to what comes
        line.answered(1)
        line.answered(1, patient=True)
    assert not line.spins()


def test_an_exchange_stays_one_though_something_else_comes_in_between(line: Line) -> None:
    line.answered(100)
    line.answered((LASTING - EXCHANGE) // UNANSWERED - 1, patient=True)
    assert line.spins()
    line.answered(100, patient=True)
    assert not line.spins()


def test_an_exchange_outlasts_a_late_answer_but_not_many(line: Line) -> None:
    line.answered(LASTING + 1)
    assert [line.spins() for _ in range(LASTING // EXCHANGE + 1)] == [True] * (LASTING // EXCHANGE) + [False]
    assert not line.spins()
