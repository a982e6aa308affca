"""A model that a test plays for a door of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from glue.errors import RefusedError
from glue.model.state import Change
from tests.gateway.mqtt.cluster_doors import Log


class Model:
    """A model: its log, what it was asked, and what it refuses."""

    name = "doors"

    def __init__(self) -> None:
        self.log = Log()
        self.leader: str | None = "x"
        self.watcher: Any = None
        self.is_closed = False
        self.answers: list[Exception | None] = []
        self.asked: list[Any] = []
        self.timeouts: list[float] = []
        self.problem: Exception | None = None

    async def get(self, key: str, timeout: float = 0.0) -> None:
        self.asked.append((key, timeout))
        if self.problem is not None:
            raise self.problem

    async def watch(self, pattern: str, watcher: Any) -> Any:
        assert pattern == "#"
        self.watcher = watcher
        for key in sorted(self.log.state._values):
            watcher(Change(key, *self.log.state.get(key)).past)  # type: ignore[misc]
        return SimpleNamespace(close=lambda: setattr(self, "is_closed", True))

    async def transaction(self, *operations: Any, timeout: float = 0.0) -> None:
        self.asked.append(operations)
        self.timeouts.append(timeout)
        if self.answers and (problem := self.answers.pop(0)) is not None:
            raise problem
        if not self.log.commit(list(operations))[0]:
            raise RefusedError("another value")
        if self.watcher is not None:
            for change in self.log.changes[-1]:
                self.watcher(change)
