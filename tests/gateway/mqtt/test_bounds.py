"""What a door takes at most, how long it waits, and how it ends: the shell of a broker, with a network of the test."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from glue.aio import Endpoint
from glue.gateway import refusals
from glue.gateway.descriptors import OTHER_FILES
from glue.gateway.mqtt import (
    Gateway,
    connection,
    door,
    files,
    moving,
    neighbours,
    persisting,
    routing,
    store,
)
from glue.gateway.mqtt import gateway as room
from glue.gateway.mqtt.door import Door
from glue.gateway.mqtt.limits import Limits
from tests.gateway.mqtt.test_connections import Wire, connected
from tests.gateway.mqtt.test_connections import at_door as at_plain_door
from tests.gateway.mqtt.test_network_side import Network, at_door
from tests.support import mqtt
from tests.support.mqtt import Bench

HOUR = b"\x11\x00\x00\x0e\x10"


def test_the_bounds_are_those_of_the_pages() -> None:
    assert (room.MQTT_PORT, room.TLS_PORT, room.NETWORK_QUEUE) == (1_883, 8_883, 8 << 20)
    assert (room.REPLAY_TIME, room.REST_DELAY, room.RECHECK_INTERVAL) == (1.0, 0.5, 2.0)
    assert (door.READ_SIZE, door.BACKLOG) == (256 << 10, 4_096)
    assert (connection.FULL, connection.EMPTY) == (1 << 20, 256 << 10)
    assert (neighbours.SEEK_TIMEOUT, neighbours.TOGETHER, neighbours.RETAINED_TOGETHER) == (2.0, 64, 256)
    assert (neighbours.SHOWN, moving.MOVED_BYTES, moving.GHOST_TIME) == (10_000, 64 << 20, 3.0)
    assert (persisting.WINDOW, persisting.READ_SIZE, routing.SHARE) == (8_192, 1 << 20, 16)
    assert (store.EVENTS, store.RETRY_INTERVAL) == (1_000, 1.0)
    assert (files.COST, files.BLOCK, files.PARALLEL, files.REMEMBERED) == (1 << 14, 8, 1, 10_000)
    assert (refusals.AGAIN, refusals.LINES, refusals.PAUSE, refusals.CAUSES) == (600.0, 30, 2.0, 1_000)


@pytest.mark.parametrize(("room_for", "clients", "is_told"), [(1_001, 1_000, False), (1_000, 1_000, False),
    (999, 999, False), (900, 900, False), (899, 899, True)])  # fmt: skip
def test_a_door_takes_as_many_clients_as_it_may_have_files_and_says_so_if_that_is_much_less(
    room_for: int, clients: int, is_told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(room, "open_files", lambda: room_for + OTHER_FILES)
    caplog.set_level(logging.INFO, "glue.mqtt")

    async def main() -> None:
        limits = Limits(clients=1_000, retained=7)
        async with Gateway(cast(Endpoint, Network()), port=None, system_interval=0.0, limits=limits) as gateway:
            assert (gateway.broker.limits.clients, gateway.broker.limits.retained) == (clients, 7)

    asyncio.run(main())
    told = f"this process may open {room_for + OTHER_FILES} files, so it takes {room_for} clients at a time"
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [told] * is_told


def test_a_client_gets_its_session_from_another_door_and_then_what_came_there_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "REST_DELAY", 0.0)
    old = Bench()
    old.subscriber(("t", 1), client_id="s", version=5, clean=False, raw=HOUR).leave()
    publisher = old.connect("p")
    publisher.send(mqtt.publish("t", b"before", 1, 1))
    value = old.broker.taken(old.now, "s", "new")
    publisher.send(mqtt.publish("t", b"meanwhile", 1, 2))
    values = old.broker.rest(old.now, "s")

    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        asked: list[str] = []

        async def seek(client_id: str) -> Any:
            asked.append(f"seek {client_id}")
            return value

        async def rest(client_id: str) -> Any:
            asked.append(f"rest {client_id}")
            return [values]

        monkeypatch.setattr(gateway._neighbours, "seek", seek)
        monkeypatch.setattr(gateway._neighbours, "rest", rest)
        gateway.broker.may_be_elsewhere = lambda: True
        device = await connect("guest")
        device.send(mqtt.PING)
        await device.read(1)
        assert asked == [], "a session that does not stay is at no other door"
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        device._writer.close()
        device._reader, device._writer = reader, writer
        device.send(mqtt.connect("s", 5, clean=False, raw=HOUR))
        connack, first, second = await device.read(3)
        assert connack.body[:2] == b"\x01\x00", "the session is present"
        assert [mqtt.publication(one, 5).payload for one in (first, second)] == [b"before", b"meanwhile"]
        assert asked == ["seek s", "rest s"]

    at_door(main)


def test_a_door_that_is_closed_twice_says_goodbye_once() -> None:
    async def main(network: Network, gateway: Gateway, connect: Any) -> None:
        device = await connect("c")
        drained: list[bool] = []
        plain = gateway._neighbours.drain

        async def drain() -> str:
            drained.append(True)
            return await plain()

        gateway._neighbours.drain = drain  # type: ignore[method-assign]
        await gateway.close()
        assert [one.body[0] for one in await device.read(1)] == [0x8B]
        await gateway.close()
        assert (drained, network.receivers[1:]) == ([True], [])

    at_door(main)


def test_at_its_end_a_door_aborts_connections_that_stay_publishes_wills_and_hands_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "CLOSE_TIMEOUT", 0.0)

    async def main(found: Door) -> None:
        _, wire = connected(found, "c", will=("w", b"gone", 0, False))
        loop = asyncio.get_running_loop()
        found.broker.at(found.broker.deadline - 1.0, lambda now: None)
        found.flush()
        timer = found._timer
        work = loop.create_future()
        found.spawn(cast(Any, _waits(work)))
        await asyncio.sleep(0)
        told: list[str] = []

        async def hand_over() -> None:
            told.append(f"{len(found.broker.clients)} clients, {[run.topic for run in found.broker.published]}")

        await found.close("10.0.0.2:1883", hand_over)
        assert "abort" in wire.take()
        assert told == ["0 clients, ['w']"], "sessions are handed over once all clients have gone"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (work.cancelled(), found._tasks) == (True, set()), "what runs beside is given up"
        assert timer is not None
        assert timer.cancelled()

    at_plain_door(main)


async def _waits(work: asyncio.Future[None]) -> None:
    await work


def test_a_websocket_frame_has_at_most_a_megabyte() -> None:
    websocket = pytest.importorskip("glue.gateway.mqtt.websocket")
    upgrade = (
        b"GET /mqtt HTTP/1.1\r\nHost: door\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    def main(found: Door) -> None:
        for size, told in ((1 << 20, []), ((1 << 20) + 1, [b"\x88\x39\x03\xf1", "close"])):  # RFC 6455, 7.4.1
            made, wire = websocket.WebsocketConnection(found), Wire()
            made.connection_made(wire)
            made.received(upgrade)
            wire.take()
            made.received(b"\x82\xff" + size.to_bytes(8, "big") + bytes(4))
            assert [one[:4] if isinstance(one, bytes) else one for one in wire.take()][:2] == told

    at_plain_door(main)
