"""Writes and syncs the log of a door: appends in the event loop, syncs in a thread, one at a time.

What arrives during a sync waits for the next one. So a lone message waits for one sync, and under load a sync covers
all that came during the last.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from glue.errors import StorageError, StorageFullError
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.store import RETRY_INTERVAL, Store
from glue.storage.file_log import Ticket

SLOW, GATHERING = 0.002, 0.25
"""After a sync that took longer, in seconds, the next one waits for this part of its time if something came meanwhile:
publishers that have just been acknowledged send again, and one sync covers all of them."""

logger = logging.getLogger("glue.mqtt")


class Committing:
    """The syncs of a store. `flush` is called after each, to write to clients what waited for it."""

    def __init__(self, broker: Broker, store: Store, flush: Callable[[], None]) -> None:
        self.store = store
        self._broker = broker
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "glue mqtt store")
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_failed = self._is_closed = False
        self._not_before = self._due = 0.0

    def write(self) -> None:
        """Append what was stored. It must be called before anything is written to clients."""
        if self._has_failed or self._is_closed:
            return
        was_full = self.store.is_full
        try:
            self.store.write(time.monotonic())
        except StorageFullError as error:
            if not was_full:
                logger.error("%s; publishers wait", error)
                self._broker.statistics["times that the disk was full"] += 1
                self._broker.changed.update(dict.fromkeys(self._broker.clients.values()))
            self._loop.call_later(RETRY_INTERVAL, self._flush)
        except StorageError as error:
            self._fail(error)
        else:
            if was_full and not self.store.is_full:
                logger.warning("there is room on the disk again")
                self._broker.changed.update(dict.fromkeys(self._broker.clients.values()))

    def begin(self) -> None:
        """Begin a sync if one is due and none is under way."""
        if self._syncing is not None or self._has_failed or self._is_closed:
            return
        now = time.monotonic()
        due = max(self.store.deadline, self._not_before) if self.store.deadline < float("inf") else float("inf")
        if due <= now:
            self._syncing = self._loop.create_task(self._sync())
        elif due < float("inf") and (self._timer is None or due < self._due):
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = self._loop.call_later(due - now, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.begin()

    async def _sync(self) -> None:
        store, began = self.store, time.monotonic()
        ticket = store.begin_sync()
        snapshot = None
        if store.wants_snapshot:
            snapshot = store.snapshot(self._broker.state_events(time.monotonic()))
            needed = self._broker.needed_from()
        try:
            await self._loop.run_in_executor(self._thread, self._complete, ticket, snapshot)
            if snapshot is not None:
                store.trim(needed)
        except StorageFullError as error:
            logger.error("no snapshot of the sessions: %s", error)
        except (StorageError, OSError) as error:
            self._fail(error)
            return
        finally:
            self._syncing = None
        now = time.monotonic()
        if store.deadline <= now and now - began > SLOW:
            self._not_before = now + (now - began) * GATHERING
        try:
            store.end_sync(now, ticket)
        except StorageError as error:  # what is to be sent now cannot be read
            self._fail(error)
            return
        self._flush()

    def _complete(self, ticket: Ticket, snapshot: bytes | None) -> None:
        self.store.log.complete(ticket)
        if snapshot is not None:
            self.store.save(snapshot)

    def _fail(self, error: Exception) -> None:
        """Close all connections, and store nothing more."""
        self._has_failed = True
        self._broker.statistics["storage failures"] += 1
        logger.error("the storage failed, so no client is served any more: %s", error)
        self._broker.store_failed(time.monotonic())
        self._loop.call_soon(self._flush)

    async def close(self) -> None:
        """Make everything durable, and close the files, which another door may use then."""
        if self._timer is not None:
            self._timer.cancel()
        while self._syncing is not None and not self._syncing.done():  # behind one, another may begin
            with suppress(Exception):
                await self._syncing
        if not self._has_failed:
            with suppress(StorageError):
                self.store.sync(time.monotonic())
        self._is_closed = True
        self._thread.shutdown()
        self.store.close()
