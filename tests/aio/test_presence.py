"""Presence and deadlines of asyncio endpoints."""

from __future__ import annotations

import asyncio

import glue
import glue.aio
from tests.support.lan import PATIENCE, private_network


def test_a_watch_is_iterated_over_and_coroutines_are_awaited() -> None:
    async def main() -> None:
        settings = private_network()
        silent: asyncio.Queue[str] = asyncio.Queue()
        changes: asyncio.Queue[str] = asyncio.Queue()

        async def note(change: glue.Presence) -> None:
            await changes.put(change.kind)

        async with glue.aio.Endpoint("a", **settings) as a, glue.aio.Endpoint("b", **settings) as b:

            async def deadline(silence: glue.Silence) -> None:
                await silent.put(silence.topic)

            a.on_deadline = deadline
            a.subscribe("s", deadline=0.05).close()
            b.announce("s", publish_every=0.05)  # nobody waits for that
            a.subscribe("t", deadline=0.05)
            a.watch_presence("t", note)
            async with b.announce("t", publish_every=0.05):
                async with asyncio.timeout(PATIENCE):
                    assert await silent.get() == "t"
                    assert [await changes.get(), await changes.get()] == ["endpoint", "publisher"]

    asyncio.run(main())


def test_a_will_is_held_by_a_peer_and_counts_as_handled() -> None:
    async def main() -> None:
        settings = private_network()
        async with glue.aio.Endpoint("a", **settings) as a, glue.aio.Endpoint("b", **settings) as b:
            a.will("t", "gone")
            async with asyncio.timeout(PATIENCE):
                while not b.accounting.arrived:
                    await asyncio.sleep(0.01)
            assert b.accounting.waiting == 0
            assert b._core.waiting == 0
            assert "malformed wills" not in b.statistics["endpoint"]

    asyncio.run(main())
