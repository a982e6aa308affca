"""How the calls of a layer are timed: given a number of calls, a *timer* makes them and returns the seconds they took.

Where a call uses up its input, or moves the layer on, inputs are made and acknowledgements returned between the
measured stretches, which are short enough for the windows of transport and long enough for the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

BATCH = 16  # calls in a measured stretch: 1 MB of trains, 700 frames, less than a window

Timer = Callable[[int], float]
Input = TypeVar("Input")
Outcome = TypeVar("Outcome")


def repeated(call: Callable[[], object]) -> Timer:
    """The same call again and again."""

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
    """Calls with inputs that `prepare` makes, so many at a time; `settle` is given what a batch of calls returned."""

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
