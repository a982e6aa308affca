"""Several doors as one: subscriptions and positions in a model, and a lease for the door that delivers.

Subscriptions are spread over parts. Each part has a lock with a lease in the model; the door that holds it delivers. A
door that is gone loses its leases within seconds, and another door goes on. The new door finds the place in its own log
by the numbers of delivered messages, and by time for topics without any. So a subscriber may get some messages twice,
under the same ids.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from glue.aio.model import Lock, Model, Watch
from glue.errors import GlueError, RefusedError
from glue.gateway.http.delivering import Delivering
from glue.gateway.http.lanes import Position
from glue.gateway.http.store import Stored
from glue.gateway.http.subscriptions import subscription_of

SUBSCRIPTIONS, POSITIONS, TOPICS = "http/subscriptions/", "http/positions/", "http/topics/"
PARTS: Final = 16
"""Parts of all subscriptions: as many doors can share the work."""
LEASE: Final = 1.5
"""Seconds after which a silent door loses its parts. It renews them four times in this time."""
WAIT: Final = 10.0
"""Seconds that a door waits for a part before it asks anew."""
TRY_INTERVAL: Final = 0.2
"""Seconds to the next try after one that failed."""
CLOSE_TIME: Final = 2.0
"""Seconds that a door waits for the model at its end: without a majority nothing can be stored or given back."""
TOGETHER: Final = 256
"""Positions that are written at once: they share entries of the model's log."""

logger = logging.getLogger("glue.http")


def part_of(id: str) -> int:
    """Return the part of a subscription."""
    return zlib.crc32(id.encode()) % PARTS


class ModelStore:
    """A store in a model that all doors have open."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.subscriptions: dict[str, Stored] = {}
        self.topics: set[str] = set()

    async def open(self) -> None:
        """Read what is stored. Raises MinorityError if no majority is in reach."""
        items = await self.model.items(f"{SUBSCRIPTIONS}#")
        self.subscriptions = {key.removeprefix(SUBSCRIPTIONS): value for key, value in items.items()}
        self.topics = {key.removeprefix(TOPICS) for key in await self.model.items(f"{TOPICS}#")}

    async def put(self, id: str, subscription: Stored | None) -> None:
        """As `Store` says."""
        if subscription is None:
            await self.model.delete(SUBSCRIPTIONS + id)
            self.subscriptions.pop(id, None)
            await self.model.delete(POSITIONS + id)
        else:
            await self.model.set(SUBSCRIPTIONS + id, subscription)
            self.subscriptions[id] = subscription

    async def create(self, topic: str) -> None:
        """As `Store` says."""
        await self.model.set(TOPICS + topic, True)
        self.topics.add(topic)

    async def position(self, lane: str) -> Position | None:
        """As `Store` says. A door that has just taken a part knows all that was written before, so it asks no other."""
        found: Position | None = await self.model.get(POSITIONS + lane, stale=True)
        return found

    async def save(self, positions: Mapping[str, Position | None]) -> None:
        """As `Store` says."""
        model, changes = self.model, [*positions.items()]
        for begin in range(0, len(changes), TOGETHER):
            await asyncio.gather(*(
                model.delete(POSITIONS + lane) if position is None else model.set(POSITIONS + lane, position)
                for lane, position in changes[begin : begin + TOGETHER]
            ))  # fmt: skip

    def close(self) -> None:
        """The model is not closed: it is the program's."""


