"""The shell that writes and syncs the log of a door: what clients hear when the disk syncs, is full, or fails."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import StorageFullError
from glue.gateway.mqtt import committing, store
from glue.gateway.mqtt.committing import Committing
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench, Device

PATIENCE, NEVER = 10.0, float("inf")
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

    async def fill_disk(self) -> Device:
        """Fill the disk, and return the client whose message found no room."""
        self.subscriber()
        publisher = self.bench.connect("p", 5)
        self.flush()
        await self.until(lambda: self.committing._syncing is None)
        self.disk.is_full = True
        publisher.send(mqtt.publish("t", b"x", 1, 1, version=5))
        self.flush()
        return publisher

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
        publisher = await shell.fill_disk()
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


def test_clients_are_read_again_and_told_once_the_disk_has_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(shell: Shell) -> None:
        store, broker = shell.bench.store, shell.bench.broker
        assert store is not None
        assert not store.is_full
        device = shell.subscriber()
        shell.disk.is_full = True
        shell.committing.write()
        store.retry_at, shell.disk.is_full = 0.5, False
        broker.changed.clear()
        shell.committing.write()
        assert (device.client in broker.changed, store.is_full) == (True, False)
        broker.changed.clear()
        shell.committing.write()
        assert broker.changed == {}
        await shell.until(lambda: shell.committing._syncing is None)

    run(monkeypatch, main)
    assert [record.getMessage() for record in caplog.records][1:] == ["there is room on the disk again"]


class Loop:
    """An event loop that notes what is asked of it, and a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.timers: list[Any] = []
        self.begun: list[Coroutine[Any, Any, None]] = []
        self.takes = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def call_later(self, after: float, action: Callable[[], None]) -> Any:
        timer = SimpleNamespace(after=after, action=action, is_cancelled=False)
        timer.cancel = lambda: setattr(timer, "is_cancelled", True)
        self.timers.append(timer)
        return timer

    def create_task(self, work: Coroutine[Any, Any, None]) -> object:
        self.begun.append(work)
        return object()

    async def run_in_executor(self, thread: Any, work: Callable[..., None], *options: Any) -> None:
        self.now += self.takes
        work(*options)

    def call_soon(self, action: Callable[[], None]) -> None:
        action()


def syncing(monkeypatch: pytest.MonkeyPatch, deadline: float) -> tuple[Loop, Committing, Any, list[float]]:
    """The shell of a store with this deadline; and when its syncs ended."""
    loop, ended = Loop(monkeypatch), list[float]()
    store: Any = SimpleNamespace(deadline=deadline, wants_snapshot=False, begin_sync=object)
    store.end_sync = lambda now, ticket: ended.append(now)
    store.log = SimpleNamespace(complete=lambda ticket: None)
    made = Committing(Bench().broker, store, lambda: None)
    made._loop = loop  # type: ignore[assignment]
    return loop, made, store, ended


