"""`glue mqtt` and `glue http`, called in this process: what they serve, whom they let in, and what they refuse."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from glue.cmd import common, http, mqtt
from tests.support.lan import PATIENCE, Lan
from tests.support.mqtt import connect

Capture = pytest.CaptureFixture[str]
Served = Callable[[dict[str, Any]], object]

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: door\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
ACCEPTED, REFUSED = b"\x20\x02\x00\x00", b"\x20\x02\x00\x04"


def network(lan: Lan) -> list[str]:
    """The options of a command on this network."""
    return [word for name, value in lan.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def serve(lan: Lan, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a command, calls a function with its first event while it serves, and ends it."""

    def run(command: Any, words: list[str], then: Served) -> int:
        def use() -> None:
            then(json.loads(capsys.readouterr().out.splitlines()[0]))

        monkeypatch.setattr(common, "wait_for_end", use)
        return int(command.main(["--json", "--endpoint-name", "door", *words, *network(lan)]))

    return run


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate of localhost that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, chain = str(folder / "key.pem"), str(folder / "cert.pem")
    options = f"-newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {chain}"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *options.split(), *names], check=True, capture_output=True)
    return chain, key


def answer(port: int, *words: Any, context: ssl.SSLContext | None = None, **options: Any) -> bytes:
    """What a door says to a CONNECT; empty if it closes."""
    return said(port, connect(*words, **options), context)


