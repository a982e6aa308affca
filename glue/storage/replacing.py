"""Atomic replacement of a file, and the errors of a full disk."""

from __future__ import annotations

from contextlib import suppress
from errno import EDQUOT, ENOSPC

from glue.errors import StorageFullError
from glue.storage.directory import Directory

NEW, DAMAGED = ".new", ".damaged"
"""Suffixes of a file's name: while it is written, and after it was put aside."""

NO_ROOM = (ENOSPC, EDQUOT)
"""Errors of a write to a full disk, or beyond a quota."""


def full(error: OSError, user: str = "this replica") -> StorageFullError:
    """Return the error for a full disk; `user` is what waits for room."""
    return StorageFullError(f"no room on the disk: {error.strerror}; {user} stands aside until there is")


def replace_file(directory: Directory, name: str, data: bytes, user: str = "this replica") -> None:
    """Replace a file by one with this content, atomically; `user` as in `full`. Raises OSError, StorageFullError."""
    new = name + NEW
    try:
        directory.create(new)
        directory.append(new, data)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        with suppress(OSError):
            directory.create(new)  # frees the room of what was written
        raise full(error, user) from error
    directory.sync(new)
    directory.rename(new, name)
    directory.sync_names()
