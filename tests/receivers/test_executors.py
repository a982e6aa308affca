"""Where receivers run: in threads or in a loop, and how they wait for a model, a store or others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio.receivers
import glue.sync.receivers
from glue.aio.receivers import LoopExecutor
from glue.endpoint.model_calls import TIMEOUT, ModelCall
from glue.endpoint.receiver_hosts import PENDING
from glue.endpoint.receiver_ops import Ask, Awaitable, Work
from glue.model.questions import Committed, Read, Refused
from glue.sync.receivers import RUNNING, THREADS, ThreadExecutor
from tests.receivers.asking import Endpoint
from tests.support.lan import PATIENCE


def called(answer: Any) -> int:
    """The result of a call to a model."""
    if isinstance(answer, Refused):
        raise glue.RefusedError(answer.reason)
    found: int = answer.index
    return found


QUESTION = Ask("plant", ModelCall(Read("a"), called))


def wait_for(gate: threading.Event) -> None:
    """Wait for a gate as a stuck receiver does."""
    gate.wait(PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.0005)


# ---------------------------------------------------------------------------------------------------------- threads


def test_a_thread_passes_questions_to_the_model_and_goes_on_with_the_answers() -> None:
    endpoint, results = Endpoint(), deque[Any]()
    executor = ThreadExecutor(endpoint)

    def resume(value: Any, error: BaseException | None) -> None:
        results.append((value, str(error or ""), threading.current_thread().name))

    for _ in range(2):
        executor.soon(lambda: results.append(executor.perform(QUESTION, resume)))
    until(lambda: len(endpoint.asked) == 2)
    assert [*results] == [PENDING, PENDING]
    results.clear()
    for request in endpoint.asked:
        assert (request.name, request.question, request.timeout) == ("plant", Read("a"), TIMEOUT)
        assert abs(request.at - time.time()) < PATIENCE
    endpoint.asked[0].token.answered(Committed(5))
    until(lambda: len(results) == 1)
    endpoint.asked[1].token.answered(Refused("no"))
    until(lambda: len(results) == 2)
    assert [*results] == [(5, "", "glue receivers"), (None, "no", "glue receivers")]
    executor.close(PATIENCE)
    assert not executor._threads


def test_questions_to_a_model_leave_though_other_receivers_always_have_work() -> None:
    endpoint, begun, ended, runs = Endpoint(), threading.Event(), threading.Event(), deque[None](maxlen=5000)
    executor = ThreadExecutor(endpoint)

    def busy() -> None:
        runs.append(None)
        if endpoint.asked or len(runs) == runs.maxlen:
            ended.set()
        else:
            executor.soon(busy)

    for _ in range(RUNNING):
        executor.soon(lambda: wait_for(begun))
    for _ in range(8):
        executor.soon(busy)
    executor.soon(lambda: executor.perform(QUESTION, lambda *_: None))
    begun.set()
    assert ended.wait(PATIENCE)
    assert len(runs) < 1000
    executor.close(PATIENCE)


def test_a_thread_does_the_work_of_a_store_and_tells_its_error() -> None:
    executor, results = ThreadExecutor(Endpoint()), deque[Any]()

    def fail() -> None:
        raise ValueError("store")

    async def handler() -> None:
        pass

    for operation in (Work(lambda: 5), Work(fail), Awaitable(handler())):
        executor.soon(lambda operation=operation: results.append(executor.perform(operation, lambda *_: None)))  # type: ignore[misc]
    until(lambda: len(results) == 3)
    found = [(value, type(error), str(error or "")) for value, error in results]
    words = "a coroutine function as a receiver is for glue.aio.Endpoint"
    assert sorted(found, key=str) == [
        (5, type(None), ""), (None, ValueError, "store"), (None, glue.ConfigurationError, words),
    ]  # fmt: skip
    assert executor._waiting == 0, "a store that failed is waited for no more"
    executor.close(PATIENCE)


def test_what_fails_in_a_thread_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    executor, done = ThreadExecutor(Endpoint()), threading.Event()

    def fail() -> None:
        raise ValueError("mine")

    def closed() -> None:
        raise glue.ClosedError("closed")

    executor.soon(fail)
    executor.soon(closed)
    executor.soon(done.set)
    assert done.wait(PATIENCE)
    executor.close(PATIENCE)
    assert [record.getMessage() for record in caplog.records] == ["a receiver failed"]


def test_a_stuck_thread_gets_help_when_it_is_looked_after_or_says_that_it_waits() -> None:
    executor, gate = ThreadExecutor(Endpoint()), threading.Event()
    for _ in range(2):
        executor.soon(lambda: wait_for(gate))
    until(lambda: len(executor._threads) == 2 and not executor._work)
    done = threading.Event()
    executor.soon(done.set)
    assert len(executor._threads) == 2
    executor.look()
    assert done.wait(PATIENCE)
    assert len(executor._threads) == 3
    gate.set()
    executor.close(PATIENCE)
    executor, gate = ThreadExecutor(Endpoint()), threading.Event()

    def wait() -> None:
        assert executor.is_mine()
        with executor.waiting():
            gate.wait(PATIENCE)

    for _ in range(4):
        executor.soon(wait)
    until(lambda: executor._waiting == 4)
    done = threading.Event()
    executor.soon(done.set)
    assert done.wait(PATIENCE)
    gate.set()
    until(lambda: not executor._waiting)
    assert not executor.is_mine()
    executor.close(PATIENCE)
    assert (THREADS, len(executor._threads)) == (64, 0)


def test_there_is_a_limit_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue.sync.receivers, "THREADS", 3)
    executor, gate = ThreadExecutor(Endpoint()), threading.Event()
    for _ in range(5):
        executor.soon(lambda: wait_for(gate))
        executor.look()
        executor.look()
    assert len(executor._threads) == 3
    gate.set()
    until(lambda: not executor._work)
    executor.close(PATIENCE)
    executor.soon(lambda: None)
    assert len(executor._threads) == 0


def test_a_thread_without_work_rests_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue.sync.receivers, "REST", 0.001)
    executor = ThreadExecutor(Endpoint())
    done = threading.Event()
    executor.soon(done.set)
    assert done.wait(PATIENCE)
    until(lambda: not executor._threads)
    done.clear()
    executor.soon(done.set)
    assert done.wait(PATIENCE)
    executor.close(PATIENCE)


def test_a_thread_that_is_about_to_rest_as_all_ends_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue.sync.receivers, "REST", 3 * PATIENCE)
    executor = ThreadExecutor(Endpoint())

    class Ending(deque[Any]):
        """Work after which all ends, in the moment between a thread's look and its rest."""

        def popleft(self) -> Any:
            if not self:
                executor.close(0.0)
            return super().popleft()

    executor._work = Ending()
    done = threading.Event()
    executor.soon(done.set)
    assert done.wait(PATIENCE)
    for thread in list(executor._threads):
        thread.join(PATIENCE)
    assert not executor._threads


