"""Doors that take nothing for a while, or never again, or may not all: what their clients notice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from typing import Any, cast

import pytest

from glue.errors import ForbiddenError, StorageError
from glue.gateway.mqtt import Gateway, codes
from glue.gateway.mqtt import gateway as room
from glue.gateway.mqtt.connection import Connection
from glue.gateway.mqtt.door import Door
from glue.gateway.mqtt.session import Session, Subscription
from tests.gateway.mqtt.test_committing import Shell, run
from tests.gateway.mqtt.test_connections import at_door, connected
from tests.gateway.mqtt.test_network_side import Network, Receiver, until
from tests.gateway.mqtt.test_network_side import at_door as at_gateway
from tests.support import mqtt


def test_a_client_that_is_not_read_is_not_taken_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(door: Door) -> None:
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now)
        made, _ = connected(door, "c", keep_alive=10)
        for is_full, steps in ((False, 28), (True, 600), (False, 1)):
            door.network_full(is_full)
            made.update()
            for _ in range(steps):
                now += 0.5
                door.broker.advance(now)
        (client,) = door.broker.clients.values()
        assert not client.is_closing
        door.broker.advance(now + 15.0)
        assert client.reason == "silent for 15 s"

    at_door(main)


@pytest.mark.parametrize("cause", ["snapshot", "reading"])
def test_a_door_that_has_given_up_its_disk_lets_nobody_in(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*options: object) -> None:
        raise StorageError("broken") if cause == "reading" else OSError("broken")

    async def main(shell: Shell) -> None:
        store = shell.bench.store
        assert store is not None
        subscriber = shell.subscriber()
        if cause == "snapshot":
            monkeypatch.setattr(type(store), "wants_snapshot", True)
            monkeypatch.setattr(store, "save", broken)
        else:
            store.then(broken)
        shell.flush()
        await shell.until(subscriber.is_closed)
        late = shell.bench.link(5)
        late.send(mqtt.connect("late", 5))
        assert late.read()[0].body[1] == codes.SERVER_UNAVAILABLE
        assert late.is_closed()

    run(monkeypatch, main)


def test_what_the_network_forbids_the_door_itself_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that was stored may want what its door has no right to any more."""
    forbidden = {"$mqtt/connected", "secret/#"}
    plain_publish, plain_subscribe = Network.publish, Network.subscribe

    async def publish(network: Network, topic: str, payload: Any, **options: Any) -> None:
        if topic in forbidden:
            raise ForbiddenError("no rule allows it")
        await plain_publish(network, topic, payload, **options)

    def subscribe(network: Network, pattern: str, receive: Any, local: bool) -> Receiver:
        if pattern in forbidden:
            raise ForbiddenError("no rule allows it")
        return plain_subscribe(network, pattern, receive, local)

    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        monkeypatch.setattr(Network, "publish", publish)
        monkeypatch.setattr(Network, "subscribe", subscribe)
        for wanted in ("secret/#", "open/#"):
            gateway.broker.subscriptions.add(Subscription(Session("away", 1, 1), wanted, 1))
        device = await connect("p")
        device.send(mqtt.publish("t", b"x", version=5))
        await until(lambda: bool(network.published))
        assert network.patterns == ["open/#"]
        assert gateway.broker.statistics["announcements that the network refused"] == 1
        forbidden.clear()
        monkeypatch.setattr(gateway.broker.access, "changed", lambda: True)
        gateway._check_access(time.monotonic())
        gateway._after()
        assert network.patterns == ["open/#", "secret/#"]

    at_gateway(main)


def test_a_publisher_that_waits_for_no_answer_is_not_read_either_while_the_network_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "NETWORK_QUEUE", 10)

    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        device = await connect("p")
        (client,) = gateway.broker.clients.values()
        connection = cast(Connection, client.link)
        network.gate.clear()
        told = gateway.broker.statistics
        for sent in (1, 2):
            device.send(mqtt.publish("t", bytes(20), version=5))
            await until(partial(_has, told, sent))
        was_paused = connection.is_paused
        network.gate.set()
        assert was_paused, "else its messages would fill the memory"
        await until(lambda: not connection.is_paused)

    at_gateway(main)


def test_a_door_that_may_not_answer_other_doors_frees_its_port() -> None:
    def respond(topic: str, answer: Any) -> None:
        raise ForbiddenError("no rule allows it")

    async def main() -> None:
        network: Any = Network()
        network.respond = respond
        gateway = Gateway(network, host="127.0.0.1", port=0, system_interval=0.0)
        with pytest.raises(ForbiddenError):
            await gateway.start()
        again = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", gateway.port)
        again.close()

    asyncio.run(main())


def _has(told: Counter[str], messages: int) -> bool:
    return told["messages received"] == messages
