"""Files that are replaced as a whole, and disks that do not take them."""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random

import pytest

from glue.errors import StorageFullError
from glue.simulation.disk import SimulatedDisk
from glue.storage.replacing import NEW, replace_file


class Failing(SimulatedDisk):
    """A disk that takes no data."""

    number = EIO

    def append(self, name: str, data: bytes) -> None:
        super().append(name, data[:3])
        raise OSError(self.number, "as told")


@pytest.mark.parametrize(("number", "error"), [(EIO, OSError), (ENOSPC, StorageFullError)])
def test_the_former_file_stays_if_the_disk_does_not_take_the_new_one(number: int, error: type[Exception]) -> None:
    disk = Failing(Random(1))
    disk.number = number
    disk.create("a")
    SimulatedDisk.append(disk, "a", b"former")
    with pytest.raises(error, match="as told"):
        replace_file(disk, "a", b"newer")
    assert disk.read("a") == b"former"
    assert (disk.read(NEW) or b"") == b""
    if number == ENOSPC:
        assert disk.read("a" + NEW) == b"", "the room of what was written is free again"
