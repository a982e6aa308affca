"""A storage in two files of a directory: `log`, to which writes are appended, and `snapshot`.

Each write is one record; one sync makes all writes before it durable. A snapshot, and with it a shorter log, take
the place of the former ones atomically: written beside, synced, renamed, and the directory synced; first the
snapshot, then the log, so that between the two the old log lies beside a snapshot of what it begins with. A record
that a crash cut short at the end of the log was never acknowledged and is cut off. Any other damage halts the replica:
it has to begin anew, with another life, and fetch from the others what it had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from random import Random

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.model.consensus.items import LogEntry, Snapshot, Stored, Vital, Write
from glue.model.storage.interface import Directory
from glue.model.storage.memory import new_life
from glue.model.storage.records import (
    BASE,
    base_payload,
    read_base,
    read_snapshot,
    read_write,
    record,
    scan,
    snapshot_payload,
    write_payload,
)

LOG, SNAPSHOT = "log", "snapshot"
NEW, DAMAGED = ".new", ".damaged"
"""Endings of a file's name: while it is written, and when it was put aside."""


NO_ROOM = (ENOSPC, EDQUOT)
"""What a write to a full disk, or beyond a quota, is refused with."""


def full(error: OSError) -> StorageFullError:
    """There is no room."""
    return StorageFullError(f"no room on the disk: {error.strerror}; this replica stands aside until there is")


def replace_file(directory: Directory, name: str, data: bytes) -> None:
    """Let a file with this content take the place of another, atomically. Raises OSError, StorageFullError."""
    new = name + NEW
    try:
        directory.create(new)
        directory.append(new, data)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        with suppress(OSError):
            directory.create(new)  # what was written of it takes no room
        raise full(error) from error
    directory.sync(new)
    directory.rename(new, name)
    directory.sync_names()


class FileStorage:
    """A `Storage` in a directory; `luck` draws the life of a new one."""

    def __init__(self, directory: Directory, luck: Random) -> None:
        self._directory = directory
        self._luck = luck
        self._vital = Vital("")
        self._is_dirty = False
        self._size = 0  # of the log
        self._failure: OSError | None = None

    def load(self) -> Stored:
        """What was stored, after the end that a crash has cut short was cut off."""
        with self._failing():
            return self._load()

    def begin_anew(self) -> Stored:
        """After a CorruptStorageError: put the damaged files aside and begin another life."""
        self._failure = None
        with self._failing():
            for name in (LOG, SNAPSHOT):
                if self._directory.read(name) is not None:
                    self._directory.rename(name, name + DAMAGED)
            self._directory.sync_names()
            return self._load()

    def write(self, write: Write) -> None:
        """Append; or with a snapshot, let both files be replaced, which is durable at once.

        Raises StorageFullError if there is no room: what was there is as it was, and the same write may come again.
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
        """Make what was appended durable."""
        with self._failing():
            if self._is_dirty:
                self._directory.sync(LOG)
                self._is_dirty = False

    def close(self) -> None:
        """Let go of the files."""
        self._directory.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """The first error is the last: what the disk holds after it is not known."""
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
        """Put a record at the end of the log, or nothing of it."""
        try:
            self._directory.append(LOG, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._directory.truncate(LOG, self._size)
            raise full(error) from error
        self._size += len(data)

    def _replace(self, name: str, payloads: list[bytes]) -> int:
        """Let a file take the place of another one; returns its size."""
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
            self._vital = Vital(new_life(self._luck))
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
        """A log that does not lead through the snapshot's entry was to be replaced when the crash came."""
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
    """What the records of a log add up to: later entries take the place of earlier ones from their index on."""
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
