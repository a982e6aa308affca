"""Doors with real sockets and real clients: paho over TCP, TLS and websockets, and mosquitto's commands."""

from __future__ import annotations

import errno
import queue
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import glue.aio
from glue.gateway.descriptors import OTHER_FILES
from glue.gateway.mqtt import FileAccess, Gateway
from glue.gateway.mqtt.store import Store
from glue.gateway.thread import in_thread
from tests.support import mqtt
from tests.support.lan import PATIENCE, Lan

paho = pytest.importorskip("paho.mqtt.client")

Doors = Callable[..., AbstractContextManager[Gateway]]


@pytest.fixture
def door(lan: Lan) -> Doors:
    """Opens a door on the private network: on free ports of loopback."""

    def opened(name: str = "door", **options: Any) -> AbstractContextManager[Gateway]:
        @asynccontextmanager
        async def entered() -> AsyncIterator[Gateway]:
            async with glue.aio.Endpoint(name, **lan.settings) as endpoint:
                chosen = {"port": 0, "host": "127.0.0.1", "system_interval": 0.0, **options}
                async with Gateway(endpoint, **chosen) as gateway:
                    yield gateway

        return in_thread(entered)

    return opened


class PahoClient:
    """A client of the library paho, whose messages wait in a queue."""

    def __init__(self, client_id: str, port: int | None, **options: Any) -> None:
        tls = options.pop("tls", None)
        self.messages: queue.Queue[Any] = queue.Queue()
        self.done: queue.Queue[Any] = queue.Queue()
        self.paho = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, **options)
        self.paho.on_message = lambda client, data, message: self.messages.put(message)
        self.paho.on_connect = lambda client, data, flags, code, properties: self.done.put(code)
        self.paho.on_subscribe = lambda client, data, number, codes, properties: self.done.put(codes)
        if tls is not None:
            self.paho.tls_set_context(tls)
        self.paho.connect("localhost" if tls else "127.0.0.1", port or 0)
        self.paho.loop_start()
        assert not self.done.get(timeout=PATIENCE).is_failure

    def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        self.paho.subscribe(topic_filter, qos)
        self.done.get(timeout=PATIENCE)

    def next(self) -> tuple[str, bytes, int, bool]:
        message = self.messages.get(timeout=PATIENCE)
        return message.topic, message.payload, message.qos, bool(message.retain)

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()
        self.paho._reset_sockets()  # else only with the garbage


