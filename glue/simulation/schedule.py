"""Virtual time: the order of all events, which depends on the seed alone.

Events at one instant run in the order of scheduling. Turns of hosts are kept apart and run last at their instant.
Therefore a turn receives everything that arrives at the instant, as from a real socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import isnan
from typing import Any

from glue.simulation.machine import SimulationError
from glue.simulation.trace import TraceHash

STEPS_AT_ONE_INSTANT = 1_000_000
"""More than 200 hosts need when each multicasts 20 datagrams to all others at once (800,000)."""


class Schedule:
    """Events of a world in virtual time, which starts at 0. `trace` records what has happened."""

    __slots__ = ("_heap", "_ready", "_sequence", "_steps", "time", "trace")

    def __init__(self) -> None:
        self.time = 0.0
        self.trace = TraceHash()
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._ready: deque[Callable[[], None]] = deque()
        self._sequence = 0
        self._steps = 0

    def call_at(self, time: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call `action` at true time `time`. Raises SimulationError if that time has passed."""
        if time < self.time or isnan(time):
            raise SimulationError(f"cannot schedule {action!r} at {time}: it is {self.time} already")
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, action, arguments))

    def call_last(self, turn: Callable[[], None]) -> None:
        """Call `turn` at this instant, after all other events scheduled for it so far."""
        self._ready.append(turn)

    def step(self, end: float) -> bool:
        """Run the next event, if one is due until true time `end`. Return whether one ran."""
        heap = self._heap
        if self._ready and not (heap and heap[0][0] <= self.time):
            self._count_step()
            self._ready.popleft()()
            return True
        if not heap or heap[0][0] > end:
            return False
        time, _, action, arguments = heappop(heap)
        if time > self.time:
            self.time = time
            self._steps = 0
        self._count_step()
        action(*arguments)
        return True

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > STEPS_AT_ONE_INSTANT:
            raise SimulationError(
                f"virtual time stands still at {self.time}: {STEPS_AT_ONE_INSTANT} steps at one instant. "
                "Do hosts answer each other over links without delay?"
            )
