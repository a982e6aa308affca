"""How receivers of an endpoint begin and end, in threads and in a loop, with parts that the test plays."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio.receivers
import glue.sync.receivers
from glue.aio.receivers import LoopExecutor
from glue.receivers.address import parse
from glue.sync.receivers import ASKS, Pending, ThreadExecutor
from tests.receivers.asking import Endpoint

Run = Callable[[Callable[[Any], Any]], Any]


@pytest.fixture(params=["sync", "aio"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls something with the module of one kind of endpoints, and awaits what is to be awaited."""
    modules: dict[str, Any] = {"sync": glue.sync.receivers, "aio": glue.aio.receivers}
    for module in modules.values():
        monkeypatch.setattr(module, "LOOK", 0.0)

    def run(call: Callable[[Any], Any]) -> Any:
        async def main() -> Any:
            found = call(modules[request.param])
            return await found if inspect.isawaitable(found) else found

        return asyncio.run(main())

    return run


class Runtime:
    """A runtime of receivers that notes what is done with it, and whose messages leave after some looks."""

    def __init__(self, unsent: int, *kinds: Any) -> None:
        self.did: list[Any] = []
        self.unsent = unsent
        self.kinds = dict(enumerate(kinds))
        self.is_closed = False
        self.executor = SimpleNamespace(close=lambda timeout: self.did.append(("executor", 0.0 <= timeout <= 9.0)))

    @property
    def has_unsent(self) -> bool:
        self.unsent -= 1
        self.did.append("unsent?")
        return self.unsent >= 0

    def hurry(self) -> None:
        self.did.append("hurry")

    def withdraw(self, *kinds: Any) -> None:
        self.did.append(("withdraw", *kinds))

    def close(self) -> None:
        self.did.append("close")
        self.is_closed = True


def ends(run: Run, runtime: Any, timeout: float = 9.0, is_left: bool = True) -> tuple[bool, list[Any]]:
    """Whether all receivers were put away as the endpoint closed, and how."""
    endpoint, left = Endpoint(), list[Any]()
    endpoint._receiving = None if runtime is None else SimpleNamespace(runtime=runtime)  # type: ignore[attr-defined]

    def close(module: Any) -> Any:
        def leave(runtime: Any, kinds: list[Any], timeout: float) -> Any:
            left.append(("leave", *kinds))
            assert 0.0 <= timeout <= 9.0
            return is_left if module is glue.sync.receivers else later(is_left)

        module_leave = module.leave
        module.leave = leave
        try:
            found = module.close(endpoint, timeout)
            return restored(found, module, module_leave) if inspect.isawaitable(found) else found
        finally:
            if module is glue.sync.receivers:
                vars(module)["leave"] = module_leave

    return run(close), left


async def later(value: Any) -> Any:
    return value


async def restored(found: Any, module: Any, leave: Any) -> Any:
    try:
        return await found
    finally:
        module.leave = leave


def test_an_endpoint_that_closes_sends_what_waits_and_puts_its_receivers_away(run: Run) -> None:
    is_threaded = [("executor", True)] if run(lambda module: module is glue.sync.receivers) else []
    runtime = Runtime(2, "a", "b")
    assert ends(run, runtime) == (True, [("leave", "a", "b")])
    assert runtime.did == ["hurry", "unsent?", "unsent?", "unsent?", ("withdraw", "a", "b"), "close", *is_threaded]
    assert ends(run, runtime) == (True, [])  # closed already
    assert ends(run, None) == (True, [])  # there never was any
    runtime = Runtime(0, "a")
    assert ends(run, runtime, is_left=False) == (False, [("leave", "a")])
    assert runtime.is_closed
    assert ends(run, Runtime(0)) == (True, [])
    runtime = Runtime(10**6, "a")  # whose messages leave too late
    assert ends(run, runtime, 0.0) == (True, [("leave", "a")])
    assert runtime.did[:2] == ["hurry", "unsent?"]
    assert runtime.unsent == 10**6 - 1


def test_the_receivers_of_a_kind_are_closed_by_their_block(run: Run) -> None:
    closed: list[Any] = []

    def use(module: Any) -> Any:
        kind: Any = SimpleNamespace(kind=":sum", close=lambda: closed.append("kind"), drain=lambda: None)
        kind.activations, kind.is_handing_over = [], False
        runtime: Any = SimpleNamespace(
            kinds={":sum": kind}, withdraw=closed.append, remove_kind=lambda kind: closed.append("removed")
        )
        receivers = module.Receivers(kind, runtime)
        assert (receivers.kind, repr(receivers)) == ("sum", "<Receivers 'sum': 0 active>")
        if module is glue.sync.receivers:
            with receivers as same:
                assert (same, closed) == (receivers, [])
            return None

        async def aio() -> None:
            async with receivers as same:
                assert (same, closed) == (receivers, [])

        return aio()

    run(use)
    assert closed[1:] == ["removed", "kind"]


