"""The log of a door, and its snapshots: sessions and retained messages survive the end of the process.

All kept messages of sessions are in one log, once; a session has a position in it. What happens is appended in order
and made durable together, so that many acknowledgements cost one sync. A snapshot replaces all events before it; then
the segments that no session needs are removed.

The shell calls `write` before it writes to clients, and makes the syncs, in another thread if it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Protocol

import orjson

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.stored import Event, Kept, event_record, read_record, run_record
from glue.storage import Directory, FileLog, Record, replace_file, scan
from glue.storage import record as framed
from glue.storage.file_log import SEGMENT, Ticket
from glue.storage.group_commit import GroupCommit
from glue.storage.log import every_topic

SNAPSHOT = "sessions"
"""The file of the last snapshot."""

EVENTS = 1_000
"""Events in a record of a snapshot."""

RETRY_INTERVAL = 1.0
"""Seconds between two tries to write to a full disk."""


class SessionStore(Protocol):
    """What a broker needs of the place where its sessions are kept: the log of its own door, or a cluster of doors."""

    @property
    def wall_clock(self) -> Callable[[], float]:
        """Unix time."""

    @property
    def end(self) -> int:
        """The offset behind the last message."""

    @property
    def failure(self) -> str:
        """Why nothing can be promised any more, "" if all is well."""

    def add(self, now: float, kept: Kept) -> int:
        """Store a run of messages; returns the offset of the first one."""

    def note(self, *event: object) -> None:
        """Store an event."""

    def then(self, action: Callable[[float], None]) -> None:
        """Call an action once everything that was stored up to now is safe, with the time."""

    def read(self, now: float, offset: int, size: int) -> tuple[list[Kept], int]:
        """The runs from an offset on, some `size` bytes of them, and the offset to go on from."""


class Store:
    """A door's log in a directory. Raises StorageError where the disk refuses; `failure` tells why for good."""

    def __init__(
        self, directory: Directory, random: Random, wall_clock: Callable[[], float], segment_size: int = SEGMENT
    ) -> None:
        """`wall_clock` returns Unix time. Raises StorageError."""
        self.log = FileLog(directory, random, segment_size)
        self.directory = directory
        self.wall_clock = wall_clock
        self.end = self.log.end
        self.retry_at = 0.0
        self.recent: deque[Kept] = deque()
        """Runs that are not durable yet: the log does not return them."""
        self._segment_size = segment_size
        self._commit = GroupCommit()
        self._records: list[Record] = []
        self._events: list[Event] = []
        self._waiting: list[Callable[[float], None]] = []
        self._under_way: list[Callable[[float], None]] = []
        self._written = 0  # bytes since the last snapshot
        self._snapshot_size = 0

    @property
    def failure(self) -> str:
        """Why nothing is stored any more, "" if all is well."""
        return self.log.failure

    @property
    def is_pending(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._events or self._records)

    @property
    def is_full(self) -> bool:
        """Whether the disk had no room at the last try."""
        return self.retry_at > 0.0

    # ------------------------------------------------------------------------------------------- writing

    def add(self, now: float, kept: Kept) -> int:
        """Store a run of messages; returns the offset of the first one."""
        self._close_events()
        unix, run = self.wall_clock(), kept.run
        record = run_record(kept, self.end, run.expires - now + unix, unix)
        offset, self.end = self.end, self.end + run.count
        self._records.append(record)
        run.offset = offset
        self.recent.append(kept)
        return offset

    def note(self, *event: object) -> None:
        """Store an event."""
        self._events.append(event)

    def then(self, action: Callable[[float], None]) -> None:
        """Call an action once everything that was stored up to now is durable, with the time."""
        self._waiting.append(action)

    def _close_events(self) -> None:
        if self._events:
            self._records.append(event_record(self._events, self.end, self.wall_clock()))
            self._events = []
            self.end += 1

    def write(self, now: float) -> None:
        """Write what was added, so that it survives the end of the process. On a full disk it waits for room."""
        if not (self._events or self._records) or now < self.retry_at:
            return
        self._close_events()
        try:
            self.log.append(self._records)
        except StorageFullError:
            self.retry_at = now + RETRY_INTERVAL
            raise
        self.retry_at = 0.0
        size = sum(record.size for record in self._records)
        self._records = []
        self._written += size
        self._commit.stored(now, size, bool(self._waiting))

    # ------------------------------------------------------------------------------------------- syncing

    @property
    def deadline(self) -> float:
        """When the next sync is due: -inf for now, inf if there is nothing to be synced."""
        return self._commit.deadline if not self._waiting or self._under_way else float("-inf")

    def begin_sync(self) -> Ticket:
        """Begin a sync; `log.complete` makes it, and `end_sync` follows."""
        if self._records:  # the disk is full: what waits is not written
            return self.log.begin_sync()
        self._under_way, self._waiting = self._waiting, []
        self._commit.synced()
        return self.log.begin_sync()

    def end_sync(self, now: float, ticket: Ticket) -> None:
        """Note that a sync has ended well, and call what waited for it."""
        self.log.end_sync(ticket)
        while self.recent and self.recent[0].run.offset + self.recent[0].run.count <= self.log.durable:
            self.recent.popleft()
        actions, self._under_way = self._under_way, []
        for action in actions:
            action(now)

    def sync(self, now: float) -> None:
        """Write and sync at once."""
        self.write(now)
        ticket = self.begin_sync()
        self.log.complete(ticket)
        self.end_sync(now, ticket)

    # ------------------------------------------------------------------------------------------- reading

    def read(self, now: float, offset: int, size: int) -> tuple[list[Kept], int]:
        """The runs from an offset on, some `size` bytes of them, and the offset to go on from."""
        if offset >= self.log.durable:
            found = [_from(kept, offset) for kept in self.recent if kept.run.offset + kept.run.count > offset]
            return found, self.end
        reading = self.log.read(every_topic, offset, size)
        runs = [entry for _, entry in self._entries(reading.records, now) if isinstance(entry, Kept)]
        return runs, reading.next

    def _entries(self, records: Iterable[tuple[int, Record]], now: float) -> Iterator[tuple[int, Kept | list[Event]]]:
        to_monotonic = now - self.wall_clock()
        for offset, record in records:
            try:
                yield offset, read_record(record, offset, to_monotonic)
            except CorruptStorageError:
                continue

    def replay(self, now: float) -> Iterator[Kept | list[Event]]:
        """Everything that is needed to know the state: the events of the snapshot, and what came after it."""
        offset = self.log.first
        data = self.directory.read(SNAPSHOT)
        if data is not None:
            try:
                payloads, _ = scan(data)
                id, at = orjson.loads(bytes(payloads[0]))
            except (CorruptStorageError, ValueError, IndexError, TypeError) as error:
                raise StorageError(f"the snapshot of the sessions is damaged: {error}") from None
            if id == self.log.id:
                offset, self._snapshot_size = at, len(data)
                yield from map(orjson.loads, map(bytes, payloads[1:]))
        while offset < self.log.durable:
            reading = self.log.read(every_topic, offset)
            for _, entry in self._entries(reading.records, now):
                yield entry
            if reading.next <= offset:
                break
            offset = reading.next

    # ----------------------------------------------------------------------------------------- snapshots

    @property
    def wants_snapshot(self) -> bool:
        """Whether the log has grown so much that a snapshot makes a start quicker."""
        return self._written > max(self._segment_size, 2 * self._snapshot_size) and not self._records

    def snapshot(self, events: Sequence[Event]) -> bytes:
        """The content of a snapshot: the state as events, all up to `log.end` included."""
        self._written = 0
        parts = [framed(orjson.dumps([self.log.id, self.log.end]))]
        parts += [framed(orjson.dumps(events[at : at + EVENTS])) for at in range(0, len(events), EVENTS)]
        data = b"".join(parts)
        self._snapshot_size = len(data)
        return data

    def save(self, data: bytes) -> None:
        """Replace the snapshot; the log must be durable up to it. Raises OSError, StorageFullError."""
        replace_file(self.directory, SNAPSHOT, data)

    def trim(self, offset: int) -> None:
        """Remove what comes before an offset, in whole segments."""
        self.log.trim(min(offset, self.log.durable))

    def close(self) -> None:
        """Close the files."""
        self.log.close()


def _from(kept: Kept, offset: int) -> Kept:
    """The messages of a run from an offset on."""
    skipped = max(0, offset - kept.run.offset)
    return Kept(part(kept.run, skipped), kept.sender, kept.to, identifiers=kept.identifiers) if skipped else kept


def part(run: Publish, start: int) -> Publish:
    """A run without its first messages."""
    return run.part(start, run.count)
