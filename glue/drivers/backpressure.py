"""Backpressure: publishers wait for space in the queue, each on a lock of its own, and for the turn that makes space.

The handler of a signal may have to wait, too, and interrupts the main thread between any two steps. If it interrupts
glue itself, the thread that has to make space may wait for the interrupted code. Therefore the handler gives up after
a while.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from glue.drivers.interruption import is_interruption

INTERRUPTION = 0.05  # seconds of waiting before the check for an interrupting signal handler, which then gives up
LONG_INTERRUPTION, BEYOND = 1.0, 2  # seconds a handler waits beyond this multiple of the queue's limit
FOREVER = -1.0  # to a lock


class Backpressure:
    """Makes publishers wait for space in a queue of `limit` bytes."""

    __slots__ = ("_gates", "_limit", "in_vain")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.in_vain = False  # whether a handler of a signal has waited for a turn to end, which has not since
        self._gates: deque[threading.Lock] = deque()  # one for each waiting publisher

    @property
    def is_awaited(self) -> bool:
        """Whether a publisher waits."""
        return bool(self._gates)

    def wait(self, has_room: Callable[[], bool], wake: Callable[[], None], backlog: Callable[[], int]) -> bool:
        """Wait until `has_room` is true, which is checked after each `admit`; `wake` wakes the thread that makes room.

        Returns False if the wait is given up. Only a signal handler that has interrupted glue gives up: after 0.05
        seconds, or later if the `backlog` (bytes) is more than twice the limit.
        """
        if self.in_vain and is_interruption():
            return False
        self._wait(has_room, wake, INTERRUPTION)
        if has_room():
            return True
        if is_interruption():
            if backlog() > BEYOND * self._limit:
                self._wait(has_room, wake, LONG_INTERRUPTION)
            return False
        self._wait(has_room, wake, FOREVER)
        return True

    def wait_for_turn(self, lock: Any) -> bool:
        """Acquire the lock of a turn; False if the handler of a signal gave up, which waits for each turn once."""
        if not is_interruption():
            return bool(lock.acquire())
        if self.in_vain:
            return False
        self.in_vain = not lock.acquire(timeout=INTERRUPTION)
        return not self.in_vain

    def admit(self) -> None:
        """Let all waiting publishers look again."""
        for gate in list(self._gates):
            with contextlib.suppress(RuntimeError):  # it has been told, and is on its way
                gate.release()

    def _wait(self, has_room: Callable[[], bool], wake: Callable[[], None], longest: float) -> None:
        """Wait until there is space, and for `longest` seconds at most after each look."""
        while not has_room():
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
            try:
                if not has_room():  # since from here on it is told
                    wake()
                    if not gate.acquire(timeout=longest):
                        return
            finally:
                with contextlib.suppress(ValueError):
                    self._gates.remove(gate)
