"""Clients that others have written: aiomqtt, and MQTT.js over TCP and websockets."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import glue.aio
from glue.gateway.mqtt import Gateway
from tests.support.lan import PATIENCE, Lan

PACKAGES = Path(__file__).parents[3] / ".venv/node/node_modules"


def test_aiomqtt_publishes_and_receives(lan: Lan) -> None:
    aiomqtt = pytest.importorskip("aiomqtt")

    async def main() -> list[tuple[str, bytes, int]]:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            Gateway(endpoint, host="127.0.0.1", port=0, system_interval=0.0) as gateway,
            aiomqtt.Client("127.0.0.1", gateway.port, protocol=aiomqtt.ProtocolVersion.V5) as client,
        ):
            await client.subscribe("a/#", qos=2)
            for qos in range(3):
                await client.publish(f"a/{qos}", b"%d" % qos, qos=qos)
            found = []
            async for message in client.messages:
                found.append((str(message.topic), message.payload, message.qos))
                if len(found) == 3:
                    break
            return found

    assert sorted(asyncio.run(asyncio.wait_for(main(), PATIENCE))) == [
        ("a/0", b"0", 0),
        ("a/1", b"1", 1),
        ("a/2", b"2", 2),
    ]


def test_a_message_of_an_endpoint_comes_once_to_clients_with_overlapping_filters(lan: Lan) -> None:
    aiomqtt = pytest.importorskip("aiomqtt")

    async def main() -> list[list[bytes]]:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            glue.aio.Endpoint("kitchen", **lan.settings) as kitchen,
            Gateway(endpoint, host="127.0.0.1", port=0, system_interval=0.0) as gateway,
            aiomqtt.Client("127.0.0.1", gateway.port) as all_of_a,
            aiomqtt.Client("127.0.0.1", gateway.port) as both,
        ):
            await all_of_a.subscribe("a/#")
            await both.subscribe([("a/b", 1), ("a/+", 1), ("last", 1)])
            await all_of_a.subscribe("last")
            await kitchen.wait_for_subscribers("last", 1, PATIENCE)
            for number in range(5):
                await kitchen.publish("a/b", b"%d" % number)
            await kitchen.publish("last", b"end")
            found: list[list[bytes]] = []
            for client in (all_of_a, both):
                found.append([])
                async for message in client.messages:
                    found[-1].append(message.payload)
                    if str(message.topic) == "last":
                        break
            return found

    five = [b"0", b"1", b"2", b"3", b"4", b"end"]
    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == [five, five]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_mqtt_js_publishes_and_receives(lan: Lan, scheme: str, version: int) -> None:
    node = shutil.which("node")
    if node is None or not (PACKAGES / "mqtt").is_dir():
        pytest.skip("needs node and MQTT.js: tests/install-node-packages")

    async def main() -> str:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            Gateway(endpoint, host="127.0.0.1", port=0, websocket_port=0, system_interval=0.0) as gateway,
        ):
            port = gateway.port if scheme == "mqtt" else gateway.websocket_port
            command = [node, str(Path(__file__).with_name("client.js")), f"{scheme}://127.0.0.1:{port}", str(version)]
            environment = {**os.environ, "NODE_PATH": str(PACKAGES)}
            ran = await asyncio.to_thread(
                subprocess.run, command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

    assert asyncio.run(main()).splitlines() == ["js/0 message 0 0", "js/1 message 1 1", "js/2 message 2 2"]
