"""What `glue mqtt` and `glue http` show and write without a network."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import (
    doors,
    http,
    mqtt,
)
from glue.errors import InterfaceError
from glue.gateway.names import MQTT_DOORS
from tests.cmd.prepared import Calls, Screen, noting, people

Capture = pytest.CaptureFixture[str]


def test_clients_of_doors_are_lines(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    one = {"client": "lamp", "user": "", "address": "10.0.0.9", "version": None, "sent": 3}
    replies = [
        SimpleNamespace(responder="north", payload=[one]),
        SimpleNamespace(responder="east", payload=[{"client": "a\x1b"}]),
    ]  # fmt: skip

    def shown(found: Any, *words: str) -> tuple[int, str, str, list[Any]]:
        there: Any = Calls(wait_for_responders=True, request_all=found)
        monkeypatch.setattr(mqtt, "open_endpoint", lambda *_, **options: nullcontext(there))
        return mqtt.main([*words]), *capsys.readouterr(), there.calls

    code, out, err, calls = shown(replies, "clients")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{'a' + chr(92) + 'x1b':24} at east: ", f"{'lamp':24} at north: address 10.0.0.9, sent 3",
    ]  # fmt: skip
    assert calls[0][1:] == (MQTT_DOORS, 1, 0.2)
    assert calls[1] == ("request_all", MQTT_DOORS, "clients", 3.0)
    event = json.loads(shown(replies, "sessions", "--json")[1].splitlines()[1])
    assert {name: event[name] for name in ("event", "door", "client", "waiting")} == {
        "event": "session", "door": "north", "client": "lamp", "waiting": None,
    }  # fmt: skip
    empty = [SimpleNamespace(responder="north", payload=[])]
    assert shown(empty, "clients")[:3] == (0, "", "glue mqtt: no clients at 1 door\n")
    assert shown(empty * 2, "sessions")[:3] == (0, "", "glue mqtt: no sessions at 2 doors\n")
    late = SimpleNamespace(responder="west", payload=None, error=glue.RequestTimeoutError("too late"))
    code, out, err, _ = shown([late, *replies], "clients")
    assert (code, err, len(out.splitlines())) == (1, "glue mqtt: no answer of west\n", 2)
    assert shown(glue.NoResponderError("x"), "clients")[:3] == (1, "", "glue mqtt: no door is known on this network\n")


def test_a_door_that_cannot_listen_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Namespace(duration=None, metrics_port=None)
    told = {
        OSError(99, "Cannot assign"): "cannot listen: Cannot assign; it is not an address of this machine",
        OSError(98, "In use"): "cannot listen: In use; name another port",
        OSError("odd"): "cannot listen: odd; name another port",
        glue.StorageError(28, "No space"): "No space",
    }  # fmt: skip
    for error, text in told.items():

        def fail(opened: Any, error: OSError = error) -> Any:
            raise error

        monkeypatch.setattr(doors, "in_thread", fail)
        opened: Any = None
        report: Any = None
        with pytest.raises((InterfaceError, glue.StorageError)) as refused:
            people(lambda output: doors.serve(given, output, opened, report, "name another port"))  # noqa: B023
        assert text in str(refused.value)
        assert isinstance(refused.value, glue.StorageError) == isinstance(error, glue.StorageError)


def test_passwords_are_asked_for_twice_or_read(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("getpass.getpass", noting(asked, "x"))
    monkeypatch.setattr("sys.stdin", Screen())
    assert mqtt._ask_password("hall") == "x"
    assert asked == ["password for hall: ", "once more: "]
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\nmore\n"))
    assert mqtt._ask_password("hall") == "secret"
    monkeypatch.setattr("sys.stdin", io.StringIO(" my secret \r\n"))
    assert mqtt._ask_password("hall") == " my secret ", "as in a terminal"
    for nothing in ("", "\n", "\r\nmore"):
        monkeypatch.setattr("sys.stdin", io.StringIO(nothing))
        assert mqtt.main(["passwd", str(tmp_path / "users"), "hall"]) == 2
        assert "empty password" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
    written: list[Any] = []
    monkeypatch.setattr(mqtt, "write_password", lambda *given: written.append(given))
    monkeypatch.setattr(mqtt, "_ask_password", lambda user: f"of {user}")
    assert mqtt.main(["passwd", "file", "hall"]) == mqtt.main(["passwd", "file", "hall", "--delete"]) == 0
    assert written == [(Path("file"), "hall", "of hall"), (Path("file"), "hall", None)]

    def stop(user: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(mqtt, "_ask_password", stop)
    assert mqtt.main(["passwd", "file", "hall"]) == 1


def test_a_cluster_votes_so_that_a_majority_has_the_replicas() -> None:
    for words, voters in (([], 3), (["--replicas", "1"], 1), (["--replicas", "3"], 5)):
        found = mqtt.voting(mqtt.parser().parse_args(words), Path("d"))
        assert found == {"voters": voters, "data_dir": Path("d"), "election_timeout": 0.7}


@pytest.mark.parametrize(("words", "call"), [
    (["--publish", "a", "--subscribe", "b"], ("t", "x", ["a"], ["b"], {"admin": False, "for_certificate": False})),
    (["--admin"], ("t", "x", [], [], {"admin": True, "for_certificate": False})),
    (["--certificate"], ("t", "x", [], [], {"admin": False, "for_certificate": True})),
])  # fmt: skip
def test_a_token_is_made_and_shown_once(
    words: list[str], call: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    files: Any = Calls(add_token="" if "--certificate" in words else "secret")
    monkeypatch.setattr(http, "add_token", files.add_token)
    monkeypatch.setattr(http, "remove_token", files.remove_token)
    assert http.main(["token", "new", "x", *words, "--tokens", "t"]) == 0
    assert capsys.readouterr().out == ("" if "--certificate" in words else "secret\n")
    name, path, *rest = files.calls[0]
    assert (name, (str(path), *rest)) == ("add_token", call)
    assert http.main(["token", "delete", "x", "--tokens", "t"]) == 0
    assert files.calls[1] == ("remove_token", Path("t"), "x")