@contextmanager
def client(client_id: str, port: int | None, **options: Any) -> Iterator[PahoClient]:
    made = PahoClient(client_id, port, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
@pytest.mark.parametrize("protocol", [4, 5])
def test_clients_talk_with_each_other(door: Doors, protocol: int, transport: str) -> None:
    with door(websocket_port=0) as gateway:
        port = gateway.port if transport == "tcp" else gateway.websocket_port
        options = {"transport": transport, "protocol": protocol}
        with client("a", port, **options) as a, client("b", gateway.port, protocol=4) as b:
            a.subscribe("t/#", 2)
            b.subscribe("u", 1)
            payload = bytes(200_000)
            b.paho.publish("t/1", payload, qos=2).wait_for_publish(PATIENCE)
            a.paho.publish("u", b"back", qos=1)
            assert a.next() == ("t/1", payload, 2, False)
            assert b.next() == ("u", b"back", 1, False)


def test_clients_and_endpoints_talk_with_each_other(door: Doors, lan: Lan) -> None:
    with door() as gateway, client("a", gateway.port) as a:
        hall = lan.start("hall")
        hall.publish("state/hall", {"on": True}, retain=True)
        lamps = hall.subscribe("lamp/+")
        a.subscribe("state/#", 1)
        assert a.next()[:3] == ("state/hall", b'{"on":true}', 1)  # live or retained: hall has just come
        hall.publish("state/hall", b"raw")
        assert a.next() == ("state/hall", b"raw", 1, False)
        a.paho.publish("lamp/1", b"on", qos=1, retain=True)
        found = next(lamps)
        assert (found.topic, found.payload, found.publisher) == ("lamp/1", b"on", "door")
        late = lan.start("late").subscribe("lamp/1")
        assert (next(late).payload, a.messages.qsize()) == (b"on", 0)


def test_topics_below_a_dollar_stay_on_their_side(door: Doors, lan: Lan) -> None:
    hall = lan.start("hall")
    for topic in ("$SYS/state", "state/hall"):
        hall.publish(topic, 1, retain=True)
    with door() as gateway, client("a", gateway.port) as a:
        a.subscribe("$SYS/#", 1)
        a.subscribe("state/#", 1)
        assert a.next()[0] == "state/hall"
        hall.publish("state/hall", 2)
        assert a.next()[:2] == ("state/hall", b"2")


def test_clients_of_two_doors_talk_with_each_other_once(door: Doors) -> None:
    with door("d1") as first, door("d2") as second, client("a", first.port) as a, client("b", second.port) as b:
        b.paho.publish("kept", b"k", qos=1, retain=True).wait_for_publish(PATIENCE)
        a.subscribe("#", 2)
        b.subscribe("#", 2)
        assert a.next()[:2] == b.next()[:2] == ("kept", b"k")
        for number in range(20):
            a.paho.publish("t", b"a%d" % number, qos=number % 3)
            b.paho.publish("t", b"b%d" % number, qos=number % 3)
        for one in (a, b):
            found = [one.next()[1] for _ in range(40)]
            for name, qos in product((b"a", b"b"), range(3)):  # the order of each QoS is promised
                numbers = [int(payload[1:]) for payload in found if payload[:1] == name and int(payload[1:]) % 3 == qos]
                assert numbers == list(range(qos, 20, 3))
        assert a.messages.empty()
        assert b.messages.empty()


def test_a_client_id_is_connected_at_one_door_alone(door: Doors, lan: Lan) -> None:
    with door("d1") as first, door("d2") as second, socket.create_connection(("127.0.0.1", first.port or 0)) as raw:
        raw.sendall(mqtt.connect("c", 5, raw=b"\x11\x00\x00\x00\x3c"))
        with client("c", second.port):
            received = b""
            raw.settimeout(PATIENCE)
            while data := raw.recv(1_000):
                received += data
            assert [(sent.kind, sent.body[0]) for sent in mqtt.split(received)][1:] == [(14, 0x8E)]
            hall = lan.start("hall")
            assert hall.wait_for_responders("$mqtt/doors", 2, PATIENCE)
            told = {reply.responder: reply.payload for reply in hall.request_all("$mqtt/doors", "sessions")}
            assert {name: [one["client"] for one in found] for name, found in told.items()} == {
                "d1": [], "d2": ["c"],
            }  # fmt: skip
            told = {reply.responder: reply.payload for reply in hall.request_all("$mqtt/doors", "clients")}
            assert [one["version"] for one in told["d2"]] == ["3.1.1"]


def test_a_session_moves_to_the_door_that_its_client_connects_to(door: Doors, tmp_path: Path) -> None:
    with door("d1", data_dir=tmp_path / "1") as first, door("d2", data_dir=tmp_path / "2") as second:
        port = first.port or 0
        with socket.create_connection(("127.0.0.1", port)) as raw, client("p", port) as publisher:
            raw.sendall(mqtt.connect("c", clean=False) + mqtt.subscribe(1, ("t", 1)))
            raw.settimeout(PATIENCE)
            assert len(raw.recv(100)) >= 4
            raw.close()
            publisher.paho.publish("t", b"waits", 1).wait_for_publish(PATIENCE)
        with socket.create_connection(("127.0.0.1", second.port or 0)) as raw:
            raw.settimeout(PATIENCE)
            raw.sendall(mqtt.connect("c", clean=False))
            received = b""
            while len(received) < 16:
                received += raw.recv(100)
            connack, message = mqtt.split(received)
            assert connack.body == b"\1\0"
            assert mqtt.publication(message).payload == b"waits"


def test_snapshots_are_made_beside_the_syncs(door: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "wants_snapshot", property(lambda store: True))
    with door(data_dir=tmp_path) as gateway, client("p", gateway.port) as publisher:
        with socket.create_connection(("127.0.0.1", gateway.port or 0)) as raw:
            raw.sendall(mqtt.connect("c", clean=False) + mqtt.subscribe(1, ("t", 1)))
            raw.settimeout(PATIENCE)
            assert raw.recv(100)
        for number in range(5):
            publisher.paho.publish("t", b"%d" % number, 1).wait_for_publish(PATIENCE)
        assert (tmp_path / "sessions").stat().st_size > 100
    with (
        door(data_dir=tmp_path) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port or 0)) as raw,
    ):
        raw.settimeout(PATIENCE)
        raw.sendall(mqtt.connect("c", clean=False))
        received = b""
        while len(received) < 4 + 5 * 8:
            received += raw.recv(1_000)
        _, *sent = mqtt.split(received)
        assert [mqtt.publication(one).payload for one in sent] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_door_that_stops_hands_its_sessions_over_and_tells_where(door: Doors, lan: Lan) -> None:
    hour = b"\x11\x00\x00\x0e\x10"
    with door("d2") as second:
        with door("d1") as first:
            assert lan.start("hall").wait_for_responders("$mqtt/doors", 2, PATIENCE)
            raw = socket.create_connection(("127.0.0.1", first.port or 0))
            raw.settimeout(PATIENCE)
            raw.sendall(mqtt.connect("c", 5, raw=hour) + mqtt.subscribe(1, ("t", 1), version=5))
            raw.sendall(mqtt.publish("kept", b"value", retain=True, version=5))
            received = b""
            while [sent.kind for sent in mqtt.split(received)] != [2, 9]:
                received += raw.recv(100)
        received = b""
        while data := raw.recv(1_000):
            received += data
        raw.close()
        (goodbye,) = mqtt.split(received)
        assert (goodbye.kind, goodbye.body[0]) == (14, 0x9C)
        assert mqtt.text(f"127.0.0.1:{second.port}") in goodbye.body
        with socket.create_connection(("127.0.0.1", second.port or 0)) as raw:
            raw.settimeout(PATIENCE)
            raw.sendall(mqtt.connect("c", 5, clean=False, raw=hour))
            assert raw.recv(100)[2:4] == b"\1\0", "the session is there"
            raw.sendall(mqtt.subscribe(2, ("kept", 0), version=5))
            received = b""
            while [sent.kind for sent in mqtt.split(received)] != [9, 3]:
                received += raw.recv(100)


