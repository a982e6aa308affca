"""Keepers of an asyncio endpoint, and publications that wait for their acknowledgements."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from glue.aio.driver import LoopDriver
from glue.contract import Delivery, Publication
from glue.endpoint.durability import Acks
from glue.endpoint.keep_methods import OUTSTANDING, check_outstanding, not_durable, place_of
from glue.endpoint.options import Priority
from glue.endpoint.receipt import AwaitableReceipt
from glue.endpoint.recording import RecordMethods
from glue.errors import ClosedError

if TYPE_CHECKING:  # imported when used: most programs keep nothing
    from glue.drivers.directory import FileDirectory
    from glue.drivers.log_writer import LogWriter
    from glue.drivers.recorder import RecordingThread
    from glue.endpoint.keeper import Keeper
    from glue.endpoint.keeping import Keeping
    from glue.recording import McapWriter
    from glue.storage import FileLog


class AioKeeping(RecordMethods[AwaitableReceipt]):
    """The methods of `glue.aio.Endpoint` to keep and record topics, and to wait for keepers."""

    _openings: dict[Any, asyncio.Future[None]]
    """The logs that are being opened, by directory."""

    def _running(self) -> LoopDriver:
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
        driver = self._running()

        def written(delivery: Delivery) -> None:
            driver.call_threadsafe(lambda: driver.handled(delivery))

        return written

    def _publish_quietly(self, publications: list[Publication]) -> None:
        """Hand acknowledgements to the loop; a closed endpoint drops them."""
        driver, now = self._driver_or_none(), time.time()
        if driver is None:
            return
        for publication in publications:
            publication.published_at = now
        driver.call_threadsafe(lambda: driver.add(publications))

    def _driver_or_none(self) -> LoopDriver | None:
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------- keeping

    async def keep(
        self,
        pattern: str,
        *,
        data_dir: str | PathLike[str] | None = None,
        age: float | str | None = None,
        size: int | str | None = None,
        count: int | None = None,
        replicas: int | None = None,
    ) -> Keeper:
        """Keep the messages of the topics that match a pattern, as `glue.Endpoint.keep` does."""
        self._check_keeping(pattern, age, size, count, replicas)
        if data_dir is not None and not self._has_writer(data_dir):
            await asyncio.shield(self._opening(data_dir))  # a cancelled call leaves no open log behind
        return self._keep(pattern, data_dir, age, size, count, replicas)

    def _opening(self, data_dir: Any) -> asyncio.Future[None]:
        """Open a log, once for all calls that need it now."""
        openings, place = self._openings, place_of(data_dir)
        if place not in openings:

            def end(opening: asyncio.Future[None]) -> None:
                del openings[place]
                if not opening.cancelled():
                    opening.exception()  # asyncio logs an error that is never looked at

            openings[place] = asyncio.ensure_future(self._add_log(data_dir))
            openings[place].add_done_callback(end)
        return openings[place]

    async def _add_log(self, data_dir: Any) -> None:
        log = cast("FileLog", await asyncio.to_thread(self._open_log, data_dir, None))
        try:
            self._running()
        except ClosedError:
            log.close()
            raise
        self._add_writer(data_dir, log)

    async def wait_for_keepers(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` endpoints keep a topic on their disks; whether they did in time."""
        durability = self._core.durability
        return await self._running().wait_until(lambda: len(durability.keepers(topic)) >= count, timeout)

    def _make_receipt(self, topic: str, count: int, acks: Acks) -> AwaitableReceipt:
        driver = self._running()
        expectation = self._expect(topic, count, acks, lambda: driver.call_threadsafe(driver.notify))
        return AwaitableReceipt(driver.wait_until, expectation)

    # ----------------------------------------------------------------------------------------- publishing

    def publish_durable(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        acks: Acks = "disk",
        outstanding: int = OUTSTANDING,
        priority: Priority = "normal",
    ) -> AsyncIterator[int]:
        """Publish a stream of payloads; returns an asynchronous iterator over the number of acknowledged messages.

        As `glue.Endpoint.publish_durable`.
        """
        check_outstanding(outstanding)
        self._running()
        return self._durable_stream(topic, iter(payloads), acks, outstanding, priority)

    async def _durable_stream(
        self, topic: str, source: Iterator[Any], acks: Acks, outstanding: int, priority: Priority
    ) -> AsyncIterator[int]:
        waiting: deque[AwaitableReceipt] = deque()
        room, size, done = outstanding, max(1, outstanding // 2), 0
        try:
            while True:
                while room >= size and (payloads := list(islice(source, size))):
                    for receipt, publication in self._with_receipts(topic, payloads, acks, priority):
                        waiting.append(receipt)
                        await self._running().publish((publication,))
                    room -= len(payloads)
                if not waiting:
                    return
                receipt = waiting[0]
                if not await receipt:
                    raise not_durable(topic, done, receipt)
                waiting.popleft()
                room += receipt.messages
                done += receipt.messages
                yield done
        finally:
            self._drop(waiting)
