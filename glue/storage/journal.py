"""A journal: a file of changes to a small state, replaced by a snapshot of the state when it has grown.

Entries wait until `sync` makes them durable. An entry that a crash cut short is left out, and so is everything after a
damaged one: then `damaged` tells so. What waits for a disk that stores nothing is bounded: where it would be more than
the file may grow, a snapshot stands for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.storage.directory import Directory
from glue.storage.framing import END, HEADER, scan
from glue.storage.framing import record as framed
from glue.storage.replacing import NO_ROOM, full, replace_file

SLACK = 256 << 10
"""Bytes that the file may grow beyond a few times its snapshot: some thousand small changes."""
USER = "this keeper"
"""What waits for room on a full disk."""


class Journal:
    """The file of one state. `failure` tells why nothing is stored any more, "" if all is well."""

    def __init__(
        self, directory: Directory, name: str, snapshot: Callable[[], Iterable[bytes]], what: str = "", growth: int = 2
    ) -> None:
        """`snapshot` returns the entries that stand for the whole state.

        `what` names the content in errors; the file may grow to `growth` times its snapshot.
        """
        self.failure = ""
        self.damaged = False
        self._directory = directory
        self._name = name
        self._what = what or name
        self._growth = growth
        self._snapshot = snapshot
        self._is_changed = False
        self._waiting: list[bytes] = []
        self._size = self._snapshot_size = self._waiting_size = 0
        self._must_replace = True

    def load(self) -> list[bytes]:
        """The entries in the file. Raises StorageError."""
        try:
            data = self._directory.read(self._name)
        except OSError as error:
            raise StorageError(f"{self._what} cannot be opened: {error}") from error
        return [] if data is None else self._entries(data)

    def add(self, entry: bytes) -> None:
        """Add a change, durable after the next `sync`."""
        self._is_changed = True
        if self.failure or self._must_replace:
            return
        self._waiting.append(framed(entry))
        self._waiting_size += len(self._waiting[-1])
        if self._size + self._waiting_size > self._growth * self._snapshot_size + SLACK:
            self._must_replace = True
            self._forget()

    def _forget(self) -> None:
        self._waiting.clear()
        self._waiting_size = 0

    @property
    def is_dirty(self) -> bool:
        """Whether anything is to be synced."""
        return self._is_changed

    def sync(self) -> None:
        """Make all changes durable. Raises StorageError; StorageFullError if another try may find room.

        After any other error nothing is stored any more, and no sync is tried again.
        """
        if self.failure:
            raise StorageError(self.failure)
        if not self._is_changed:
            return
        data = b"".join(self._waiting)
        try:
            if self._must_replace:
                self.replace()
                return
            self._append(data)
            self._directory.sync(self._name)
        except StorageFullError:
            raise
        except OSError as error:
            self.failure = f"{self._what} cannot be stored: {error}"
            self._forget()
            raise StorageError(self.failure) from error
        self._size += len(data)
        self._is_changed = False
        self._forget()

    def _append(self, data: bytes) -> None:
        """Append, all or nothing if the disk is full."""
        try:
            self._directory.append(self._name, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._directory.truncate(self._name, self._size)
            raise full(error, USER) from error

    def replace(self) -> None:
        """Replace the file by a snapshot. Raises OSError, StorageFullError."""
        data = b"".join(map(framed, self._snapshot()))
        replace_file(self._directory, self._name, data, USER)
        self._size = self._snapshot_size = len(data)
        self._is_changed = self._must_replace = False
        self._forget()

    def _entries(self, data: bytes) -> list[bytes]:
        """The payloads of the file, up to what a crash cut short, or what is damaged."""
        try:
            return [bytes(payload) for payload in scan(data)[0]]
        except CorruptStorageError:
            self.damaged = True
        found, start = [], 0
        while start + HEADER.size <= len(data):
            end = start + HEADER.size + HEADER.unpack_from(data, start)[0] + len(END)
            try:
                payloads, _ = scan(data[start:end])
            except CorruptStorageError:
                break
            if not payloads:
                break
            found.append(bytes(payloads[0]))
            start = end
        return found
