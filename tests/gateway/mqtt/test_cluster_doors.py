"""Doors of a cluster with real sockets: sessions go on at another door, and each client hears each other one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from itertools import product
from typing import Any

import pytest

import glue.aio
from glue.gateway.mqtt import Gateway
from glue.gateway.mqtt.cluster import joining
from glue.gateway.thread import in_thread
from tests.gateway.mqtt.test_door import PahoClient
from tests.support import mqtt
from tests.support.lan import PATIENCE, Lan

paho = pytest.importorskip("paho.mqtt.client")


def opened(lan: Lan, name: str) -> AbstractContextManager[Gateway]:
    """A door of a cluster of three."""

    @asynccontextmanager
    async def entered() -> AsyncIterator[Gateway]:
        async with glue.aio.Endpoint(name, **lan.settings) as endpoint:
            shared = endpoint.model("doors", voters=3, election_timeout=0.2)
            async with Gateway(endpoint, port=0, host="127.0.0.1", system_interval=0.0, shared=shared) as gateway:
                yield gateway

    return in_thread(entered)


@pytest.fixture
def doors(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Gateway, ExitStack]]]:
    """Three doors, each with the stack that closes it."""
    monkeypatch.setattr(joining, "SETTLE", 0.2)

    async def all_opened(stacks: list[ExitStack]) -> list[Gateway]:
        opening = [asyncio.to_thread(stack.enter_context, opened(lan, f"door-{n}")) for n, stack in enumerate(stacks)]
        return await asyncio.gather(*opening)

    with ExitStack() as whole:
        stacks = [whole.enter_context(ExitStack()) for _ in range(3)]
        yield list(zip(asyncio.run(all_opened(stacks)), stacks, strict=True))


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def kept(client_id: str, door: Gateway, **options: Any) -> PahoClient:
    """A client of MQTT 3.1.1 with a session that is kept."""
    return PahoClient(client_id, door.port, clean_session=False, **options)


def test_each_client_hears_each_other_one_once_with_its_qos(doors: list[tuple[Gateway, ExitStack]]) -> None:
    clients = [PahoClient(f"c{number}", door.port) for number, (door, _) in enumerate(doors)]
    for client, qos in product(clients, range(3)):
        client.subscribe(f"q{qos}/#", qos)
    wait(lambda: all(len(door.endpoint.subscribers("q0/x")) == 2 for door, _ in doors))
    for number, client in enumerate(clients):
        for qos in range(3):
            client.paho.publish(f"q{qos}/{number}", b"%d" % number, qos).wait_for_publish(PATIENCE)
    expected = {(f"q{qos}/{number}", b"%d" % number, qos, False) for qos in range(3) for number in range(3)}
    for client in clients:
        assert {client.next() for _ in range(9)} == expected
        assert client.messages.empty()
        client.close()


def test_a_session_goes_on_at_another_door(doors: list[tuple[Gateway, ExitStack]]) -> None:
    (first, stack), (second, _), (third, _) = doors
    subscriber = kept("s", first)
    subscriber.subscribe("t/#", 2)
    publisher = kept("p", third)
    publisher.paho.publish("t/1", b"one", 2).wait_for_publish(PATIENCE)
    assert subscriber.next() == ("t/1", b"one", 2, False)
    again = kept("s", second)
    assert subscriber.paho is not again.paho
    publisher.paho.publish("t/2", b"two", 2).wait_for_publish(PATIENCE)
    assert again.next() == ("t/2", b"two", 2, False)
    subscriber.close()
    again.close()
    stack.close()
    publisher.paho.publish("t/3", b"three", 1, retain=True).wait_for_publish(PATIENCE)
    back = kept("s", third)
    assert back.next() == ("t/3", b"three", 1, False)
    other = PahoClient("other", second.port)
    other.subscribe("t/3")
    assert other.next() == ("t/3", b"three", 0, True)
    for client in (back, other, publisher):
        client.close()


def test_a_door_without_the_others_serves_what_needs_none_until_two_witnesses_come(
    lan: Lan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "START_TIMEOUT", 0.01)
    with opened(lan, "door-0") as door:

        def code_of_kept() -> int:
            with socket.create_connection(("127.0.0.1", door.port or 0)) as made:
                made.sendall(mqtt.connect("stays", 4, clean=False))
                return made.recv(4)[3]

        early = PahoClient("early", door.port)
        early.subscribe("t/#")
        assert code_of_kept() == 3, "the server is unavailable"
        early.paho.publish("t/1", b"served")
        assert early.next() == ("t/1", b"served", 0, False)
        for name in ("witness-1", "witness-2"):
            lan.start(name).model("doors", voters=3, election_timeout=0.2)
        wait(lambda: code_of_kept() == 0)
        early.paho.publish("t/2", b"promised", 1).wait_for_publish(PATIENCE)
        assert early.next() == ("t/2", b"promised", 0, False)
        early.close()
