"""Callbacks of asyncio endpoints: which are called and awaited, and what becomes of those that raise."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

import glue
import glue.aio
from glue.aio.callbacks import Callbacks
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE


@dataclass
class Reading:
    celsius: float


@dataclass
class Level:
    litres: str


def test_functions_are_called_coroutines_awaited_and_what_raises_is_told_with_its_event() -> None:
    async def main() -> None:
        failed: list[object] = []
        done: list[str] = []
        callbacks, begun = Callbacks(failed.append), asyncio.Event()

        async def awaited(event: str) -> None:
            await asyncio.sleep(0)
            done.append(event)

        async def fails(event: str) -> None:
            await begun.wait()
            raise ValueError(event)

        async def awaits_cancelled(event: str) -> None:
            raise asyncio.CancelledError

        def fails_at_once(event: str) -> None:
            raise ValueError(event)

        def cancelled(event: str) -> None:
            raise asyncio.CancelledError

        callbacks.run(done.append, "plain")
        callbacks.run(awaited, "awaited")
        callbacks.run(fails_at_once, "one")
        callbacks.run(cancelled, "none")
        callbacks.run(fails, "two")
        callbacks.run(awaits_cancelled, "three")
        assert (done, failed) == (["plain"], ["one", "none"])
        gc.collect()  # the loop alone holds no task
        begun.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (done, failed) == (["plain", "awaited"], ["one", "none", "two", "three"])

    asyncio.run(main())


def test_a_callback_that_its_loop_ends_is_no_failure() -> None:
    failed: list[object] = []

    async def main() -> None:
        Callbacks(failed.append).run(asyncio.sleep, 1000.0)
        await asyncio.sleep(0)

    asyncio.run(main())  # which cancels what still waits
    assert failed == []


def test_a_callback_that_is_done_holds_its_event_no_more() -> None:
    class Event:
        pass

    async def main() -> None:
        callbacks, event = Callbacks(lambda _: None), Event()
        held = weakref.ref(event)

        async def take(_: Any) -> None:
            await asyncio.sleep(0)

        callbacks.run(take, event)
        del event
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        assert held() is None

    asyncio.run(main())


def test_a_coroutine_that_nobody_else_knows_goes_on_and_is_forgotten_when_it_is_done() -> None:
    async def main() -> None:
        done: list[str] = []
        held: list[weakref.ref[asyncio.Future[None]]] = []
        callbacks = Callbacks(lambda _: None)

        async def wait(event: str) -> None:
            future = asyncio.get_running_loop().create_future()
            held.append(weakref.ref(future))
            await future
            done.append(event)

        callbacks.run(wait, "done")
        await asyncio.sleep(0)
        gc.collect()
        future = held[0]()
        assert future is not None
        future.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["done"]
        assert not callbacks._tasks

    asyncio.run(main())


def test_mismatches_of_types_and_qualities_are_told_to_coroutines(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with pair() as (a, b):
            told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

            async def mismatch(one: glue.Mismatch) -> None:
                await told.put(("type", one.peer))

            async def quality(one: Any) -> None:
                await told.put(("quality", one.policy if hasattr(one, "policy") else one.peer))

            b.on_mismatch, b.on_qos_mismatch = mismatch, quality
            async with b.topic("t", Reading).subscribe() as readings:
                await a.wait_for_subscribers("t", timeout=PATIENCE)
                await a.topic("t", Level).publish(Level("one"))
                async with asyncio.timeout(PATIENCE):
                    assert await told.get() == ("type", "a")
            with pytest.raises(StopAsyncIteration):
                await anext(readings)
            subscription = b.topic("q", qos=glue.QoS(reliability="reliable")).subscribe()
            await a.wait_for_subscribers("q", timeout=PATIENCE)
            await a.topic("q", qos=glue.QoS(reliability="best-effort")).publish(1)
            async with asyncio.timeout(PATIENCE):
                while (await told.get())[0] != "quality":
                    pass
            subscription.close()

    with caplog.at_level(logging.WARNING):
        run(main())


def test_a_gap_is_told_to_on_gap_and_in_its_order_to_who_iterates() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            gaps: list[glue.Gap] = []
            b.on_gap = gaps.append
            iterated = b.subscribe("t", policy="drop_oldest", limit=2)
            await a.wait_for_subscribers("t", timeout=PATIENCE)
            for number in range(6):
                await a.publish("t", number)
            await a.flush(PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while b.accounting.arrived < 6:
                    await asyncio.sleep(0.01)
                received = [await iterated.get(), await iterated.get()]
                while not gaps:
                    await asyncio.sleep(0.01)
            assert [message.payload for message in received] == [4, 5]
            assert sum(gap.count for gap in gaps) == 4

    run(main())
