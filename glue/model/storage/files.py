"""A storage in two files of a directory: `snapshot`, and `log`, to which writes are appended.

Each write is one record, and one sync makes all earlier writes durable. A snapshot and the shorter log after it replace
the former files atomically: written beside, synced, renamed, and the directory synced. The snapshot comes first.
Between the two steps the old log lies beside a snapshot of its first entries.

A record that a crash cut short at the end of the log was never acknowledged and is cut off. Any other damage stops the
replica. It must begin again with another life, and fetch the state from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.model.consensus.items import DurableWrite, LogEntry, Snapshot, Stored, Vital
from glue.model.storage.memory import new_life
from glue.model.storage.payloads import (
    BASE,
    base_payload,
    read_base,
    read_snapshot,
    read_write,
    snapshot_payload,
    write_payload,
)
from glue.storage import DAMAGED, NO_ROOM, Directory, full, record, replace_file, scan

LOG, SNAPSHOT = "log", "snapshot"


class FileStorage:
    """A `Storage` in a directory; `rng` draws the life of a new one."""

    def __init__(self, directory: Directory, rng: Random) -> None:
        self._directory = directory
        self._rng = rng
        self._vital = Vital("")
        self._is_dirty = False
        self._size = 0  # of the log
        self._failure: OSError | None = None

    def load(self) -> Stored:
        """Return what was stored. A record that a crash cut short is removed."""
        with self._failing():
            return self._load()

    def begin_anew(self) -> Stored:
        """Put the damaged files aside and begin another life, after a CorruptStorageError."""
        self._failure = None
        with self._failing():
            for name in (LOG, SNAPSHOT):
                if self._directory.read(name) is not None:
                    self._directory.rename(name, name + DAMAGED)
            self._directory.sync_names()
            return self._load()

    def write(self, write: DurableWrite) -> None:
        """Append a write. With a snapshot, replace both files, which is durable at once.

        Raises StorageFullError if there is no room: the files are unchanged, and the same write may come again.
        """
        with self._failing():
            if write.vital is not None:
                self._vital = write.vital
            if write.snapshot is not None:
                self._replace(SNAPSHOT, [snapshot_payload(write.snapshot)])
                self._replace_log(write.base, write.entries)
                return
            self._append(record(write_payload(write.vital, write.entries)))
            self._is_dirty = True

    def sync(self) -> None:
        """Make the appended writes durable."""
        with self._failing():
            if self._is_dirty:
                self._directory.sync(LOG)
                self._is_dirty = False

    def close(self) -> None:
        """Close the files."""
        self._directory.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn errors of the directory into StorageError. After the first one, all calls fail."""
        if self._failure is not None:
            raise StorageError(f"the storage has failed before: {self._failure}") from self._failure
        try:
            yield
        except StorageFullError:
            raise
        except CorruptStorageError as error:
            self._failure = error
            raise
        except OSError as error:
            self._failure = error
            raise StorageError(f"the disk refused, so this replica stops: {error}") from error

    # -------------------------------------------------------------------------------------------- replacing

    def _append(self, data: bytes) -> None:
        """Append a record to the log, all of it or nothing."""
        try:
            self._directory.append(LOG, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._directory.truncate(LOG, self._size)
            raise full(error) from error
        self._size += len(data)

    def _replace(self, name: str, payloads: list[bytes]) -> int:
        """Replace a file; returns its size."""
        data = b"".join(map(record, payloads))
        replace_file(self._directory, name, data)
        return len(data)

    def _replace_log(self, base: tuple[int, int], entries: Sequence[LogEntry]) -> None:
        self._size = self._replace(LOG, [base_payload(base), write_payload(self._vital, entries)])
        self._is_dirty = False

    # ---------------------------------------------------------------------------------------------- loading

    def _load(self) -> Stored:
        directory = self._directory
        log, snapshot = directory.read(LOG), self._load_snapshot()
        if log is None:
            if snapshot is not None:
                raise CorruptStorageError("there is a snapshot, but no log")
            self._vital = Vital(new_life(self._rng))
            self._replace_log((0, 0), [])
            return Stored(self._vital)
        payloads, size = scan(log)
        if size < len(log):
            directory.truncate(LOG, size)
            directory.sync(LOG)
        self._size = size
        vital, base, entries = _replay(payloads)
        self._vital = vital
        if snapshot is None:
            if base != (0, 0):
                raise CorruptStorageError("the snapshot is missing")
            return Stored(vital, None, entries, base)
        return self._reconciled(Stored(vital, snapshot, entries, base))

    def _load_snapshot(self) -> Snapshot | None:
        data = self._directory.read(SNAPSHOT)
        if data is None:
            return None
        payloads, size = scan(data)
        if len(payloads) != 1 or size < len(data):
            raise CorruptStorageError("the snapshot is damaged")
        return read_snapshot(payloads[0])

    def _reconciled(self, stored: Stored) -> Stored:
        """Adjust a log to its snapshot. A log without the snapshot's entry is left from a crash, and is replaced."""
        snapshot, (base_index, base_term) = stored.snapshot, stored.base
        assert snapshot is not None
        if base_index > snapshot.index:
            raise CorruptStorageError("the log begins after the snapshot ends")
        offset = snapshot.index - base_index
        if offset == 0:
            term = base_term
        else:
            term = stored.entries[offset - 1].term if offset <= len(stored.entries) else -1
        if stored.vital.term < snapshot.term:
            self._vital = stored.vital._replace(term=snapshot.term, vote="")
        if term == snapshot.term:
            return stored._replace(vital=self._vital)
        self._replace_log((snapshot.index, snapshot.term), [])
        return Stored(self._vital, snapshot, [], (snapshot.index, snapshot.term))


def _replay(payloads: list[memoryview]) -> tuple[Vital, tuple[int, int], list[LogEntry]]:
    """Return the vital facts, base and entries of a log. Later entries replace earlier ones from their index on."""
    vital: Vital | None = None
    base: tuple[int, int] = (0, 0)
    entries: list[LogEntry] = []
    for payload in payloads:
        if payload[:1] == BASE:
            base = read_base(payload)
            continue
        facts, added = read_write(payload)
        vital = facts or vital
        if added:
            offset = added[0].index - base[0] - 1
            if not 0 <= offset <= len(entries):
                raise CorruptStorageError("the log has a hole")
            if offset < len(entries):
                del entries[offset:]
            entries += added
    if vital is None:
        raise CorruptStorageError("the log has no beginning")
    return vital, base, entries
