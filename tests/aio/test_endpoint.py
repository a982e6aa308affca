"""The endpoint for asyncio: the same promises, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import glue
import glue.aio
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE, Lan, private_network


def test_messages_pass_between_two_endpoints() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            subscription = b.subscribe("t/#")
            assert await a.wait_for_subscribers("t/x", 1, PATIENCE)
            payloads: list[Any] = [b"bytes", "text", 1, 1.5, None, [1], {"a": {"b": []}}, bytes(3_000_000)]
            for payload in payloads:
                await a.publish("t/x", payload, type="any")
            heard = [await subscription.get(PATIENCE) for _ in payloads]
            assert [message.payload for message in heard] == payloads
            assert {(message.topic, message.publisher, message.type) for message in heard} == {("t/x", "a", "any")}
            assert [message.sequence for message in heard] == list(range(1, 9))
            assert await a.flush(PATIENCE)

    run(main())


def test_it_talks_to_endpoints_of_threads(lan: Lan) -> None:
    async def main() -> None:
        async with glue.aio.Endpoint("b", **lan.settings) as b:
            subscription = b.subscribe("t")
            assert await b.wait_for_peers(1, PATIENCE)
            assert await asyncio.to_thread(a.wait_for_subscribers, "t", 1, PATIENCE)
            a.publish("t", "from a thread")
            assert (await subscription.get(PATIENCE)).payload == "from a thread"

    a = lan.start("a")
    asyncio.run(main())
    a.close()


def test_a_for_loop_ends_with_its_subscription_and_with_its_endpoint() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            first, second = b.subscribe("t"), b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            for number in range(3):
                await a.publish("t", number)
            heard = []
            async for message in first:
                heard.append(message.payload)
                if len(heard) == 3:
                    first.close()
            assert heard == [0, 1, 2]
            waiting = asyncio.create_task(read_all(second))
            await asyncio.sleep(0)
            await b.close()
            assert await waiting == [0, 1, 2]
            with pytest.raises(glue.ClosedError, match="closed, and all was read"):
                await second.get()

    run(main())


async def read_all(subscription: glue.aio.Subscription) -> list[Any]:
    return [message.payload async for message in subscription]


def test_get_gives_up_in_time_and_can_be_cancelled() -> None:
    async def main() -> None:
        async with pair() as (a, _), a.subscribe("t") as subscription:
            with pytest.raises(TimeoutError, match=r"no message on 't' in 0\.01 s"):
                await subscription.get(0.01)
            waiting = asyncio.create_task(subscription.get())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await a.publish("t", "not lost")
            assert (await subscription.get(PATIENCE)).payload == "not lost"
        assert subscription.closed

    run(main())


class Counting:
    """Handlers of each kind; all put what they hear in a queue."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    def plain(self, message: glue.Message) -> None:
        self.heard.put_nowait(message.payload)

    async def coroutine(self, message: glue.Message) -> None:
        await asyncio.sleep(0)
        self.heard.put_nowait(message.payload)

    async def __call__(self, message: glue.Message) -> None:
        await self.coroutine(message)


@pytest.mark.parametrize(
    "handler", [lambda c: c.plain, lambda c: c.coroutine, lambda c: c], ids=["plain", "coroutine", "object"]
)
def test_a_handler_may_be_a_function_or_a_coroutine_function(handler: Callable[[Counting], Any]) -> None:
    async def main() -> None:
        async with pair() as (a, b):
            counting = Counting()
            b.subscribe("t", handler(counting))
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish_many("t", range(100))
            assert [await counting.heard.get() for _ in range(100)] == list(range(100))

    run(main())


