"""Backpressure: publishers wait for space in the queue, each on a lock of its own, and for the turn that makes space.

The handler of a signal may have to wait, too. It runs in the main thread, between any two of its steps, and may have
interrupted code that holds a lock which the next turn needs. No turn ends then until the handler returns. Therefore the
main thread gives up a wait during which no turn ends; any other thread waits as long as it takes.
"""

from __future__ import annotations

import contextlib
import threading
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import Any

LOOK = 0.05  # seconds between two looks of the main thread whether turns end
PATIENCE, LONG_PATIENCE = 4, 20  # looks without the end of a turn after which it gives up; the longer one if
BEYOND = 2  # the queue holds this multiple of its limit
FOREVER = -1.0  # to a lock


class Backpressure:
    """Makes publishers wait for space in a queue of `limit` bytes."""

    __slots__ = ("_gates", "_limit", "in_vain", "turns")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.turns = 0  # that have ended; the driver counts them
        self.in_vain = False  # whether the main thread has given up a wait, and no turn has ended since
        self._gates: deque[threading.Lock] = deque()  # one for each waiting publisher

    @property
    def is_awaited(self) -> bool:
        """Whether a publisher waits."""
        return bool(self._gates)

    def wait(self, has_room: Callable[[], bool], wake: Callable[[], None], backlog: Callable[[], int]) -> bool:
        """Wait until `has_room` is true, which is checked after each `admit`; `wake` wakes the thread that makes room.

        Returns False if the wait is given up. Only the main thread gives up: after 0.2 seconds without a turn, or 1
        second if the `backlog` (bytes) is more than twice the limit.
        """
        if not _is_main():
            return self._wait(has_room, wake, FOREVER)
        is_beyond = backlog() > BEYOND * self._limit
        return self._try(lambda: self._wait(has_room, wake, LOOK), LONG_PATIENCE if is_beyond else PATIENCE)

    def wait_for_turn(self, lock: Any) -> bool:
        """Acquire the lock of a turn; False if the main thread gave up, as no turn ended for 0.2 seconds."""
        if not _is_main():
            return bool(lock.acquire())
        return self._try(lambda: lock.acquire(timeout=LOOK), PATIENCE)

    def _try(self, look: Callable[[], bool], patience: int) -> bool:
        """Call `look` until it returns True; False if no turn has ended during this number of calls."""
        if self.in_vain and patience == PATIENCE:
            return False
        left, turns = patience, self.turns
        while not look():
            left = left - 1 if turns == self.turns else patience
            turns = self.turns
            if not left:
                self.in_vain = True
                return False
        return True

    def admit(self) -> None:
        """Let all waiting publishers look again."""
        for gate in list(self._gates):
            with contextlib.suppress(RuntimeError):  # it has been told, and is on its way
                gate.release()

    def _wait(self, has_room: Callable[[], bool], wake: Callable[[], None], longest: float) -> bool:
        """Wait until there is space, for `longest` seconds at most after each look; returns whether there is."""
        while not has_room():
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
            try:
                if not has_room():  # since from here on it is told
                    wake()
                    if not gate.acquire(timeout=longest):
                        return has_room()
            finally:
                with contextlib.suppress(ValueError):
                    self._gates.remove(gate)
        return True


def _is_main() -> bool:
    """Whether this is the main thread, the only one in which handlers of signals run."""
    return get_ident() == threading.main_thread().ident
