"""Where a replica keeps its mergeable keys: a file of deltas beside the log, each as a record with its checksum.

Deltas may be merged twice and in any order, so the file needs neither numbers nor an order; what a crash has cut short
at its end was never acknowledged. Once most of it is outdated it is replaced, atomically, by the whole state as one
delta. A damaged file is put aside: the other replicas have what it held, but for what never reached any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glue.errors import StorageError
from glue.model.storage.files import DAMAGED, NO_ROOM, full, replace_file
from glue.model.storage.interface import Directory
from glue.model.storage.records import record, scan

DELTAS = "deltas"

OUTDATED = 1 << 20
"""Bytes that may be appended to a small state before it is written anew; to a large one, as many as it has."""


class DeltaFile:
    """The deltas in a directory. All its methods raise StorageError, after which nothing more is to be done.

    After a StorageFullError `replace` is to be called until there is room.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._appended = 0
        self._state = 0
        self.is_dirty = False
        self.is_whole = True  # not once something was not written for want of room

    @property
    def exists(self) -> bool:
        """Whether there is one already."""
        with _failing():
            return self._directory.read(DELTAS) is not None

    def load(self) -> list[bytes]:
        """All deltas. Raises CorruptStorageError if they are damaged; then only `begin_anew` helps."""
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
        """Put aside what there is, and begin with nothing."""
        with _failing():
            if self._directory.read(DELTAS) is not None:
                self._directory.rename(DELTAS, DELTAS + DAMAGED)
            self.replace([])

    def append(self, delta: bytes) -> None:
        """Add a delta; it is durable after `sync`."""
        with _failing():
            data = record(delta)
            self.is_whole = False
            self._directory.append(DELTAS, data)
            self.is_whole = True
            self._appended += len(data)
            self.is_dirty = True

    def sync(self) -> None:
        """Make what was appended durable."""
        with _failing():
            if self.is_dirty:
                self._directory.sync(DELTAS)
                self.is_dirty = False

    @property
    def is_outdated(self) -> bool:
        """Whether it is time for `replace`."""
        return self._appended > max(OUTDATED, self._state)

    def replace(self, deltas: list[bytes]) -> None:
        """Let these deltas take the place of all there are; durable at once."""
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
