"""`glue receivers` at a prepared endpoint: what it lists, asks and sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.cmd import common, receivers
from glue.receivers.address import parse
from tests.cmd.prepared import Calls, Time, people, programs

Capture = pytest.CaptureFixture[str]

ASKED = -1.0

HOSTS: dict[str, Any] = {
    "hall": [
        {"kind": ":lamp", "partitions": 4, "of": 8, "active": 3, "waiting": 2, "longest": [["a", 2], ["b", 1]],
         "handled": 70, "failed": 1, "slowest": [["a", 12.5], "odd", [1]], "slowest_ms": 12.5},
        "odd",
    ],
    "attic": [{"kind": "door", "partitions": 4, "of": 8, "active": 0, "waiting": 0, "handled": 0, "failed": 0}],
    "odd": 7,
}  # fmt: skip


def listed(monkeypatch: pytest.MonkeyPatch, hosts: dict[str, Any], seconds: float) -> tuple[Callable[[Any], int], Time]:
    clock = Time()

    def ask(take: Any) -> None:
        clock.naps.append(ASKED)
        for host, kinds in hosts.items():
            take(host, kinds)

    runtime = SimpleNamespace(ask_hosts=ask)
    monkeypatch.setattr(receivers, "parts_of", lambda endpoint: SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(receivers, "time", clock)
    monkeypatch.setattr(common, "pause", clock.sleep)
    there: Any = None
    return (lambda output: receivers.show(there, seconds, output)), clock


def test_kinds_of_receivers_are_listed_by_kind_and_host(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    show, clock = listed(monkeypatch, HOSTS, 0.7)
    assert people(show).splitlines() == [
        "lamp at hall: 4 of 8 partitions, 3 active, 2 waiting (a 2, b 1), 70 handled, 1 failed, slowest a 12.5 ms",
        "door at attic: 4 of 8 partitions, 0 active, 0 waiting, 0 handled, 0 failed",
    ]
    assert clock.naps == [ASKED, 0.3, ASKED, 0.3, ASKED, 0.1, ASKED, 0.05]
    first, second = programs(show)
    assert first == {"event": "kind", "host": "hall", **HOSTS["hall"][0]}
    assert (second["kind"], second["longest"], second["host"]) == ("door", None, "attic")
    monkeypatch.setattr(receivers, "open_endpoint", lambda *_, **options: nullcontext(Calls()))
    assert receivers.main(["--wait", "0.2"]) == 0
    assert capsys.readouterr().out.startswith("lamp at hall: ")
    show, clock = listed(monkeypatch, HOSTS, 0.0)
    assert len(people(show).splitlines()) == 2, "all are asked at least once"
    assert clock.naps == [ASKED, 0.05]
    show, _ = listed(monkeypatch, {}, 0.0)
    assert people(show) == ""
    assert capsys.readouterr().err == "glue receivers: no host was found\n"


@pytest.mark.parametrize(("error", "handled", "code", "told"), [
    (None, True, 0, ""), (ValueError("bad"), True, 1, "glue receivers: bad\n"),
    (None, False, 1, "glue receivers: lamp/1: it was not handled in time; it may be later\n"),
])  # fmt: skip
def test_a_message_is_sent_and_its_end_awaited(
    error: Exception | None, handled: bool, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    sent: list[Any] = []

    def send(address: Any, payload: Any, settle: Any) -> None:
        sent.append((address, payload))
        if handled:
            threading.Timer(0.005, settle, (error, None)).start()

    monkeypatch.setattr(receivers, "open_endpoint", lambda *_, **options: nullcontext(Calls()))
    monkeypatch.setattr(receivers, "parts_of", lambda _: SimpleNamespace(runtime=SimpleNamespace(send=send)))
    assert receivers.main(["lamp/1", '{"a": 1}', "--send", "--timeout", "30" if handled else "0.01"]) == code
    assert capsys.readouterr().err == told
    assert sent == [(parse("lamp/1"), {"a": 1})]


@pytest.mark.parametrize(("answer", "code", "out", "err"), [
    ("x", 0, "x\n", ""), ({"a": 1}, 0, '{"a": 1}\n', ""),
    (glue.RequestError("it failed"), 1, "", "glue receivers: it failed\n"),
    (glue.ConfigurationError("no kind"), 2, "", "glue receivers: no kind\n"),
])  # fmt: skip
def test_a_receiver_is_asked(
    answer: Any, code: int, out: str, err: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    there: Any = Calls(ask=answer)
    monkeypatch.setattr(receivers, "open_endpoint", lambda *_, **options: nullcontext(there))
    assert receivers.main(["lamp/1", "21", "--timeout", "2"]) == code
    assert capsys.readouterr() == (out, err)
    assert there.calls == [("ask", "lamp/1", 21, 2.0)]
    assert receivers.main(["lamp/1", "--json"]) == code
    assert there.calls[1] == ("ask", "lamp/1", None, 5.0)
    if code == 0:
        event = json.loads(capsys.readouterr().out)
        assert (event["event"], event["address"], event["payload"]) == ("answer", "lamp/1", answer)
