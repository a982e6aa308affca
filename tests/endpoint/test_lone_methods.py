"""Methods of both kinds of endpoints without an endpoint: consumers that are asked for, typed topics, requests."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.aio import typed as aio_typed
from glue.aio.consumers import AioConsumers
from glue.contract import Subscribe
from glue.endpoint.base import LINGER
from glue.endpoint.request_methods import RequestMethods
from glue.endpoint.requests import Requests
from glue.sync import typed as sync_typed
from glue.sync.consumers import SyncConsumers


def result_of(found: Any) -> Any:
    """What a method returns, or what it awaits."""

    async def awaited() -> Any:
        return await found

    return asyncio.run(awaited()) if inspect.isawaitable(found) else found


# -------------------------------------------------------------------------------------------------------- consumers


class Asking:
    """An endpoint that knows two keepers, which answer as the test says while the driver waits."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.waits: list[Any] = []
        self.ended: list[int] = []
        self.driver: Any = SimpleNamespace(call_threadsafe=lambda call: self.waits.append(call()))
        self.on_consumer_alert: Any = None
        self.failed: list[Any] = []
        self._callbacks: Any = SimpleNamespace(run=lambda callback, alert: callback(alert))
        disks = {"k": {}, "l": {}}  # type: ignore[var-annotated]
        self._core: Any = SimpleNamespace(
            durability=SimpleNamespace(disks=disks), requests=SimpleNamespace(unix_time=lambda: 1000.0)
        )

    def _running(self) -> Any:
        return self

    def _driver_or_none(self) -> Any:
        return self.driver

    def _callback_failed(self, alert: Any) -> None:
        self.failed.append(alert)

    def _open_consuming(self) -> Any:
        return SimpleNamespace(ask=self.ask, asked=self.ended.append)

    def ask(self, keepers: Any, message: Any, take: Any) -> int:
        self.asked += [message(keeper, 7) for keeper in keepers]
        self.take = take
        return 7

    def waited(self, condition: Any, timeout: float) -> bool:
        self.waits.append(timeout)
        for keeper, answer in zip("kl", self.answers, strict=False):
            assert not condition()
            self.take(keeper, answer)
        assert condition() is (len(self.answers) == 2)
        return bool(condition())


class SyncAsking(Asking, SyncConsumers):
    def wait_until(self, condition: Any, timeout: float) -> bool:
        return self.waited(condition, timeout)


class AioAsking(Asking, AioConsumers):
    async def wait_until(self, condition: Any, timeout: float) -> bool:
        return self.waited(condition, timeout)


KINDS = pytest.mark.parametrize("kind", [SyncAsking, AioAsking])
MOVED = b'{"ask":"seek","name":"n","pattern":"t","start":["since",990000000],"id":7}'


@KINDS
def test_all_keepers_are_asked_for_their_consumers_and_late_ones_left_out(kind: Any) -> None:
    state = {
        "name": "c", "pattern": "t", "keeper": "k", "lag": 5, "members": [], "failures": 1, "still": 2.5,
        "stuck": False,
    }  # fmt: skip
    for answers, seconds in (([{"consumers": [state]}, {}], None), ([{"consumers": [state]}], 0.5), ([], 0.5)):
        asking = kind(*answers)
        asking._name_of = lambda id: f"{id}'s name"
        found = result_of(asking.consumers() if seconds is None else asking.consumers(seconds))
        assert [(one.name, one.keeper, one.lag) for one in found] == [("c", "k's name", 5)] * bool(answers)
        assert [topic for topic, _ in asking.asked] == ["$glue/consumer/ask/k", "$glue/consumer/ask/l"]
        assert {payload.rstrip() for _, payload in asking.asked} == {b'{"ask":"list","id":7}'}
        assert (asking.waits, asking.ended) == ([2.0 if seconds is None else seconds], [7])


