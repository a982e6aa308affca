"""How receivers are put away, and how endpoints send to them and ask them, in threads and in a loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio.receivers
import glue.sync.receivers
from glue.receivers.address import parse
from tests.receivers.asking import Endpoint
from tests.support.lan import PATIENCE


class Kind:
    """A kind with receivers that go away one tick at a time."""

    kind = ":sum"

    def __init__(self, left: int, handing: int = 0) -> None:
        self.activations = [*range(left)]
        self.handing = handing
        self.did: list[Any] = []

    @property
    def is_handing_over(self) -> bool:
        return self.handing > 0

    def drain(self) -> None:
        self.did.append("drain")

    def tick(self, now: float) -> None:
        self.did.append(now)
        self.activations = self.activations[1:]
        self.handing -= 1

    def close(self) -> None:
        self.did.append("close")


class Runtime:
    """A runtime that hosts one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kinds = {":sum": kind}
        self.is_closed = False
        self.did: list[Any] = []

    def now(self) -> float:
        return 7.0

    def withdraw(self, *kinds: Any) -> None:
        self.did.append(("withdraw", kinds))

    def remove_kind(self, kind: Any) -> None:
        del self.kinds[kind.kind]
        self.did.append(("remove", kind))


@pytest.fixture(params=["sync", "aio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], Any]:
    """Calls something with the module of one kind of endpoints, and awaits what is to be awaited."""

    def run(call: Callable[[Any], Any]) -> Any:
        module: Any = glue.sync.receivers if request.param == "sync" else glue.aio.receivers

        async def main() -> Any:
            found = call(module)
            return await found if inspect.isawaitable(found) else found

        return asyncio.run(main())

    return run


Run = Callable[[Callable[[Any], Any]], Any]


def test_leaving_waits_until_nothing_is_in_memory_and_all_is_handed_over(run: Run, monkeypatch: Any) -> None:
    for module in (glue.sync.receivers, glue.aio.receivers):
        monkeypatch.setattr(module, "LOOK", 0.0)
    kinds = [Kind(2), Kind(0, 3)]
    runtime = Runtime(kinds[0])
    assert run(lambda module: module.leave(runtime, kinds, PATIENCE)) is True
    assert [kind.did for kind in kinds] == [["drain", 7.0, 7.0, 7.0]] * 2
    assert run(lambda module: module.leave(runtime, [Kind(5)], 0.0)) is False
    assert run(lambda module: module.leave(runtime, [Kind(0, 5)], 0.0)) is True
    runtime.is_closed = True
    assert run(lambda module: module.leave(runtime, [Kind(5)], PATIENCE)) is False


def test_receivers_are_closed_once(run: Run) -> None:
    kind: Any = Kind(1)
    runtime: Any = Runtime(kind)
    assert run(lambda module: module.Receivers(kind, runtime).close(PATIENCE)) is True
    assert runtime.did == [("withdraw", (kind,)), ("remove", kind)]
    assert kind.did[-1] == "close"
    assert run(lambda module: module.Receivers(kind, runtime).close(PATIENCE)) is True
    assert len(runtime.did) == 2


def test_a_host_waits_until_it_serves(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (glue.sync.receivers, glue.aio.receivers):
        monkeypatch.setattr(module, "LOOK", 0.0)
    looks = iter([False, False, True])
    kind: Any = type("Looked", (), {"is_settled": property(lambda self: next(looks))})()
    runtime: Any = None
    assert run(lambda module: module.Receivers(kind, runtime).wait_until_served()) is True
    kind = SimpleNamespace(is_settled=False)
    assert run(lambda module: module.Receivers(kind, runtime).wait_until_served(0.0)) is False
    kind.is_settled = True
    assert run(lambda module: module.Receivers(kind, runtime).wait_until_served(0.0)) is True


def test_a_message_without_room_is_sent_as_soon_as_there_is_some(run: Run) -> None:
    sent: list[Any] = []

    def send_text(address: str, payload: Any) -> None:
        sent.append((address, payload))
        if len(sent) < 3:
            raise glue.WouldBlockError("full")

    endpoint: Any = Endpoint()
    runtime = SimpleNamespace(
        send_text=send_text, outbox=SimpleNamespace(count=0), executor=SimpleNamespace(is_mine=lambda: False)
    )
    endpoint._receiving = SimpleNamespace(runtime=runtime)
    endpoint.is_handler = lambda: False
    run(lambda module: module.send(endpoint, "sum/x", 5))
    assert sent == [("sum/x", 5)] * 3
    for count in (0, 0x3FF, 0x400):
        runtime.outbox.count = count
        run(lambda module: module.send(endpoint, "sum/x", 5))
    assert len(sent) == 6
    sent.clear()
    endpoint.is_closed = True
    with pytest.raises(glue.ClosedError):
        run(lambda module: module.send(endpoint, "sum/x", 5))


@pytest.mark.parametrize(("is_mine", "is_handler"), [(True, False), (False, True)])
def test_a_thread_that_makes_room_itself_does_not_wait_for_it(is_mine: bool, is_handler: bool) -> None:
    def send_text(address: str, payload: Any) -> None:
        raise glue.WouldBlockError("full")

    endpoint: Any = Endpoint()
    executor = SimpleNamespace(is_mine=lambda: is_mine)
    endpoint._receiving = SimpleNamespace(runtime=SimpleNamespace(send_text=send_text, executor=executor))
    endpoint.is_handler = lambda: is_handler
    with pytest.raises(glue.WouldBlockError, match="full"):
        glue.sync.receivers.send(endpoint, "sum/x", 5)


def test_an_answer_or_its_error_is_the_callers(run: Run) -> None:
    asked: list[Any] = []
    outcome: list[Any] = [None, 5]

    def ask(address: Any, payload: Any, timeout: float, path: Any, settle: Any) -> None:
        asked.append((str(address), payload, timeout, path))
        if outcome:
            settle(*outcome)

    endpoint: Any = Endpoint()
    late = glue.RequestTimeoutError("too late")
    endpoint._receiving = SimpleNamespace(runtime=SimpleNamespace(ask=ask, unanswered=lambda address: late))
    endpoint.wait_for = lambda pending, timeout: pending.wait(timeout)
    address = parse("sum/x")
    assert run(lambda module: module.ask(endpoint, address, 1, PATIENCE, ("a/1",))) == 5
    assert asked == [("sum/x", 1, PATIENCE, ("a/1",))]
    outcome[:] = [KeyError("k"), None]
    with pytest.raises(glue.RemoteError, match="sum/x: KeyError: 'k'"):
        run(lambda module: module.ask(endpoint, address, 1, PATIENCE))
    outcome.clear()
    with pytest.raises(glue.RequestTimeoutError, match="too late"):
        run(lambda module: module.ask(endpoint, address, 1, 0.001))
    with pytest.raises(glue.ConfigurationError, match="timeout=0"):
        run(lambda module: module.ask(endpoint, address, 1, 0))
    assert len(asked) == 3
