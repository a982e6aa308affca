"""Which door the options of `glue mqtt` and `glue http` make, and what they tell of it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from argparse import Namespace
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import common, http, mqtt, tls
from glue.errors import ConfigurationError
from glue.gateway.http.guard import LAN
from glue.gateway.http.limits import Limits as HttpLimits
from glue.gateway.http.tokens import EVERYTHING, Rights, add_token
from glue.gateway.mqtt.codes import BAD_CREDENTIALS, NOT_AUTHORIZED
from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect
from tests.cmd.prepared import Calls, noting, people, programs

HERE, AWAY = Remote("127.0.0.1:5", "", True), Remote("10.0.0.7:5")


class Opened:
    """What a command has opened: its endpoint, models and door."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
        self.doors: list[dict[str, Any]] = []
        self.models: list[tuple[str, dict[str, Any]]] = []
        self.waited: list[float] = []
        self.files: list[int] = []
        self.settings: list[Any] = []
        self.remedy = ""

        async def wait_until_ready(seconds: float) -> None:
            self.waited.append(seconds)

        def model(name: str, **options: Any) -> Any:
            self.models.append((name, options))
            return SimpleNamespace(name=name, wait_until_ready=wait_until_ready)

        @asynccontextmanager
        async def endpoint(**settings: Any) -> Any:
            self.settings.append(settings)
            yield SimpleNamespace(model=model)

        @asynccontextmanager
        async def gateway(endpoint: Any, **options: Any) -> Any:
            self.doors.append(options)
            yield SimpleNamespace(endpoint=endpoint)

        def serve(arguments: Any, output: Any, opened: Any, told: Any, remedy: str) -> int:
            async def enter() -> None:
                async with opened():
                    pass

            asyncio.run(enter())
            self.remedy = remedy
            return 0

        monkeypatch.setattr("glue.aio.Endpoint", endpoint)
        monkeypatch.setattr(command, "Gateway", gateway)
        monkeypatch.setattr(command, "serve", serve)
        monkeypatch.setattr(command, "allow_files", self.files.append)
        self._command = command

    def door(self, *words: str) -> dict[str, Any]:
        """The door that these words open."""
        code: int = self._command.main([*words])
        assert code == 0
        options: dict[str, Any] = self.doors.pop()
        return options


def test_each_option_of_glue_mqtt_reaches_its_door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Opened(monkeypatch, mqtt)
    found = made.door("--network-id", "7")
    limits = found.pop("limits")
    found.pop("access")
    assert found == {
        "host": None, "port": 1883, "tls": None, "tls_port": None, "websocket_port": None, "data_dir": None,
        "shared": None,
    }  # fmt: skip
    assert (limits.clients, limits.queue_messages, made.files) == (20_000, 100_000, [20_000])
    assert made.settings[0]["network_id"] == 7
    assert (made.remedy, logging.getLogger("glue.mqtt").level) == ("choose other ports with --port", logging.INFO)
    context = object()
    monkeypatch.setattr(mqtt, "server_context", lambda arguments: context)
    words = ["--host", "h", "--port", "1", "--ws-port", "2", "--max-clients", "3", "--max-queued", "4"]
    found = made.door(*words, "--data-dir", "d")
    limits = found.pop("limits")
    found.pop("access")
    assert found == {
        "host": "h", "port": 1, "tls": context, "tls_port": 8883, "websocket_port": 2, "data_dir": Path("d"),
        "shared": None,
    }  # fmt: skip
    assert (limits.clients, limits.queue_messages, made.files[1:]) == (3, 4, [3])
    assert made.door("--tls-port", "5", "--tls-cert", "c")["tls_port"] == 5
    assert made.models == []
    found = made.door("--shared", "doors", "--data-dir", "d", "--replicas", "3")
    assert (found["data_dir"], found["shared"].name) == (None, "doors")
    assert made.models == [("doors", {"voters": 5, "data_dir": Path("d"), "election_timeout": 0.7})]


def test_glue_mqtt_lets_in_whom_its_options_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Opened(monkeypatch, mqtt)
    (tmp_path / "users").write_text("")
    (tmp_path / "rules").write_text("topic read a\n")
    users, rules = ["--passwords", str(tmp_path / "users")], ["--rules", str(tmp_path / "rules")]

    def answers(*words: str) -> list[Any]:
        access = made.door(*words)["access"]
        found = [access.authenticate(Connect(5, "c", True, 0), remote) for remote in (HERE, AWAY)]
        named = access.authenticate(Connect(5, "c", True, 0, username="x"), HERE)
        rights = [access.authorize(Identity(), "c", action, "a") for action in ("read", "write")]
        return [*(one.code if isinstance(one, Refusal) else one for one in (*found, named)), rights]

    everyone, nobody = Identity(), BAD_CREDENTIALS
    assert answers() == [everyone, NOT_AUTHORIZED, everyone, [True, True]]
    assert answers("--anonymous") == [everyone, everyone, everyone, [True, True]]
    assert answers(*users) == [nobody, nobody, None, [True, True]]
    assert answers(*users, "--anonymous", *rules) == [everyone, everyone, None, [True, False]]


def test_a_witness_votes_and_serves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, waited = Calls(), list[float]()
    monkeypatch.setattr(mqtt, "open_endpoint", lambda arguments, output: nullcontext(endpoint))
    monkeypatch.setattr(common, "wait_for_end", lambda: waited.append(1))
    made = Opened(monkeypatch, mqtt)
    assert mqtt.main(["--shared", "doors", "--witness", "--data-dir", "d"]) == 0
    assert endpoint.calls == [("model", "doors", {"voters": 3, "data_dir": Path("d"), "election_timeout": 0.7})]
    assert (made.doors, waited) == ([], [1])