def test_the_will_of_a_client_that_is_cut_off_reaches_an_endpoint(door: Doors, lan: Lan) -> None:
    with door() as gateway:
        wills = lan.start("hall").subscribe("gone")
        with socket.create_connection(("127.0.0.1", gateway.port or 0)) as raw:
            raw.sendall(mqtt.connect("c", will=("gone", b"c", 1, True)))
            assert raw.recv(4) == b"\x20\x02\x00\x00"
        assert next(wills).payload == b"c"


def test_a_websocket_speaks_mqtt_in_binary_frames_alone(door: Doors) -> None:
    client = pytest.importorskip("websockets.sync.client")
    with door(websocket_port=0) as gateway:
        url = f"ws://127.0.0.1:{gateway.websocket_port}/mqtt"
        with client.connect(url, subprotocols=["mqtt"], close_timeout=PATIENCE) as websocket:
            assert websocket.subprotocol == "mqtt"
            greeting = mqtt.connect("c")
            websocket.send(greeting[:5])
            websocket.send(greeting[5:])
            assert websocket.recv(PATIENCE) == b"\x20\x02\x00\x00"
            websocket.send("text")
            with pytest.raises(Exception, match="1003"):
                websocket.recv(PATIENCE)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of "localhost" that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "door.pem", folder / "door.key"
    options = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *options.split(), *names], check=True, capture_output=True)
    return certificate, key


