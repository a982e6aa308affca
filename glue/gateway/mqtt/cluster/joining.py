"""Joins a door with its cluster: proposes batches to the model, follows the log, and watches over the other doors."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random

from glue.aio import Endpoint
from glue.aio.model import Model, Watch
from glue.endpoint.message import Message
from glue.errors import ClosedError, GlueError, MinorityError, ModelError, RefusedError
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.gateway.mqtt.cluster.delivering import NO_MAJORITY
from glue.gateway.mqtt.cluster.keys import DOORS
from glue.gateway.mqtt.cluster.shared import LARGEST, Shared
from glue.gateway.mqtt.cluster.sweeping import INTERVAL, Sweeping
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.translation import FROM_LOG
from glue.gateway.names import MQTT_DOORS
from glue.model.state import ABSENT, Change, Expect, Set

CALL_TIMEOUT = 5.0
"""Seconds for a batch: an election of the model takes 1 to 2."""

PATIENCE = 3.0
"""Seconds without a leader of the model after which a door promises nothing more: elections are over by then."""

START_TIMEOUT = 4.0
"""Seconds that a door which starts waits for a majority of the voters; then it serves what needs none."""

TRY_TIMEOUT = 2.0
"""Seconds until a door that has not joined the cluster tries again."""

LAZY = 0.05
"""Seconds that acknowledgements of clients wait for company."""

SETTLE = 3.0
"""Seconds after the start until all other doors are known."""

logger = logging.getLogger("glue.mqtt")


def free_number(doors: Mapping[int, str], living: Collection[str], id: str) -> int:
    """The number for a door at the endpoint `id`: the one that it had before, or a free one, or that of a dead door.

    `doors` are the names of the doors by number, `living` the names of those that are known to live. Raises
    RefusedError if all live.
    """
    own = [number for number, name in doors.items() if name.startswith(id)]
    free = [number for number in range(DOORS) if number not in doors]
    dead = [number for number, name in doors.items() if name not in living]
    for number in (*own, *free, *dead):
        return number
    raise RefusedError(f"the cluster has {DOORS} doors already")


class Joining:
    """The shell of one door's part in the cluster."""

    def __init__(self, endpoint: Endpoint, model: Model, access: Access, limits: Limits | None) -> None:
        self.shared = Shared(f"{endpoint.id}-{secrets.token_hex(4)}", time.time)
        limits = limits or Limits()
        limits = replace(limits, packet_size=min(limits.packet_size, LARGEST))
        self.broker = ClusterBroker(access, Random(), self.shared, limits)
        self.patterns: set[str] = set()
        """Topic filters of sessions whose messages from endpoints this door stores."""
        self._sweeping = Sweeping(self.broker)
        self._flush: Callable[[], None] = lambda: None
        self._endpoint = endpoint
        self._model = model
        self._changes: list[Change] = []
        self._watch: Watch | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._poke = asyncio.Event()
        self._done = asyncio.Event()
        self._lazy: asyncio.TimerHandle | None = None
        self._led_at = self._looked_at = self._settled_at = 0.0
        self._was_full = False
        self._trouble = "no majority of the voters was found"

    async def start(self, flush: Callable[[], None]) -> None:
        """Join the cluster; `flush` writes to clients what the broker has for them.

        Without a majority in reach this goes on later; until then the broker serves what needs no other door.
        """
        self._flush = flush
        self._looked_at = time.monotonic()
        work = (self._join(), self._propose(), self._tick())
        self._tasks = [asyncio.create_task(one, name="glue mqtt cluster") for one in work]
        await asyncio.wait(self._tasks[:1], timeout=START_TIMEOUT)
        if not self.broker.has_joined:
            logger.warning("sessions that stay, wills and QoS 1 and 2 are refused until then: %s", self._trouble)

    async def _join(self) -> None:
        """Follow the cluster, and get a number in it."""
        while True:
            try:
                await self._model.get("d/0", timeout=TRY_TIMEOUT)  # so that a majority is in reach
                if self._watch is None:
                    self._watch = await self._model.watch("#", self._changed)
                await self._register()
                break
            except ClosedError:
                return
            except GlueError as error:
                self._trouble = str(error)
                await asyncio.sleep(LAZY)
        now = time.monotonic()
        self._led_at = now
        self._settled_at = now + SETTLE
        self.shared.is_ready = True
        self.broker.joined(now)
        logger.info("the door is number %d of the cluster %r", self.shared.door, self._model.name)
        self._flush()

    async def close(self) -> None:
        """Commit what waits, if that is possible soon, and leave the cluster."""
        until = time.monotonic() + CALL_TIMEOUT
        while self.shared.is_pending and self.shared.is_ready and time.monotonic() < until:
            self.begin()
            await asyncio.sleep(0.01)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._lazy is not None:
            self._lazy.cancel()
        if self._watch is not None:
            self._watch.close()

    async def _register(self) -> None:
        """Get a number that no other living door has."""
        shared, id = self.shared, self._endpoint.id
        while True:
            await self._model.get("d/0")  # so that the view is the newest
            await asyncio.sleep(0)
            number = free_number(shared.replica.doors, self._living(), id)
            former = shared.replica.doors.get(number)
            try:
                expected = Expect(f"d/{number}", ABSENT if former is None else former)
                await self._model.transaction(expected, Set(f"d/{number}", shared.name))
            except MinorityError:
                raise
            except RefusedError:
                await asyncio.sleep(LAZY)
                continue
            shared.door = number
            return

    def _living(self) -> Collection[str]:
        """The names of the doors that this endpoint knows to live."""
        known = {*self._endpoint._core.requests.responders(MQTT_DOORS), self._endpoint.id}
        return {name for name in self.shared.replica.doors.values() if name.partition("-")[0] in known}

    # --------------------------------------------------------------------------------- beside the cluster

    def is_full(self) -> bool:
        """Whether publishers are not to be read, as too much waits. Then `_read_on` tells when there is room."""
        self._was_full = self._was_full or self.shared.is_full
        return self.shared.is_full

    def wants(self, run: Publish) -> bool:
        """Whether an endpoint gets a run that is not a door, or a door that has it from no log."""
        if run.offset < 0:
            return True
        return not all(map(self._is_door, self._endpoint._core.subscribers(run.topic)))

    def _is_door(self, id: str) -> bool:
        return any(name.startswith(id) for name in self.shared.replica.doors.values())

    def takes(self, run: Publish, message: Message) -> bool:
        """Whether a run of an endpoint is for the clients of this door; what a door sends beside the log has QoS 0."""
        if FROM_LOG in message.properties:
            return False
        if self._is_door(message.publisher_id):
            run.qos = 0
        return True

    # ------------------------------------------------------------------------------------------ committed

    def _changed(self, change: Change) -> None:
        """Take a committed change; those of one index come together."""
        if not self._changes:
            asyncio.get_running_loop().call_soon(self._take)
        self._changes.append(change)

    def _take(self) -> None:
        changes, self._changes = self._changes, []
        broker = self.broker
        broker.apply(time.monotonic(), changes)
        self._done.set()
        self._read_on()
        self._flush()

    def _read_on(self) -> None:
        """Let publishers be read again once there is room."""
        if self._was_full and not self.shared.is_full:
            self.broker.changed.update(dict.fromkeys(self.broker.clients.values()))
        self._was_full = self.shared.is_full

    # ------------------------------------------------------------------------------------------- proposing

    def begin(self) -> None:
        """Propose what waits, at once if something waits for it; called after each event."""
        shared = self.shared
        if shared.batch is not None or not shared.is_pending:
            return
        if shared.is_urgent:
            self._poke.set()
        elif self._lazy is None:
            self._lazy = asyncio.get_running_loop().call_later(LAZY, self._begin_lazily)

    def _begin_lazily(self) -> None:
        self._lazy = None
        self._poke.set()

    async def _propose(self) -> None:
        """Propose one batch after the other."""
        shared = self.shared
        while True:
            await self._poke.wait()
            self._poke.clear()
            while (operations := shared.begin()) is not None:
                batch = shared.batch
                try:
                    await self._model.transaction(*operations, timeout=CALL_TIMEOUT)
                    async with asyncio.timeout(CALL_TIMEOUT):
                        while shared.batch is batch:
                            self._done.clear()
                            await self._done.wait()
                except (GlueError, TimeoutError) as error:
                    if shared.batch is batch:
                        self._failed(error)
                self._flush()
                if not shared.is_urgent:
                    break
            self.begin()

    def _failed(self, error: GlueError | TimeoutError) -> None:
        """Give up the batch under way; what the model refused, as it has other values, is proposed unit by unit."""
        if isinstance(error, ModelError):  # a fault of ours: the model takes no such change of anybody
            logger.error("a change is left out or proposed again in parts: %s", error)
            self.shared.refused(time.monotonic())
        elif not isinstance(error, RefusedError) or isinstance(error, MinorityError):
            self._cut_off(str(error) or "a batch took too long")
        elif not self.shared.refused(time.monotonic()):
            self._cut_off("the model takes nothing more")

    # ---------------------------------------------------------------------------------------- other doors

    async def _tick(self) -> None:
        """See whether there is a majority, and sweep."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                self._look(time.monotonic())
            except Exception:
                logger.exception("a sweep of the cluster failed")

    def _look(self, now: float) -> None:
        shared = self.shared
        was_paused, self._looked_at = now - self._looked_at > 3 * INTERVAL, now
        if not self.broker.has_joined:
            return
        if self._model.leader is not None or was_paused:
            self._led_at = now
        if self._model.leader is not None:
            if not shared.is_ready:
                logger.info("a majority of the doors is in reach again")
                shared.is_ready = True
        elif shared.is_ready and now - self._led_at > PATIENCE:
            self._cut_off(NO_MAJORITY)
        living = self._living()
        self.broker.is_chosen = now >= self._settled_at and shared.name == min(living, default="")
        patterns = set(shared.replica.patterns) if self.broker.is_chosen else set[str]()
        if patterns != self.patterns:
            self.patterns = patterns
            self.broker.subscriptions.is_changed = True
        if now >= self._settled_at:
            self._sweeping.sweep(now, living)
        self._read_on()
        self._flush()

    def _cut_off(self, reason: str) -> None:
        logger.warning("sessions and messages of QoS 1 and 2 are not served: %s", reason)
        self.shared.is_ready = False
        self.broker.cut_off(time.monotonic())
        with suppress(GlueError):
            self._flush()