@KINDS
def test_a_consumer_is_moved_or_forgotten_where_it_is(kind: Any) -> None:
    for answers in ([{"done": 1}, {"done": 0}], [{}, {"done": 1}]):
        asking = kind(*answers)
        assert result_of(asking.move_consumer("n", "t", "-10s")) is None
        head, _, _ = asking.asked[1][1].partition(b"\n")
        assert (head, asking.waits, asking.ended) == (MOVED, [2.0], [7])
        asking = kind(*answers)
        assert result_of(asking.forget_consumer("n", "t", timeout=3.0)) is None
        head, _, _ = asking.asked[0][1].partition(b"\n")
        assert (head, asking.waits) == (b'{"ask":"forget","name":"n","pattern":"t","id":7}', [3.0])
    for answers in ([{"done": 0}, {}], []):
        for name in ("move_consumer", "forget_consumer"):
            asking = kind(*answers)
            arguments = ("n", "t", "latest")[: 3 if name == "move_consumer" else 2]
            with pytest.raises(glue.NoConsumerError) as caught:
                result_of(getattr(asking, name)(*arguments))
            assert str(caught.value) == "no keeper has a consumer 'n' of 't'"


@KINDS
def test_a_question_that_is_broken_off_is_answered_no_more(kind: Any) -> None:
    asking = kind()

    def fail(condition: Any, timeout: float) -> Any:
        raise KeyboardInterrupt

    asking.wait_until = fail
    with pytest.raises(KeyboardInterrupt):
        result_of(asking.consumers())
    assert asking.ended == [7]


@KINDS
def test_what_is_no_consumer_or_no_place_to_go_on_is_refused(kind: Any) -> None:
    for name, pattern, to, kind_of, words in (
        ("a/b", "t", "latest", glue.ConfigurationError, "name='a/b': expected 1 to 200 characters without / + and #"),
        ("n", "t", 5, glue.ConfigurationError, "to=5: a consumer goes on \"earliest\", \"latest\" or at a time"),
        ("n", "#/t", "latest", glue.TopicError, None), ("n", "$glue/t", "latest", glue.TopicError, None),
    ):  # fmt: skip
        asking = kind({"done": 1})
        with pytest.raises(kind_of) as caught:
            result_of(asking.move_consumer(name, pattern, to))
        assert words is None or str(caught.value) == words
        assert asking.asked == []


def test_alerts_of_consumers_are_told_where_callbacks_run() -> None:
    def fail(alert: Any) -> None:
        raise KeyError

    for kind in (SyncAsking, AioAsking):
        asking: Any = kind()
        told: list[Any] = []
        asking._tell_alert("nobody listens")
        asking.on_consumer_alert = told.append
        asking._tell_alert("alert")
        assert (told, asking.failed) == (["alert"], [])
    asking.driver = None  # closed meanwhile
    asking._tell_alert("late")
    assert told == ["alert"]
    threaded: Any = SyncAsking()
    threaded.on_consumer_alert = fail
    threaded._tell_alert("alert")
    assert threaded.failed == ["alert"]


# ---------------------------------------------------------------------------------------------------- typed topics


class Source:
    """A subscription with messages 1, 2, 3; 1 and 3 are of no type."""

    def __init__(self) -> None:
        self.left = [1, 2, 3]
        self.timeouts: list[Any] = []
        self.is_closed = False

    def take(self, timeout: float | None, end: type[Exception]) -> int:
        self.timeouts.append(timeout)
        if not self.left:
            raise end
        return self.left.pop(0)

    def close(self) -> None:
        self.is_closed = True


class SyncSource(Source):
    def get(self, timeout: float | None) -> int:
        return self.take(timeout, glue.ClosedError)

    def __next__(self) -> int:
        return self.take(None, StopIteration)


class AioSource(Source):
    async def get(self, timeout: float | None) -> int:
        return self.take(timeout, glue.ClosedError)

    async def __anext__(self) -> int:
        return self.take(None, StopAsyncIteration)


def typed(message: Any) -> Any:
    return f"value {message}" if message == 2 else None


def test_a_typed_subscription_leaves_out_what_is_no_value() -> None:
    source: Any = SyncSource()
    with sync_typed.TypedSubscription(source, typed) as found:
        assert found.get(2.5) == "value 2"  # type: ignore[comparison-overlap]
        assert (source.timeouts, source.is_closed) == ([2.5, 2.5], False)
        with pytest.raises(glue.ClosedError):
            found.get()
        assert source.timeouts[2:] == [None, None]
    assert source.is_closed
    again: Any = sync_typed.TypedSubscription(SyncSource(), typed)  # type: ignore[arg-type]
    assert [*again] == ["value 2"]
    again.close()
    assert again.subscription.is_closed


