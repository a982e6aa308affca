"""The shell that writes and syncs the log of a door: what clients hear when the disk syncs, is full, or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace

import pytest

from glue.gateway.mqtt import committing
from glue.gateway.mqtt.committing import Committing
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device

PATIENCE = 10.0
HOUR = b"\x11\x00\x00\x0e\x10"


class Shell:
    """A broker whose store is written and synced by the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.bench = Bench(directory=self.disk)
        assert self.bench.store is not None
        monkeypatch.setattr(committing, "RETRY_INTERVAL", 0.01)
        self.committing = Committing(self.bench.broker, self.bench.store, self.flush)
        self.flushes = 0

    def flush(self) -> None:
        """Write, and begin a sync, as the door does after each event."""
        self.flushes += 1
        self.committing.write()
        self.committing.begin()

    def subscriber(self) -> Device:
        """A client with a session that is kept."""
        device = self.bench.link(5)
        device.send(mqtt.connect("s", 5, clean=False, raw=HOUR), mqtt.subscribe(1, ("t", 1), version=5))
        return device

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.001)


def run(monkeypatch: pytest.MonkeyPatch, main: Callable[[Shell], Awaitable[None]]) -> None:
    async def whole() -> None:
        shell = Shell(monkeypatch)
        await main(shell)
        await shell.committing.close()

    asyncio.run(whole())


def test_a_message_is_acknowledged_by_the_sync_that_makes_it_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(shell: Shell) -> None:
        shell.subscriber()
        publisher = shell.bench.connect("p", 5)
        shell.flush()
        publisher.send(mqtt.publish("t", b"x", 1, 1, version=5))
        assert publisher.read() == []
        shell.flush()
        await shell.until(lambda: bool(publisher.client.out))
        assert [sent.kind for sent in publisher.read()] == [4]

    run(monkeypatch, main)


def test_on_a_full_disk_clients_wait_and_go_on_once_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(shell: Shell) -> None:
        shell.subscriber()
        publisher = shell.bench.connect("p", 5)
        shell.flush()
        await shell.until(lambda: shell.committing._syncing is None)
        shell.disk.is_full = True
        publisher.send(mqtt.publish("t", b"x", 1, 1, version=5))
        shell.flush()
        shell.committing.write()
        assert shell.bench.broker.statistics["times that the disk was full"] == 1
        assert publisher.client in shell.bench.broker.changed
        before = shell.flushes
        await shell.until(lambda: shell.flushes > before)
        assert publisher.read() == []
        shell.disk.is_full = False
        await shell.until(lambda: bool(publisher.client.out))
        assert [sent.kind for sent in publisher.read()] == [4]
        assert shell.bench.broker.statistics["times that the disk was full"] == 1

    run(monkeypatch, main)


def test_when_a_sync_fails_all_clients_are_closed_and_nothing_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(shell: Shell) -> None:
        subscriber = shell.subscriber()
        publisher = shell.bench.connect("p", 5)
        shell.flush()
        await shell.until(lambda: shell.committing._syncing is None)
        shell.disk.fails_to_sync = True
        publisher.send(mqtt.publish("t", b"x", 1, 1, version=5))
        shell.flush()
        before = shell.flushes
        await shell.until(lambda: publisher.is_closed() and subscriber.is_closed())
        assert shell.bench.broker.statistics["storage failures"] == 1
        assert [sent.kind for sent in publisher.read()] == [14], "a goodbye, and no acknowledgement"
        await shell.until(lambda: shell.flushes > before)
        refused = shell.bench.link(5)
        refused.send(mqtt.connect("late", 5))
        assert refused.is_closed()

    run(monkeypatch, main)


def test_on_a_full_disk_each_try_is_followed_by_another_a_second_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(shell: Shell) -> None:
        shell.flush()
        await shell.until(lambda: shell.committing._syncing is None)
        later: list[tuple[float, Callable[[], None]]] = []
        loop = SimpleNamespace(call_later=lambda after, action: later.append((after, action)))
        monkeypatch.setattr(shell.committing, "_loop", loop)
        shell.disk.is_full = True
        shell.subscriber()
        for count in (1, 2):
            shell.committing.write()
            assert later == [(0.01, shell.flush)] * count
            shell.bench.store.retry_at = 0.5  # type: ignore[union-attr]
        monkeypatch.undo()
        shell.disk.is_full = False

    run(monkeypatch, main)
