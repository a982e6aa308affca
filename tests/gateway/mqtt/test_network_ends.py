"""What the network of a door refuses, and what a door that ends still publishes."""

from __future__ import annotations

from typing import Any

from glue.errors import ClosedError, ForbiddenError, GlueError
from glue.gateway.mqtt import Gateway
from tests.gateway.mqtt.test_network_side import Network, at_door, until
from tests.support import mqtt


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

    assert at_door(main).published == [("gone", b"c", {})] * 2