def test_tls_and_a_certificate_as_identity(
    door: Doors, certificate: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*certificate)
    server.load_verify_locations(certificate[0])
    server.verify_mode = ssl.CERT_OPTIONAL
    (tmp_path / "rules").write_text("user localhost\ntopic readwrite t\n")
    access = FileAccess(rules=tmp_path / "rules")
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    trusting.load_cert_chain(*certificate)
    with door(tls=server, tls_port=0, access=access) as gateway:
        with client("a", gateway.tls_port, tls=trusting) as a:
            a.subscribe("t")
            a.paho.publish("t", b"sealed")
            assert a.next() == ("t", b"sealed", 0, False)
        with socket.create_connection(("127.0.0.1", gateway.tls_port or 0)) as raw:
            raw.sendall(mqtt.connect())
            assert raw.recv(100) in (b"", b"\x15\x03\x01\x00\x02\x02F")  # closed, perhaps with an alert
        with socket.create_connection(("127.0.0.1", gateway.port or 0)) as raw, pytest.raises(OSError, match=r".+"):
            trusting.wrap_socket(raw, server_hostname="localhost")
    assert "does not speak TLS; it needs the plain port" in caplog.text
    assert "a TLS client on the plain port" in caplog.text


def test_mosquitto_s_commands_work(door: Doors) -> None:
    if shutil.which("mosquitto_sub") is None:
        pytest.skip("needs mosquitto-clients")
    with door() as gateway:
        base = ["-h", "127.0.0.1", "-p", str(gateway.port), "-V", "mqttv5"]
        publish = ["mosquitto_pub", *base, "-t", "a/b", "-m", "hello", "-q", "2", "-r"]
        subprocess.run([*publish, "-D", "publish", "content-type", "text/plain"], check=True, timeout=PATIENCE)
        subscribe = ["mosquitto_sub", *base, "-t", "a/+", "-q", "2", "-C", "1", "-F", "%t %p %q %r %C"]
        shown = subprocess.run(subscribe, check=True, timeout=PATIENCE, capture_output=True, text=True)
        assert shown.stdout == "a/b hello 2 1 text/plain\n"


def test_closing_the_door_tells_clients_and_ends_their_connections(door: Doors) -> None:
    with door() as gateway:
        raw = socket.create_connection(("127.0.0.1", gateway.port or 0))
        raw.sendall(mqtt.connect("c", 5))
        (connack,) = mqtt.split(raw.recv(1_000))
        assert connack.kind == 2
    received = b""
    while data := raw.recv(1_000):
        received += data
    raw.close()
    assert [(sent.kind, sent.body[0]) for sent in mqtt.split(received)] == [(14, 0x8B)]


def test_a_port_that_is_taken_raises(door: Doors) -> None:
    with door() as gateway, pytest.raises(OSError, match="in use"), door("other", port=gateway.port):
        pass


def test_a_door_without_free_descriptors_serves_its_clients_and_hardly_tries_to_accept(
    door: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    with door() as gateway, client("kitchen", gateway.port) as kitchen:
        tries = 0

        def accept(listening: socket.socket) -> Any:
            nonlocal tries
            tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(socket.socket, "accept", accept)
        with socket.create_connection(("127.0.0.1", gateway.port or 0)):
            kitchen.subscribe("home/lamp")
            kitchen.paho.publish("home/lamp", b"on")
            assert kitchen.next()[:2] == ("home/lamp", b"on")
        assert 1 <= tries < 10


def test_a_door_takes_no_more_connections_than_the_system_allows_files(
    door: Doors, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("glue.gateway.mqtt.gateway.open_files", lambda: OTHER_FILES + 8)
    caplog.set_level("INFO", "glue.mqtt")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*certificate)
    with door(tls=server, tls_port=0) as gateway, ExitStack() as stack:
        ports = [gateway.port, gateway.tls_port] * 4  # half of them without a TLS handshake
        for port in ports:
            stack.enter_context(socket.create_connection(("127.0.0.1", port or 0))).setblocking(False)
        for port in (gateway.port, gateway.tls_port):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port or 0), PATIENCE))
            with suppress(ConnectionResetError):
                assert made.recv(1) == b"", "it is one too many"
    assert "136 files, so it takes 8 clients at a time" in caplog.text
    assert "refused, 8 clients are connected" in caplog.text
