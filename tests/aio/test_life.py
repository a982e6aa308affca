"""The life of an asyncio endpoint, from its start to its end, with a driver and a network that the test plays."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import glue
import glue.aio
from glue.aio import endpoint as module
from glue.endpoint.base import CLOSED, LINGER
from glue.endpoint.core import FIRST_ROUND


class Driver:
    """A driver that does nothing, and may fail."""

    error: BaseException | None = None  # of the start
    first_round: BaseException | None = None  # of the wait for the first answers
    last: Driver

    def __init__(self, core: Any, network: Any, announce: Any, subscriptions: Any) -> None:
        self.did: list[Any] = []
        self.closed = False
        self.core = core
        type(self).last = self

    def start(self) -> None:
        self.did.append("start")
        if self.error is not None:
            raise self.error

    async def wait_until(self, condition: Any, timeout: float | None) -> bool:
        self.did.append(("wait", timeout))
        if self.first_round is not None:
            raise self.first_round
        return bool(condition())

    def leave(self) -> None:
        self.did.append("leave")
        self.closed = True

    def handled(self, delivery: Any) -> None:
        pass

    def wake(self) -> None:
        self.did.append("wake")


class Life:
    """An endpoint on such a driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LoopDriver", Driver)
        self.endpoint: Any = glue.aio.Endpoint("a")
        self.networks: list[Any] = []
        self.did: list[Any] = []
        monkeypatch.setattr(self.endpoint, "_open_network", self.open)
        monkeypatch.setattr(self.endpoint, "_end_keeping", lambda timeout: self.did.append(("keeping", timeout)))
        monkeypatch.setattr(self.endpoint._core.requests, "close", lambda error: self.did.append(str(error)))

    def open(self) -> Any:
        self.networks.append(SimpleNamespace(close=lambda: self.did.append("network closed")))
        self.endpoint._network = self.networks[-1]
        return self.networks[-1]


def test_a_start_waits_for_the_first_answers_and_a_second_one_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        endpoint = life.endpoint
        endpoint._wake_soon()
        assert (endpoint.closed, endpoint._driver_or_none()) == (False, None)
        await endpoint.close()  # before the start
        assert await endpoint.start() is endpoint
        driver = endpoint._driver
        assert driver.did == ["start", ("wait", FIRST_ROUND)]
        assert endpoint._core.wills.handled == driver.handled
        assert await endpoint.start() is endpoint
        endpoint._wake_soon()
        assert driver.did[2:] == ["wake"]
        assert (len(life.networks), life.did) == (1, [])

    asyncio.run(main())


def test_a_start_that_fails_closes_its_network_and_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        monkeypatch.setattr(Driver, "error", KeyError("layer"))
        with pytest.raises(KeyError):
            await life.endpoint.start()
        assert (life.did, life.endpoint._network, life.endpoint._driver) == (["network closed"], None, None)
        monkeypatch.setattr(Driver, "error", None)
        await life.endpoint.start()
        assert not life.endpoint.closed

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        monkeypatch.setattr(Driver, "first_round", asyncio.CancelledError())
        with pytest.raises(asyncio.CancelledError):
            await life.endpoint.start()
        assert Driver.last.did == ["start", ("wait", FIRST_ROUND), "leave"]
        with pytest.raises(glue.ClosedError):
            await life.endpoint.start()

    asyncio.run(main())


def test_a_close_waits_then_leaves_and_ends_all_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        endpoint = life.endpoint
        await endpoint.start()
        driver = endpoint._driver
        driver.did.clear()
        ended: list[str] = []
        endpoint._models["plant"] = SimpleNamespace(close=lambda: ended.append("model"))

        class Subscription:
            def close(self) -> None:
                ended.append("subscription")
                endpoint._subscriptions.discard(self)

        endpoint._subscriptions |= {Subscription(), Subscription()}
        await endpoint.close(3.0)
        assert driver.did == [("wait", 3.0), "leave"]
        assert ended == ["model", "subscription", "subscription"]
        assert life.did == [CLOSED, ("keeping", 0.0)]
        assert endpoint.closed
        await endpoint.close()
        assert (len(ended), len(driver.did)) == (3, 2)

    asyncio.run(main())


def test_a_close_stores_what_is_kept_and_puts_receivers_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(timeout: float, stored: float) -> None:
        life = Life(monkeypatch)
        endpoint = life.endpoint
        await endpoint.start()

        async def put_away(timeout: float) -> None:
            life.did.append(("receivers", timeout))

        monkeypatch.setattr(endpoint, "close_receivers", put_away)
        monkeypatch.setattr(endpoint, "_end_consuming", lambda: life.did.append("consuming"))
        endpoint._receiving = endpoint._consuming = object()
        endpoint._writers = {"log": object()}
        await endpoint.close(timeout)
        assert [one for one in life.did if not isinstance(one, str) or one == "consuming"] == [
            ("receivers", timeout), "consuming", ("keeping", stored), ("keeping", 0.0),
        ]  # fmt: skip
        assert endpoint._driver.did[-2:] == [("wait", timeout), "leave"]

    asyncio.run(main(LINGER / 2, LINGER))
    asyncio.run(main(LINGER * 2, LINGER * 2))


def test_a_close_that_is_cancelled_while_receivers_are_put_away_leaves_and_ends_the_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        endpoint = life.endpoint
        await endpoint.start()

        async def put_away(timeout: float) -> None:
            await asyncio.sleep(timeout)

        monkeypatch.setattr(endpoint, "close_receivers", put_away)
        endpoint._receiving = object()
        closing = asyncio.create_task(endpoint.close(1000.0))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert endpoint.closed
        assert (endpoint._driver.did[-1], life.did) == ("leave", [CLOSED, ("keeping", 0.0)])

    asyncio.run(main())


def test_what_is_asked_of_the_driver_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life(monkeypatch)
        endpoint = life.endpoint
        await endpoint.start()
        core, driver = endpoint._core, endpoint._driver
        driver.did.clear()
        core.peers.update({"1": 1, "2": 2})
        found = [await endpoint.wait_for_peers(count, 0.5) for count in (1, 2, 3)]
        monkeypatch.setattr(core, "subscribers", lambda topic: ["1", "2"] if topic == "t" else [])
        found += [await endpoint.wait_for_subscribers(topic, 2) for topic in ("t", "u")]
        assert found == [True, True, False, True, False]
        assert driver.did == [("wait", 0.5)] * 3 + [("wait", None)] * 2
        monkeypatch.setattr(core, "has_found_all", lambda: False)
        assert await endpoint.flush(0.5) is False
        monkeypatch.setattr(core, "has_found_all", lambda: True)
        assert await endpoint.flush(0.5) is True
        assert driver.did[-1] == ("wait", 0.5)

    asyncio.run(main())
