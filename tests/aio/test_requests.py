"""Requests and replies of asyncio endpoints, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import glue
import glue.aio
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE


async def double(request: glue.Request) -> Any:
    await asyncio.sleep(0)
    return request.payload * 2


def test_a_coroutine_function_answers_and_so_does_a_function() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            b.respond("twice/+", double)
            b.responder("echo")(lambda request: request.payload)
            assert await a.wait_for_responders("twice/x", 1, PATIENCE)
            assert await a.wait_for_responders("echo", 1, PATIENCE)
            assert await a.request("twice/x", 21) == 42
            for payload in (b"x" * 100_000, "text", {"a": [1, None]}):
                assert await a.request("echo", payload) == payload

    run(main())


def test_what_a_coroutine_raises_is_a_remote_error() -> None:
    async def main() -> None:
        async def fails(request: glue.Request) -> Any:
            await asyncio.sleep(0)
            raise ValueError("no")

        async with pair() as (a, b):
            b.respond("t", fails)
            assert await a.wait_for_responders("t", 1, PATIENCE)
            with pytest.raises(glue.RemoteError, match=r"^b: ValueError: no$"):
                await a.request("t", 1)

    run(main())


def test_nobody_is_told_at_once_and_silence_after_the_timeout() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            with pytest.raises(glue.NoResponderError):
                await a.request("t", 1, timeout=PATIENCE)
            with pytest.raises(glue.NoResponderError):
                a.request_all("t", 1, timeout=PATIENCE)
            b.respond("t", lambda request: request.later())
            assert await a.wait_for_responders("t", 1, PATIENCE)
            with pytest.raises(glue.RequestTimeoutError):
                await a.request("t", 1, timeout=0.1)

    run(main())


def test_requests_run_side_by_side_and_stay_in_order() -> None:
    async def main() -> None:
        most, now = 0, 0

        async def slow(request: glue.Request) -> Any:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.005)
            now -= 1
            return request.payload

        async with pair() as (a, b):
            b.respond("t", slow)
            assert await a.wait_for_responders("t", 1, PATIENCE)
            replies = [reply.payload async for reply in a.request_many("t", range(300), outstanding=200)]
            assert replies == list(range(300))
            assert await asyncio.gather(*(a.request("t", number) for number in range(20))) == list(range(20))
            assert 2 <= most <= 64

    run(main())


def test_all_responders_answer() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            a.respond("who", lambda request: "A")
            b.respond("who", double)
            assert await a.wait_for_responders("who", 2, PATIENCE)
            found = {reply.responder: reply.payload async for reply in a.request_all("who", 2)}
            assert found == {"a": "A", "b": 4}

    run(main())


def test_an_answer_may_come_later_from_another_thread() -> None:
    async def main() -> None:
        async with pair() as (a, b):

            def handler(request: glue.Request) -> None:
                request.later()
                threading.Timer(0.01, request.reply, ["later"]).start()

            b.respond("t", handler)
            assert await a.wait_for_responders("t", 1, PATIENCE)
            assert await a.request("t", 1) == "later"

    run(main())


def test_nested_requests_and_a_cycle() -> None:
    async def main() -> None:
        async with pair() as (a, b):

            async def outer(request: glue.Request) -> Any:
                return await b.request("inner", request.payload) + 1

            async def ping(request: glue.Request) -> Any:
                return await a.request("pong", 1, timeout=PATIENCE)

            async def pong(request: glue.Request) -> Any:
                return await b.request("ping", 1, timeout=PATIENCE)

            a.respond("inner", double)
            a.respond("ping", ping)
            b.respond("outer", outer)
            b.respond("pong", pong)
            for endpoint, topic in ((a, "outer"), (a, "pong"), (b, "inner"), (b, "ping")):
                assert await endpoint.wait_for_responders(topic, 1, PATIENCE)
            assert await a.request("outer", 20) == 41
            with pytest.raises(glue.RequestCycleError, match="a 'ping' → b 'pong' → a 'ping'"):
                await a.request("ping", 1, timeout=PATIENCE)

    run(main())


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            began = asyncio.Event()

            def handler(request: glue.Request) -> None:
                request.later()
                began.set()

            b.respond("t", handler)
            assert await a.wait_for_responders("t", 1, PATIENCE)
            asking = asyncio.create_task(a.request("t", 1, timeout=PATIENCE))
            await began.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert a.statistics["endpoint"]["requests unanswered"] == 1

    run(main())


def test_who_leaves_ends_requests_on_both_sides() -> None:
    async def main() -> None:
        for leaves, raised in ((1, glue.ResponderLostError), (0, glue.ClosedError)):
            began = asyncio.Event()

            def handler(request: glue.Request, began: asyncio.Event = began) -> None:
                request.later()
                began.set()

            async with pair() as (a, b):
                b.respond("t", handler)
                assert await a.wait_for_responders("t", 1, PATIENCE)
                asking = asyncio.create_task(a.request("t", 1, timeout=PATIENCE))
                await began.wait()
                await (a, b)[leaves].close()
                with pytest.raises(raised):
                    await asking

    run(main())


def test_a_responder_is_closed_by_its_block() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            async with b.respond("t", double):
                assert await a.wait_for_responders("t", 1, PATIENCE)
                assert await a.request("t", 1) == 2
            with pytest.raises(glue.NoResponderError):
                await a.request("t", 1)

    run(main())
