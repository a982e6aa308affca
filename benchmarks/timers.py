"""Timers for the calls of a layer. A *timer* makes a given number of calls and returns their duration in seconds.

Some calls consume their input or change the state of the layer. Inputs and acknowledgements for these calls are made
between the measured batches. A batch fits into transport's windows and is long enough for the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

BATCH = 16  # calls in a batch: 1 MB of trains, 700 frames, less than a window

Timer = Callable[[int], float]
Input = TypeVar("Input")
Outcome = TypeVar("Outcome")


def repeated(call: Callable[[], object]) -> Timer:
    """Return a timer that repeats one call."""

    def timer(calls: int) -> float:
        turns = range(calls)
        began = perf_counter()
        for _ in turns:
            call()
        return perf_counter() - began

    return timer


def batches(
    prepare: Callable[[int], list[Input]],
    call: Callable[[Input], Outcome],
    settle: Callable[[list[Outcome]], object] = id,
    batch: int = BATCH,
) -> Timer:
    """Return a timer that calls `call` with inputs from `prepare`, in batches.

    `settle` receives the results of each batch. Neither `prepare` nor `settle` is measured.
    """

    def timer(calls: int) -> float:
        seconds = 0.0
        while calls:
            inputs = prepare(min(batch, calls))
            calls -= len(inputs)
            began = perf_counter()
            outcomes = [call(one) for one in inputs]
            seconds += perf_counter() - began
            settle(outcomes)
        return seconds

    return timer
