"""A long conversation with an HTTP door: each request with its answer, as `conversation.txt` has it.

`pytest tests/gateway/http/test_conversation.py --rewrite` takes over a change that is meant. What differs from run to
run (ids, times, tokens) is left out.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glue.gateway.http.limits import Limits
from glue.gateway.http.tokens import Access, add_token
from tests.gateway.http.doors import Doors
from tests.support.lan import PATIENCE, Lan

RECORD = Path(__file__).with_name("conversation.txt")
SCRUBBED = [
    (re.compile(r"\b[0-9a-f]{16}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"whsec_[\w+/=]+"), "SECRET"),
    (re.compile(r"\b\d{10}(\.\d+)?\b"), "TIME"),
    (re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "TIME"),
    (re.compile(r"127\.0\.0\.1(:|', )\d{4,5}"), "ADDRESS"),
    (re.compile(r'"(revision|term|offset|failures|behind|under_way)":\d+|(?<=200 )"\d+"(?= \{)'), "NUMBER"),
]
BODY = 2_000
KEYS = "/v1/models/plant/keys"


def scrubbed(text: str) -> str:
    """Leave out what differs from run to run."""
    for pattern, instead in SCRUBBED:
        text = pattern.sub(instead, text)
    return text


class Talk:
    """A connection to a door, and what was said on it."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.answers: dict[str, str] = {}
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._tokens = tokens

    def ask(self, who: str, line: str, body: Any = None, note: bool = True, **headers: str) -> Any:
        """Make a request as somebody; the answer is noted, and returned."""
        method, path = line.split(" ", 1)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if who:
            given["authorization"] = self._tokens.get(who, who)
        for name, known in self.answers.items():
            path = path.replace(f"<{name}>", known)
        self._link.request(method, path, data, given)
        reply = self._link.getresponse()
        text = reply.read().decode("utf-8", "backslashreplace")
        if note:
            shown = "" if data is None else f" {data[:90].decode('utf-8', 'backslashreplace')!r}"
            self.lines.append(f"{who or 'nobody'}: {line[:120]}{shown}{f' {headers}'[:60] if headers else ''}")
            told = [
                value for name in ("location", "retry-after", "allow", "etag") if (value := reply.headers.get(name))
            ]
            self.lines.append(f"    {reply.status} {' '.join([*told, scrubbed(text)[:400]])}".rstrip())
        try:
            return json.loads(text)
        except ValueError:
            return text

    def until(self, line: str, holds: Callable[[Any], bool]) -> None:
        """Ask until the answer is as it should be, and note that one."""
        end = time.monotonic() + PATIENCE
        while not holds(self.ask("root", line, note=False)):
            assert time.monotonic() < end, line
            time.sleep(0.01)
        self.ask("root", line)

    def close(self) -> None:
        """End the connection."""
        self._link.close()

    def text(self) -> str:
        """Everything that was said, without what differs from run to run."""
        return scrubbed("\n".join(self.lines) + "\n")


