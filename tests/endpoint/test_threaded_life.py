"""The life of a blocking endpoint, its samples and subscriptions, with a driver and a network that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Delivery, Subscribe, Unsubscribe
from glue.drivers.lifetime import FAREWELL
from glue.endpoint.base import LINGER
from glue.endpoint.core import FIRST_ROUND
from glue.endpoint.message import Gap
from glue.endpoint.owner import OwnerFunctions
from glue.sync import endpoint as module
from glue.sync.sampling import sample
from glue.topics.wrapped import sampled
from tests.endpoint.owners import Owner


class Driver:
    """A driver that does nothing, and may fail."""

    error: BaseException | None = None  # of the start
    first_round: BaseException | None = None  # of the wait for the first answers
    last: Driver

    def __init__(self, core: Any, network: Any, news: Any) -> None:
        self.did: list[Any] = []
        self.closed = False
        type(self).last = self

    def start(self) -> None:
        self.did.append("start")
        if self.error is not None:
            raise self.error

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        self.did.append(("wait", timeout))
        if self.first_round is not None:
            raise self.first_round
        return condition()

    def close(self, timeout: float) -> None:
        self.did.append(("close", timeout))
        self.closed = True

    def handled(self, delivery: Any) -> None:
        pass

    def wake(self) -> None:
        self.did.append("wake")

    def order(self, request: Any, wait: bool = True) -> None:
        self.did.append(request)


class Life:
    """An endpoint on such a driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "ThreadDriver", Driver)
        self.endpoint: Any = glue.Endpoint("a")
        self.networks: list[str] = []
        monkeypatch.setattr(self.endpoint, "_open_network", self.open)

    def open(self) -> Any:
        self.networks.append("open")
        return SimpleNamespace(close=lambda: self.networks.append("closed"))


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    return Life(monkeypatch)


def test_a_start_waits_for_the_first_answers_and_a_second_one_does_nothing(life: Life) -> None:
    endpoint = life.endpoint
    endpoint._wake_soon()
    with endpoint as same:
        driver = Driver.last
        assert (same, driver.did) == (endpoint, ["start", ("wait", FIRST_ROUND)])
        assert endpoint.start() is endpoint
        endpoint._wake_soon()
        assert driver.did[2:] == ["wake"]
    assert (driver.did[3:], life.networks) == ([("close", LINGER)], ["open"])


def test_a_start_that_fails_closes_its_network_and_may_be_tried_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Driver, "error", KeyError("layer"))
    with pytest.raises(KeyError):
        life.endpoint.start()
    assert (life.networks, life.endpoint._network, life.endpoint._driver) == (["open", "closed"], None, None)
    monkeypatch.setattr(Driver, "error", None)
    assert life.endpoint.start()._driver is Driver.last
    assert life.networks == ["open", "closed", "open"]


