"""Shared subscriptions and delayed messages of asyncio endpoints."""

from __future__ import annotations

import asyncio
from typing import Any

import glue.aio
from tests.support.lan import PATIENCE, private_network


def test_coroutines_acknowledge_when_they_return_and_iterators_when_they_go_on() -> None:
    async def main() -> None:
        settings = private_network()
        done: list[Any] = []
        async with glue.aio.Endpoint("a", **settings) as a, glue.aio.Endpoint("b", **settings) as b:

            async def work(payload: Any) -> None:
                await asyncio.sleep(0)
                done.append(payload)

            b.subscribe("jobs", work, group="workers", payload_only=True)
            iterating = a.subscribe("jobs", group="iterators")
            assert await a.wait_for_subscribers("jobs", 1, PATIENCE)
            for number in range(20):
                await a.publish("jobs", number)
            assert [(await iterating.get(PATIENCE)).payload for _ in range(20)] == list(range(20))
            assert not await a.flush(0.1)
            iterating.close()
            assert done == list(range(20))

    asyncio.run(main())


def test_a_delayed_message_comes_later() -> None:
    async def main() -> None:
        settings = private_network()
        async with glue.aio.Endpoint("a", **settings) as a, glue.aio.Endpoint("b", **settings) as b:
            heard = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            late = await a.publish("t", "late", delay=0.05)
            never = await a.publish("t", "never", delay=0.02)
            assert never.cancel()
            await a.publish("t", "now")
            assert [(await heard.get(PATIENCE)).payload for _ in range(2)] == ["now", "late"]
            assert not late.waiting

    asyncio.run(main())
