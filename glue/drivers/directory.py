"""Files on a real disk, as storages need them.

`sync` is fsync or fdatasync, which makes contents durable. The directory is synced for the file names (see fsync(2),
"Notes"). Only one process uses a directory at a time: a lock on the file `lock` ensures this.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from glue.endpoint.fork import heirs
from glue.errors import ConfigurationError, StorageError

_sync_data = getattr(os, "fdatasync", os.fsync)
"""Of the metadata it makes durable what is needed to read the data, its size above all (fdatasync(2))."""


class FileDirectory:
    """The folder `path` on disk, as the storage needs it; made if it is missing.

    Raises StorageError if the folder cannot be written or is in use, and ConfigurationError if `path` is no folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ConfigurationError(f"data_dir={path!r}: expected the path of a directory, or None for memory")
        self.path = self._path = Path(path)
        self._files: dict[str, int] = {}
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"data_dir={str(path)!r}: {error.strerror} ({error.filename}); give a directory that can be written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            if not isinstance(error, BlockingIOError):
                raise StorageError(f"data_dir={str(path)!r}: it cannot be locked: {error.strerror}") from error
            raise StorageError(f"data_dir={str(path)!r}: another process uses it; give each its own") from error
        self._closed = False
        heirs.add(self)

    def read(self, name: str) -> bytes | None:
        """All of a file, None if there is none."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str) -> None:
        """An empty file, in the place of one that may be there."""
        self._forget(name)
        self._files[name] = self._open(name, os.O_CREAT | os.O_TRUNC)

    def append(self, name: str, data: bytes) -> None:
        """Put bytes at the end of a file."""
        file, view = self._file(name), memoryview(data)
        while view:
            view = view[os.write(file, view) :]

    def truncate(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file."""
        os.ftruncate(self._file(name), size)

    def sync(self, name: str) -> None:
        """Return once a file's contents are durable. Raises OSError, also if the file was removed by someone else."""
        file = self._file(name)
        _sync_data(file)
        if not os.fstat(file).st_nlink:  # the system syncs it nevertheless, and then forgets it
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use", str(self._path / name))

    def rename(self, old: str, new: str) -> None:
        """Let a file take the place of another."""
        self._forget(new)
        os.rename(self._path / old, self._path / new)
        if old in self._files:
            self._files[new] = self._files.pop(old)

    def names(self) -> list[str]:
        """The names of all files."""
        return os.listdir(self._path)

    def size(self, name: str) -> int:
        """The bytes in a file."""
        try:
            return os.stat(self._path / name).st_size
        except FileNotFoundError:
            return 0

    def read_at(self, name: str, start: int, size: int) -> bytes | None:
        """A part of a file, None if there is none."""
        try:
            file = os.open(self._path / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.pread(file, size, start)
        finally:
            os.close(file)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._forget(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path / name)

    def sync_names(self) -> None:
        """Return once all names are durable."""
        directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Close the files, and let another process use the directory. A second time does nothing."""
        if not self._closed:
            self._closed = True
            for name in list(self._files):
                self._forget(name)
            os.close(self._lock)

    def _after_fork(self) -> None:
        """Close the files in a forked child, because its copy of the lock would block other processes."""
        self.close()

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._path / name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)

    def _file(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = self._open(name, 0)
        return self._files[name]

    def _forget(self, name: str) -> None:
        if name in self._files:
            os.close(self._files.pop(name))


def open_directory(data_dir: str | os.PathLike[str] | None) -> FileDirectory | None:
    """Open the directory of a model; None where nothing is stored. Raises StorageError if it cannot be used."""
    return None if data_dir is None else FileDirectory(data_dir)
