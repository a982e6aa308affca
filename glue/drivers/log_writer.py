"""The thread that stores what an endpoint keeps, off the delivery path.

Deliveries wait in a queue, and count as unhandled until they are stored: so senders are stopped once the disk is slower
than they are, and memory stays bounded by `receive_limit`. While a sync runs, what arrives gathers for the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from queue import Empty, SimpleQueue

from glue.contract import Delivery
from glue.endpoint.fork import heirs
from glue.endpoint.keeping import Keeping
from glue.storage import Record

BATCH = 256
"""Deliveries stored in one go at most, so that the first of them do not wait for all."""

logger = logging.getLogger("glue")


class LogWriter:
    """Runs a `Keeping` in a thread of its own. Its methods may be called from any thread."""

    def __init__(self, keeping: Keeping, handled: Callable[[Delivery], None]) -> None:
        """`handled` is called with each delivery once it is stored or refused."""
        self.keeping = keeping
        self._handled = handled
        self._queue: SimpleQueue[Delivery | Callable[[], object] | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="glue log", daemon=True)
        self._thread.start()
        heirs.add(self)

    def submit(self, delivery: Delivery) -> None:
        """Store a delivery."""
        self._queue.put(delivery)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the thread, after what was submitted before."""
        self._queue.put(function)

    def store(self, records: Sequence[Record]) -> None:
        """Store records that were fetched from another keeper."""
        self.call(lambda: self.keeping.store_records(time.monotonic(), records))

    def close(self, timeout: float) -> None:
        """Store and sync what was submitted, and end; waits `timeout` seconds at most."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(timeout)

    def _after_fork(self) -> None:
        """End in a forked child, which has no thread."""
        self._is_closed = True

    def _work(self) -> None:
        keeping = self.keeping
        while self._step(keeping):
            pass
        try:
            keeping.close(time.monotonic())
        except OSError:
            logger.exception("the log was not closed")

    def _step(self, keeping: Keeping) -> bool:
        """Wait for work, do it, and sync if that is due; returns False at the end."""
        left = keeping.deadline - time.monotonic()
        is_open, functions, deliveries = True, list[Callable[[], object]](), list[Delivery]()
        try:
            item = (
                self._queue.get(timeout=None if left == inf else max(left, 0.0))
                if left > 0
                else self._queue.get_nowait()
            )
            while True:
                if item is None:
                    is_open = False
                elif isinstance(item, Delivery):
                    deliveries.append(item)
                else:
                    functions.append(item)
                if not is_open or functions or len(deliveries) >= BATCH:
                    break
                item = self._queue.get_nowait()
        except Empty:
            pass
        if deliveries:
            _attempt(lambda: keeping.store(time.monotonic(), deliveries))
            for delivery in deliveries:
                self._handled(delivery)
        for function in functions:
            _attempt(function)
        now = time.monotonic()
        if keeping.deadline <= now:
            _attempt(lambda: keeping.commit(now, time.time()))
        return is_open


def _attempt(function: Callable[[], object]) -> None:
    """Call a function; a fault of ours must not end the thread in silence, for publishers wait for it."""
    try:
        function()
    except Exception:
        logger.exception("storing failed")
