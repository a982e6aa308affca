"""The interface of a replica to its storage."""

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
