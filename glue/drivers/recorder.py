"""The thread that writes what an endpoint records, off the delivery path.

Deliveries wait in a queue, and count as unhandled until they are written. Therefore senders are stopped if the disk is
slower than they are, and memory stays bounded by `receive_limit`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from glue.contract import Delivery
from glue.endpoint.fork import heirs
from glue.endpoint.recorder import messages_of
from glue.recording import McapWriter

logger = logging.getLogger("glue")


class RecordingThread:
    """Writes deliveries into a file. Its methods may be called from any thread."""

    def __init__(self, writer: McapWriter, handled: Callable[[Delivery], None]) -> None:
        """`handled` is called with each delivery once it is written or refused."""
        self.writer = writer
        self.failure = ""
        self._handled = handled
        self._queue: SimpleQueue[tuple[int, Delivery] | None] = SimpleQueue()
        self._is_closed = False
        self._is_told = False  # that messages are left out
        self._thread = threading.Thread(target=self._work, name="glue recording", daemon=True)
        self._thread.start()
        heirs.add(self)

    def submit(self, delivery: Delivery) -> None:
        """Write a delivery, which has arrived now."""
        self._queue.put((time.time_ns(), delivery))

    def close(self, timeout: float) -> None:
        """Write what was submitted, and end the file; waits `timeout` seconds at most."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _after_fork(self) -> None:
        """End in a forked child, which has no thread."""
        self._is_closed = True
        self.writer.abandon()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            time_ns, delivery = item
            try:
                if not self.failure:
                    self.writer.write(messages_of(time_ns, delivery))
                    self._look()
            except Exception as error:
                self._fail(error)
            finally:
                self._handled(delivery)
        try:
            self.writer.close()
        except Exception as error:
            self._fail(error)

    def _look(self) -> None:
        """Warn once the file has no room for other topics, publishers and types."""
        if self.writer.left_out and not self._is_told:
            self._is_told = True
            logger.warning(
                "the recording leaves messages out: its file has all channels that it can have; begin another"
            )

    def _fail(self, error: Exception) -> None:
        """Write nothing more: the rest of the file would not be readable."""
        if not self.failure:
            self.failure = str(error) or type(error).__name__
            logger.error("the recording ended: %s", self.failure)
