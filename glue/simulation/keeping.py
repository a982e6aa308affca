"""Keepers in virtual time: the log on a simulated disk, written at once, and synced when that is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from glue.contract import Delivery, Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.durability import Acks
from glue.endpoint.keep_methods import KeepMethods
from glue.endpoint.keeping import Keeping
from glue.endpoint.receipt import Receipt
from glue.model import StackRequest
from glue.simulation.host import Host
from glue.simulation.hosts import Hosts
from glue.storage import Directory, Record

if TYPE_CHECKING:
    from glue.endpoint.keeper import Keeper

PAUSED = 0.05
"""Seconds until a paused host is looked at again."""
STEP = 0.0001
"""Seconds until a sync that is due, which takes some time on a disk."""


class SimulatedWriter:
    """Runs a `Keeping` in virtual time, until the life of its endpoint ends."""

    def __init__(
        self,
        keeping: Keeping,
        handled: Callable[[Delivery], None],
        host: Host,
        world: Hosts,
        is_alive: Callable[[], bool],
    ) -> None:
        self.keeping = keeping
        self._handled = handled
        self._host = host
        self._world = world
        self._is_alive = is_alive
        self._due: float | None = None
        self._plans = 0
        self._is_closed = False

    def submit(self, delivery: Delivery) -> None:
        """Store a delivery now."""
        self.keeping.store(self._host.now, [delivery])
        self._handled(delivery)
        self._schedule()

    def store(self, records: Sequence[Record]) -> None:
        """Store records that were fetched from another keeper."""
        self.keeping.store_records(self._host.now, records)
        self._schedule()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function soon, as a thread would."""
        self._world.after(STEP, lambda: self._run(function))

    def _run(self, function: Callable[[], object]) -> None:
        if self._is_alive() and not self._is_closed:
            if self._host.is_paused:
                self._world.after(PAUSED, lambda: self._run(function))
                return
            function()
            self._schedule()

    def close(self, timeout: float) -> None:
        """Sync and end."""
        self._is_closed = True
        self.keeping.close(self._host.now)

    def _schedule(self) -> None:
        now, deadline = self._host.now, self.keeping.deadline
        if deadline < float("inf") and (self._due is None or deadline < self._due):
            self._plan(max(deadline, now), max(deadline - now, 0.0) + STEP)

    def _plan(self, due: float, delay: float) -> None:
        """Commit after a delay, unless something is due earlier: of several plans, only the last one counts."""
        self._due = due
        self._plans += 1
        self._world.after(delay, partial(self._commit, self._plans))

    def _commit(self, plan: int) -> None:
        if plan != self._plans or self._is_closed or not self._is_alive():
            return
        if self._host.is_paused:
            self._plan(self._host.now + PAUSED, PAUSED)
        else:
            self._due = None
            self.keeping.commit(self._host.now, self._host.unix_time)
            self._schedule()


class SimulatedKeeping(KeepMethods[Receipt]):
    """The methods of a simulated endpoint to keep topics."""

    host: Host
    world: Hosts

    def _running(self) -> EndpointCore:
        raise NotImplementedError

    def _is_alive(self) -> bool:
        """Whether this life has not ended."""
        raise NotImplementedError

    def _order(self, request: StackRequest) -> None:
        raise NotImplementedError

    def _queue(self, publications: list[Publication]) -> None:
        raise NotImplementedError

    def _order_keeping(self, request: StackRequest) -> None:
        self._order(request)

    def _open_directory(self, data_dir: Any) -> Directory:
        return data_dir  # type: ignore[no-any-return]

    def _make_writer(self, keeping: Keeping) -> SimulatedWriter:
        core = self._core
        return SimulatedWriter(
            keeping, self._owner.handled, self.host, self.world, lambda: self._core is core and self._is_alive()
        )

    def _make_receipt(self, topic: str, count: int, acks: Acks) -> Receipt:
        return Receipt(self._expect(topic, count, acks, lambda: None))

    def _publish_quietly(self, publications: list[Publication]) -> None:
        for publication in publications:
            publication.published_at = self.host.unix_time
            cast(Any, self)._core.outbox.order(publication)
        cast(Any, self)._wake()

    def keep(
        self,
        pattern: str,
        *,
        directory: Directory | None = None,
        age: float | str | None = None,
        size: int | str | None = None,
        count: int | None = None,
        replicas: int | None = None,
    ) -> Keeper:
        """Keep topics as `glue.Endpoint.keep` does; `directory` is the disk, such as a `SimulatedDisk`."""
        return self._keep(pattern, directory, age, size, count, replicas)