def test_each_option_of_glue_http_reaches_its_door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Opened(monkeypatch, http)
    found = made.door()
    access = found.pop("access")
    assert found == {
        "host": None, "port": 8080, "tls": None, "data_dir": None, "keep": [], "age": "7d", "size": "1GB",
        "deliver_to": LAN, "models": {}, "shared": None, "cors": [],
    }  # fmt: skip
    assert [access.rights(None, "", is_local) for is_local in (True, False)] == [EVERYTHING, None]
    assert made.files == [HttpLimits().connections + HttpLimits().attempts]
    assert (made.remedy, logging.getLogger("glue.http").level) == ("choose another port with --port", logging.INFO)
    words = ["--host", "h", "--port", "1", "--keep", "a", "--keep", "b", "--age", "1h", "--size", "2MB", "--cors", "c"]
    words += ["--deliver-to", "10.0.0.0/8", "--model", "x", "--model", "y", "--data-dir", "d", "--shared", "s"]
    found = made.door(*words, "--voters", "3", "--anonymous")
    access = found.pop("access")
    models, shared = found.pop("models"), found.pop("shared")
    assert found == {
        "host": "h", "port": 1, "tls": None, "data_dir": Path("d"), "keep": ["a", "b"], "age": "1h", "size": "2MB",
        "deliver_to": ["10.0.0.0/8"], "cors": ["c"],
    }  # fmt: skip
    assert ([*models], shared.name, made.waited) == (["x", "y"], "s", [10.0])
    assert made.models == [
        ("x", {"observer": True}), ("y", {"observer": True}),
        ("s", {"voters": 3, "data_dir": Path("d") / "model", "election_timeout": 0.5}),
    ]  # fmt: skip
    assert access.rights(None, "", False) == EVERYTHING
    made.models.clear()
    made.door("--shared", "s")
    assert made.models == [("s", {"voters": 1, "data_dir": None, "election_timeout": 0.5})]
    token = add_token(tmp_path / "tokens", "kitchen", ["a"], [])
    access = made.door("--tokens", str(tmp_path / "tokens"))["access"]
    assert [access.rights(one, "", True) for one in (None, token)] == [None, Rights("kitchen", ("a",))]


def test_a_door_s_address_and_access_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = SimpleNamespace(name="door", id="0", settings="settings")
    for command in (mqtt, http):
        monkeypatch.setattr(command, "chosen", lambda settings: (settings, "lan0, as asked for"))
    access: Any = SimpleNamespace(describe=lambda: "open to all")
    door: Any = SimpleNamespace(endpoint=endpoint, port=80, access=access, tls_port=None, websocket_port=None)
    assert people(lambda output: http.report(output, door, False)) == (
        "door on lan0, as asked for; http://localhost:80/; open to all; Ctrl-C ends\n"
    )
    assert programs(lambda output: http.report(output, door, True)) == [
        {"event": "started", "id": "0", "port": 80, "url": "https://localhost:80/"}
    ]
    assert people(lambda output: mqtt.report(output, door, access)) == (
        "door on lan0, as asked for; mqtt on port 80; open to all; Ctrl-C ends\n"
    )
    door.tls_port, door.websocket_port = 81, 82
    assert programs(lambda output: mqtt.report(output, door, access)) == [
        {"event": "started", "id": "0", "port": 80, "tls_port": 81, "websocket_port": 82}
    ]


def test_a_tls_context_has_the_files_that_are_named_and_asks_for_certificates_with_an_authority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cert, key, authority = (tmp_path / name for name in ("cert", "key", "ca"))

    def context(made: Any, **files: Path | None) -> Any:
        purposes: list[Any] = []
        monkeypatch.setattr(ssl, "create_default_context", noting(purposes, made))
        given: dict[str, Any] = {"tls_cert": None, "tls_key": None, "tls_ca": None, **files}
        found = tls.server_context(Namespace(**given))
        assert purposes in ([], [ssl.Purpose.CLIENT_AUTH])
        return found

    assert context(Calls()) is None
    with pytest.raises(ConfigurationError, match="go together"):
        context(Calls(), tls_cert=cert)
    with pytest.raises(ConfigurationError, match="--tls-ca needs --tls-cert and --tls-key"):
        context(Calls(), tls_ca=authority)
    for path in (cert, key, authority):
        with pytest.raises(ConfigurationError, match=rf"cannot be used: {path}: No such file"):
            context(Calls(), tls_cert=cert, tls_key=key, tls_ca=authority)
        path.write_text("")
    made: Any = Calls()
    assert context(made, tls_cert=cert, tls_key=key) is made
    assert made.calls == [("load_cert_chain", cert, key)]
    assert "verify_mode" not in made.__dict__
    made = Calls()
    assert context(made, tls_cert=cert, tls_key=key, tls_ca=authority) is made
    assert made.calls == [("load_cert_chain", cert, key), ("load_verify_locations", authority)]
    assert made.verify_mode == ssl.CERT_REQUIRED
    broken: Any = Calls(load_cert_chain=ssl.SSLError("no start line"))
    with pytest.raises(ConfigurationError, match=rf"cannot be used: {cert}: .*no start line"):
        context(broken, tls_cert=cert, tls_key=key)
