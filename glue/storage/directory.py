"""The interface of a storage to a folder of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

SEALED: Final = "sealed"
"""The file that tells that the others are sealed, and with which key; see `glue.security.at_rest`."""


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

    def names(self) -> Sequence[str]:
        """The names of all files, in any order."""

    def size(self, name: str) -> int:
        """Return the bytes in a file, 0 if there is none."""

    def read_at(self, name: str, start: int, size: int) -> bytes | None:
        """Return `size` bytes of a file from `start` on, fewer at its end; None if there is no file."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one. A crash may bring it back unless `sync_names` has returned."""

    def close(self) -> None:
        """Close what is open."""
