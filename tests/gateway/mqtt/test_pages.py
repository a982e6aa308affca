"""Pages in a browser on the door's machine: only its own ones count as clients of this machine."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.door import Door
from glue.gateway.mqtt.files import FileAccess
from tests.gateway.mqtt.test_connections import Wire, at_door
from tests.support import mqtt

websocket = pytest.importorskip("glue.gateway.mqtt.websocket")

HERE = ("127.0.0.1", 5_000), ("127.0.0.1", 9_001)


@pytest.mark.parametrize(
    ("host", "origins", "is_let_in"),
    [
        ("127.0.0.1:9001", [], True),
        ("door.lan:9001", [], True),
        ("localhost:9001", ["http://localhost:3000"], True),
        ("127.0.0.1:9001", ["http://127.0.0.1:9001"], True),
        ("[::1]:9001", ["https://[::1]"], True),
        ("10.0.0.1:9001", ["http://10.0.0.1"], True),
        ("10.0.0.1:9001", ["http://10.0.0.2"], False),
        ("127.0.0.1:9001", ["https://evil.example"], False),
        ("evil.example:9001", ["http://evil.example:9001"], False),
        ("127.0.0.1:9001", ["null"], False),
        ("127.0.0.1:9001", ["http://["], False),
        ("127.0.0.1:9001", ["http://localhost", "https://evil.example"], False),
        ("127.0.0.1:9001", ["http://localhost.evil.example"], False),
        ("127.0.0.1:9001", ["http://127.0.0.1.evil.example"], False),
    ],
)
def test_a_page_of_another_server_is_no_client_of_this_machine(host: str, origins: list[str], is_let_in: bool) -> None:
    lines = [f"Host: {host}", *(f"Origin: {origin}" for origin in origins)]
    lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: mqtt", "", ""]
    greeting = mqtt.connect("c")

    def main(door: Door) -> None:
        made, wire = websocket.WebsocketConnection(door), Wire(*HERE)
        made.connection_made(wire)
        made.received("\r\n".join(["GET /mqtt HTTP/1.1", *lines]).encode())
        wire.take()
        made.received(bytes((0x82, 0x80 | len(greeting))) + bytes(4) + greeting)
        answer = b"".join(one for one in wire.take() if isinstance(one, bytes))
        assert (b"\x20\x02\0\0" in answer) == is_let_in

    at_door(main, FileAccess(local_only=True))
