"""The interface of a storage, and the errors that it may raise."""

from __future__ import annotations

from typing import Protocol

from glue.model.consensus.items import Stored, Write


class Storage(Protocol):
    """What a replica must not forget."""

    def load(self) -> Stored:
        """What was stored; a new storage begins with a new life. To be called once, before the first write.

        Raises CorruptStorageError if what was durable once is not all there: the replica must begin anew, with
        another life, and fetch everything from the others.
        """

    def write(self, write: Write) -> None:
        """Take a write; writes take effect in order. Raises StorageError, after which nothing more is to be done."""

    def sync(self) -> None:
        """Return once all that was written is durable. Raises StorageError, after which as above."""

    def close(self) -> None:
        """Let go of files; what was written and not synced may be lost."""
