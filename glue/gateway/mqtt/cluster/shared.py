"""The sessions of a cluster as a broker sees them: it notes what happens, and is told once that is committed.

One batch at a time is under way to the model. What is noted meanwhile becomes the next batch, so that a commit covers
all that came during the last one. The last operation of a batch names it, so that a door learns of its own commits
where it learns of all others: in the order of the log. A batch that is refused is proposed again unit by unit: what is
refused alone belongs to a session that another door has claimed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from glue.gateway.mqtt.cluster.keys import PLACES, Entry, Owner, entry_value, mark
from glue.gateway.mqtt.cluster.replica import Replica
from glue.gateway.mqtt.cluster.units import UNIT_SIZE, Done, SessionUnit, Unit
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.stored import Kept, run_value
from glue.model.state import Delete, Operation, Set

BATCH_SIZE, BATCH_OPERATIONS = 512 << 10, 900
"""Bytes and operations of a batch: a transaction of the model has 1,024 operations, and an entry of its log 1 MB."""

LARGEST = 700_000
"""Bytes of a packet at doors of a cluster: in base64 it fits into a value of the model."""

FULL = 8 << 20
"""Bytes that wait for the model; beyond, no more is read from publishers."""

LOG_FULL = 192 << 20
"""Bytes of messages in the log of the cluster; beyond, no more is read from publishers. A model holds 512 MB."""


class Batch:
    """Units that are under way to the model."""

    def __init__(self, number: int, units: list[Unit], last: int) -> None:
        """`last` counts the units up to the last one."""
        self.number = number
        self.units = units
        self.last = last

    def operations(self, door: int) -> list[Operation]:
        """The operations of a transaction: each unit under its guards, and the name of the batch."""
        found: list[Operation] = []
        for unit in self.units:
            found += unit.guards
            found += unit.operations
        return [*found, Set(f"b/{door}", self.number)]


class Shared:
    """The store of a broker that is a door of a cluster. `name` names the life of the door."""

    def __init__(self, name: str, wall_clock: Callable[[], float]) -> None:
        self.name = name
        self.wall_clock = wall_clock
        self.replica = Replica(wall_clock)
        self.door = 0
        """The number of the door, once it has one."""
        self.is_ready = False
        """Whether a majority is in reach, so that something can be promised."""
        self.claims: dict[str, int] = {}
        """The number of the claim on each session that this door owns, by client id."""
        self.lost: Callable[[float, Owner], None] = lambda now, owner: None
        """Called when something of a session was refused, as it is no longer this door's."""
        self.retained_limit = 1_000_000
        self.drops = 0
        """How often the door was cut off."""
        self.noted = 0
        self.size = 0
        """Bytes that wait."""
        self.is_urgent = False
        """Whether something waits for the next commit."""
        self.batch: Batch | None = None
        self._units: deque[Unit] = deque()
        self._open: dict[str, SessionUnit] = {}
        self._again: deque[Unit] = deque()  # of a refused batch: proposed one by one
        self._actions: deque[tuple[int, Done]] = deque()  # each waits for the units up to a number
        self._made = self._taken = 0  # units
        self._number = 0
        self._messages = 0
        self._place = 0

    # ------------------------------------------------------------------------------- as the store of a broker

    @property
    def failure(self) -> str:
        """Nothing fails for good: without a majority a door waits for one."""
        return ""

    @property
    def end(self) -> int:
        """The offset behind the last message."""
        return self.replica.end

    @property
    def is_full(self) -> bool:
        """Whether publishers are not to be read."""
        return self.size > FULL or self.replica.bytes > LOG_FULL

    def note(self, *event: object) -> None:
        """Note an event of a session that this door owns."""
        name, client_id, *more = event
        unit = self.unit_of(str(client_id))
        if unit is not None and name not in ("away", "end"):  # these are part of leaving
            before = unit.size
            unit.note(str(name), more)
            self.size += unit.size - before
            self.noted += 1

    def then(self, action: Done) -> None:
        """Call an action once everything that was noted up to now is committed."""
        if not self._units and self.batch is None and not self._again:
            self.propose(Unit([]))
        self._actions.append((self._made, action))
        self.is_urgent = True

    def add(self, now: float, kept: Kept) -> int:
        """Send a run to one session, through the log."""
        self.offer(now, Entry(kept.run, kept.sender, kept.to, kept.identifiers))
        return -1

    def read(self, now: float, offset: int, size: int) -> tuple[list[Kept], int]:
        """The runs from an offset on, some `size` bytes of them, and the offset to go on from."""
        found, following = self.replica.read(offset, size)
        kept = [Kept(entry.run, entry.sender, entry.to, identifiers=entry.identifiers) for entry in found]
        return kept, following

    # ------------------------------------------------------------------------------------------- proposing

    def owner(self, client_id: str) -> Owner | None:
        """This door as the owner of a session, None if it is not."""
        number = self.claims.get(client_id)
        return None if number is None else (client_id, self.name, number)

    def unit_of(self, client_id: str) -> SessionUnit | None:
        """The unit that gets what happens to a session now; None if it is not this door's."""
        owner = self.owner(client_id)
        if owner is None:
            return None
        unit = self._open.get(client_id)
        if unit is None or unit.owner != owner or unit.size > UNIT_SIZE:
            unit = self._open[client_id] = SessionUnit(mark(client_id), owner)
            unit.refused = partial(self._refused, owner)
            self.propose(unit)
        return unit

    def _refused(self, owner: Owner, now: float) -> None:
        self.lost(now, owner)

    def propose(self, unit: Unit) -> None:
        """Propose a unit, behind those proposed before."""
        self._units.append(unit)
        self._made += 1
        self.size += unit.size
        self.noted += 1

    def extend(self, unit: Unit, operations: Sequence[Operation]) -> None:
        """Add operations to a unit that was proposed and is not under way yet; they are for the next commit."""
        before = unit.size
        unit.add(*operations)
        self.size += unit.size - before
        self.noted += 1
        self.is_urgent = True

    def offer(self, now: float, entry: Entry, ids: Sequence[int] = ()) -> None:
        """Propose a run of messages; with `ids`, the packet ids of QoS 2 that the sender's session must remember."""
        run, count = entry.run, entry.run.count
        if run.size > UNIT_SIZE and count > 1:
            middle = count // 2
            for start, stop in ((0, middle), (middle, count)):
                part = Entry(run.part(start, stop), entry.sender, entry.to, entry.identifiers, entry.is_for_kept)
                self.offer(now, part, ids[start:stop])
            return
        run.at = run.at or self.wall_clock()
        unit: Unit | None = self.unit_of(entry.sender) if entry.sender and not entry.to else None
        if unit is None:
            unit = Unit([])
            self.propose(unit)
        elif ids:
            self.note("in", entry.sender, list(ids))
        self.extend(unit, self.publication(now, entry))

    def publication(self, now: float, entry: Entry) -> list[Operation]:
        """The operations that publish a run, once they are committed."""
        run = entry.run
        value = entry_value(entry, 0, self.wall_clock() - now)  # it gets its place with its batch
        self._messages += 1
        operations: list[Operation] = [Set(f"m/{self.door}/{self.name}-{self._messages}", value)]
        if run.retain and not entry.to and self._has_room(run.topic):
            operations.append(self.retention(now, run))
        return operations

    def retain(self, now: float, run: Publish) -> None:
        """Retain a run of QoS 0, which is delivered without the log."""
        if self._has_room(run.topic):
            self.propose(Unit([], [self.retention(now, run)]))
            self.is_urgent = True

    def _has_room(self, topic: str) -> bool:
        """Whether a message of a topic may be retained."""
        retained = self.replica.retained
        return len(retained) < self.retained_limit or mark(topic) in retained

    def is_own(self, entry: Entry) -> bool:
        """Whether this life of the door has proposed a run."""
        return entry.key.startswith(f"m/{self.door}/{self.name}-")

    def retention(self, now: float, run: Publish) -> Operation:
        """The operation that retains the last message of a run."""
        key = f"r/{mark(run.topic)}"
        if not run.payloads[-1]:
            return Delete(key)
        run.at = run.at or self.wall_clock()
        return Set(key, run_value(run, self.wall_clock() - now))

    # --------------------------------------------------------------------------------------------- batches

    @property
    def is_pending(self) -> bool:
        """Whether something waits, or is under way."""
        return bool(self._units or self._again or self.batch)

    def begin(self) -> list[Operation] | None:
        """Begin the next batch; returns the operations of its transaction, None if there is nothing to do now."""
        if self.batch is not None or not self.is_ready:
            return None
        if self._again:
            units = [self._again.popleft()]
        else:
            units = self._next_units()
        if not units:
            return None
        self._number = max(self._number, self.replica.batches.get(self.door, 0)) + 1
        self.batch = Batch(self._number, units, self._taken)
        operations = self.batch.operations(self.door)
        self._place_messages([one.value for one in operations if isinstance(one, Set) and one.key.startswith("m/")])
        return operations

    def _place_messages(self, values: list[list[Any]]) -> None:
        """Give places to the runs of a batch: ascending, and others than in the batches before."""
        if self._place + sum(len(value[2]) for value in values) > PLACES:
            self._place = 0
        for value in values:
            value[0] = self._place
            self._place += len(value[2])

    def _next_units(self) -> list[Unit]:
        units: list[Unit] = []
        size = count = 0
        while self._units:
            unit = self._units[0]
            size, count = size + unit.size, count + len(unit.guards) + len(unit.operations)
            if units and (size > BATCH_SIZE or count > BATCH_OPERATIONS):
                break
            units.append(self._units.popleft())
            self.size -= unit.size
        self._taken += len(units)
        if not self._units:
            self._open.clear()
            self.is_urgent = False
        else:
            taken = set(units)
            self._open = {name: unit for name, unit in self._open.items() if unit not in taken}
        return units

    def committed(self, now: float, door: int, number: int) -> None:
        """Note a committed batch of some door."""
        batch = self.batch
        if batch is None or door != self.door or number != batch.number:
            return
        self.batch = None
        for unit in batch.units:
            if unit.committed is not None:
                unit.committed(now)
        self._act(now, batch)

    def refused(self, now: float) -> bool:
        """Note that the batch under way was refused, and nothing of it has happened.

        Returns False if that cannot be, as nothing else was expected: the model is full.
        """
        batch, self.batch = self.batch, None
        if batch is None:
            return True
        if len(batch.units) > 1:
            self._again.extend(batch.units)
            return True
        (unit,) = batch.units
        if unit.refused is not None:
            unit.refused(now)
        self._act(now, batch)
        return bool(unit.guards)

    def _act(self, now: float, batch: Batch) -> None:
        """Call what waited for a batch, unless parts of it are still to come."""
        while not self._again and self._actions and self._actions[0][0] <= batch.last:
            self._actions.popleft()[1](now)

    def drop(self) -> None:
        """Forget all that is under way: nobody knows what became of it."""
        self.drops += 1
        self.batch = None
        for table in (self._units, self._again, self._actions, self._open, self.claims):
            table.clear()
        self._taken = self._made
        self.size = 0
        self.is_urgent = False
