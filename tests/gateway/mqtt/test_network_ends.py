"""What the network of a door refuses, and what a door that ends still publishes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ClosedError, ForbiddenError, GlueError
from glue.gateway.mqtt import Gateway
from glue.gateway.mqtt import gateway as room
from tests.gateway.mqtt.test_network_side import Network, at_door, until
from tests.support import mqtt
from tests.support.mqtt import Bench


def test_what_the_network_refuses_is_counted_told_and_keeps_nothing_back() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        lines: list[str] = []
        gateway.broker.log = lambda level, line: lines.append(line)
        device = await connect("p")
        network.problem = GlueError("too large")
        raw = b"".join(b"\x26" + mqtt.text(f"k{n}") + mqtt.text("v") for n in range(65))
        device.send(mqtt.publish("bad", b"x", version=5), mqtt.publish("many", b"x", version=5, raw=raw))
        await until(lambda: gateway.broker.statistics["messages that the network refused"] == 2)
        network.problem = None
        device.send(mqtt.publish("good", b"x", version=5))
        await until(lambda: bool(network.published))
        assert network.published == [("good", b"x", {})]
        assert [line for line in lines if "could not" in line] == [
            "a message to 'bad' could not be passed on: too large"
        ]
        assert gateway.broker.statistics["properties too large for the network"] == 1
        network.problem = ClosedError("closed")
        device.send(mqtt.publish("end", b"x", version=5))
        await until(lambda: gateway.broker.statistics["messages received"] == 4)
        network.closed = True
        assert gateway.broker.statistics["messages that the network refused"] == 2

    at_door(main)


def test_what_doors_may_not_tell_each_other_keeps_nothing_back() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        lines: list[str] = []
        gateway.broker.log = lambda level, line: lines.append(line)
        network.told = ForbiddenError("door may not publish '$mqtt/connected'")
        device = await connect("p")
        device.send(mqtt.publish("good", b"x", version=5))
        await until(lambda: bool(network.published))
        assert network.published == [("good", b"x", {})]
        assert [line for line in lines if "$mqtt" in line] == [
            "other doors are not told of clients that connect: door may not publish '$mqtt/connected'"
        ]

    at_door(main)


def test_a_door_that_stops_for_good_publishes_the_wills_that_wait() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        will = {"will": ("gone", b"c", 1, False), "will_raw": b"\x18\0\0\0\x3c", "raw": b"\x11\0\0\x0e\x10"}
        (await connect("away", **will)).close()
        await until(lambda: bool(gateway.broker.absent))
        await connect("here", **will)
        assert network.published == []

    network = at_door(main)
    assert network.published == [("gone", b"c", {})] * 2
    assert network.receivers == [], "the endpoint goes on, and is no door for others any more"


def test_a_client_gets_what_came_at_its_former_door_after_its_session_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "REST_DELAY", 0.0)
    hour = b"\x11\0\0\x0e\x10"
    former = Bench()
    former.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=hour).leave()

    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        async def request_all(topic: str, asked: Any, timeout: float) -> AsyncIterator[Any]:
            if asked == ["take", "s"]:
                yield SimpleNamespace(payload=former.broker.taken(former.now, "s", "here"))
                former.connect("p").send(mqtt.publish("t", b"meanwhile", 1, 1))
            elif asked == ["rest", "s"]:
                yield SimpleNamespace(payload=former.broker.rest(former.now, "s"))

        network._core.requests.responders = lambda _: ["door", "former"]
        network.request_all = request_all  # type: ignore[method-assign]
        device = await connect("s", clean=False, raw=hour)
        (found,) = await device.read(1)
        assert mqtt.publication(found, 5).payload == b"meanwhile"

    at_door(main)
