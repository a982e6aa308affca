"""The network seat: one thread at a time waits for the network, the leader or a publisher in its place.

While a publisher's thread runs the turns of a stream, the leader stands aside. Once the queue is full, that thread has
to wait for acknowledgements, and does so at the network. Otherwise the leader would wait there, with cold caches, and
would have to wake the publisher. A wake-up that reaches a publisher but is meant for the leader is passed on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from glue.contract import Network
from glue.contract.logs import lazy_logger
from glue.drivers.interruption import Uninterrupted
from glue.drivers.lifetime import FAREWELL

if TYPE_CHECKING:
    from glue.fastpath.parts import NetworkPart

logger = lazy_logger("glue")

ASIDE = 0.001  # seconds after a publisher's turn of a stream within which the leader expects another
LONGER = 0.003  # seconds after which the leader looks again while a publisher waits in its place
LONGEST = 0.004  # seconds between looks in a lasting stream: each look takes the GIL from the publisher
RELIEF = 0.05  # seconds a publisher waits at a time: then the leader is back, unless a signal handler runs there


class NetworkSeat:
    """The right to wait for a network; one thread at a time has this right."""

    __slots__ = ("_back_at", "_called", "_network", "_seat", "_uninterrupted", "is_aside")

    def __init__(self, network: Network) -> None:
        self._network = network
        self._uninterrupted = Uninterrupted(NetworkSeat.relieve.__code__, network.wake)
        self._back_at = 0.0  # when the publisher that waits in the leader's place has done so
        self.is_aside = False  # whether the leader leaves the turns to a publisher
        self.renew_locks()

    def renew_locks(self) -> None:
        """Make all locks."""
        self._seat = threading.Lock()  # held while a thread waits for the network
        self._called = threading.Lock()  # free once standing aside is to end early

    @property
    def is_relieved(self) -> bool:
        """Whether a publisher waits in the leader's place just now, as far as another thread can tell."""
        return self._seat.locked() and time.monotonic() < self._back_at

    def hurry(self) -> None:
        """Let the publisher that waits in the leader's place run a turn."""
        if self.is_relieved:
            self._network.wake()

    def wait(self, timeout: float, is_due: Callable[[], bool], patient: bool) -> None:
        """Wait as the leader, as `Network.wait` does, unless something `is_due`; a publisher in its place stops.

        If the publisher does not stop soon, as it is in the handler of a signal, the leader looks without waiting.
        """
        if self._seat.locked():
            self._network.wake()
        if self._seat.acquire(timeout=LONGER):
            try:
                if not is_due():
                    self._network.wait(timeout, patient)
            finally:
                self._seat.release()

    def glance(self, network: NetworkPart, until: float, is_due: Callable[[], bool]) -> bytes | None:
        """Wait as the leader in a session, unless something `is_due`; `network` gives the result."""
        if not self._seat.acquire(blocking=False):
            return None
        try:
            return None if is_due() else network.glance(until)
        finally:
            self._seat.release()

    def stand_aside(self, is_streaming: Callable[[], bool]) -> None:
        """Leave the turns to a publisher as long as it runs them, or until `call`."""
        self._called.acquire(blocking=False)
        self.is_aside = True  # from here on a call is heard
        pause = LONGER if self._seat.locked() else ASIDE
        while is_streaming() and not self._called.acquire(timeout=pause):
            pause = min(2 * pause, LONGEST)
        self.is_aside = False

    def call(self) -> None:
        """End the leader's standing aside."""
        with contextlib.suppress(RuntimeError):  # it is free already; no Event, which a signal may find half set
            self._called.release()

    def relieve(self, until: float, is_over: Callable[[], bool], is_due: Callable[[], object]) -> bool:
        """Wait in the leader's place, unless something `is_due`; False if it does not stand aside, or it `is_over`.

        `until` at most (monotonic seconds), and for RELIEF. Ctrl-C ends the wait, and is raised at its end.
        """
        with self._uninterrupted:  # longer than the place is held, as whatever Ctrl-C calls may want that
            if not self._seat.acquire(blocking=False):  # the leader is back, or another publisher waits
                return False
            try:
                now = time.monotonic()
                until = max(now, min(until, now + RELIEF))
                self._back_at = until + LONGER
                if not self.is_aside or is_over():
                    return False
                if not is_due():
                    self._network.wait(until - now, patient=True)  # a spin would take a receiver's core
            except Exception:  # a fault of the network's, not of the publisher's
                logger.exception("waiting failed")
                return False
            finally:
                self._seat.release()
                self._pass_on()
        return True

    def take(self, timeout: float) -> bool:
        """Take the seat to ask and wait for an answer there; the leader makes room. Returns whether it did in time."""
        if not self._seat.acquire(blocking=False):
            self._network.wake()
            if not self._seat.acquire(timeout=timeout):
                return False
        self._back_at = time.monotonic() + LONGER
        return True

    def leave(self) -> None:
        """Give back the seat after `take`."""
        self._seat.release()
        self._pass_on()

    def _pass_on(self) -> None:
        """Wake the leader if it does not stand aside any more: a publisher may have been woken in its stead."""
        if not self.is_aside:
            self._network.wake()

    def close(self) -> None:
        """Close the network, for which no thread waits any more, unless it is late."""
        is_free = self._seat.acquire(timeout=FAREWELL)
        try:
            self._network.close()
        finally:
            if is_free:
                self._seat.release()
