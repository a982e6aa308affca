"""The endpoint for asyncio when it waits: for room, for the end, and cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import glue
import glue.aio
from tests.support.event_loop import fill, pair, run
from tests.support.lan import PATIENCE


def test_publish_awaits_room_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with pair(a_queue_limit=50_000, b_receive_limit=50_000) as (a, b):
            subscription = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            publisher = asyncio.create_task(a.publish_many("t", [bytes(1000)] * 2000))
            await until(lambda: b.statistics["endpoint"]["senders stopped"] > 0)
            while not await is_full(a):
                await asyncio.sleep(0.001)
            assert not publisher.done()
            heard = [(await subscription.get(PATIENCE)).sequence for _ in range(2000)]
            assert heard == list(range(1, 2001))
            await publisher
            assert await a.flush(PATIENCE)
            assert b.statistics["endpoint"]["senders stopped"] == b.statistics["endpoint"]["senders released"]

    run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def is_full(endpoint: glue.aio.Endpoint) -> bool:
    try:
        await endpoint.publish("to nobody", b"", block=False)
    except glue.WouldBlockError as error:
        return "wait to be acknowledged, with queue_limit=" in str(error)
    return False


def test_a_cancelled_publish_publishes_nothing() -> None:
    async def main() -> None:
        async with pair(a_queue_limit=50_000, b_receive_limit=1000) as (a, b):
            subscription = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            accepted = await fill(a, "t")
            waiting = asyncio.create_task(a.publish("t", "never"))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            heard = [(await subscription.get(PATIENCE)).payload for _ in range(accepted)]
            assert heard == [bytes(10_000)] * accepted
            assert await a.flush(PATIENCE)
            await a.publish("t", "next")
            assert (await subscription.get(PATIENCE)).payload == "next"

    run(main())


def test_closing_releases_whoever_waits() -> None:
    async def main() -> None:
        async with pair(a_queue_limit=50_000, b_receive_limit=1000) as (a, b):
            b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await fill(a, "t")
            waiting: list[Awaitable[Any]] = [
                asyncio.create_task(a.publish("t", 1)),
                asyncio.create_task(a.flush()),
                asyncio.create_task(a.wait_for_peers(99)),
                asyncio.create_task(a.subscribe("t").get()),
            ]
            await asyncio.sleep(0.01)
            await a.close(timeout=0)
            outcome = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(outcome[0], glue.ClosedError)
            assert outcome[1:3] == [False, False]
            assert isinstance(outcome[3], glue.ClosedError)

    run(main())


def test_a_closing_that_is_cancelled_still_closes() -> None:
    async def main() -> None:
        async with pair(a_queue_limit=50_000, b_receive_limit=1000) as (a, b):
            b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await fill(a, "t")
            closing = asyncio.create_task(a.close(timeout=PATIENCE))
            await asyncio.sleep(0.01)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(glue.ClosedError, match="closed and does not start again"):
                await a.publish("t", 1)

    run(main())


def test_publishing_without_a_pause_lets_other_tasks_run() -> None:
    async def main() -> None:
        async with pair() as (a, _):
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            for _ in range(100):
                await a.publish("to nobody", bytes(10_000))
            ticking.cancel()
            assert ticks > 5

    run(main())


def test_a_cancellation_that_comes_together_with_news_is_not_lost() -> None:
    async def main() -> None:
        async with pair() as (a, _):
            waiting = asyncio.create_task(a.wait_for_peers(99))
            await asyncio.sleep(0)
            assert a._driver is not None
            a._driver._notify()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(main())
