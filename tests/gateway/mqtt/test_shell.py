"""How a door starts and ends: ports and directories that it cannot have, and what is still to be published."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, cast

import pytest

from glue.aio import Endpoint
from glue.errors import ForbiddenError, StorageError
from glue.gateway.mqtt import Gateway
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.store import SNAPSHOT
from glue.gateway.mqtt.translation import FROM_LOG
from tests.gateway.mqtt.test_network_side import Network, at_door
from tests.support import mqtt

HOUR = b"\x11\x00\x00\x0e\x10"


def gateway(**options: Any) -> Gateway:
    """A door that is not started yet, with a network of the test."""
    network = Network()
    network._core.at_rest = lambda directory: directory
    options = {"host": "127.0.0.1", "port": None, "system_interval": 0.0, **options}
    return Gateway(cast(Endpoint, network), **options)


def test_a_door_that_cannot_have_its_second_port_gives_back_the_first_one() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            made = gateway(port=0, tls_port=port, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            with pytest.raises(OSError, match="in use"):
                await made.start()
        assert made.port
        assert cast(Network, made.endpoint).receivers == [], "no other door asks this one for sessions"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", made.port)
        await made.close()

    asyncio.run(main())


def test_a_door_that_may_not_answer_others_listens_to_nothing_and_gives_back_its_port() -> None:
    async def main() -> None:
        made = gateway(port=0)
        network = cast(Any, made.endpoint)

        def refuse(topic: str, answer: object) -> None:
            raise ForbiddenError(f"door may not respond to {topic!r}")

        network.respond = refuse
        with pytest.raises(ForbiddenError, match="may not respond"):
            await made.start()
        assert network.receivers == [], "the endpoint goes on without this door"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", made.port)

    asyncio.run(main())


def test_a_door_without_ports_or_without_a_certificate_listens_nowhere() -> None:
    async def main() -> None:
        async with gateway(tls_port=0) as made:
            assert (made.port, made.tls_port, made.websocket_port) == (None, 0, None)
            assert made._door is not None
            assert made._door._servers == []

    asyncio.run(main())


def test_a_damaged_snapshot_is_named_and_leaves_the_directory_free(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / SNAPSHOT).write_bytes(b"no snapshot")
        with pytest.raises(StorageError, match="the snapshot of the sessions is damaged"):
            await gateway(data_dir=tmp_path).start()
        (tmp_path / SNAPSHOT).unlink()
        async with gateway(data_dir=tmp_path):
            pass

    asyncio.run(main())


def test_what_is_stored_is_there_again_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "glue.mqtt")

    async def main() -> None:
        async with gateway(data_dir=tmp_path, port=0) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(mqtt.connect("s", 5, clean=False, raw=HOUR) + mqtt.publish("r", b"x", 1, 1, True, version=5))
            async with asyncio.timeout(10):
                while made.broker.statistics["messages received"] == 0 or made.broker.sessions["s"].client is None:
                    await asyncio.sleep(0.001)
                await reader.readexactly(4)
            writer.close()
        async with gateway(data_dir=tmp_path) as made:
            assert ([*made.broker.sessions], [run.topic for run in made.broker.retained]) == (["s"], ["r"])

    asyncio.run(main())
    told = [record.getMessage() for record in caplog.records if "are stored" in record.getMessage()]
    assert told == [f"{count} sessions and {count} retained messages are stored" for count in (0, 1)]


def test_what_was_published_before_the_end_still_goes_to_the_network_with_at_least_a_moment_to_live() -> None:
    async def main(network: Network, made: Gateway, connect: Any) -> None:
        last = [Publish("late", [b"x"]), Publish("last", [b"x"], 1, True)]
        last[0].expires = 1.0  # long ago
        made.broker.published += last
        await made.close()
        assert network.published == [("late", b"x", {"lifespan": 0.001}), ("last", b"x", {"retain": True})]

    at_door(main)


@pytest.mark.parametrize("is_cluster", [False, True])
def test_only_a_door_of_a_cluster_says_that_other_doors_have_a_message_from_a_log(is_cluster: bool) -> None:
    async def main() -> None:
        made = gateway()
        made._joining = cast(Any, object()) if is_cluster else None
        for offset in (-1, 0, 7):
            run = Publish("t", [b"x"], 1)
            run.offset = offset  # with a data directory, too
            await made._publish(run)
        network: Any = made.endpoint
        told = [options.get("properties") for _, _, options in network.published]
        assert told == [None, *([{FROM_LOG: "1"}] * 2 if is_cluster else [None] * 2)]

    asyncio.run(main())


def test_the_ports_and_the_interval_of_a_door_are_those_of_the_page() -> None:
    async def main() -> None:
        made = Gateway(cast(Endpoint, Network()))
        assert (made.port, made.tls_port, made.websocket_port, made._system._interval) == (1_883, None, None, 10.0)

    asyncio.run(main())
