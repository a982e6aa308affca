"""Runs a test in an event loop, with two endpoints on a private network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import glue
import glue.aio
from tests.support.lan import PATIENCE, glue_threads, open_sockets, private_network

Both = tuple[glue.aio.Endpoint, glue.aio.Endpoint]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, within a time limit. No task may fail, and no socket or thread may be left."""

    async def bounded() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        async with asyncio.timeout(3 * PATIENCE):
            await main
        assert failures == []

    before = open_sockets()
    asyncio.run(bounded())
    assert open_sockets() <= before
    assert glue_threads() == set()


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[Both]:
    """Run two endpoints, "a" and "b". Settings named a_… or b_… are for one of them."""
    network = private_network()
    async with AsyncExitStack() as cleanup:
        made = []
        for name in ("a", "b"):
            own = {key[2:]: value for key, value in settings.items() if key.startswith(f"{name}_")}
            made.append(await glue.aio.Endpoint(name, **network, **own).start())
            cleanup.push_async_callback(made[-1].close, 0)
        yield made[0], made[1]


async def fill(endpoint: glue.aio.Endpoint, topic: str) -> int:
    """Publish until the queue is full, and stays full; returns how many messages were accepted."""
    accepted, refused = 0, False
    while accepted < 10_000:
        try:
            await endpoint.publish(topic, bytes(10_000), block=False)
        except glue.WouldBlockError:
            if refused:
                return accepted
            refused = not await endpoint.flush(0.1)  # by then the receiver has taken what it can
        else:
            accepted, refused = accepted + 1, False
            await asyncio.sleep(0)
    raise AssertionError("the queue is never full")
