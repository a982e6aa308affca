"""Waiting for sockets to become readable, and being woken from another thread: poll(2) and a pipe, as on every Unix.

Measured against epoll and eventfd, both Linux only: the same within 0.1 µs for so few descriptors.

A sleeping thread takes long to return: an idle core must wake, and finds its caches cold. Therefore a wait begins with
a short spin where requests and replies follow each other within microseconds. In a stream, a wait begins with a short
sleep, in which datagrams gather. An endpoint that only receives never spins.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Sequence

LONGEST_WAIT = 3600.0  # poll counts in 32 bits of milliseconds; a caller that waits longer just waits again
WAKES_READ = 4096  # how many unanswered wakes one read clears; any left over cost one idle turn

FRESH = 20e-6  # seconds asleep, after which what ends that has come just now
GATHER = 50e-6  # seconds to let a stream gather before looking: the sender need not wake this thread for each train
PREEMPTED = 300e-6  # seconds between two looks, a hundred times the usual, that tell of a core taken away
SOBER_ONCE, SOBER = 0.001, 0.02  # seconds without a spin after that; twice as long each time, if it happens again
RELAPSE = 0.2  # within so many seconds
EXCHANGE = 4  # answers in a row, each within a spin, before waiting begins with one; a late one outweighs so many
LASTING = 16  # of them are remembered at most
UNANSWERED = 2  # of them are forgotten for each wait that was ended by what called for none
NOTHING = 0.0, 0.0, 0.0, False  # of a wait that tells nothing of the next
NEITHER = -1  # socket


class Waiter:
    """Waits until one of the sockets is readable, `wake` was called, or time is up."""

    def __init__(self, filenos: Sequence[int], spin: float = 0.0) -> None:
        """`spin`: seconds to look again and again before sleeping, while waits end sooner than that."""
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)  # a full pipe wakes just as well
        self._poll = select.poll()
        for fileno in (self._wake_reader, *filenos):
            self._poll.register(fileno, select.POLLIN)
        self.renew_lock()
        self._closed = False
        self._spin = spin
        self._sober_until = 0.0
        self._sober_for = 0.0  # the latest time
        self._latest = NOTHING  # of the latest wait: its limit, when it began and ended, if with something
        self._answers = 0  # that came in a row, each within `spin`
        self.woken = False  # whether `wake` was called before the end of the latest wait
        self.fresh = False  # whether what ended the latest wait was not there at once: most likely it is all there is
        self.patience = 0.0  # seconds, while a stream is coming in: what comes next is best received in bulk

    def renew_lock(self) -> None:
        """Make the lock."""
        self._closing = threading.RLock()  # so that the handler of a signal may wake, too

    @property
    def wake_fileno(self) -> int:
        """Readable from a `wake` on until the end of the next `wait`."""
        return self._wake_reader

    def wait(self, timeout: float | None, patient: bool = False) -> list[int]:
        """The sockets that are readable (or have an error to tell), after at most `timeout` seconds.

        If `patient`, as no answer is expected at once, without a spin.
        """
        self._learn(patient)
        longest = LONGEST_WAIT if timeout is None else min(max(timeout, 0.0), LONGEST_WAIT)
        begun = time.monotonic()
        found: list[tuple[int, int]] = []
        self.fresh = False
        if 0.0 < self.patience < longest:
            time.sleep(self.patience)
            self.patience = 0.0
        elif not patient and self._answers >= EXCHANGE and begun > self._sober_until:
            found = self._look(begun, begun + min(self._spin, longest))
        if not found:
            looked = time.monotonic()
            found = self._poll.poll(max(0.0, begun + longest - looked) * 1000)
            self.fresh = self.fresh or time.monotonic() - looked > FRESH
        now = time.monotonic()
        self._latest = longest, begun, now, bool(found)
        ready = []
        self.woken = False
        for fileno, _ in found:
            if fileno == self._wake_reader:
                os.read(fileno, WAKES_READ)
                self.woken = True
            else:
                ready.append(fileno)
        return ready

    def _learn(self, patient: bool) -> None:
        """Adapt the next wait to the result of the latest one; deferred, because received data goes first."""
        longest, begun, ended, found = self._latest
        if not found or ended - begun >= self._spin:
            if found or longest > self._spin:  # else it tells nothing
                self._answers = max(self._answers - EXCHANGE, 0)
        elif patient:
            self._answers = max(self._answers - UNANSWERED, 0)
        elif self._answers < LASTING:
            self._answers += 1

    def _look(self, now: float, until: float) -> list[tuple[int, int]]:
        """Look again and again; not for a while if another process turns out to need the core."""
        poll, clock = self._poll.poll, time.monotonic
        found: list[tuple[int, int]] = poll(0)
        self.fresh = not found
        while not found and now < until:
            found = poll(0)
            before, now = now, clock()
            if now - before > PREEMPTED:
                self._sober_for = min(2 * self._sober_for, SOBER) if now < self._sober_until + RELAPSE else SOBER_ONCE
                self._sober_until = now + self._sober_for
                self.fresh = False
                break
        return found

    @property
    def is_eager(self) -> bool:
        """Whether waiting begins with a spin."""
        return self._answers >= EXCHANGE and time.monotonic() > self._sober_until

    def glance(self, until: float) -> int:
        """Spin until a descriptor is readable or `until` (monotonic seconds); NEITHER for none or several."""
        self._latest = NOTHING
        found = self._look(time.monotonic(), until)
        return found[0][0] if len(found) == 1 else NEITHER

    def wake(self) -> None:
        """Make the present or the next `wait` return; callable from any thread at any time."""
        with self._closing, contextlib.suppress(BlockingIOError):
            if not self._closed:  # else the number may by now be another file's
                os.write(self._wake_writer, b"\0")

    def close(self) -> None:
        """Release the pipe. No `wait` may be under way; a `wake` does no harm."""
        with self._closing:
            self._closed = True
            os.close(self._wake_reader)
            os.close(self._wake_writer)