def test_parts_are_made_once_and_their_wishes_do_not_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    ordered: list[Any] = []

    def use(module: Any) -> None:
        class Parts:
            def __init__(self, endpoint: Any, executor: Any, order: Any) -> None:
                made.append(executor)
                self.endpoint, self.order = endpoint, order
                self.runtime = "runtime"

            def add_kind(self, kind: str, factory: Any, **options: Any) -> str:
                return f"{kind} {factory} {options}"

        monkeypatch.setattr(module, "ReceiverParts", Parts)
        endpoint: Any = Endpoint()
        endpoint._receiving = None
        endpoint.order = lambda request, wait=False: ordered.append((request, wait))
        parts = module.parts_of(endpoint)
        assert module.parts_of(endpoint) is parts
        parts.order("wish")
        hosted = module.host(endpoint, "sum", len, "plant", partitions=7)
        assert hosted._kind == f"sum {len} {{'model': 'plant', 'partitions': 7}}"
        assert hosted._runtime == "runtime"
        endpoint._receiving, endpoint.is_closed = None, True
        with pytest.raises(glue.ClosedError):
            module.parts_of(endpoint)

    run(use)
    assert (len(made), ordered) == (1, [("wish", False)])
    assert isinstance(made[0], LoopExecutor | ThreadExecutor)


def test_a_coroutine_function_is_no_receiver_of_threads() -> None:
    class Late:
        async def receive(self, context: Any, message: Any) -> None:
            pass

    class Called:
        async def __call__(self, context: Any, message: Any) -> None:
            pass

    endpoint: Any = Endpoint()
    for factory in (Late, Late().receive, Called()):
        with pytest.raises(glue.ConfigurationError, match=r"a coroutine function as a receiver is for glue\.aio\."):
            glue.sync.receivers.host(endpoint, "sum", factory, "plant")


def test_one_receiver_asks_another_as_the_program_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    address = parse("sum/x")

    def use(module: Any) -> Any:
        executor: Any = (ThreadExecutor if module is glue.sync.receivers else LoopExecutor)("endpoint")
        monkeypatch.setattr(module, "ask", lambda *given: asked.append((*given, getattr(executor, "_waiting", 1))))
        executor.ask(address, 5, 2.0, ("a/b",))
        assert getattr(executor, "_waiting", 0) == 0

    run(use)
    assert asked == [("endpoint", address, 5, 2.0, ("a/b",), 1)]


# ---------------------------------------------------------------------------------------------------------- threads


class Asked(Endpoint):
    """An endpoint that notes which of its questions leave with a turn."""

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append((request, wait))


def test_questions_to_models_leave_together_and_64_at_once() -> None:
    endpoint = Asked()
    executor = ThreadExecutor(endpoint)
    asks: Any = executor._asks
    asks.extend(range(ASKS + 3))
    executor._send_asks()
    assert endpoint.asked == [*range(1, ASKS + 1), (0, False)]
    endpoint.asked.clear()
    executor._send_asks()
    assert endpoint.asked == [ASKS + 2, (ASKS + 1, False)]
    executor._send_asks()
    assert len(endpoint.asked) == 2
    endpoint.asked.clear()
    asks.append("while another waits")
    with executor.waiting():
        assert endpoint.asked == [("while another waits", False)]
    endpoint.is_closed = True
    asks.append("late")
    executor._send_asks()  # quietly
    assert ASKS == 64


def test_a_busy_thread_sends_its_questions_when_there_are_64() -> None:
    endpoint = Asked()
    executor = ThreadExecutor(endpoint)
    asks: Any = executor._asks
    seen: list[int] = []

    def ask(count: int) -> None:
        seen.append(len(endpoint.asked))
        asks.extend(range(count))

    def end() -> None:
        executor._is_closed = True

    executor._work.extend([lambda: ask(ASKS - 1), lambda: ask(1), lambda: ask(0), end])
    executor._threads.add(threading.current_thread())
    executor._run()
    assert (seen, executor._done, executor._threads) == ([0, 0, ASKS], 4, set())


def test_as_many_threads_rest_as_can_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ThreadExecutor(Asked())
    rests: list[float] = []
    outcome = [True]

    class Condition:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

        def wait(self, timeout: float) -> bool:
            rests.append(timeout)
            assert executor._idle == before + 1
            return outcome[0]

    executor._condition = Condition()  # type: ignore[assignment]
    me = threading.current_thread()
    for before, work, is_called, is_needed, waits in (
        (0, 0, True, True, 1), (1, 0, True, True, 1), (2, 0, True, False, 0), (1, 0, False, False, 1),
        (2, 1, False, True, 0), (0, 1, False, True, 0),
    ):  # fmt: skip
        rests.clear()
        outcome[0], executor._idle = is_called, before
        executor._work.clear()
        executor._work.extend([print] * work)
        executor._threads.add(me)
        assert executor._wait() is is_needed
        assert (rests, executor._idle, me in executor._threads) == ([5.0] * waits, before, is_needed)


def test_a_result_is_taken_once_and_waited_for_in_time() -> None:
    pending = Pending()
    assert pending.wait(0.0) is False
    pending.settle(None, 5)
    pending.settle(KeyError("late"), None)
    assert pending.wait(0.0) is True
    assert pending.wait(0.0) is False


def test_an_answer_that_comes_after_its_caller_gave_up_disturbs_nobody(run: Run) -> None:
    late: list[Callable[[Any, Any], None]] = []
    unanswered = glue.RequestTimeoutError("too late")
    runtime = SimpleNamespace(ask=lambda *asked: late.append(asked[-1]), unanswered=lambda address: unanswered)
    endpoint: Any = Endpoint()
    endpoint._receiving = SimpleNamespace(runtime=runtime)
    endpoint.wait_for = lambda pending, timeout: pending.wait(0.0)

    async def ask(module: Any) -> None:
        found = module.ask(endpoint, parse("sum/x"), 1, 0.001)
        await found

    async def use(module: Any) -> None:
        with pytest.raises(glue.RequestTimeoutError, match="too late"):
            await ask(module)
        for error in (None, KeyError("late")):
            late[0](error, 5)

    run(use)
    assert len(late) == 1