def test_a_sync_begins_when_it_is_due_and_an_earlier_time_replaces_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop, made, store, _ = syncing(monkeypatch, NEVER)
        made.begin()
        assert (loop.timers, loop.begun) == ([], []), "there is nothing to be synced"
        for deadline in (1_005.0, 1_005.0, 1_003.0, 1_004.0):
            store.deadline = deadline
            made.begin()
        assert [(one.after, one.is_cancelled) for one in loop.timers] == [(5.0, True), (3.0, False)]
        loop.now = 1_003.0
        loop.timers[1].action()
        assert [one.after for one in loop.timers[2:]] == [1.0], "what is due then has its own time"
        loop.now = 1_004.0
        loop.timers[2].action()
        made.begin()
        assert len(loop.begun) == 1, "one at a time"
        loop.begun[0].close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("takes", "deadline", "pause"),
    [(0.4, float("-inf"), 0.1), (0.002, float("-inf"), 0.0), (0.003, float("-inf"), 0.00075), (0.4, NEVER, None),
     (0.4, 1_000.4, 0.1), (0.4, 1_000.5, 0.1)],
)  # fmt: skip
def test_behind_a_slow_sync_the_next_one_waits_for_a_quarter_of_its_time_if_something_came(
    takes: float, deadline: float, pause: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        loop, made, store, ended = syncing(monkeypatch, float("-inf"))
        loop.now, loop.takes = 1_000.0, takes
        made.begin()
        store.deadline = deadline
        await loop.begun[0]
        assert ended == [1_000.0 + takes]
        made.begin()
        assert [one.after for one in loop.timers] == ([pytest.approx(pause, abs=1e-9)] if pause else [])
        assert len(loop.begun) == (2 if pause == 0.0 else 1)
        for work in loop.begun[1:]:
            work.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("problem", "told", "words"),
    [
        (None, ["trim 42", "end", "flush"], []),
        (StorageFullError("the disk is full"), ["end", "flush"], ["no snapshot of the sessions: the disk is full"]),
        (OSError("broken"), ["failed", "flush"], ["the storage failed, so no client is served any more: broken"]),
    ],
)
def test_a_snapshot_is_saved_behind_its_sync_and_what_no_session_needs_is_removed(
    problem: Exception | None, told: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async def main() -> None:
        loop, made, store, _ = syncing(monkeypatch, float("-inf"))
        seen: list[str] = []

        def save(data: bytes) -> None:
            seen.append(f"save {data!r}")
            if problem is not None:
                raise problem

        made._flush = lambda: seen.append("flush")
        made._broker = SimpleNamespace(  # type: ignore[assignment]
            state_events=lambda now: [now], needed_from=lambda: 42, statistics=Counter(),
            store_failed=lambda now: seen.append("failed"),
        )  # fmt: skip
        store.wants_snapshot, store.save, store.trim = True, save, lambda offset: seen.append(f"trim {offset}")
        store.snapshot = lambda events: b"snapshot of %d" % len(events)
        store.log.complete = lambda ticket: seen.append("complete")
        store.end_sync = lambda now, ticket: seen.append("end")
        made.begin()
        await loop.begun[0]
        assert (seen[:2], sorted(seen[2:])) == (["complete", "save b'snapshot of 1'"], sorted(told))
        assert made._broker.statistics["storage failures"] == ("failed" in told)
        made.write = lambda: seen.append("write")  # type: ignore[method-assign]
        made.begin()
        assert len(loop.begun) == 1 + ("failed" not in told), "nothing is synced after a failure"
        for work in loop.begun[1:]:
            work.close()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == words


@pytest.mark.parametrize("has_failed", [False, True])
def test_at_the_end_everything_is_synced_once_more_unless_the_storage_failed(
    has_failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        loop, made, store, _ = syncing(monkeypatch, 1_005.0)
        seen: list[str] = []
        store.sync, store.close = lambda now: seen.append(f"sync at {now:g}"), lambda: seen.append("close")
        made.begin()
        made._has_failed = has_failed
        await made.close()
        assert seen == ["sync at 1000"] * (not has_failed) + ["close"]
        assert [timer.is_cancelled for timer in loop.timers] == [True]

    asyncio.run(main())


def test_the_end_waits_for_the_sync_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        _, made, store, ended = syncing(monkeypatch, float("-inf"))
        store.sync, store.close = lambda now: ended.append(-1.0), lambda: None
        made._loop.create_task = asyncio.get_running_loop().create_task  # type: ignore[method-assign]
        made.begin()
        await made.close()
        assert ended == [1_000.0, -1.0]

    asyncio.run(main())


def test_what_found_no_room_is_not_written_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RETRY_INTERVAL", 0.0)

    async def main() -> None:
        shell = Shell(monkeypatch)
        await shell.fill_disk()
        await shell.committing.close()
        files = {name: shell.disk.read(name) for name in shell.disk.names()}
        shell.disk.is_full = False
        shell.flush()  # as a second after the last try
        assert {name: shell.disk.read(name) for name in shell.disk.names()} == files, "the next door may use them"
        assert shell.committing._syncing is None

    asyncio.run(main())


def test_the_end_waits_for_each_sync_that_began_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        shell = Shell(monkeypatch)
        shell.subscriber()
        publisher = shell.bench.connect("p", 5)
        publisher.send(mqtt.publish("t", b"x", 1, 1, version=5))
        shell.flush()
        await asyncio.sleep(0)
        publisher.send(mqtt.publish("t", b"x", 1, 2, version=5))  # its sync begins when the first one ends
        await shell.committing.close()
        assert shell.committing._syncing is None, "nothing works on files that are closed"

    asyncio.run(main())
