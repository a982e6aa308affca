"""Endpoints that come one after the other in one event loop: nothing of the earlier is in the way of the later."""

from __future__ import annotations

import asyncio
from typing import Any

import glue
import glue.aio
from tests.support.event_loop import run
from tests.support.lan import PATIENCE, private_network


def test_an_endpoint_after_another_hears_though_its_sockets_have_the_same_numbers() -> None:
    async def main() -> None:
        network = private_network()
        for number in range(3):
            async with glue.aio.Endpoint("a", **network) as a, glue.aio.Endpoint("b", **network) as b:
                subscription = a.subscribe("t")
                assert await b.wait_for_subscribers("t", timeout=PATIENCE)
                await b.publish("t", number)
                assert (await subscription.get(PATIENCE)).payload == number

    run(main())


def test_a_closed_endpoint_is_not_called_by_the_loop_any_more() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        endpoint: Any = glue.aio.Endpoint("a", **private_network())
        await endpoint.start()
        filenos = [*endpoint._driver._network.filenos()]
        await endpoint.publish("t", 1)
        await endpoint.close(0)
        assert [loop.remove_reader(fileno) for fileno in filenos] == [False] * len(filenos)
        mine = [one for one in loop._scheduled if not one.cancelled() and "LoopDriver" in repr(one)]
        assert mine == []

    run(main())
