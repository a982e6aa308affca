"""A door's deliveries whose network, disk and subscribers the test plays."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.http.delivering import Delivering
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.store import MemoryStore
from glue.gateway.http.subscriptions import Subscription
from glue.storage import MemoryLog, Record

URL = "http://10.0.0.1/hook"


class Network:
    """An endpoint: what it keeps, and what was published."""

    def __init__(self) -> None:
        self.log = MemoryLog("log")
        self.watcher: Any = None
        self._core = SimpleNamespace(guard=None)
        self.kept: dict[str, int] = {}
        self.published: list[tuple[str, Any, dict[str, Any]]] = []
        self.problem: Exception | None = None
        self.is_stored = True

    async def keep(self, pattern: str, data_dir: Any = None, **limits: Any) -> Any:
        assert limits == {"age": 60.0}
        self.kept[pattern] = self.kept.get(pattern, 0) + 1
        return SimpleNamespace(
            log=self.log, _watch=lambda watcher: setattr(self, "watcher", watcher), close=lambda: self.kept.pop(pattern)
        )

    async def publish(self, topic: str, payload: Any, **options: Any) -> Any:
        if self.problem is not None:
            raise self.problem
        self.published.append((topic, payload, options))

        async def receipt() -> bool:
            return self.is_stored

        return receipt() if options.get("receipt") else None

    def store(self, topic: str, *payloads: bytes, number: int = 1, at: float = 1e9) -> None:
        """Messages that come in."""
        begin, record = self.log.end, Record("a" * 16, "kitchen", 1, topic, number, list(payloads), at)
        self.watcher.appended(begin, self.log.append([record]), [record])
        self.watcher.synced(self.log.durable)


class Subscriber:
    """A sender, and the answers that it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.answers: list[Outcome] = []

    async def send(self, attempt: Attempt) -> Outcome:
        self.got.append((attempt.lane, attempt.item.payload))
        return self.answers.pop(0) if self.answers else Outcome(204)


class Door:
    """Deliveries of a door."""

    def __init__(self, limits: Limits | None = None, data_dir: Any = None, store: Any = None) -> None:
        self.network, self.subscriber = Network(), Subscriber()
        self.store = store or MemoryStore()
        network: Any = self.network
        sender: Any = self.subscriber
        self.delivering = Delivering(
            network, self.store, sender, limits or Limits(), data_dir=data_dir, is_portable=store is not None,
            keep={"age": 60.0},
        )  # fmt: skip

    async def add(self, id: str, topic: str, start: Any = None, **more: Any) -> None:
        await self.delivering.add(Subscription(id, topic, URL, **more), start)


async def turns(count: int = 30) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(program: Coroutine[Any, Any, None]) -> None:
    asyncio.run(program)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still while anything can run, and then jumps to the next timer."""

    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__(Jumping(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


class Jumping(selectors.SelectSelector):
    """Waits for nothing."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop, self._left = loop, 100_000

    def select(self, timeout: float | None = None) -> Any:
        self._left -= 1
        assert timeout is not None, "nothing will ever happen"
        assert self._left, "something runs again and again"
        self._loop.jump(max(0.0, timeout))
        return super().select(0)


def run_in_virtual_time(program: Coroutine[Any, Any, None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program that waits for nothing but time, and uses no threads."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", runner.get_loop().time)
        runner.run(program)