@pytest.mark.parametrize("error", [KeyError, asyncio.CancelledError])
def test_a_coroutine_handler_that_fails_is_logged_and_hears_the_next_one(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    async def main() -> None:
        async with pair() as (a, _):
            heard: asyncio.Queue[int] = asyncio.Queue()

            async def fail(message: glue.Message) -> None:
                heard.put_nowait(message.payload)
                raise error

            a.subscribe("t", fail)
            await a.publish_many("t", range(2))
            assert [await heard.get() for _ in range(2)] == [0, 1]

    run(main())
    assert "the handler of 't' failed on <Message t #1 from a: 0>" in caplog.text


def test_a_plain_handler_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with pair() as (a, _):
            subscription = a.subscribe("t")
            a.subscribe("t", lambda message: 1 / message.payload)
            await a.publish_many("t", [0, 1])
            assert [(await subscription.get(PATIENCE)).payload for _ in range(2)] == [0, 1]

    run(main())
    assert "the handler of 't' failed on <Message t #1 from a: 0>" in caplog.text


def test_a_coroutine_handler_may_use_its_endpoint_and_close_it() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            closed = asyncio.Event()

            async def handle(message: glue.Message) -> None:
                subscription.close()
                late = b.subscribe("later")
                await b.publish("later", "heard")
                assert (await late.get(PATIENCE)).payload == "heard"
                assert await b.flush(PATIENCE)
                await b.close()
                closed.set()

            subscription = b.subscribe("t", handle)
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish_many("t", range(3))
            await closed.wait()

    run(main())


def test_a_slow_coroutine_handler_holds_up_no_other() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            released, done = asyncio.Event(), asyncio.Event()

            async def wait(message: glue.Message) -> None:
                await released.wait()
                done.set()

            b.subscribe("t", wait)
            other = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish("t", 1)
            await other.get(PATIENCE)
            assert not done.is_set()
            released.set()
            await done.wait()

    run(main())


def test_a_retained_value_reaches_a_late_joiner() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            await a.publish("lamp", "on", retain=True)
            message = await b.subscribe("lamp").get(PATIENCE)
            assert (message.payload, message.retained) == ("on", True)

    run(main())


def test_peers_come_and_go_and_their_handlers_may_be_coroutine_functions(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = private_network()
        told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        async def added(peer: glue.Peer) -> None:
            await told.put(("added", peer.name))

        def removed(peer: glue.Peer) -> None:
            told.put_nowait(("removed", peer.reason))
            raise KeyError("my mistake")

        async with glue.aio.Endpoint("a", **network) as a:
            a.on_peer_added, a.on_peer_removed = added, removed
            async with glue.aio.Endpoint("b", **network):
                assert await told.get() == ("added", "b")
                assert [peer.name for peer in a.peers] == ["b"]
            assert await told.get() == ("removed", "goodbye")
            assert not await a.wait_for_peers(1, 0)

    run(main())
    assert "my mistake" in caplog.text


def test_before_the_start_and_after_the_end_it_says_what_to_do() -> None:
    async def main() -> None:
        endpoint = glue.aio.Endpoint("a", **private_network())
        await endpoint.close()
        with pytest.raises(glue.ClosedError, match=r"not started; await start\(\)"):
            await endpoint.publish("t", 1)
        async with endpoint:
            assert await endpoint.start() is endpoint
            with pytest.raises(glue.TopicError):
                endpoint.subscribe("a/#/b")
            with pytest.raises(glue.PayloadError):
                await endpoint.publish("t", {1, 2})
        await endpoint.close()
        for use in (endpoint.start(), endpoint.flush(), endpoint.wait_for_subscribers("t")):
            with pytest.raises(glue.ClosedError, match="closed and does not start again"):
                await use

    run(main())


def test_handlers_may_be_given_the_payloads_alone() -> None:
    async def main() -> None:
        called: list[Any] = []
        awaited: asyncio.Queue[Any] = asyncio.Queue()
        async with pair() as (a, b):
            b.subscribe("t", called.append, payload_only=True)
            b.subscribe("t", awaited.put, payload_only=True)
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish("t", [1, 2])
            assert await asyncio.wait_for(awaited.get(), PATIENCE) == [1, 2]
            assert called == [[1, 2]]

    run(main())
