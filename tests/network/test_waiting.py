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

from glue.network.waiter import GATHER, WARM, Waiter


@pytest.fixture(params=[0.0, 10.0], ids=["asleep", "spinning"])
def waiter(request: pytest.FixtureRequest) -> Iterator[tuple[Waiter, int]]:
    reader, writer = os.pipe()
    made = Waiter([reader], request.param)
    busy(made, reader, writer, WARM + 1)  # so that the next wait may spin
    yield made, writer
    made.close()
    os.close(reader)
    os.close(writer)


def busy(waits: Waiter, reader: int, writer: int, count: int) -> None:
    """So many waits that end at once."""
    for _ in range(count):
        os.write(writer, b"x")
        assert waits.wait(1.0) == [reader]
        os.read(reader, 1)


def test_it_ends_when_something_comes(waiter: tuple[Waiter, int]) -> None:
    waits, writer = waiter
    threading.Timer(0.01, os.write, (writer, b"x")).start()
    assert len(waits.wait(10.0)) == 1


class Polled:
    """A `select.poll` that gives these answers, each after so many seconds on this clock."""

    def __init__(self, clock: list[float], answers: list[tuple[float, bool]]) -> None:
        self._clock = clock
        self._answers = answers

    def register(self, fileno: int, events: int) -> None:
        self._fileno = fileno

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        seconds, found = self._answers.pop(0)
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
    polled = Polled(clock, [(0.0, True)] * (WARM + 2) + answers)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(select, "poll", lambda: polled)
    waits = Waiter([-1], spin)
    for _ in range(WARM + 2):  # so that the next wait may spin
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
    busy(waits, reader, writer, WARM + 1)
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


def test_a_few_datagrams_after_a_rest_are_no_reason_to_spin() -> None:
    reader, writer = os.pipe()
    waits = Waiter([reader], spin=10.0)
    busy(waits, reader, writer, WARM)
    before = time.thread_time()
    assert waits.wait(0.05) == []
    assert time.thread_time() - before < 0.04
    waits.close()
    os.close(reader)
    os.close(writer)
