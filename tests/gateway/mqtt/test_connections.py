"""Connections without sockets: what they write, when they read, and what is said of a wrong client."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.errors import MissingExtraError
from glue.gateway.mqtt import codes, connection
from glue.gateway.mqtt.access import Access, Everybody
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.connection import Connection, Handshake, Plain, _address, _remote
from glue.gateway.mqtt.door import Door
from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Connect
from tests.support import mqtt


class Wire:
    """The transport of a connection: notes what is asked of it."""

    def __init__(
        self, peer: Any = ("10.0.0.7", 5_000), own: Any = ("10.0.0.1", 1_883), certificate: Any = None
    ) -> None:
        self.told: list[Any] = []
        self._facts = {"peername": peer, "sockname": own, "peercert": certificate}

    def get_extra_info(self, name: str) -> Any:
        return self._facts.get(name)

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *options: self.told.append((name, *options) if options else name)

    def take(self) -> list[Any]:
        told, self.told = self.told, []
        return told

    def packets(self) -> list[mqtt.Sent]:
        return list(mqtt.split(b"".join(one for one in self.take() if isinstance(one, bytes))))


def at_door(main: Callable[[Door], Any], access: Access | None = None, **limits: Any) -> None:
    async def whole() -> None:
        door = Door(Broker(access or Everybody(), Random(1), Limits(**limits)))
        found = main(door)
        if found is not None:
            await found

    asyncio.run(whole())


def connected(door: Door, client_id: str = "c", **options: Any) -> tuple[Connection, Wire]:
    made, wire = Plain(door), Wire()
    made.connection_made(cast(asyncio.Transport, wire))
    made.received(mqtt.connect(client_id, **options))
    wire.take()
    return made, wire


def test_a_connection_writes_what_a_turn_gives_at_once_and_counts_it() -> None:
    def main(door: Door) -> None:
        made, wire = Plain(door), Wire()
        made.connection_made(cast(asyncio.Transport, wire))
        assert wire.take() == [("set_write_buffer_limits", 1 << 20, 256 << 10)]
        greeting = mqtt.connect("c") + mqtt.PING
        made.get_buffer(-1)[: len(greeting) + 1] = greeting + b"?"
        made.buffer_updated(len(greeting))
        assert wire.take() == [b"\x20\x02\x00\x00\xd0\x00"]
        assert (door.broker.statistics["bytes received"], door.broker.statistics["bytes sent"]) == (len(greeting), 6)
        made.update()
        assert wire.take() == []

    at_door(main)


def test_a_receiver_that_takes_nothing_holds_its_publisher_until_it_takes_bytes_again() -> None:
    def main(door: Door) -> None:
        slow, slow_wire = connected(door, "slow")
        publisher, wire = connected(door, "p")
        slow.received(mqtt.subscribe(1, ("t", 0)))
        slow_wire.take()
        slow.pause_writing()
        publisher.received(mqtt.publish("t", b"1"))
        assert wire.take() == ["pause_reading"]
        slow.resume_writing()
        assert wire.take() == ["resume_reading"]
        publisher.received(mqtt.publish("t", b"2"))
        assert wire.take() == []
        assert [mqtt.publication(one).payload for one in slow_wire.packets()] == [b"1", b"2"]

    at_door(main)


def test_a_receiver_that_breaks_off_while_it_takes_nothing_lets_its_publisher_go_on() -> None:
    def main(door: Door) -> None:
        slow, _ = connected(door, "slow")
        publisher, wire = connected(door, "p")
        slow.received(mqtt.subscribe(1, ("t", 0)))
        slow.pause_writing()
        publisher.received(mqtt.publish("t", b"1"))
        assert wire.take() == ["pause_reading"]
        slow.connection_lost(None)
        assert wire.take() == ["resume_reading"]

    at_door(main)


def test_while_the_network_or_the_disk_takes_nothing_no_client_is_read() -> None:
    def main(door: Door) -> None:
        (first, wire), (second, other) = connected(door, "a"), connected(door, "b")
        door.network_full(True)
        first.update()
        second.update()
        door.network_full(True)
        assert [wire.take(), other.take()] == [["pause_reading"]] * 2
        door.network_full(False)
        assert [wire.take(), other.take()] == [["resume_reading"]] * 2
        door.network_full(False)
        assert not door.broker.changed
        is_full = True
        door.is_cluster_full = lambda: is_full
        assert door.is_store_full
        first.update()
        is_full = False
        first.update()
        assert wire.take() == ["pause_reading", "resume_reading"]
        assert not door.is_store_full

    at_door(main)


def test_a_connection_ends_with_its_last_words_and_for_good_two_seconds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(door: Door) -> None:
        made, wire = connected(door, version=5)
        later: list[tuple[float, str]] = []
        monkeypatch.setattr(door.loop, "call_later", lambda after, action: later.append((after, action)))
        made.received(mqtt.connect("c", 5))
        goodbye, *rest = wire.take()
        assert (goodbye[0] >> 4, goodbye[2], rest) == (14, codes.PROTOCOL_ERROR, ["pause_reading", "close"])
        ((after, abort),) = later
        assert after == 2.0
        cast(Any, abort)()
        assert wire.take() == ["abort"]
        made.connection_lost(None)
        made.update()
        made.received(mqtt.PING)
        assert (wire.take(), door.broker.clients) == ([], {})

    at_door(main)


def test_the_cause_of_a_broken_connection_is_told_unless_another_is_known() -> None:
    def main(door: Door) -> None:
        lines: list[str] = []
        door.broker.log = lambda level, line: lines.append(line)
        for error, reason in ((None, ""), (OSError("reset"), ""), (OSError("reset"), "it said goodbye")):
            made, _ = connected(door)
            assert made.client is not None
            made.client.reason = reason
            made.connection_lost(error)
        assert [line for line in lines if "disconnected" in line] == [
            "c is disconnected: the connection broke", "c is disconnected: reset", "c is disconnected: it said goodbye",
        ]  # fmt: skip

    at_door(main)


def test_a_tls_client_at_the_plain_port_is_told_in_the_log_and_dropped() -> None:
    def main(door: Door) -> None:
        lines: list[str] = []
        door.broker.log = lambda level, line: lines.append(line)
        for first in (b"\x16\x03", b"\x16\x02", b"\x15\x03"):
            made, wire = Plain(door), Wire()
            made.connection_made(cast(asyncio.Transport, wire))
            wire.take()
            made.received(first + b"\x01")
            assert (wire.take() == ["abort"]) == (first == b"\x16\x03")
        assert door.broker.statistics["TLS on the plain port"] == 1
        assert lines[0] == "10.0.0.7:5000: a TLS client on the plain port; it needs the TLS port"
        talking, wire = connected(door)
        talking.received(b"\x16\x03\x00")
        assert "abort" not in wire.take(), "it has spoken MQTT"

    at_door(main)


def test_no_more_connections_than_clients_may_be_in_a_handshake() -> None:
    async def main(door: Door) -> None:
        asked: list[Any] = []
        results: list[Any] = []

        async def start_tls(*told: Any, **options: Any) -> Any:
            asked.append((told[2], options))
            result = results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        lines: list[str] = []
        door.broker.log = lambda level, line: lines.append(line)
        door.loop = cast(Any, SimpleNamespace(start_tls=start_tls, create_task=door.loop.create_task))
        context: Any = "the context"
        wires = [Wire(("10.0.0.8", 1)), Wire(("10.0.0.9", 2)), Wire(("fe80::1", 3))]
        upgraded = Wire()
        plain = OSError("odd")
        plain.reason = "HTTP_REQUEST"  # type: ignore[attr-defined]
        results += [upgraded, plain]
        for wire in wires:
            Handshake(door, context, Connection).connection_made(cast(asyncio.Transport, wire))
        assert door.broker.handshakes == 2
        assert [wire.take() for wire in wires] == [[], [], ["abort"]]
        for _ in range(3):
            await asyncio.sleep(0)
        assert (door.broker.handshakes, len(door.broker.clients)) == (0, 1)
        assert asked == [(context, {"server_side": True, "ssl_handshake_timeout": 10.0})] * 2
        assert [wire.take() for wire in wires] == [[], ["abort"], []]
        assert door.broker.statistics["TLS handshakes failed"] == 1
        results.append(OSError("cut off"))
        Handshake(door, context, Connection).connection_made(cast(asyncio.Transport, wires[2]))
        for _ in range(3):
            await asyncio.sleep(0)
        assert lines == [
            "[fe80::1]:3: refused, 2 clients are connected",
            "10.0.0.9:2: TLS handshake failed: it does not speak TLS; it needs the plain port",
            "[fe80::1]:3: TLS handshake failed: cut off",
        ]

    at_door(main, clients=2)


@pytest.mark.parametrize(
    ("peer", "own", "address", "is_local"),
    [
        (("10.0.0.7", 5), ("10.0.0.1", 9), "10.0.0.7:5", False),
        (("10.0.0.7", 5), ("10.0.0.7", 9), "10.0.0.7:5", True),
        (("127.0.0.2", 5), ("10.0.0.1", 9), "127.0.0.2:5", True),
        (("::1", 5, 0, 0), ("::1", 9, 0, 0), "[::1]:5", True),
        (("fe80::1%eth0", 5, 0, 2), ("fe80::2", 9, 0, 2), "[fe80::1%eth0]:5", False),
        ("", "/run/door", "local", True),
        ("/run/client", "/run/door", "/run/client", True),
    ],
)
def test_the_other_end_is_named_and_known_to_be_near_or_far(peer: Any, own: Any, address: str, is_local: bool) -> None:
    wire = cast(asyncio.Transport, Wire(peer, own))
    assert _remote(wire) == Remote(address, "", is_local)
    assert _address(peer) == address


def test_the_common_name_of_a_certificate_is_the_identity() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "x"), ("commonName", "device-7")))
    for certificate, name in (({"subject": subject}, "device-7"), ({"subject": subject[:1]}, ""), ({}, ""), (None, "")):
        assert _remote(cast(asyncio.Transport, Wire(certificate=certificate))).certificate == name


def test_a_check_that_fails_refuses_and_one_that_takes_time_lets_in() -> None:
    class Slow(Everybody):
        def authenticate(self, connect: Connect, remote: Remote) -> None:
            return None

        def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:  # type: ignore[override]
            if connect.client_id == "broken":
                raise RuntimeError("the database is away")
            return Identity("kitchen")

    async def main(door: Door) -> None:
        for name, answer in (("c", 0), ("broken", codes.IMPLEMENTATION_ERROR)):
            made, wire = Plain(door), Wire()
            made.connection_made(cast(asyncio.Transport, wire))
            wire.take()
            made.received(mqtt.connect(name, 5))
            assert wire.take() == ["pause_reading"], "nothing more is read before the answer"
            async with asyncio.timeout(10):
                while made.client is None or (not made.client.is_closing and made.is_paused):
                    await asyncio.sleep(0.001)
            assert [one.body[1] for one in wire.packets()] == [answer]

    at_door(main, Slow())


def test_what_is_due_is_done_by_one_timer_and_an_earlier_time_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(door: Door) -> None:
        now = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        timers: list[Any] = []

        def call_later(after: float, action: Callable[[], None]) -> Any:
            timers.append(SimpleNamespace(after=after, action=action, cancelled=False))
            timers[-1].cancel = lambda timer=timers[-1]: setattr(timer, "cancelled", True)
            return timers[-1]

        door.loop = cast(Any, SimpleNamespace(call_later=call_later))
        done: list[str] = []
        door.broker.at(1_009.0, lambda at: done.append("last"))
        door.flush()
        door.flush()
        door.broker.at(1_004.0, lambda at: done.append("first"))
        door.flush()
        assert [(one.after, one.cancelled) for one in timers] == [(9.0, True), (4.0, False)]
        now = 1_005.0
        timers[1].action()
        assert done == ["first"]
        assert [(one.after, one.cancelled) for one in timers[2:]] == [(4.0, False)]
        now = 1_012.0
        door.broker.at(1_008.0, lambda at: done.append("late"))
        door.flush()
        assert [(one.after, one.cancelled) for one in timers[2:]] == [(4.0, True), (0.0, False)]
        timers[3].action()
        assert (done, len(timers)) == (["first", "late", "last"], 4)

    at_door(main)


def test_small_packets_are_sent_at_once() -> None:
    with socket.socket() as one:
        wire = Wire()
        wire._facts["socket"] = one
        at_door(lambda door: Plain(door).connection_made(cast(asyncio.Transport, wire)))
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert (connection.TLS_TIMEOUT, connection.CLOSE_TIMEOUT) == (10.0, 2.0)


def test_a_websocket_takes_binary_frames_and_refuses_what_is_none() -> None:
    websocket = pytest.importorskip("glue.gateway.mqtt.websocket")

    def frame(first: int, payload: bytes) -> bytes:
        return bytes((first, 0x80 | len(payload))) + bytes(4) + payload

    upgrade = (
        b"GET /mqtt HTTP/1.1\r\nHost: door\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: x, mqttv3.1, mqtt\r\n\r\n"
    )

    def main(door: Door) -> None:
        made, wire = websocket.WebsocketConnection(door), Wire()
        made.connection_made(wire)
        wire.take()
        made.received(upgrade)
        (answer,) = wire.take()
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"Sec-WebSocket-Protocol: mqtt\r\n" in answer, "the newer one of both"
        assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer, "RFC 6455, section 1.3"
        greeting = mqtt.connect("c")
        made.received(frame(0x02, greeting[:4]) + frame(0x80, greeting[4:]))
        assert wire.take() == [b"\x82\x04\x20\x02\x00\x00"]
        made.received(frame(0x89, b"hi"))
        assert wire.take() == [b"\x8a\x02hi"]
        leaving, other = websocket.WebsocketConnection(door), Wire()
        leaving.connection_made(other)
        leaving.received(upgrade + frame(0x82, mqtt.connect("leaving")))
        other.take()
        leaving.received(frame(0x82, mqtt.DISCONNECT))
        assert other.take() == ["pause_reading", b"\x88\x02\x03\xe8", "close"], "the websocket says goodbye, too"
        made.received(frame(0x81, b"text"))
        closing, *rest = wire.take()
        assert (closing[:4], {*rest}) == (b"\x88\x1a\x03\xeb", {"close"})
        made.write(b"late")
        assert wire.take() == []
        made.received(frame(0x88, b"\x03\xeb"))
        assert {*wire.take()} == {"close"}

        lines: list[str] = []
        door.broker.log = lambda level, line: lines.append(line)
        wrong, wire = websocket.WebsocketConnection(door), Wire()
        wrong.connection_made(wire)
        wire.take()
        wrong.received(b"GET / HTTP/1.1\r\nHost: door\r\n\r\n")
        refusal, *rest = wire.take()
        assert (refusal[:12], {*rest}) == (b"HTTP/1.1 426", {"close"})
        assert lines == ["10.0.0.7:5000: no websocket: 426 Upgrade Required"]
        assert door.broker.statistics["websocket handshakes failed"] == 1
        wrong.close()
        assert wire.take() == ["close"]

    at_door(main)


def test_websockets_without_their_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.frames", None)
    spec = spec_from_file_location("alone", Path(connection.__file__).with_name("websocket.py"))
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(MissingExtraError, match=r"pip install 'glue-lan\[mqtt\]'"):
        spec.loader.exec_module(module_from_spec(spec))
