"""Keepers of a threaded endpoint, and publications that wait for their acknowledgements."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING, Any

from glue.contract import Delivery, Publication
from glue.drivers.leader import ThreadDriver
from glue.endpoint.durability import Acks
from glue.endpoint.keep_methods import OUTSTANDING, check_outstanding, not_durable
from glue.endpoint.options import Priority
from glue.endpoint.receipt import WaitingReceipt
from glue.endpoint.recording import RecordMethods
from glue.errors import ClosedError
from glue.sync.requests import gathered

if TYPE_CHECKING:  # imported when used: most programs keep nothing
    from glue.drivers.directory import FileDirectory
    from glue.drivers.log_writer import LogWriter
    from glue.drivers.recorder import RecordingThread
    from glue.endpoint.keeper import Keeper
    from glue.endpoint.keeping import Keeping
    from glue.recording import McapWriter


class SyncKeeping(RecordMethods[WaitingReceipt]):
    """The methods of `glue.Endpoint` to keep and record topics, and to wait for keepers."""

    _COUNTS = False  # the driver counts
    _keeping_lock: AbstractContextManager[object]
    """Held while a keeper begins or ends, as several threads may do that at once."""

    def _running(self) -> ThreadDriver:
        raise NotImplementedError

    def _open_directory(self, data_dir: str | PathLike[str]) -> FileDirectory:
        from glue.drivers.directory import FileDirectory

        return FileDirectory(data_dir)

    def _make_writer(self, keeping: Keeping) -> LogWriter:
        from glue.drivers.log_writer import LogWriter

        return LogWriter(keeping, self._written())

    def _make_recording(self, writer: McapWriter) -> RecordingThread:
        from glue.drivers.recorder import RecordingThread

        return RecordingThread(writer, self._written())

    def _written(self) -> Callable[[Delivery], None]:
        return self._running().handled

    def _publish_quietly(self, publications: list[Publication]) -> None:
        with contextlib.suppress(ClosedError):  # then the publishers are told that this endpoint left
            driver, now = self._running(), time.time()
            for publication in publications:
                publication.published_at = now
                driver.publish((publication,), True)

    # -------------------------------------------------------------------------------------------- keeping

    def keep(
        self,
        pattern: str,
        *,
        data_dir: str | PathLike[str] | None = None,
        age: float | str | None = None,
        size: int | str | None = None,
        count: int | None = None,
        replicas: int | None = None,
    ) -> Keeper:
        """Keep the messages of the topics that match a pattern, also for others, until the keeper is closed.

        data_dir: a directory for the log of this endpoint alone, which all its keepers share; None: in memory.
        age: how long messages are kept: seconds, or text such as "30d" or "12h"; None: for ever.
        size: how many bytes of these topics are kept: a number, or text such as "2GB"; None: no limit.
        count: how many messages of each topic are kept; 1 keeps the last value of each.
        replicas: how many of several keepers keep each topic, and what `acks="replicas"` waits for; None: all of them.

        Old messages are removed by and by: up to twice as much as allowed, and a segment of 64 MiB, stays on the disk.
        What was acknowledged (`acks` of `publish`) survives a power cut. If the disk is full or fails, `Keeper.failure`
        tells so, publishers are told, and what is stored can still be read. See docs/storage.md.

        Raises TopicError, ConfigurationError, StorageError, ClosedError.
        """
        with self._keeping_lock:
            return self._keep(pattern, data_dir, age, size, count, replicas)

    def _close_keeper(self, keeper: Keeper) -> None:
        with self._keeping_lock:
            super()._close_keeper(keeper)

    def _end_keeping(self, timeout: float) -> None:
        with self._keeping_lock:
            writers = self._writers  # with that of a keeper which another thread has just begun
        for writer in (writers or {}).values():
            writer.close(timeout)

    def wait_for_keepers(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` endpoints keep a topic on their disks; whether they did in time."""
        durability = self._core.durability
        return self._running().wait_until(lambda: len(durability.keepers(topic)) >= count, timeout)

    def _make_receipt(self, topic: str, count: int, acks: Acks) -> WaitingReceipt:
        event, driver = threading.Event(), self._running()
        expectation = self._expect(topic, count, acks, event.set)
        return WaitingReceipt(driver.wait_until, expectation, event, _waiting(driver))

    # ----------------------------------------------------------------------------------------- publishing

    def publish_durable(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        acks: Acks = "disk",
        outstanding: int = OUTSTANDING,
        priority: Priority = "normal",
    ) -> Iterator[int]:
        """Publish a stream of payloads, and return an iterator over the number of messages that are acknowledged.

        The iterator gives a larger number after each acknowledgement: so many of the first messages are on disk as
        `acks` says. At most `outstanding` messages are unacknowledged at once; payloads are taken from the source as
        there is room. While the iterator is not read, nothing is sent.

        Raises what `publish` raises, and from the iterator NotDurableError if no more acknowledgements can come.
        """
        check_outstanding(outstanding)
        self._running()
        return self._durable_stream(topic, iter(payloads), acks, outstanding, priority)

    def _durable_stream(
        self, topic: str, source: Iterator[Any], acks: Acks, outstanding: int, priority: Priority
    ) -> Iterator[int]:
        waiting: deque[WaitingReceipt] = deque()
        room, size, done = outstanding, max(1, outstanding // 2), 0
        try:
            while True:
                while room >= size and (payloads := gathered(source, size)):
                    for receipt, publication in self._with_receipts(topic, payloads, acks, priority):
                        waiting.append(receipt)
                        self._running().publish((publication,), True)
                    room -= len(payloads)
                if not waiting:
                    return
                receipt = waiting[0]
                if not receipt.wait():
                    raise not_durable(topic, done, receipt)
                waiting.popleft()
                room += receipt.messages
                done += receipt.messages
                yield done
        finally:
            self._drop(waiting)


def _waiting(driver: ThreadDriver) -> Any:
    """How a receipt waits for its event: as a handler may that is called in the leader's thread."""

    def wait_for(event: threading.Event, timeout: float | None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        while not event.is_set() and not driver.closed:
            left = 3600.0 if until is None else until - time.monotonic()
            if left <= 0 or driver.wait_for(event, left):
                break
        return event.is_set()

    return wait_for
