"""The shell of deliveries: it gives the machine time, log and connections, and stores what it says."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from glue.aio import Endpoint
from glue.errors import ConfigurationError, ForbiddenError, GlueError
from glue.gateway.http.dead_letters import dead_topic, properties_of
from glue.gateway.http.deliveries import READ_PAUSE, Deliveries, replay_of
from glue.gateway.http.items import Attempt, Burial, Event, Outcome
from glue.gateway.http.journal import Journal
from glue.gateway.http.lanes import Position
from glue.gateway.http.limits import Limits
from glue.gateway.http.store import Store
from glue.gateway.http.subscriptions import Subscription, subscription_of
from glue.storage import Record

if TYPE_CHECKING:  # needs aiohttp; the gateway reports its absence
    from glue.gateway.http.sender import Sender

Result = TypeVar("Result")

SAVE_INTERVAL: Final = 0.2
"""Seconds between two writes of positions: what may come twice after a crash."""
IDLE_INTERVAL: Final = 60.0
"""Seconds between two writes of the positions of idle lanes, so that a restart need not read what is of no concern."""
FINISH_TIME: Final = 0.5
"""Seconds that attempts under way get to end when the door closes: what ends in time is not delivered once more."""
ALERTS: Final = "$alerts/http/"
"""Alerts are published below this topic, so that programs and webhooks can subscribe to them."""

logger = logging.getLogger("glue.http")


class Delivering:
    """Delivers to the subscriptions of one door."""

    def __init__(
        self, endpoint: Endpoint, store: Store, sender: Sender, limits: Limits, *,
        data_dir: Any = None, is_portable: bool = False, keep: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`keep` are the limits of the log; `is_portable` says that other doors may go on with a position."""
        self.endpoint = endpoint
        self.store = store
        self.subscriptions: dict[str, Subscription] = {}
        self.forbidden: dict[str, str] = {}
        """Why this door delivers nothing to a subscription, by id: rules do not let it keep the topic."""
        self.unkept: dict[str, str] = {}
        """Why a created topic is not kept, likewise."""
        self.is_owner: Callable[[str], bool] = lambda id: not is_portable
        """Whether this door delivers to a subscription; doors that share them say so once they hold its part."""
        self.journal = Journal(endpoint, data_dir, self._stored, **(keep or {}))
        self.machine: Deliveries
        self._is_portable = is_portable
        self._limits = limits
        self._sender = sender
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()
        self._told_at = -inf  # when the log was last told of that cannot be read

    async def start(self) -> None:
        """Go on from what is stored. Raises StorageError."""
        await self.store.open()
        await self.journal.open()
        self.machine = Deliveries(self.journal.recent, Random(), self._limits, self._is_portable)
        for stored in self.store.subscriptions.values():
            await self.resume(subscription_of(stored))
        self._loops = [
            asyncio.create_task(self._run(), name="glue http deliveries"),
            asyncio.create_task(self._save_regularly(), name="glue http positions"),
        ]

    async def finish(self) -> None:
        """Begin no more attempts; those under way may end within `FINISH_TIME`, and then are cut off."""
        if self._loops:
            self._loops[0].cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_TIME)
        if self._changes:
            await asyncio.wait(self._changes, timeout=FINISH_TIME)
        for task in (*self._tasks, *self._changes):
            task.cancel()

    async def close(self) -> None:
        """End attempts, those under way too unless they end at once, and store the positions."""
        try:
            await self.finish()
        finally:  # also if closing is cancelled
            for task in (*self._loops, *self._tasks):
                task.cancel()
            await asyncio.gather(*self._loops, *self._tasks, *self._changes, return_exceptions=True)
            if self._loops:
                with suppress(GlueError, OSError):
                    self.machine.changed.update(self.machine.lanes)
                    await self.save()
            self.journal.close()

    # ---------------------------------------------------------------------------------------------- subscriptions

    async def add(self, subscription: Subscription, start: float | str | None = None) -> None:
        """Add a subscription, from now on or from a time (Unix seconds) or "earliest"; returns once it is durable."""
        await self._whole(lambda: self._add(subscription, start))

    async def _add(self, subscription: Subscription, start: float | str | None) -> None:
        if len(self.subscriptions) >= self._limits.subscriptions:
            raise ConfigurationError(f"there are {self._limits.subscriptions} subscriptions already; delete some")
        journal = self.journal.recent
        offset = journal.durable
        if start == "earliest":
            offset = journal.first
        elif isinstance(start, float):
            offset = journal.offset_at(start)
        since = start if isinstance(start, float) else 0.0 if start == "earliest" else time.time()
        position: Position = {"log": journal.id, "offset": offset, "since": since, "seen": []}
        await self.store.save({subscription.id: position})
        await self.store.put(subscription.id, subscription.stored())
        try:
            await self.learn(subscription)
            if subscription.id in self.forbidden:  # learned from the model that doors share
                raise ForbiddenError(self.forbidden[subscription.id])
        except BaseException:  # what the door may not keep is not stored
            self.subscriptions.pop(subscription.id, None)
            self.forbidden.pop(subscription.id, None)
            with suppress(GlueError, OSError):
                await self.store.put(subscription.id, None)
            self.store.subscriptions.pop(subscription.id, None)  # also if that could not be written yet
            raise

    async def change(self, subscription: Subscription) -> bool:
        """Store and use other settings of a subscription; returns whether it is still there."""
        return await self._whole(lambda: self._change(subscription))

    async def _change(self, subscription: Subscription) -> bool:
        if subscription.id not in self.subscriptions:
            return False
        await self.store.put(subscription.id, subscription.stored())
        await self.learn(subscription)
        return True

    async def remove(self, id: str) -> None:
        """End a subscription, and forget it."""
        await self._whole(lambda: self._remove(id))

    async def _remove(self, id: str) -> None:
        await self.store.put(id, None)
        await self.forget(id)

    async def _whole(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Make a change behind those before, and to its end: also if the client goes that wants it."""

        async def alone() -> Result:
            async with self._changing:
                return await work()

        task = asyncio.create_task(alone(), name="glue http subscription")
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def learn(self, subscription: Subscription) -> None:
        """Use a stored subscription, which is new or has new settings."""
        known = self.subscriptions.get(subscription.id)
        self.subscriptions[subscription.id] = subscription
        if known is None:
            try:
                await self.journal.want(subscription.topic)
            except BaseException:
                self.subscriptions.pop(subscription.id, None)
                raise
            if self.is_owner(subscription.id):
                await self.open_lanes(subscription)
        else:
            self.machine.change(time.monotonic(), subscription)
        self._wake.set()

    async def resume(self, subscription: Subscription) -> None:
        """Go on with a subscription of an earlier life or another door.

        If rules do not let this door keep its topic, it stays with its position, and gets nothing from here.
        """
        try:
            await self.learn(subscription)
        except ForbiddenError as error:
            self.subscriptions[subscription.id] = subscription
            self.forbidden[subscription.id] = str(error)
            logger.warning("this door delivers nothing to subscription %s: %s", subscription.id, error)

    async def keep(self, topic: str) -> None:
        """Keep a topic that was created in an earlier life or at another door, unless rules forbid it."""
        try:
            await self.journal.want(topic)
        except ForbiddenError as error:
            self.unkept[topic] = str(error)
            logger.warning("topic %s is not kept: %s", topic, error)

    async def forget(self, id: str) -> None:
        """Use a subscription no more."""
        known = self.subscriptions.pop(id, None)
        if known is not None:
            is_kept = self.forbidden.pop(id, None) is None
            self.close_lanes(id)
            await self.store.save({replay_of(id): None, f"{id}/replayed": None})
            if is_kept:
                await self.journal.unwant(known.topic)

    async def open_lanes(self, subscription: Subscription) -> None:
        """Begin to deliver to a subscription, from where its position says, unless its topic is forbidden."""
        if subscription.id in self.forbidden:
            return
        now = time.monotonic()
        position = await self.store.position(subscription.id)
        if position is None:
            position = {
                "log": self.journal.recent.id,
                "offset": self.journal.recent.durable,
                "since": time.time(),
                "seen": [],
            }
        if subscription.id not in self.machine.lanes:
            self.machine.open(now, subscription, position)
        replay = await self.store.position(replay_of(subscription.id))
        if replay is not None and replay.get("log") == self.journal.recent.id:
            self._open_replay(subscription, replay)
        self._wake.set()

    def close_lanes(self, id: str) -> None:
        """Deliver to a subscription no more; its position stays."""
        self.machine.close(id)
        self.machine.close(replay_of(id))

    async def replay(self, id: str) -> int:
        """Deliver the dead letters of a subscription again; returns the offset up to which."""
        position: Position = {
            "log": self.journal.recent.id, "offset": self.journal.recent.first, "since": 0.0, "seen": [],
            "limit": self.journal.recent.durable,
        }  # fmt: skip
        earlier = await self.store.position(f"{id}/replayed")
        if earlier is not None and earlier.get("log") == self.journal.recent.id:
            position["offset"] = max(position["offset"], earlier["offset"])
        limit = {**position, "offset": position["limit"]}
        await self.store.save({replay_of(id): position, f"{id}/replayed": limit})
        self.machine.close(replay_of(id))
        self._open_replay(self.subscriptions[id], position)
        self._wake.set()
        return int(position["limit"])

    async def dead_from(self, id: str) -> int:
        """Return the offset from which dead letters have not been replayed."""
        earlier = await self.store.position(f"{id}/replayed")
        is_here = earlier is not None and earlier.get("log") == self.journal.recent.id
        return max(self.journal.recent.first, earlier["offset"] if is_here and earlier is not None else 0)

    def _open_replay(self, subscription: Subscription, position: Position) -> None:
        lane = replace(subscription, topic=dead_topic(subscription.id))
        self.machine.open(time.monotonic(), lane, position, replay_of(subscription.id))

    # ------------------------------------------------------------------------------------------------------ running

    def _stored(self, before: int, records: list[tuple[int, Record]] | None) -> None:
        self.machine.stored(time.monotonic(), before, records)
        if self.machine.deadline < inf:
            self._wake.set()

    async def _run(self) -> None:
        """Make attempts when they are due."""
        while True:
            self._advance()
            left = self.machine.deadline - time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left) if left < inf else None):
                    await self._wake.wait()
            self._wake.clear()

    def _advance(self) -> None:
        for attempt in self.machine.advance(time.monotonic()):
            self._spawn(self._attempt(attempt))
        for burial in self.machine.take_burials():
            self._spawn(self._bury(burial))
        if self.machine.events:
            events, self.machine.events = self.machine.events, []
            for event in events:
                self._spawn(self._alert(event))
        if self.machine.problem is not None:
            problem, self.machine.problem = self.machine.problem, None
            if time.monotonic() >= self._told_at + READ_PAUSE:
                self._told_at = time.monotonic()
                logger.error("the log could not be read: %s", problem)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, attempt: Attempt) -> None:
        """Make an attempt, give the outcome to the machine, and wake `_run`."""
        try:
            outcome = await self._sender.send(attempt)
        except Exception as error:  # a fault of ours, or a message that nobody could send: the lane must go on
            logger.exception("an attempt failed")
            outcome = Outcome(0, f"a fault of the door: {error!r:.100}")
        self.machine.finished(time.monotonic(), attempt, outcome)
        self._wake.set()

    async def _bury(self, burial: Burial) -> None:
        """Store a dead letter; returns once the log has it."""
        id = burial.lane.partition("/")[0]
        payload: Any = burial.item.payload
        properties = properties_of(burial.item, burial.reason)
        is_stored = False
        try:
            if self.journal.data_dir is not None:
                receipt = await self.endpoint.publish(
                    dead_topic(id), payload, properties=properties, receipt=True, acks="disk"
                )
                is_stored = await receipt
            else:
                await self.endpoint.publish(dead_topic(id), payload, properties=properties)
                is_stored = True
        except (GlueError, OSError) as error:
            logger.warning("a dead letter of subscription %s could not be stored: %s", id, error)
        self.machine.buried(time.monotonic(), burial, is_stored)
        self._wake.set()

    async def _alert(self, event: Event) -> None:
        """Tell of a subscription that fails or is back: in the log, and on a topic."""
        id = event.lane.partition("/")[0]
        level = logging.INFO if event.kind in ("recovered", "replayed") else logging.WARNING
        logger.log(level, "subscription %s: %s%s", id, event.kind, f" ({event.detail})" if event.detail else "")
        if event.kind == "gone" and (known := self.subscriptions.get(id)) is not None:
            with suppress(GlueError, OSError):
                await self.change(replace(known, state="gone"))
        news = {"event": event.kind, "subscription": id, "detail": event.detail, "at": time.time()}
        with suppress(GlueError):
            await self.endpoint.publish(ALERTS + id, news, retain=event.kind in ("failing", "gone", "recovered"))

    # ---------------------------------------------------------------------------------------------------- positions

    async def save(self) -> None:
        """Store the positions that have moved."""
        machine = self.machine
        changed, machine.changed = machine.changed, set()
        positions: dict[str, Position | None] = {
            name: machine.stored_position(name) if name in machine.lanes else None for name in changed
            if name in machine.lanes or name.endswith("/replay")
        }  # fmt: skip
        if positions:
            await self.store.save(positions)

    async def _save_regularly(self) -> None:
        idle_at = time.monotonic() + IDLE_INTERVAL
        while True:
            await asyncio.sleep(SAVE_INTERVAL)
            if time.monotonic() >= idle_at:
                idle_at = time.monotonic() + IDLE_INTERVAL
                self.machine.changed.update(self.machine.lanes)
            try:
                await self.save()
            except (GlueError, OSError) as error:
                logger.error("positions could not be stored: %s", error)
                self.machine.changed.update(self.machine.lanes)