# -------------------------------------------------------------------------------------------------------------- loop


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_loop_passes_questions_on_and_goes_on_with_the_answers_outside_of_the_turn() -> None:
    async def main() -> None:
        endpoint, results = Endpoint(), list[Any]()
        executor = LoopExecutor(endpoint)

        def resume(value: Any, error: BaseException | None) -> None:
            results.append((value, str(error or "")))

        assert executor.perform(QUESTION, resume) is PENDING
        assert executor.perform(QUESTION, resume) is PENDING
        first, second = endpoint.asked
        assert (first.name, first.question, first.timeout) == ("plant", Read("a"), TIMEOUT)
        assert abs(first.at - time.time()) < PATIENCE
        first.token.answered(Committed(5))
        second.token.answered(Refused("no"))
        assert results == []
        await turns()
        assert results == [(5, ""), (None, "no")]
        endpoint.is_closed = True
        value, error = executor.perform(QUESTION, resume)
        assert (value, type(error)) == (None, glue.ClosedError)

    asyncio.run(main())


def test_a_loop_awaits_stores_and_coroutines_and_tells_their_errors() -> None:
    async def main() -> None:
        executor, results = LoopExecutor(Endpoint()), list[Any]()

        def resume(value: Any, error: BaseException | None) -> None:
            results.append((value, repr(error)))

        async def give() -> int:
            return 5

        async def fail() -> None:
            raise KeyError("mine")

        async def hang() -> None:
            await asyncio.sleep(100)

        for operation in (Awaitable(give()), Awaitable(fail()), Work(lambda: 6)):
            assert executor.perform(operation, resume) is PENDING
        while executor.tasks:
            await asyncio.sleep(0.001)
        assert sorted(results, key=str) == [(5, "None"), (6, "None"), (None, "KeyError('mine')")]
        executor.perform(Awaitable(hang()), resume)
        (task,) = executor.tasks
        await turns()
        task.cancel()
        await turns()
        assert results[3:] == [(None, "GlueError('cancelled')")]
        assert not executor.tasks

    asyncio.run(main())


def test_what_fails_in_a_loop_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        executor, got = LoopExecutor(Endpoint()), list[int]()

        def fail() -> None:
            raise ValueError("mine")

        def closed() -> None:
            raise glue.ClosedError("closed")

        executor.soon(fail)
        executor.soon(closed)
        executor.soon(lambda: got.append(1))
        await turns(1)
        assert got == [1]

    asyncio.run(main())
    assert [one.getMessage() for one in caplog.records] == ["a receiver failed"]


def test_a_loop_calls_what_is_soon_to_be_done_in_order_and_goes_round_between(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        executor, got = LoopExecutor(Endpoint()), list[Any]()
        for number in range(3):
            executor.soon(lambda number=number: got.append(number))  # type: ignore[misc]
        assert got == []
        await turns(1)
        assert got == [0, 1, 2]
        clock = iter(range(1000))
        monkeypatch.setattr(glue.aio.receivers, "time", SimpleNamespace(monotonic=lambda: next(clock) * 0.004))
        for number in range(3, 6):
            executor.soon(lambda number=number: got.append(number))  # type: ignore[misc]
        await turns(1)
        assert got == [0, 1, 2, 3]
        await turns(3)
        assert got == [0, 1, 2, 3, 4, 5]
        monkeypatch.undo()
        await asyncio.to_thread(executor.soon, lambda: got.append("thread"))
        await turns()
        assert got[-1] == "thread"

    asyncio.run(main())
