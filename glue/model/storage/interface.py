"""The interfaces of a storage: what a replica wants of it, and what it wants of a directory."""

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


class Directory(Protocol):
    """A folder of files, by name; what a file system promises, and no more. All may raise OSError."""

    def read(self, name: str) -> bytes | None:
        """All of a file, None if there is none."""

    def create(self, name: str) -> None:
        """An empty file, in the place of one that may be there."""

    def append(self, name: str, data: bytes) -> None:
        """Put bytes at the end of a file; a crash may keep any part of them."""

    def truncate(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file."""

    def sync(self, name: str) -> None:
        """Return once a file's contents are durable; whether its name is, `sync_names` decides."""

    def rename(self, old: str, new: str) -> None:
        """Let a file take the place of another; a crash finds one or the other."""

    def sync_names(self) -> None:
        """Return once all files that were made or renamed are so for good."""

    def close(self) -> None:
        """Let go of what is open."""
