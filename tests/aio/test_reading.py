"""What a subscription of an asyncio endpoint makes of deliveries, gaps and slow readers, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import glue
from glue.aio.subscription import BREATH, Subscription
from glue.endpoint.queues import PokedRoom
from tests.endpoint.reading import LOST, LoneSubscription, delivery


class Reader(LoneSubscription):
    kind = Subscription


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_plain_handler_is_called_at_once_and_a_gap_is_told_in_its_order() -> None:
    async def main() -> None:
        got: list[Any] = []

        def handle(message: Any) -> None:
            got.append(message.payload)
            if message.payload == "p2":
                raise KeyError

        reader = Reader(handle)
        reader.put(delivery(1, 3), LOST)
        assert got == ["p1", "p2", "p3"]
        assert reader.counted == {"handled": 3, "failed": 1, "done": 1}
        assert reader.gaps == [("lost", 2, "t")]
        with pytest.raises(TypeError, match="the subscription to 't' has a handler; iterate over one without"):
            await reader.subscription.get()
        with pytest.raises(TypeError, match="has a handler"):
            aiter(reader.subscription)

    asyncio.run(main())


def test_a_handler_that_closes_leaves_the_rest_unread() -> None:
    async def main() -> None:
        got: list[Any] = []

        def handle(payload: Any) -> None:
            got.append(payload)
            reader.subscription.close()

        reader = Reader(handle, payload_only=True)
        reader.put(delivery(5, 3))
        assert got == ["p5"]
        assert reader.counted == {"handled": 1, "unread": 2, "done": 1}
        assert reader.ended == [reader.subscription]
        reader.subscription.close()
        assert reader.ended == [reader.subscription]
        reader.put(delivery(8, 2))
        assert reader.counted == {"handled": 1, "unread": 4, "done": 2}

    asyncio.run(main())


def test_a_plain_function_that_returns_something_to_await_is_awaited_from_then_on() -> None:
    async def main() -> None:
        got: list[Any] = []
        gate = asyncio.Event()

        async def later(payload: Any) -> None:
            await gate.wait()
            got.append(payload)
            if payload == "p2":
                raise KeyError

        reader = Reader(lambda message: later(message.payload))
        reader.put(delivery(1, 3))
        assert reader.counted == {"handled": 1, "kept": 2, "done": 1}
        reader.put(LOST, delivery(4))
        await turns()
        assert got == []
        gate.set()
        await turns(20)
        assert (got, reader.gaps) == (["p1", "p2", "p3", "p4"], [("lost", 2, "t")])
        assert reader.counted == {"handled": 4, "kept": 2, "done": 3, "failed": 1}
        reader.subscription.close()
        await turns()
        worker: Any = reader.subscription._worker
        assert worker.done()

    asyncio.run(main())


def test_of_one_message_that_is_awaited_nothing_is_kept() -> None:
    async def main() -> None:
        async def later() -> None:
            pass

        reader = Reader(lambda message: later())
        reader.put(delivery(1))
        assert reader.counted == {"handled": 1, "done": 1}
        await turns()
        assert not reader.subscription._waiting
        reader.subscription.close()

    asyncio.run(main())


def test_a_cancelled_result_is_a_failure_and_a_cancelled_worker_ends() -> None:
    async def main() -> None:
        got: list[Any] = []

        async def handle(message: Any) -> None:
            got.append(message.payload)
            if message.payload == "p1":
                raise asyncio.CancelledError
            await asyncio.sleep(100)

        reader = Reader(handle)
        reader.put(delivery(1, 3))
        await turns()
        assert (got, reader.counted["failed"]) == (["p1", "p2"], 1)
        worker: Any = reader.subscription._worker
        worker.cancel()
        await turns()
        assert worker.cancelled()
        assert (got, reader.counted["failed"]) == (["p1", "p2"], 1)

    asyncio.run(main())


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_handler_that_looks_at_a_cancelled_task_fails_on_that_message_alone(is_awaited: bool) -> None:
    async def main() -> None:
        got: list[Any] = []
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()

        def handle(message: Any) -> Any:
            got.append(message.payload)
            if message.payload == "p2":
                cancelled.result()
            return asyncio.sleep(0) if is_awaited else None

        reader = Reader(handle)
        reader.put(delivery(1, 3))
        await turns()
        assert (got, reader.counted["failed"]) == (["p1", "p2", "p3"], 1)
        assert reader.counted["handled"] == 3

    asyncio.run(main())


def test_what_waits_in_a_buffer_is_handled_once_and_a_closed_worker_tells_only_gaps() -> None:
    async def main() -> None:
        got: list[Any] = []

        async def handle(message: Any) -> None:
            got.append(message.payload)
            if message.payload == "p2":
                reader.subscription.close()

        reader = Reader(handle, "drop_oldest")
        reader.put(delivery(1, 4))
        assert reader.counted == {"overwritten": 2, "done": 1}
        await turns()
        assert (got, reader.gaps) == (["p3", "p4"], [("overwritten", 2, "t")])
        reader = Reader(handle, "drop_newest", 3)
        reader.put(delivery(1, 3), LOST)
        got.clear()
        await turns()
        assert got == ["p1", "p2"]
        assert reader.gaps == [("lost", 2, "t")]
        assert reader.counted == {"done": 1, "handled": 2, "unread": 1}

    asyncio.run(main())


def test_an_awaited_handler_that_raises_at_its_call_gets_the_next_and_a_closed_one_nothing() -> None:
    async def main() -> None:
        got: list[Any] = []

        class Handler:
            async def __call__(self, message: Any) -> None:
                pass

        def call(message: Any) -> Any:
            got.append(message.payload)
            if message.payload == "p1":
                raise KeyError
            return asyncio.sleep(0)

        reader = Reader(Handler())
        reader.subscription._handler = call
        reader.put(delivery(1, 2))
        await turns()
        assert (got, reader.counted) == (["p1", "p2"], {"failed": 1, "handled": 2, "done": 1})
        reader.subscription.close()
        reader.put(delivery(3, 2), LOST)
        await turns()
        assert (got, reader.counted["unread"], reader.counted["done"], reader.gaps) == (["p1", "p2"], 2, 2, [])

    asyncio.run(main())


def test_a_handler_of_what_comes_from_history_lets_the_loop_go_round() -> None:
    async def main() -> None:
        class Room(PokedRoom):
            def __init__(self) -> None:
                super().__init__()
                self.left = [glue.Message("x", number, delivery(1)) for number in range(1, 3 * BREATH + 1)]

            def __bool__(self) -> bool:
                return bool(self.left)

            def take(self) -> Any:
                return self.left.pop(0) if self.left else None

            def close(self) -> None:
                pass

        got: list[int] = []
        reader = Reader()
        room = Room()
        subscription = Subscription("t", lambda message: got.append(message.sequence), reader.subscription._owner, room)
        room.poke()
        rounds = []
        for _ in range(6):
            await asyncio.sleep(0)
            rounds.append(len(got))
        assert rounds[:3] == [BREATH, 2 * BREATH, 3 * BREATH]
        assert BREATH == 64
        room.left.append(glue.Message("x", 999, delivery(1)))
        room.poke()
        await turns()
        assert got[-1] == 999
        subscription.close()
        await turns()
        assert subscription._worker is not None
        assert subscription._worker.done()

    asyncio.run(main())


@pytest.mark.parametrize("is_handled", [False, True])
def test_a_reader_that_is_too_slow_is_disconnected(is_handled: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        got: list[Any] = []

        async def handle(message: Any) -> None:
            got.append(message.payload)

        reader = Reader(handle if is_handled else None, "disconnect")
        reader.put(delivery(1, 3))
        assert reader.subscription.closed
        assert reader.counted == {"disconnected": 1, "unread": 2, "done": 1}
        if is_handled:
            await turns()
            assert (got, reader.gaps) == ([], [("disconnected", 1, "t")])
            return
        assert [(await reader.subscription.get()).payload for _ in range(2)] == ["p1", "p2"]
        with pytest.raises(glue.SlowReaderError) as caught:
            await reader.subscription.get()
        assert str(caught.value) == "the subscription to 't' was disconnected: its reader is too slow"
        assert reader.gaps == [("disconnected", 1, "t")]
        with pytest.raises(glue.SlowReaderError):
            await anext(reader.subscription)

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "<Subscription 't' closed> is disconnected: more messages wait than its limit"
    ]


def test_a_reader_waits_in_time_and_is_woken_by_messages_gaps_and_the_end() -> None:
    async def main() -> None:
        reader = Reader()
        for timeout, words in ((0.001, "no message on 't' in 0.001 s"), (0, "no message on 't' in 0 s")):
            with pytest.raises(TimeoutError) as caught:
                await reader.subscription.get(timeout)
            assert str(caught.value) == words
        waiting = asyncio.create_task(reader.subscription.get(10.0))
        await turns()
        reader.put(LOST)
        await turns()
        assert (reader.gaps, waiting.done()) == ([("lost", 2, "t")], False)
        reader.put(delivery(1))
        assert (await waiting).payload == "p1"
        waiting = asyncio.create_task(reader.subscription.get(10.0))
        await turns()
        async with reader.subscription as same:
            assert same is reader.subscription
        with pytest.raises(glue.ClosedError) as closed:
            await waiting
        assert str(closed.value) == "the subscription to 't' is closed, and all was read"
        reader.put(LOST)
        assert len(reader.gaps) == 1
        with pytest.raises(StopAsyncIteration):
            await anext(reader.subscription)
        assert repr(reader.subscription) == "<Subscription 't' closed>"

    asyncio.run(main())