def said(port: int, sent: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What a door says to the first bytes of a connection."""
    link = socket.create_connection(("127.0.0.1", port), PATIENCE)
    with closing(context.wrap_socket(link, server_hostname="localhost") if context else link) as link:
        link.sendall(sent)
        try:
            return link.recv(64)
        except ConnectionResetError:
            return b""


def test_a_door_for_mqtt_serves_plainly_with_tls_and_with_websockets(
    serve: Callable[..., int], certificate: tuple[str, str], tmp_path: Path
) -> None:
    chain, key = certificate
    trusting = ssl.create_default_context(cafile=chain)

    def use(started: dict[str, Any]) -> None:
        assert started["event"] == "started"
        assert started["id"]
        assert len({started["port"], started["tls_port"], started["websocket_port"]} - {0, None}) == 3
        assert answer(started["port"]) == answer(started["tls_port"], context=trusting) == ACCEPTED
        assert said(started["websocket_port"], UPGRADE, trusting).startswith(b"HTTP/1.1 101")
        with socket.create_connection(("127.0.0.1", started["port"]), PATIENCE) as first:
            first.sendall(connect("one"))
            assert first.recv(64) == ACCEPTED
            assert answer(started["port"], "another") == b""  # there is one already
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", started["port"]))

    files = ["--tls-cert", chain, "--tls-key", key, "--data-dir", str(tmp_path / "door")]
    ports = ["--host", "127.0.0.1", "--port", "0", "--tls-port", "0", "--ws-port", "0"]
    assert serve(mqtt, [*ports, *files, "--anonymous", "--max-clients", "1"], use) == 0
    assert any((tmp_path / "door").iterdir())


def test_a_door_for_mqtt_knows_users_and_rules(
    serve: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    users, rules = tmp_path / "users", tmp_path / "rules"
    rules.write_text("user kitchen\ntopic write home/#\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\nsecond line\n"))
    assert mqtt.main(["passwd", str(users), "kitchen"]) == 0
    assert stat.S_IMODE(users.stat().st_mode) == 0o600

    def use(started: dict[str, Any]) -> None:
        assert answer(started["port"], user="kitchen", password=b"secret") == ACCEPTED
        assert answer(started["port"], user="kitchen", password=b"secret\n") == REFUSED
        assert answer(started["port"]) == REFUSED
        will = ("hall/lost", b"", 0, False)
        assert answer(started["port"], user="kitchen", password=b"secret", will=will)[:2] != ACCEPTED

    words = ["--host", "127.0.0.1", "--port", "0", "--passwords", str(users), "--rules", str(rules)]
    assert serve(mqtt, words, use) == 0
    assert mqtt.main(["passwd", str(users), "kitchen", "--delete"]) == 0
    assert users.read_text() == ""
    assert mqtt.main(["passwd", str(users), "kitchen", "--delete"]) == 2
    assert mqtt.main(["passwd", str(tmp_path / "none" / "users"), "kitchen"]) == 1
    assert f"glue mqtt passwd: {tmp_path / 'none' / 'users'}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(("second", "code"), [("secret", 0), ("other", 2)])
def test_a_password_is_asked_for_twice_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    answers = iter(("secret", second))
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("getpass.getpass", lambda _: next(answers))
    assert mqtt.main(["passwd", str(tmp_path / "users"), "kitchen"]) == code
    assert (tmp_path / "users").exists() == (code == 0)


def test_clients_and_sessions_of_all_doors_are_shown(
    serve: Callable[..., int], lan: Lan, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(started: dict[str, Any]) -> None:
        monkeypatch.undo()
        with socket.create_connection(("127.0.0.1", started["port"]), PATIENCE) as link:
            link.sendall(connect("lamp", clean=False))
            assert link.recv(64) == ACCEPTED
            assert mqtt.main(["--json", "clients", *network(lan)]) == 0
            client = json.loads(capsys.readouterr().out.splitlines()[-1])
            assert client.items() >= {"event": "client", "door": "door", "client": "lamp", "version": "3.1.1"}.items()
            assert mqtt.main(["sessions", *network(lan)]) == 0
            line = capsys.readouterr().out
            assert line.startswith("lamp                     at door: connected True, subscriptions 0")
            assert "None" not in line

    assert serve(mqtt, ["--host", "127.0.0.1", "--port", "0", "--anonymous"], use) == 0
    monkeypatch.setattr(mqtt, "DOOR_TIMEOUT", 0.05)
    assert mqtt.main(["clients", *network(lan)]) == 1
    assert "glue mqtt: no door is known on this network" in capsys.readouterr().err


def test_a_witness_votes_in_the_cluster_of_doors(
    lan: Lan, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    voting = ["--shared", "doors", "--replicas", "1"]
    assert mqtt.main(["--witness", *network(lan)]) == 2
    assert "--witness: give the name of the cluster with --shared" in capsys.readouterr().err
    monkeypatch.setattr(common, "wait_for_end", lambda: None)
    where = ["--data-dir", str(tmp_path / "third")]
    assert mqtt.main(["--witness", *voting, *where, *network(lan)]) == 0
    assert (tmp_path / "third").is_dir()
    assert mqtt.voting(mqtt.parser().parse_args([]), None)["voters"] == 3


def test_a_door_of_a_cluster_keeps_its_state_in_the_model(serve: Callable[..., int], tmp_path: Path) -> None:
    def use(started: dict[str, Any]) -> None:
        with socket.create_connection(("127.0.0.1", started["port"]), PATIENCE) as link:
            link.settimeout(PATIENCE)
            link.sendall(connect("kept", clean=False))
            assert link.recv(64) == ACCEPTED

    options = ["--host", "127.0.0.1", "--port", "0", "--anonymous", "--data-dir", str(tmp_path / "door")]
    assert serve(mqtt, [*options, "--shared", "doors", "--replicas", "1"], use) == 0
    assert any(path.is_file() for path in (tmp_path / "door").rglob("*"))


@pytest.mark.parametrize(("command", "words", "error"), [
    (mqtt, ["serve"], "'serve': expected nothing, `clients`, `sessions` or `passwd FILE USER`"),
    (mqtt, ["passwd", "users"], "'passwd users': expected nothing"),
    (mqtt, ["--tls-cert", "x"], "--tls-cert and --tls-key go together"),
    (mqtt, ["--tls-key", "x"], "--tls-cert and --tls-key go together"),
    (mqtt, ["--tls-ca", "x"], "--tls-ca needs --tls-cert and --tls-key"),
    (mqtt, ["--tls-cert", "/none", "--tls-key", "/none"], "the certificate cannot be used: /none: "),
    (mqtt, ["--tls-port", "8884"], "--tls-port needs --tls-cert and --tls-key"),
    (mqtt, ["--replicas", "2"], "--replicas: give the name of the cluster with --shared"),
    (mqtt, ["--witness"], "--witness: give the name of the cluster with --shared"),
    (http, ["serve"], "'serve': expected nothing, `token new NAME` or `token delete NAME`"),
    (http, ["token", "new", "x"], "expected: glue http token new NAME --tokens FILE, or token delete"),
    (http, ["token", "new", "--tokens", "t"], "expected: glue http token new NAME --tokens FILE, or token delete"),
    (http, ["token", "make", "x", "--tokens", "t"], "expected: glue http token new NAME --tokens FILE"),
])  # fmt: skip
def test_a_mistake_is_told(lan: Lan, capsys: Capture, command: Any, words: list[str], error: str) -> None:
    assert command.main([*words, *network(lan)]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("command", [mqtt, http])
def test_a_port_that_is_taken_is_told(lan: Lan, capsys: Capture, command: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["--host", "127.0.0.1", "--port", str(taken.getsockname()[1])]
        assert command.main([*words, *network(lan)]) == 2
    assert "cannot listen: " in (error := capsys.readouterr().err)
    assert "with --port" in error


def test_an_address_of_another_machine_is_told(lan: Lan, capsys: Capture) -> None:
    assert mqtt.main(["--host", "192.0.2.1", "--port", "0", *network(lan)]) == 2
    assert "it is not an address of this machine" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "error"), [
    (["--port", "abc"], "argument --port: 'abc': expected a port, 0 to 65535"),
    (["--max-clients", "many"], "argument --max-clients: 'many': expected a whole number"),
    (["--duration", "long"], "argument --duration: 'long': expected a number"),
])  # fmt: skip
def test_a_word_in_place_of_a_number_is_told(capsys: Capture, words: list[str], error: str) -> None:
    with pytest.raises(SystemExit):
        mqtt.main(words)
    assert error in capsys.readouterr().err


def test_a_door_for_http_has_tokens_and_tls_and_keeps_messages(
    serve: Callable[..., int], certificate: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    chain, key = certificate
    tokens = ["--tokens", str(tmp_path / "tokens")]
    assert http.main(["token", "new", "kitchen", *tokens, "--publish", "home/#", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["event"], made["name"]) == ("token", "kitchen")

    def use(started: dict[str, Any]) -> None:
        assert started["url"] == f"https://localhost:{started['port']}/"

        def code(topic: str, token: str = "") -> int:
            request = urllib.request.Request(f"{started['url']}v1/topics/{topic}", b"1", method="PUT")
            if token:
                request.add_header("Authorization", f"Bearer {token}")
            try:
                with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=chain)) as reply:
                    return int(reply.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert code("home/x", made["token"]) in (200, 202, 204)
        assert (code("hall/x", made["token"]), code("home/x")) == (403, 401)

    where = ["--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path / "door"), "--keep", "home/#"]
    assert serve(http, [*where, *tokens, "--tls-cert", chain, "--tls-key", key], use) == 0
    assert (tmp_path / "door").is_dir()
    assert http.main(["token", "delete", "kitchen", *tokens]) == 0
    assert http.main(["token", "delete", "kitchen", *tokens]) == 2
    assert http.main(["token", "new", "kitchen", "--tokens", str(tmp_path / "none" / "x")]) == 1
    assert "glue http token: " in capsys.readouterr().err


def test_a_door_says_for_people_where_it_serves_and_whom(
    lan: Lan, certificate: tuple[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "wait_for_end", lambda: None)
    listening = ["--host", "127.0.0.1", "--port", "0", "--endpoint-name", "door"]
    assert mqtt.main([*listening, *network(lan)]) == 0
    plain = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(
        r"door on lo, as asked for; mqtt on port \d+; open to clients of this machine only .*; Ctrl-C ends", plain
    )
    files = ["--tls-cert", certificate[0], "--tls-key", certificate[1], "--anonymous"]
    assert mqtt.main([*listening, "--tls-port", "0", "--ws-port", "0", *files, *network(lan)]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    ports = r"mqtt on port \d+, mqtt over TLS on port \d+, websockets on port \d+"
    assert re.fullmatch(rf"door on lo, as asked for; {ports}; open to clients without a user name; Ctrl-C ends", told)
    assert http.main([*listening, *network(lan)]) == 0
    assert re.match(r"door on lo, as asked for; http://localhost:\d+/; .*; Ctrl-C ends", capsys.readouterr().out)
