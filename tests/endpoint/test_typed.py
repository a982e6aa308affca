"""Typed topics of real endpoints, blocking and asyncio: what the simulator cannot show."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import glue
import glue.aio
from tests.support.lan import Lan


@dataclass
class Reading:
    celsius: float


@dataclass
class Level:
    litres: int


def test_a_handler_and_an_iterator_get_values_and_a_mismatch_kills_no_thread(lan: Lan) -> None:
    with glue.Endpoint(**lan.settings) as one, glue.Endpoint(**lan.settings) as other:
        told: list[glue.Mismatch] = []
        values: list[float] = []
        other.on_mismatch = told.append
        topic = other.topic("t", Reading)
        topic.subscribe(lambda message: values.append(message.value.celsius))
        with topic.subscribe() as received:
            one.wait_for_subscribers("t", timeout=5)
            one.publish("t", {"warm": True})
            one.topic("t", Reading).publish(Reading(1.5))
            assert received.get(timeout=5).value == Reading(1.5)
        assert other._running().wait_until(lambda: values == [1.5], 5)
        assert [mismatch.message.payload for mismatch in told if mismatch.message] == [{"warm": True}] * 2


def test_asyncio_awaits_handlers_and_iterates(lan: Lan) -> None:
    async def main() -> None:
        async with glue.aio.Endpoint(**lan.settings) as one, glue.aio.Endpoint(**lan.settings) as other:
            values: list[float] = []

            async def handle(message: glue.TypedMessage[Reading]) -> None:
                await asyncio.sleep(0)
                values.append(message.value.celsius)

            other.topic("t", Reading).subscribe(handle)
            received = other.topic("t", Reading).subscribe()
            await one.wait_for_subscribers("t", timeout=5)
            await one.topic("t", Reading).publish(Reading(1.5))
            assert (await received.get(timeout=5)).value == Reading(1.5)
            await one.topic("t", Reading).publish(Reading(2.5))
            async for message in received:
                assert message.value.celsius == 2.5
                break
            assert await other._running().wait_until(lambda: values == [1.5, 2.5], 5)

    asyncio.run(main())


def test_who_only_subscribes_is_told_of_another_type_under_asyncio(lan: Lan) -> None:
    async def main() -> None:
        async with glue.aio.Endpoint(**lan.settings) as one, glue.aio.Endpoint(**lan.settings) as other:
            told: list[glue.Mismatch] = []
            other.on_mismatch = told.append
            other.topic("t", Reading).subscribe(lambda message: None)
            await one.topic("t", Level).publish(Level(5))
            async with asyncio.timeout(20):
                while not any(mismatch.message is None for mismatch in told):
                    await asyncio.sleep(0.01)

    asyncio.run(main())
