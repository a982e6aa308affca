"""A directory on a simulated disk, which separates written data from durable data.

A crash keeps everything synced. Of the unsynced bytes of a file it keeps a random part, sometimes followed by zeros as
in a file that grew without being filled. Of the unsynced renames it keeps a random number of the first. The disk can
also fail to sync, be full, flip a bit, or lose power after a number of calls.
"""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random

LONGEST_HOLE = 64
"""Most bytes of zeros that a crash leaves at the end of a file."""


class PowerCut(Exception):  # noqa: N818  # no error of the program
    """The power fails in the middle of a call."""


class SimulatedFile:
    """A file: its contents, and the number of bytes that are durable."""

    __slots__ = ("data", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0


class SimulatedDisk:
    """A `Directory` in memory, with faults. `calls` counts the calls that change something."""

    def __init__(self, rng: Random) -> None:
        self.calls = 0
        self.power_cut_after: int | None = None
        self.fails_to_sync = False
        self.is_full = False
        self._rng = rng
        self._files: dict[str, SimulatedFile] = {}
        self._durable: dict[str, SimulatedFile] = {}
        self._names: list[
            tuple[str, str, SimulatedFile]
        ] = []  # renames that are not durable; creations rename from "", removals to ""

    # ------------------------------------------------------------------------------------- as a directory

    def read(self, name: str) -> bytes | None:
        """Return all of a file, or None."""
        file = self._files.get(name)
        return None if file is None else bytes(file.data)

    def create(self, name: str) -> None:
        """Create an empty file."""
        self._count()
        self._files[name] = file = SimulatedFile()
        self._names.append(("", name, file))

    def append(self, name: str, data: bytes) -> None:
        """Append bytes. A full disk keeps a random part of them and raises OSError."""
        file = self._files[name]
        if self._is_cut() or self.is_full:
            file.data += data[: self._rng.randint(0, len(data))]
        self._count()
        if self.is_full:
            raise OSError(ENOSPC, "no space left on the simulated disk")
        file.data += data

    def truncate(self, name: str, size: int) -> None:
        """Keep the first `size` bytes."""
        self._count()
        file = self._files[name]
        del file.data[size:]
        file.synced = min(file.synced, size)

    def sync(self, name: str) -> None:
        """Make a file's contents durable. After a failure, unsynced bytes are lost and OSError is raised."""
        self._count()
        file = self._files[name]
        if self.fails_to_sync:
            self.fails_to_sync = False
            del file.data[file.synced :]
            raise OSError(EIO, "the simulated disk failed to sync")
        file.synced = len(file.data)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing the file of the new name."""
        self._count()
        file = self._files.pop(old)
        self._files[new] = file
        self._names.append((old, new, file))

    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self._files)

    def read_at(self, name: str, start: int, size: int) -> bytes | None:
        """Return a part of a file, or None."""
        file = self._files.get(name)
        return None if file is None else bytes(file.data[start : start + size])

    def remove(self, name: str) -> None:
        """Remove a file; a crash may bring it back."""
        if name in self._files:
            self._count()
            file = self._files.pop(name)
            self._names.append((name, "", file))

    def sync_names(self) -> None:
        """Make creations and renames durable."""
        self._count()
        self._durable = dict(self._files)
        self._names.clear()

    def close(self) -> None:
        """Do nothing: no file is open."""

    # -------------------------------------------------------------------------------------------- its faults

    def _is_cut(self) -> bool:
        return self.power_cut_after is not None and self.calls >= self.power_cut_after

    def _count(self) -> None:
        if self._is_cut():
            raise PowerCut
        self.calls += 1

    def crash(self) -> None:
        """Lose power and return with the durable data and a random part of the rest."""
        rng = self._rng
        for old, new, file in self._names[: rng.randint(0, len(self._names))]:
            self._durable.pop(old, None)
            if new:
                self._durable[new] = file
        self._names.clear()
        self._files = dict(self._durable)
        for file in self._files.values():
            unsynced = len(file.data) - file.synced
            if unsynced:
                kept = rng.choice((0, unsynced, rng.randint(0, unsynced)))
                del file.data[file.synced + kept :]
                if kept < unsynced and rng.random() < 0.3:
                    file.data += bytes(rng.randint(1, min(LONGEST_HOLE, unsynced - kept)))
            file.synced = len(file.data)
        self.power_cut_after = None
        self.fails_to_sync = self.is_full = False

    def flip(self, name: str, bit: int) -> None:
        """Flip one bit of a file, counted from the beginning."""
        self._files[name].data[bit // 8] ^= 1 << bit % 8

    def size(self, name: str) -> int:
        """Return the bytes in a file, 0 if the file does not exist."""
        file = self._files.get(name)
        return 0 if file is None else len(file.data)

    def wipe(self) -> None:
        """Delete all files, as with a new disk."""
        self._files.clear()
        self._durable.clear()
        self._names.clear()
