"""MQTT over websockets (MQTT 5, section 6): the protocol machine of the package `websockets` around a connection."""

from __future__ import annotations

import asyncio
from typing import cast

from glue.errors import MissingExtraError
from glue.gateway.hosts import host_of, is_address, is_loopback
from glue.gateway.mqtt.connection import Connection, Listener, tell_refusal

try:
    from websockets.frames import Frame, Opcode
    from websockets.http11 import Request
    from websockets.protocol import OPEN
    from websockets.server import ServerProtocol
    from websockets.typing import Subprotocol
except ImportError as error:
    raise MissingExtraError(
        "MQTT over websockets needs the package websockets: pip install 'glue-lan[mqtt]'"
    ) from error

SUBPROTOCOLS = [Subprotocol("mqtt"), Subprotocol("mqttv3.1")]

FRAME_LIMIT = 1 << 20
"""Bytes of a frame; MQTT packets may be longer than a frame."""


def is_own_page(request: Request) -> bool:
    """Whether no page asks, or one of this machine: any page in a browser on this machine can connect to it.

    A page that was pointed here by its name server has a host name, so the door's name does not count either.
    """
    hosts = [host_of(origin) for origin in request.headers.get_all("Origin")]
    own = [host_of(f"//{host}") for host in request.headers.get_all("Host")]
    return all(is_loopback(host) or (is_address(host) and own == [host]) for host in hosts)


class WebsocketConnection(Connection):
    """A connection that takes its bytes from the payloads of binary websocket frames."""

    __slots__ = ("_machine",)

    def __init__(self, door: Listener) -> None:
        super().__init__(door)
        self._machine = ServerProtocol(subprotocols=SUBPROTOCOLS, max_size=FRAME_LIMIT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the websocket handshake."""
        self.transport = cast(asyncio.Transport, transport)
        self.begin(self)

    def received(self, data: bytes) -> None:
        """Take bytes of the socket."""
        machine = self._machine
        machine.receive_data(data)
        payloads: list[bytes] = []
        for event in machine.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                self._take(event, payloads)
        self._write()
        if payloads and self.client is not None:
            self.door.received(self.client, b"".join(payloads))
        if machine.close_expected() and self.transport is not None:
            self.transport.close()

    def _answer(self, request: Request) -> None:
        if self.client is not None and not is_own_page(request):
            self.client.remote.is_local = False
        response = self._machine.accept(request)
        self._machine.send_response(response)
        if self._machine.state is not OPEN and self.client is not None:
            self.client.reason = f"no websocket: {response.status_code} {response.reason_phrase}"
            self.door.broker.statistics["websocket handshakes failed"] += 1
            tell_refusal(self.door.broker, self.client.remote, self.client.reason)

    def _take(self, frame: Frame, payloads: list[bytes]) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            payloads.append(bytes(frame.data))
        elif frame.opcode is Opcode.TEXT:  # MQTT-6.0.0-1
            self._machine.fail(1003, "MQTT needs binary frames")

    def _write(self) -> None:
        if self.transport is None:
            return
        for data in self._machine.data_to_send():
            if data:
                self.transport.write(data)
            else:
                self.transport.close()

    def write(self, data: bytes) -> None:
        """Write bytes of MQTT as one frame."""
        if self._machine.state is OPEN:
            self._machine.send_binary(data)
            self._write()

    def close(self) -> None:
        """Close the websocket, then the socket."""
        if self._machine.state is OPEN:
            self._machine.send_close(1000)
            self._write()
        elif self.transport is not None:
            self.transport.close()