def topics(talk: Talk) -> None:
    """Publish and read."""
    for line, body in (
        ("PUT /v1/topics/kept/a?retain=1&type=T&property=a=b=c", {"on": True}), ("POST /v1/topics/kept/a", b"\xff\0"),
        ("PUT /v1/topics/kept/b?acks=disk&key=k&priority=high", 7), ("PUT /v1/topics/home/x?acks=65", 1),
        ("PUT /v1/topics/home/x?acks=replicas", 1), ("PUT /v1/topics/home/x?retain=perhaps", 1),
        ("PUT /v1/topics/home/x?lifespan=0", 1), ("PUT /v1/topics/home/x?lifespan=0.001", 1),
        ("PUT /v1/topics/home/x?property=a", 1), ("PUT /v1/topics/home/x?priority=first", 1),
        ("PUT /v1/topics/home/%23", 1), ("PUT /v1/topics/$glue/x", 1), ("PUT /v1/topics/home/x", bytes(BODY)),
        ("PUT /v1/topics/home/x", bytes(BODY + 1)), ("DELETE /v1/topics/home/x", None), ("GET /nowhere", None),
    ):  # fmt: skip
        talk.ask("root", line, body)
    for who in ("", "kitchen", "Bearer wrong", "Basic x", "Bearer ", "bearer kitchen"):
        talk.ask(who, "PUT /v1/topics/home/y", 1)
        talk.ask(who, "PUT /v1/topics/hall/y", 1)
        talk.ask(who, "GET /v1/topics/hall/%2B?last=1")
    talk.ask("root", "PUT /v1/topics/home/json", b"{no", content_type="application/json")
    talk.ask("root", "PUT /v1/topics/home/text", "ä".encode(), content_type="text/plain")
    for number in range(3):
        talk.ask("root", "POST /v1/topics/home/once", b"%d" % (number // 2), idempotency_key="key")
    talk.ask("root", "POST /v1/topics/home/once", b"0", idempotency_key="k" * 300)
    lines = [{"topic": "kept/c", "payload": number} for number in range(3)]
    batch = b"\n".join(json.dumps(line).encode() for line in [*lines, {"topic": "kept/c", "payload_base64": "YQ=="}])
    talk.ask("root", "POST /v1/publish", batch + b"\n\n")
    talk.ask("kitchen", "POST /v1/publish", b'{"topic":"home/1","payload":1}\n{"topic":"hall/1","payload":1}')
    for wrong in (b"{", b'{"topic":"a"}', b'{"topic":"a","payload_base64":"Y"}', b'{"topic":"#","payload":1}', b"[]"):
        talk.ask("root", "POST /v1/publish", b'{"topic":"home/1","payload":1}\n' + wrong)
    talk.until("GET /v1/topics/kept/%2B?since=1h", lambda found: len(found["messages"]) == 5)
    talk.until("GET /v1/topics/kept/c?since=1h", lambda found: len(found["messages"]) == 4)
    for line in (
        "/kept/a", "/kept/a?raw=1", "/kept/b?raw=1", "/kept/c?raw=1", "/kept/%2B", "/home/nothing?timeout=0.01",
        "/kept/%2B?since=1h&limit=2", "/kept/c?since=0", "/kept/c?since=2001-01-01T00:00:00Z&limit=1",
        "/kept/c?since=soon", "/kept/c?since=1h&limit=0", "/kept/c?since=1h&limit=6", "/kept/c?offset=other.0",
        "/kept/%2B?offset=x", "/kept/b?last=0",
        "/kept/c?timeout=11", "/kept/c%2F%23%2F?since=1h", "/hall/x?offset=x.1",
    ):  # fmt: skip
        talk.ask("root", f"GET /v1/topics{line}")
    next_ = talk.ask("root", "GET /v1/topics/kept/%2B?since=1h&limit=2")["next"]
    talk.answers["log"] = next_.partition(".")[0]
    for place in ("2", "5", "6", "7", "999", "-1", "9" * 19):
        talk.ask("root", f"GET /v1/topics/kept/%2B?offset=<log>.{place}")
    for query in ("", "?topic=%23%23", "?" + "&".join(["topic=a"] * 101)):
        talk.ask("root", f"GET /v1/stream{query}")
    talk.ask("root", "POST /v1/requests/home/question?timeout=0.05", 1)
    talk.ask("root", "POST /v1/requests/home/question?timeout=61", 1)


def subscriptions(talk: Talk, port: int) -> None:
    """Make, see, change and delete subscriptions."""
    url = f"http://127.0.0.1:{port}/hook"
    good = {"topic": "kept/#", "url": url, "give_up_after": 1e-6, "parallel": 2, "timeout": 1}
    for wrong in (
        {}, {"topic": "kept/#"}, {"topic": 1, "url": url}, {"topic": "", "url": url}, {"topic": "#/a", "url": url},
        {"topic": "kept/#", "url": "ftp://x/"}, {**good, "start": 1},
        {**good, "start": "soon"}, {**good, "parallel": 0}, {**good, "parallel": 65}, {**good, "parallel": True},
        {**good, "timeout": 0.05}, {**good, "timeout": 60.5}, {**good, "give_up_after": 0}, {**good, "secret": 5},
        {**good, "secret": "short"}, {**good, "state": "gone"}, {**good, "format": "xml"}, {**good, "more": 1}, [1],
    ):  # fmt: skip
        talk.ask("root", "POST /v1/subscriptions", wrong)
    talk.answers["s"] = talk.ask("root", "POST /v1/subscriptions", {**good, "start": "latest"})["id"]
    talk.ask("kitchen", "POST /v1/subscriptions", {**good, "topic": "hall/#"})
    talk.answers["k"] = talk.ask(
        "kitchen", "POST /v1/subscriptions", {"topic": "home/#", "url": url, "state": "paused"}
    )["id"]
    talk.answers["e"] = talk.ask("root", "POST /v1/subscriptions", {**good, "start": "earliest", "state": "paused"})[
        "id"
    ]
    talk.ask("root", "POST /v1/subscriptions", good)
    talk.ask("kitchen", "GET /v1/subscriptions/<s>")
    talk.ask("kitchen", "GET /v1/subscriptions")
    talk.ask("root", "GET /v1/subscriptions/<k>")
    talk.ask("root", "PUT /v1/topics/kept/d?acks=disk", "dead")
    talk.until("GET /v1/subscriptions/<s>/dead-letters", lambda found: len(found["dead_letters"]) == 1)
    talk.ask("root", "GET /v1/subscriptions/<s>/deliveries")
    talk.ask("root", "POST /v1/subscriptions/<s>/dead-letters/replay")
    talk.until("GET /v1/subscriptions/<s>/dead-letters", lambda found: len(found["dead_letters"]) == 1)
    talk.until("GET /v1/subscriptions/<s>/dead-letters?all=1", lambda found: len(found["dead_letters"]) == 2)
    for change in (
        {"topic": "x"},
        {"format": "raw"},
        {"state": "paused", "parallel": 3},
        {"secret": None},
        {"timeout": "1"},
    ):
        talk.ask("root", "PATCH /v1/subscriptions/<s>", change)
    talk.ask("kitchen", "DELETE /v1/subscriptions/<e>")
    talk.ask("root", "DELETE /v1/subscriptions/<e>")
    talk.ask("root", "DELETE /v1/subscriptions/<e>")
    talk.ask("kitchen", "GET /v1/subscriptions/<k>/deliveries")
    talk.ask("root", "GET /v1/subscriptions")


def models(talk: Talk) -> None:
    """Keys of a model, and the older routes for subscriptions."""
    for line, body in (
        ("GET /v1/models", None), (f"PUT {KEYS}/a/b", {"x": 1}), (f"GET {KEYS}/a/b", None),
        (f"POST {KEYS}/a/b", {"expected": {"x": 1}, "value": 2}),
        (f"POST {KEYS}/a/b", {"expected": {"x": 1}, "value": 3}), (f"POST {KEYS}/a/b", {"expected": 2}),
        (f"GET {KEYS}", None), (f"GET {KEYS}?pattern=a/%23", None),
        (f"GET {KEYS}/none", None), (f"PUT {KEYS}/a/%23", 1), ("PUT /v1/models/other/keys/a", 1),
        (f"PUT {KEYS}/a/b", b"{no"),
        (f"DELETE {KEYS}/a/b", None), (f"DELETE {KEYS}/a/b", None),
        ("POST /create", {"topic": "carried"}), ("POST /create", {"topic": "#"}), ("POST /create", {}),
        ("POST /publish", {"topic": "carried", "payload": "YWJj", "payloadType": "t"}),
        ("POST /publish", {"topic": "unknown", "payload": "YWJj", "payloadType": "t"}),
        ("POST /publish", {"topic": "carried", "payload": "Y", "payloadType": "t"}),
        ("POST /subscribe", {"topic": "unknown", "addr": "http://127.0.0.1:9/"}),
    ):  # fmt: skip
        talk.ask("root", line, body)
    talk.ask("kitchen", f"GET {KEYS}/a/b")
    talk.ask("kitchen", f"PUT {KEYS}/a/b", 1)
    for line in (
        "/v1/health",
        "/v1/status",
        "/v1/endpoints",
        "/v1/paths",
        "/v1/mqtt/clients",
        "/metrics",
        "/openapi.json",
    ):
        found = talk.ask("kitchen", f"GET {line}", note=False)
        kind = sorted(found) if isinstance(found, dict) else type(found).__name__
        talk.lines.append(f"kitchen: GET {line}\n    {kind}")


def test_a_door_answers_as_it_is_written_down(
    door: Doors, lan: Lan, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    path = tmp_path / "tokens"
    tokens = {"root": f"Bearer {add_token(path, 'root', [], [], admin=True)}"}
    tokens["kitchen"] = f"Bearer {add_token(path, 'kitchen', ['home/#', '$model/plant/a/#'], ['home/#'])}"
    limits = Limits(body=BODY, subscriptions=3, history=5)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with door(
        access=Access(path), limits=limits, data_dir=tmp_path / "door", keep=["kept/+"], models=("plant",)
    ) as gateway:
        talk = Talk(gateway.port, tokens)
        topics(talk)
        subscriptions(talk, port)
        models(talk)
        talk.close()
    told = talk.text()
    if pytestconfig.getoption("--rewrite"):
        RECORD.write_text(told)
    assert told.splitlines() == RECORD.read_text().splitlines()
