"""Changes of subscriptions that meet: a client that goes in the middle, a change of what is deleted, two writes."""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from glue.gateway.http.store import FileStore, MemoryStore
from glue.gateway.http.subscriptions import Subscription
from glue.storage import replace_file
from tests.gateway.http.played import URL, Door, run, turns


class SlowStore(MemoryStore):
    """A store whose disk takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def put(self, id: str, subscription: Any) -> None:
        await super().put(id, subscription)
        await self.gate.wait()


async def begun() -> tuple[SlowStore, Door, asyncio.Task[None]]:
    """A door whose store takes its time, and the making of a subscription that waits for it."""
    made, door = SlowStore(), Door()
    door.store = door.delivering.store = made
    await door.delivering.start()
    adding = asyncio.create_task(door.add("s", "t"))
    await turns()
    return made, door, adding


def test_a_subscription_is_made_as_a_whole_though_its_client_goes() -> None:
    async def program() -> None:
        made, door, adding = await begun()
        adding.cancel()
        with suppress(asyncio.CancelledError):
            await adding
        made.gate.set()
        await turns()
        assert [*made.subscriptions] == [*door.delivering.subscriptions] == ["s"], "what is stored is used"
        door.network.store("t", b"1")
        await turns()
        assert door.subscriber.got == [("s", b"1")]
        await door.delivering.remove("s")
        assert (made.subscriptions, door.delivering.machine.lanes, door.network.kept) == ({}, {}, {"$dead/#": 1})
        await door.delivering.close()

    run(program())


def test_a_subscription_that_is_being_made_as_the_door_closes_is_made_and_told() -> None:
    async def program() -> None:
        made, door, adding = await begun()
        closing = asyncio.create_task(door.delivering.close())
        await turns()
        made.gate.set()
        await adding
        await closing
        assert [*made.subscriptions] == ["s"]

    run(program())


@pytest.mark.parametrize("is_first", [False, True])
def test_a_subscription_that_is_deleted_while_it_is_changed_stays_deleted(is_first: bool) -> None:
    async def program() -> None:
        made = SlowStore()
        made.gate.set()
        door = Door()
        door.store = door.delivering.store = made
        await door.delivering.start()
        await door.add("s", "t")
        made.gate.clear()
        changing: Any = (door.delivering.change(Subscription("s", "t", URL, parallel=2)), door.delivering.remove("s"))
        both = [asyncio.create_task(one) for one in (changing if is_first else changing[::-1])]
        await turns()
        made.gate.set()
        told = await asyncio.gather(*both)
        assert True not in told or is_first
        assert (made.subscriptions, door.delivering.subscriptions, door.delivering.machine.lanes) == ({}, {}, {})
        assert door.network.kept == {"$dead/#": 1}
        await door.delivering.close()

    run(program())


def test_a_write_waits_for_the_one_before_also_if_its_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    at_once: list[int] = []
    running = 0

    def replace(*options: Any) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        gate.wait(10.0)
        replace_file(*options)
        running -= 1

    monkeypatch.setattr("glue.gateway.http.store.replace_file", replace)

    async def program() -> None:
        files = FileStore(tmp_path)
        await files.open()
        first = asyncio.create_task(files.put("a", {"id": "a"}))
        while not at_once:
            await asyncio.sleep(0.001)
        first.cancel()
        second = asyncio.create_task(files.put("b", {"id": "b"}))
        await turns()
        gate.set()
        await asyncio.gather(first, second, return_exceptions=True)
        assert at_once == [1, 1]
        files.close()
        again = FileStore(tmp_path)
        await again.open()
        assert sorted(again.subscriptions) == ["a", "b"]
        again.close()

    asyncio.run(program())


def test_what_a_full_disk_refused_is_not_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_full: bool | None = False

    def replace(*options: Any) -> None:
        nonlocal is_full
        was_full, is_full = is_full, is_full or False
        if was_full is not False:  # None: for one write
            raise OSError(errno.ENOSPC, "full")
        replace_file(*options)

    monkeypatch.setattr("glue.gateway.http.store.replace_file", replace)

    async def program() -> None:
        nonlocal is_full
        files = FileStore(tmp_path)
        await files.open()
        await files.put("a", {"id": "a"})
        await files.save({"a": {"offset": 5}})
        is_full = True
        refused = files.put("a", {"id": "other"}), files.put("a", None), files.put("b", {"id": "b"}), files.create("t")
        for change in refused:
            with pytest.raises(OSError, match="full"):
                await change
        assert (files.subscriptions, files.topics) == ({"a": {"id": "a"}}, set())
        is_full = None
        refused_one, created = await asyncio.gather(files.put("c", {}), files.create("u"), return_exceptions=True)
        assert (isinstance(refused_one, OSError), created) == (True, None)
        await files.save({})
        files.close()
        again = FileStore(tmp_path)
        await again.open()
        assert (again.subscriptions, again.topics) == ({"a": {"id": "a"}}, {"u"})
        assert await again.position("a") == {"offset": 5}
        again.close()

    asyncio.run(program())