def test_a_start_that_is_interrupted_closes_the_endpoint_at_once(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "first_round", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        life.endpoint.start()
    assert Driver.last.did == ["start", ("wait", FIRST_ROUND), ("close", 0.0)]
    with pytest.raises(glue.ClosedError):
        life.endpoint.start()


def test_a_close_ends_all_subscriptions_and_then_waits_for_the_threads_of_their_handlers(life: Life) -> None:
    endpoint, did = life.endpoint.start(), list[Any]()

    class Closing:
        def close(self) -> None:
            did.append("close")
            endpoint._subscriptions.discard(self)

        def _join(self, timeout: float) -> None:
            did.append(timeout)

    endpoint._subscriptions |= {Closing(), Closing()}
    endpoint.close()
    assert did == ["close", "close", FAREWELL, FAREWELL]


def test_what_is_asked_of_the_driver_while_it_runs(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = life.endpoint.start()
    core, driver = endpoint._core, Driver.last
    driver.did.clear()
    core.peers.update({"1": 1, "2": 2})
    monkeypatch.setattr(core, "subscribers", lambda topic: ["1", "2"] if topic == "t" else [])
    monkeypatch.setattr(core.durability, "keepers", lambda topic: {"1": 0, "2": 0} if topic == "t" else {})
    monkeypatch.setattr(core.requests, "responders", lambda topic: ("1", "2") if topic == "t" else ())
    assert [endpoint.wait_for_peers(count, 0.5) for count in (1, 2, 3)] == [True, True, False]
    assert driver.did == [("wait", 0.5)] * 3
    for wait in (endpoint.wait_for_subscribers, endpoint.wait_for_keepers, endpoint.wait_for_responders):
        driver.did.clear()
        assert [wait("t"), wait("t", 2), wait("t", 3, 1.5), wait("u", timeout=2.5)] == [True, True, False, False]
        assert driver.did == [("wait", None)] * 2 + [("wait", 1.5), ("wait", 2.5)]
    for is_done, has_found, expected in ((True, True, True), (True, False, False), (False, True, False)):
        monkeypatch.setattr(type(core), "is_done", is_done)
        monkeypatch.setattr(core, "has_found_all", lambda has_found=has_found: has_found)
        assert endpoint.flush(0.25) is expected
    assert driver.did[-1] == ("wait", 0.25)


# ---------------------------------------------------------------------------------------------------------- samples


def test_a_sample_asks_for_so_many_messages_in_so_many_milliseconds(life: Life) -> None:
    endpoint = life.endpoint.start()
    driver, got = Driver.last, list[Any]()
    driver.did.clear()
    for options, interval, count in (
        ({}, 1000, 1000), ({"interval": 2.5, "count": 10}, 2500, 10), ({"interval": 0.0004}, 1, 1000),
        ({"interval": 0.0016}, 2, 1000),
    ):  # fmt: skip
        subscription = sample(endpoint, "t/+", got.append, **options)  # type: ignore[arg-type]
        (asked,) = driver.did
        assert (type(asked), asked.token) == (Subscribe, subscription)
        assert asked.patterns == (sampled(interval, count, "t/+"),)
        driver.did.clear()
    subscription._deliver(Delivery("t/1", ["x"], None, "b", "id-b", 1, 7, 0.0, False, ()))
    assert (got[0].payload, got[0].sequence, got[0].topic) == ("x", 7, "t/1")
    assert (subscription.pattern, endpoint._subscriptions >= {subscription}) == ("t/+", True)
    for wrong in ("#/t", "$glue/t"):
        with pytest.raises(glue.TopicError):
            sample(endpoint, wrong, got.append)
    assert driver.did == []


def test_who_may_not_subscribe_gets_no_samples(life: Life) -> None:
    asked: list[Any] = []

    def require(what: str, topic: str) -> None:
        asked.append((what, topic))
        raise glue.ForbiddenError("no")

    life.endpoint.start()._core.guard = SimpleNamespace(require=require)
    with pytest.raises(glue.ForbiddenError):
        sample(life.endpoint, "t/+", print)
    assert asked == [("subscribe", "t/+")]


# ---------------------------------------------------------------------------------------------------- subscriptions


def subscribed(kind: Any) -> tuple[Any, Any, list[Any]]:
    """An endpoint of a kind, its subscription, and what its driver was asked since then."""
    endpoint = kind("a")
    driver = Driver(None, None, None)
    endpoint._driver = driver
    owner: Any = Owner()
    endpoint._owner = OwnerFunctions(print, owner.handled, owner.settled, print, print, endpoint.unsubscribe)
    found = endpoint.subscribe("t")
    assert [type(one) for one in driver.did] == [Subscribe]
    driver.did.clear()
    return endpoint, found, driver.did


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
@pytest.mark.parametrize("way", ["closed", "unsubscribed"])
def test_a_subscription_ends_with_its_deadline_and_its_request(kind: Any, way: str) -> None:
    endpoint, subscription, asked = subscribed(kind)
    ended: list[Any] = []
    endpoint._deadlines = endpoint._requested = {subscription: 1}
    endpoint._end_deadline = lambda one: ended.append(("deadline", one))
    endpoint._end_request = lambda one: ended.append(("request", one))
    for _ in range(2):
        (subscription.close if way == "closed" else lambda: endpoint.unsubscribe(subscription))()
    assert ended == [("deadline", subscription), ("request", subscription)]
    assert [(type(one), one.token) for one in asked] == [(Unsubscribe, subscription)]
    assert endpoint._subscriptions == set()
    endpoint, subscription, asked = subscribed(kind)
    endpoint._driver.closed = True
    subscription.close()
    assert (asked, endpoint._subscriptions) == ([], set())


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_a_gap_counts_as_gone_after_a_split_and_is_told(kind: Any) -> None:
    endpoint, told = kind("a"), list[Any]()
    gap = Gap("not sent", 3, "t", "t", "b", "id-b")
    endpoint._tell_gap(gap)
    endpoint._heals = SimpleNamespace(gap=lambda gap: told.append(("healing", gap)))
    endpoint._tell_gap(gap)
    endpoint.on_gap = lambda gap: told.append(("told", gap))
    endpoint._tell_gap(gap)
    assert told == [("healing", gap), ("healing", gap), ("told", gap)]


@pytest.mark.parametrize("use", ["subscribe", "watch_presence", "respond"])
def test_a_coroutine_function_is_no_handler_of_threads(life: Life, use: str) -> None:
    async def handler(message: Any) -> None:
        pass

    endpoint = life.endpoint.start()
    Driver.last.did.clear()
    with pytest.raises(glue.ConfigurationError, match=r"a coroutine function is for glue\.aio\.Endpoint$"):
        getattr(endpoint, use)("t", handler)
    assert Driver.last.did == []
