"""A machine of the swarms that keeps topics, and may have a disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from glue.endpoint.keeping import Keeping
from glue.simulation import World
from glue.simulation.disk import SimulatedDisk


class Machine:
    """A keeper of a pattern, and its disk if it has one; `options` are those of `keep`."""

    def __init__(self, world: World, number: int, pattern: str, has_disk: bool = True, **options: Any) -> None:
        self.endpoint = world.endpoint(f"keeper{number}")
        self.disk = SimulatedDisk(world.random(f"disk {number}")) if has_disk else None
        self._pattern = pattern
        self._options = options
        self.begin()

    def begin(self) -> None:
        """Keep, in the first life or a later one."""
        self.endpoint.keep(self._pattern, directory=self.disk, **self._options)

    def crash(self) -> None:
        """End, and lose what was not synced."""
        self.endpoint.crash()
        if self.disk is not None:
            self.disk.crash()

    def restart(self) -> None:
        """Keep again in a new life."""
        self.endpoint.restart()
        self.begin()

    def keeping(self) -> Iterator[Keeping]:
        """What stores here."""
        for writer in (self.endpoint._writers or {}).values():
            yield writer.keeping