class Sharing:
    """The part of a door that takes, renews and loses parts, and follows what other doors change."""

    def __init__(self, model: Model, delivering: Delivering) -> None:
        self._model = model
        self._delivering = delivering
        self._owner = model._new_owner()
        self._locks: dict[int, Lock] = {}
        self._watches: list[Watch] = []
        delivering.is_owner = lambda id: part_of(id) in self._locks
        self._tasks: list[asyncio.Task[None]] = []
        self._failing: set[str] = set()  # subscriptions that could not be begun, and were told of

    async def start(self) -> None:
        """Begin to take parts."""
        watches = self._watches
        for followed in (SUBSCRIPTIONS, TOPICS):
            watches.append(await self._model.watch(f"{followed}#"))
        self._tasks = [
            asyncio.create_task(self._follow(watches[0], self._changed), name="glue http shared subscriptions"),
            asyncio.create_task(self._follow(watches[1], self._created), name="glue http shared topics"),
            *(asyncio.create_task(self._hold(part), name=f"glue http part {part}") for part in range(PARTS)),
        ]

    async def close(self) -> None:
        """Give all parts back, with their positions stored."""
        await self._delivering.finish()  # while the leases are renewed
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(GlueError, OSError):
            async with asyncio.timeout(CLOSE_TIME):
                await self._delivering.save()
        for part in self._locks:
            self._stop(part)  # from here on the positions are another door's
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIME):
                await asyncio.gather(*(lock.release() for lock in self._locks.values()), return_exceptions=True)
        self._locks.clear()
        for watch in self._watches:
            watch.close()

    # -------------------------------------------------------------------------------------------- other doors

    async def _follow(self, watch: Watch, take: Any) -> None:
        async for change in watch:
            try:
                await take(change.key, change.value)
            except (GlueError, OSError) as error:
                logger.warning("a change by another door could not be taken: %s", error)

    async def _changed(self, key: str, value: Any) -> None:
        id, delivering = key.removeprefix(SUBSCRIPTIONS), self._delivering
        if value is None:
            delivering.store.subscriptions.pop(id, None)
            await delivering.forget(id)
        elif delivering.subscriptions.get(id) != (told := subscription_of(value)):
            delivering.store.subscriptions[id] = value
            await delivering.resume(told)

    async def _created(self, key: str, value: Any) -> None:
        topic, delivering = key.removeprefix(TOPICS), self._delivering
        if value and topic not in delivering.store.topics:
            delivering.store.topics.add(topic)
            await delivering.keep(topic)

    # --------------------------------------------------------------------------------------------------- parts

    async def _hold(self, part: int) -> None:
        """Take a part when it is free, deliver while the lock holds, and try again after its loss."""
        while True:
            try:  # an earlier try whose outcome is unknown may have taken the lock, so the owner stays the same
                lock = await self._model._lock(f"http/part/{part}", self._owner, LEASE, WAIT)
            except GlueError:
                await asyncio.sleep(TRY_INTERVAL)
                continue
            self._locks[part] = lock
            try:
                await self._deliver(part, lock)
            finally:
                if self._locks.get(part) is lock and lock.remaining <= 0:
                    del self._locks[part]
                self._stop(part) if part not in self._locks else None

    async def _deliver(self, part: int, lock: Lock) -> None:
        """Deliver to the subscriptions of a part until its lease is lost."""
        await self._open(part, lock)
        while lock.remaining > 0:
            await asyncio.sleep(min(LEASE / 4, max(0.0, lock.remaining)))
            try:
                async with asyncio.timeout(lock.remaining):  # later than that it may be another door's
                    await lock.renew()
            except RefusedError:
                if lock.remaining <= 0:
                    break
            except (GlueError, TimeoutError):
                continue
            await self._open(part, lock)
        self._locks.pop(part, None)

    async def _open(self, part: int, lock: Lock) -> None:
        """Begin to deliver where that was not possible before. What fails is tried again, and holds up no other."""
        delivering = self._delivering
        closed = [id for id in delivering.subscriptions if id not in delivering.machine.lanes]
        for id in closed:
            if part_of(id) != part or id not in delivering.subscriptions or lock.remaining <= 0:
                continue
            try:
                await delivering.open_lanes(delivering.subscriptions[id])
            except (GlueError, OSError, ValueError, TypeError) as error:
                if id not in self._failing:
                    logger.error("subscription %s waits, as its position cannot be found: %s", id, error)
                self._failing.add(id)
            else:
                self._failing.discard(id)

    def _stop(self, part: int) -> None:
        for id in list(self._delivering.subscriptions):
            if part_of(id) == part:
                self._delivering.close_lanes(id)
