"""The interfaces of storages: what a replica needs of a storage, and what a storage needs of a directory."""

from __future__ import annotations

from typing import Protocol

from glue.model.consensus.items import DurableWrite, Stored


class Storage(Protocol):
    """Keeps what a replica must not forget."""

    def load(self) -> Stored:
        """Return what was stored; a new storage begins with a new life. Call it once, before the first write.

        Raises CorruptStorageError if durable data are damaged or missing. The replica must then begin again with
        another life, and fetch everything from the others.
        """

    def write(self, write: DurableWrite) -> None:
        """Take a write; writes take effect in order. Raises StorageError, after which the storage must not be used."""

    def sync(self) -> None:
        """Return once all writes are durable. Raises StorageError, after which the storage must not be used."""

    def close(self) -> None:
        """Close the files; writes that were not synced may be lost."""


class Directory(Protocol):
    """A folder of files, with no more than a file system promises. All methods may raise OSError."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""

    def create(self, name: str) -> None:
        """Create an empty file; an existing one is replaced."""

    def append(self, name: str, data: bytes) -> None:
        """Append bytes to a file; a crash may keep any part of them."""

    def truncate(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file."""

    def sync(self, name: str) -> None:
        """Return once a file's content is durable. Only `sync_names` makes its name durable."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace the one of the new name; a crash leaves one or the other."""

    def sync_names(self) -> None:
        """Return once all created and renamed names are durable."""

    def close(self) -> None:
        """Close what is open."""
