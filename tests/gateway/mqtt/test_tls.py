"""TLS at a door, byte by byte: a client that sends its first packet together with the end of its handshake."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from random import Random

import pytest

from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.door import Door
from tests.gateway.mqtt.test_door import certificate
from tests.support import mqtt
from tests.support.lan import PATIENCE

__all__ = ["certificate"]


async def greeted(port: int, trusting: ssl.SSLContext, *packets: bytes, closes: bool = False) -> bytes:
    """What a client gets whose packets leave with the end of the handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    machine = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            machine.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(1 << 16))
    for packet in packets:
        machine.write(packet)
    if closes:
        with pytest.raises(ssl.SSLWantReadError):
            machine.unwrap()
    writer.write(outgoing.read())
    try:
        while not closes:
            try:
                return machine.read(100)
            except ssl.SSLWantReadError:
                incoming.write(await reader.read(1 << 16))
    finally:
        writer.close()
    return b""


def test_a_client_may_speak_with_the_end_of_its_handshake(certificate: tuple[Path, Path]) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))

    async def main() -> None:
        door = Door(Broker(Everybody(), Random(1)))
        port = await door.listen_tls("127.0.0.1", 0, server)
        async with asyncio.timeout(PATIENCE):
            assert await greeted(port, trusting, mqtt.connect()[:5], mqtt.connect()[5:]) == b"\x20\x02\x00\x00"
            for packets in ((), (mqtt.connect(),)):
                await greeted(port, trusting, *packets, closes=True)
            while door.broker.clients or door.broker.handshakes:
                await asyncio.sleep(0.001)
        await door.close()

    asyncio.run(main())
