"""The file of a replica's mergeable keys: deltas beside the log, each a record with a checksum.

Deltas may be merged twice and in any order, so the file needs no numbers. A record that a crash cut short at the end
was never acknowledged. Once most of the file is outdated, it is replaced atomically by the whole state as one delta. A
damaged file is put aside. The other replicas have its content, except for writes that were never sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glue.errors import StorageError
from glue.storage import DAMAGED, NO_ROOM, Directory, full, record, replace_file, scan

DELTAS = "deltas"

OUTDATED = 1 << 20
"""Bytes that may be appended before the file is written anew, or as many as the whole state has, if that is more."""


class DeltaFile:
    """The deltas in a directory. All methods raise StorageError, after which the file must not be used any more.

    After a StorageFullError, call `replace` until there is room.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._appended = 0
        self._state = 0
        self.is_dirty = False
        self.is_whole = True  # false after a write or a sync failed for want of room

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        with _failing():
            return self._directory.read(DELTAS) is not None

    def load(self) -> list[bytes]:
        """Return all deltas. Raises CorruptStorageError if they are damaged; then only `begin_anew` helps."""
        with _failing():
            data = self._directory.read(DELTAS)
            if data is None:
                self.begin_anew()
                return []
            payloads, size = scan(data)
            if size < len(data):
                self._directory.truncate(DELTAS, size)
                self._directory.sync(DELTAS)
            self._state = size
            return [bytes(payload) for payload in payloads]

    def begin_anew(self) -> None:
        """Put the damaged file aside, and begin an empty one."""
        with _failing():
            if self._directory.read(DELTAS) is not None:
                self._directory.rename(DELTAS, DELTAS + DAMAGED)
            self.replace([])

    def append(self, delta: bytes) -> None:
        """Append a delta; it is durable after `sync`."""
        with _failing():
            data = record(delta)
            self.is_whole = False
            self._directory.append(DELTAS, data)
            self.is_whole = True
            self._appended += len(data)
            self.is_dirty = True

    def sync(self) -> None:
        """Make the appended deltas durable."""
        with _failing():
            if self.is_dirty:
                self.is_whole = False  # a failed sync may have lost what was appended
                self._directory.sync(DELTAS)
                self.is_dirty, self.is_whole = False, True

    @property
    def is_outdated(self) -> bool:
        """Whether it is time for `replace`."""
        return self._appended > max(OUTDATED, self._state)

    def replace(self, deltas: list[bytes]) -> None:
        """Replace all deltas by these; they are durable at once."""
        with _failing():
            data = b"".join(map(record, deltas))
            self.is_whole = False
            replace_file(self._directory, DELTAS, data)
            self._state, self._appended, self.is_dirty, self.is_whole = len(data), 0, False, True


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        if error.errno in NO_ROOM:
            raise full(error) from error
        raise StorageError(f"the disk refused, so this replica stops: {error}") from error