def test_with_asyncio_a_typed_subscription_does_so_too() -> None:
    async def main() -> None:
        source: Any = AioSource()
        async with aio_typed.TypedSubscription(source, typed) as found:
            assert await found.get(2.5) == "value 2"  # type: ignore[comparison-overlap]
            assert (source.timeouts, source.is_closed) == ([2.5, 2.5], False)
            with pytest.raises(glue.ClosedError):
                await found.get()
            assert source.timeouts[2:] == [None, None]
        assert source.is_closed
        again: Any = aio_typed.TypedSubscription(AioSource(), typed)  # type: ignore[arg-type]
        assert [one async for one in again] == ["value 2"]
        again.close()
        assert again.subscription.is_closed

    asyncio.run(main())


def test_a_typed_handler_is_called_with_values_only() -> None:
    got: list[Any] = []
    for kind in (sync_typed.Topic, aio_typed.Topic):
        topic: Any = object.__new__(kind)
        topic._typed = typed
        call = topic._calls(got.append)
        assert [call(number) for number in (1, 2)] == [None, None]
        assert got.pop() == "value 2"
        assert got == []

    async def later(value: Any) -> None:
        await asyncio.sleep(0)
        got.append(value)

    async def await_both() -> None:
        call = topic._calls(later)
        assert inspect.iscoroutinefunction(call)
        for number in (1, 2):
            await call(number)

    asyncio.run(await_both())
    assert got == ["value 2"]


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_topic_ends_with_its_block(kind: Any) -> None:
    ended: list[Any] = []
    for made in (sync_typed.Topic, aio_typed.Topic):
        topic: Any = object.__new__(made)
        topic.close = lambda topic=topic: ended.append(topic)
        with topic as same:
            assert same is topic
            assert ended == []
        assert ended.pop() is topic
    with pytest.raises(glue.ClosedError):
        kind("closed").topic("t")


# ------------------------------------------------------------------------------------------------------------- the end


def test_an_endpoint_that_closes_ends_its_parts_before_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint: Any = glue.Endpoint("closing")
    did: list[Any] = []

    def note(what: str) -> Any:
        return lambda *given: did.append((what, *given) if given else what)

    endpoint.close()  # which was not started
    endpoint._driver = SimpleNamespace(closed=False, close=note("driver"))
    endpoint._receiving = object()
    endpoint._models = {"m": SimpleNamespace(close=note("model"))}
    endpoint._subscriptions = [SimpleNamespace(close=note("subscription"), _join=note("join"))]
    monkeypatch.setattr(endpoint._core.requests, "close", lambda error: did.append(type(error)))
    for name in ("close_receivers", "_end_consuming", "_end_keeping"):
        monkeypatch.setattr(endpoint, name, note(name))
    endpoint.close(7.0)
    assert did == [
        ("close_receivers", 7.0), glue.ClosedError, "model", "_end_consuming", ("_end_keeping", 7.0), ("driver", 7.0),
        ("_end_keeping", 0.2), "subscription", ("join", 0.2),
    ]  # fmt: skip
    did.clear()
    endpoint._receiving = None
    endpoint.close(0.0)
    assert did[0] is glue.ClosedError
    assert ("driver", 0.0) in did
    waits = [wait for what, wait in (one for one in did if isinstance(one, tuple)) if what == "_end_keeping"]
    assert waits == [LINGER, 0.2]
    endpoint._driver.closed = True
    did.clear()
    endpoint.close()
    assert did == []


# --------------------------------------------------------------------------------------------------------- requests


class FirstRequests(RequestMethods):
    """An endpoint of which another thread asks, too, before the first one has subscribed to the replies."""

    def __init__(self) -> None:
        identity: Any = SimpleNamespace(endpoint_id="a" * 16, name="a", incarnation=7)
        self._core: Any = SimpleNamespace(requests=Requests(identity, {}, Counter()))
        self._owner: Any = None
        self.ordered: list[Any] = []
        self.is_first = True

    def _order_request(self, request: Any) -> None:
        if self.is_first:
            self.is_first = False
            self._receive_replies()  # as of the other thread
            assert self.ordered, "its request does not overtake the subscription"
        self.ordered.append(request)


def test_no_request_leaves_before_the_endpoint_subscribes_to_the_replies() -> None:
    endpoint = FirstRequests()
    for _ in range(2):
        assert endpoint._receive_replies() is endpoint._core.requests
    assert len({(one.token, *one.patterns) for one in endpoint.ordered if isinstance(one, Subscribe)}) == 1
    assert len(endpoint.ordered) == 2
