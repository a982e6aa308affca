"""The client of a door for programs: what it sends, when it tries again, and where a broken stream goes on."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from glue.gateway.http import client as room
from glue.gateway.http.client import Client, DoorError

JSON = {"content-type": "application/json"}


class Answer:
    """An answer of a door; a stream's lines come one by one, and an error among them breaks it."""

    def __init__(self, status: int = 200, document: Any = None, lines: Any = (), **headers: str) -> None:
        self.status, self.reason = status, "Odd"
        self._text = json.dumps(document).encode()
        self._lines = lines
        self._headers = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}

    def read(self) -> bytes:
        assert not self._lines, "a stream has no end"
        return self._text

    def getheader(self, name: str) -> str | None:
        return self._headers.get(name)

    def __iter__(self) -> Any:
        for line in self._lines:
            if isinstance(line, Exception):
                raise line
            yield line


class Doors:
    """The connections of a client, and what each answers in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, str, str, bytes | None, dict[str, str]]] = []
        self.opened = self.closed = 0
        self.pauses: list[float] = []
        doors = self

        class Connection:
            def __init__(self, *_: Any, **__: Any) -> None:
                doors.opened += 1
                self.number = doors.opened

            def request(self, method: str, path: str, body: bytes | None = None, headers: Any = None) -> None:
                doors.asked.append((self.number, method, path, body, dict(headers)))

            def getresponse(self) -> Answer:
                answer = doors.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer  # type: ignore[no-any-return]

            def close(self) -> None:
                doors.closed += 1

        monkeypatch.setattr(http.client, "HTTPConnection", Connection)
        monkeypatch.setattr(room.time, "sleep", self.pauses.append)  # type: ignore[attr-defined]


def test_calls_have_their_routes_bodies_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    doors = Doors(monkeypatch, *[Answer(document={"messages": [1], "id": "s"}) for _ in range(10)])
    with Client("http://door:81", "glue_x") as door:
        door.publish("a/ü", {"on": 1}, retain=1)
        door.publish("a", b"\xff", idempotency_key="k")
        door.publish("a", None)
        assert door.last("a") == {"messages": [1], "id": "s"}
        history: list[Any] = door.history("a", "1h", 5)
        assert history == [1]
        door.history("a")
        door.request("q", "x", 2.5)
        door.request("q", None)
        assert door.subscribe("a", "http://10.0.0.1/", parallel=2)["id"] == "s"
        door.unsubscribe("s/1")
    token = {"authorization": "Bearer glue_x"}
    sent = [(method, path, body, headers) for _, method, path, body, headers in doors.asked]
    assert sent == [
        ("POST", "/v1/topics/a/%C3%BC?retain=1", b'{"on": 1}', {**token, **JSON}),
        ("POST", "/v1/topics/a", b"\xff",
         {**token, "idempotency-key": "k", "content-type": "application/octet-stream"}),
        ("POST", "/v1/topics/a", b"null", {**token, **JSON}),
        ("GET", "/v1/topics/a", None, token),
        ("GET", "/v1/topics/a?since=1h&limit=5", None, token),
        ("GET", "/v1/topics/a?since=10m&limit=100", None, token),
        ("POST", "/v1/requests/q?timeout=2.5", b'"x"', {**token, **JSON}),
        ("POST", "/v1/requests/q?timeout=10.0", b"null", {**token, **JSON}),
        ("POST", "/v1/subscriptions", b'{"topic": "a", "url": "http://10.0.0.1/", "parallel": 2}', {**token, **JSON}),
        ("DELETE", "/v1/subscriptions/s%2F1", None, token),
    ]  # fmt: skip
    assert (doors.opened, doors.closed) == (1, 1), "one connection is kept"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://door", ("HTTPConnection", "door", None, {"timeout": 30.0})),
        ("http://[fd00::1]:81/", ("HTTPConnection", "fd00::1", 81, {"timeout": 30.0})),
        ("https://door:444", ("HTTPSConnection", "door", 444, {"timeout": 30.0, "context": None})),
    ],
)
def test_a_client_connects_to_where_its_address_says(
    url: str, expected: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    for name in ("HTTPConnection", "HTTPSConnection"):
        monkeypatch.setattr(
            http.client, name, lambda host, port, name=name, **options: opened.append((name, host, port, options))
        )
    Client(url)._connection()
    assert opened == [expected]


def test_the_last_value_is_none_where_there_is_none_and_other_errors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Doors(monkeypatch, Answer(404, {"detail": "none"}), Answer(403, {"detail": "why"}))
    door = Client("http://door")
    assert door.last("a") is None
    with pytest.raises(DoorError, match="403: why") as caught:
        door.last("a")
    assert (caught.value.status, caught.value.reason) == (403, "why")


def test_a_call_is_repeated_once_on_a_kept_connection_unless_that_could_do_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut, fine = http.client.RemoteDisconnected("cut"), Answer(document={"messages": []})
    doors = Doors(monkeypatch, cut, fine, cut, fine, cut, fine, cut, fine, cut, cut)
    door = Client("http://door")
    with pytest.raises(ConnectionError):
        door.history("a")
    door.history("a")
    door.history("a")
    assert [number for number, *_ in doors.asked] == [1, 2, 2, 3]
    assert {asked[1:] for asked in ((*one[:4], *sorted(one[4])) for one in doors.asked)} == {
        ("GET", "/v1/topics/a?since=10m&limit=100", None),
    }  # fmt: skip
    with pytest.raises(ConnectionError):
        door.publish("a", 1)
    door.publish("a", 1, idempotency_key="k")
    with pytest.raises(ConnectionError):
        door.publish("a", 1)
    door.history("a")
    with pytest.raises(ConnectionError):
        door.publish("a", 1, idempotency_key="k")
    assert [number for number, *_ in doors.asked[4:]] == [3, 4, 4, 5, 5, 6]
    assert doors.answers == []


def line(number: int, id: str | None = None) -> bytes:
    return json.dumps({"n": number, **({} if id is None else {"id": id})}).encode() + b"\n"


def test_a_broken_stream_goes_on_behind_its_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    doors = Doors(
        monkeypatch,
        Answer(lines=[line(1, "r.1"), b"\n", line(2), OSError("cut")], x_glue_position="r.0"),
        Answer(lines=[], x_glue_position="r.7"),
        OSError("away"),
        Answer(lines=[b"{half"], x_glue_position="r.8"),
        Answer(lines=[line(3, "r.2")]),
        Answer(401, {"detail": "no"}),
    )
    door = Client("http://door", "glue_x")
    stream = door.stream("a/#", "b", since="1h")
    assert [next(stream)["n"] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(DoorError, match="401: no"):
        next(stream)
    assert doors.pauses == [1.0] * 5
    paths = [path for _, _, path, _, _ in doors.asked]
    assert paths == ["/v1/stream?topic=a%2F%23&topic=b&since=1h"] + ["/v1/stream?topic=a%2F%23&topic=b"] * 5
    assert [headers.get("last-event-id") for *_, headers in doors.asked] == [None, *["r.1"] * 4, "r.2"]
    assert all(headers["accept"] == "application/x-ndjson" for *_, headers in doors.asked)
    assert (doors.opened, doors.closed) == (6, 6)


def test_a_stream_that_brought_nothing_goes_on_at_its_position_or_with_the_last_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for retained, second in ((False, "r.5"), (True, None)):
        end = Answer(401, {"detail": "no"})
        doors = Doors(monkeypatch, Answer(lines=[OSError("cut")], x_glue_position="r.5"), end)
        with pytest.raises(DoorError):
            next(Client("http://door").stream("a", since="1h", retained=retained))
        assert [headers.get("last-event-id") for *_, headers in doors.asked] == [None, second]
        assert ["retained=1" in path for _, _, path, _, _ in doors.asked] == [retained] * 2
        assert ["since=1h" in path for _, _, path, _, _ in doors.asked] == [True, retained]
