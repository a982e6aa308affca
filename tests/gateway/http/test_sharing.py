"""Several doors as one: subscriptions are shared, one door delivers, and another one goes on where it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

import glue.aio
from glue.gateway.http import Client, sharing
from glue.gateway.http.gateway import Gateway
from glue.gateway.thread import in_thread
from tests.gateway.http.hook import Hook, wait
from tests.support.lan import PATIENCE, Lan


def opened(lan: Lan, name: str, data_dir: Path) -> AbstractContextManager[Gateway]:
    """A door that shares its subscriptions."""

    @asynccontextmanager
    async def entered() -> AsyncIterator[Gateway]:
        async with glue.aio.Endpoint(name, **lan.settings) as endpoint:
            model = endpoint.model("doors", voters=3, election_timeout=0.2)
            await model.wait_until_ready(PATIENCE)
            async with Gateway(
                endpoint, host="127.0.0.1", port=0, data_dir=data_dir / name, deliver_to=["127.0.0.0/8"], shared=model
            ) as gateway:
                yield gateway

    return in_thread(entered)


def test_another_door_goes_on_where_one_ended(lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TRY_INTERVAL", 0.02)
    hook, third = Hook(), lan.start("third")
    third.model("doors", voters=3, election_timeout=0.2)
    with ExitStack() as stack:
        url = stack.enter_context(hook.served())
        lives = [stack.enter_context(ExitStack()) for _ in range(2)]
        doors = asyncio.run(both(lan, tmp_path, lives))
        clients = [stack.enter_context(Client(f"http://127.0.0.1:{door.port}")) for door in doors]
        made = clients[0].subscribe("t/#", url)
        path = f"/v1/subscriptions/{made['id']}"
        wait(lambda: bool(clients[1].call("GET", "/v1/subscriptions")["subscriptions"]))
        third.wait_for_subscribers("t/x", 2, timeout=PATIENCE)
        for number in range(3):
            third.publish("t/x", number)
        assert [hook.next()[1] for _ in range(3)] == [b"0", b"1", b"2"]
        owners = [door for door in range(2) if "delivered_by" not in clients[door].call("GET", path)]
        assert len(owners) == 1
        clients[owners[0]].close()
        lives[owners[0]].close()
        for number in range(3, 6):
            clients[1 - owners[0]].publish("t/x", number)
            third.publish("t/y", number)
        after = sorted(hook.next()[1] for _ in range(6))
        assert after == [b"3", b"3", b"4", b"4", b"5", b"5"]
        name = ("one", "two")[owners[0]]
        again = lives[owners[0]].enter_context(opened(lan, name, tmp_path))
        with Client(f"http://127.0.0.1:{again.port}") as client:
            assert client.call("GET", path)["delivered_by"] == "another door"
        third.wait_for_subscribers("t/x", 2, timeout=PATIENCE)
        third.publish("t/x", 6)
        third.publish("t/end", "end")
        assert [hook.next()[1] for _ in range(2)] == [b"6", b'"end"']
        assert hook.got.empty()
        third.close()
        lives[1 - owners[0]].close()
        monkeypatch.setattr(sharing, "CLOSE_TIME", 0.05)  # nobody is left to store anything or to take a part back


async def both(lan: Lan, path: Path, lives: list[ExitStack]) -> list[Gateway]:
    """Open two doors at the same time: neither is ready before the voters have found each other."""
    names = ("one", "two")
    opening = [
        asyncio.to_thread(life.enter_context, opened(lan, name, path)) for life, name in zip(lives, names, strict=True)
    ]
    return list(await asyncio.gather(*opening))
