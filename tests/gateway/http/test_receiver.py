"""The other end of a webhook: what it accepts, remembers and answers."""

from __future__ import annotations

import http.client
import socket
import threading
from typing import Any

import pytest

from glue.gateway.http import webhook
from glue.gateway.http.signing import Item, headers_of, is_signed, key_of, new_secret, signature
from glue.gateway.http.webhook import SignatureError, Webhook, serve
from glue.storage import JSON, Record
from tests.gateway.http.hook import wait

SECRET = new_secret(lambda size: bytes(size))
NOW = 2e9


def delivery(number: int, topic: str = "t/ä b", life: int = 1, body: bytes = b"1", kind: str = "") -> dict[str, str]:
    """The headers of a delivery, as a door sends them."""
    properties = {"content-type": kind} if kind else {}
    record = Record(
        "a" * 16, "kü chen", life, topic, number, [body], 1e9, 0, 0 if kind else JSON, None, None, properties
    )
    return headers_of("s", [SECRET], Item(5, record, 0), body, NOW)


def test_a_delivery_describes_its_message() -> None:
    record = Record("a" * 16, "kü chen", 3, "t/ä b", 7, [b"0", b"1"], 1.5e9, 0, JSON, "type/ä")
    headers = headers_of("s", [], Item(5, record, 1), b"1", NOW + 0.9)
    assert headers.pop("webhook-id").startswith("msg_")
    assert headers == {
        "content-type": "application/json", "webhook-timestamp": "2000000000", "ce-specversion": "1.0",
        "ce-id": "3/8", "ce-source": "glue://aaaaaaaaaaaaaaaa/t%2F%C3%A4%20b", "ce-type": "type/%C3%A4",
        "ce-subject": "t/%C3%A4 b", "ce-time": "2017-07-14T02:40:00Z", "ce-gluesequence": "8", "ce-gluelife": "3",
        "ce-gluepublisher": "k%C3%BC chen",
    }  # fmt: skip
    plain = headers_of("s", [], Item(5, Record("a", "", 1, "t", 1, [b""], 0.0), 0), b"", NOW)
    assert (plain["content-type"], plain["ce-type"]) == ("application/octet-stream", "glue.message")
    assert delivery(1, kind="text/csv")["content-type"] == "text/csv"
    assert delivery(1, kind="csv")["content-type"] == "application/octet-stream"


def test_a_signature_is_right_for_five_minutes_and_among_sixteen() -> None:
    right = signature([SECRET], "m", 1_000, b"x")
    assert [is_signed([SECRET], "m", "1000", b"x", right, now) for now in (699, 700, 1_300, 1_301)] == [
        False, True, True, False,
    ]  # fmt: skip
    for wrong, expected in ((15, True), (16, False)):
        assert is_signed([SECRET], "m", "1000", b"x", "v1,no " * wrong + right, 1_000.0) == expected
    assert not is_signed([], "m", "1000", b"x", right, 1_000.0)
    assert not is_signed([SECRET], "n", "1000", b"x", right, 1_000.0)
    for size in range(70):
        try:
            assert len(key_of(new_secret(lambda _, size=size: bytes(size)))) == size  # type: ignore[misc]
            is_taken = True
        except ValueError:
            is_taken = False
        assert is_taken == (16 <= size <= 64)


def test_gaps_are_counted_by_topic_and_life_and_duplicates_known_once_they_are_done() -> None:
    hook = Webhook(SECRET, clock=lambda: NOW)
    told = []
    for number, topic, life in [
        (5, "t", 1),
        (6, "t", 1),
        (9, "t", 1),
        (7, "t", 1),
        (10, "t", 1),
        (3, "t", 2),
        (8, "u", 1),
    ]:
        event = hook.open(delivery(number, topic, life), b"1")
        told.append((event.topic, event.sequence, event.missed, event.is_duplicate))
    assert told == [
        ("t", 5, 0, False), ("t", 6, 0, False), ("t", 9, 2, False), ("t", 7, 0, False), ("t", 10, 0, False),
        ("t", 3, 0, False), ("u", 8, 0, False),
    ]  # fmt: skip
    gaps = [hook.open(delivery(number, topic), b"1").missed for number, topic in ((12, "t"), (12, "t"), (13, "t"))]
    assert gaps == [1, 1, 0], "sent again, a message has the same gap before it"
    event = hook.open({name.upper(): value for name, value in delivery(11).items()}, b"1")
    assert (event.topic, event.payload, event.publisher, event.id[:4]) == ("t/ä b", 1, "kü chen", "msg_")
    hook.done(event)
    again = hook.open(delivery(11), b"1")
    assert (again.is_duplicate, again.missed) == (True, 0)
    raw = hook.open({**delivery(12, kind="text/csv")}, b"1")
    assert (raw.payload, raw.is_duplicate) == (b"1", False)
    assert hook.open({**delivery(13), "content-type": "application/json; charset=utf-8"}, b"1").payload == 1
    for name in ("ce-gluesequence", "ce-source", "ce-gluelife", "ce-subject"):
        headers = delivery(14)
        del headers[name]
        with pytest.raises(SignatureError, match="no delivery of a glue door"):
            hook.open(headers, b"1")
    with pytest.raises(SignatureError, match="no delivery of a glue door"):
        hook.open(delivery(14, body=b"{"), b"{")
    with pytest.raises(ValueError, match="whsec_"):
        Webhook(SECRET, "short")


def test_what_a_receiver_remembers_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (webhook.REMEMBERED, webhook.STREAMS) == (100_000, 10_000), "as the page on HTTP says"
    monkeypatch.setattr(webhook, "REMEMBERED", 2)
    monkeypatch.setattr(webhook, "STREAMS", 2)
    hook = Webhook(SECRET, clock=lambda: NOW)
    for number in (1, 2, 3):
        hook.done(hook.open(delivery(number, f"t{number}"), b"1"))
    assert [hook.open(delivery(number, f"t{number}"), b"1").is_duplicate for number in (3, 2, 1)] == [True, True, False]
    for number, topic, missed in (
        (5, "a", 0),
        (2, "a", 0),
        (7, "a", 1),
        (1, "b", 0),
        (9, "a", 1),
        (1, "c", 0),
        (5, "b", 0),
    ):
        assert hook.open(delivery(number, topic), b"1").missed == missed, "the larger number counts, and b is forgotten"


def test_a_server_that_ends_waits_for_no_door_and_forgets_those_that_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook.DeliveryHandler, "timeout", 1e3)
    server = webhook.DeliveryServer(("127.0.0.1", 0), Webhook(SECRET, clock=lambda: NOW), lambda event: None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    links = [http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10) for _ in range(2)]
    for link in links:
        link.request("POST", "/", b"1", delivery(1))
        assert link.getresponse().read() == b""
    assert len(server._open) == 2
    links[0].close()
    wait(lambda: len(server._open) == 1)
    server.shutdown()
    server.server_close()
    thread.join()
    assert links[1].sock.recv(1) == b""
    links[1].close()


def test_an_answer_that_a_door_no_longer_takes_ends_its_connection() -> None:
    made: Any = webhook.DeliveryHandler.__new__(webhook.DeliveryHandler)

    def cut() -> None:
        raise ConnectionResetError

    made.close_connection, made.end_headers, made.send_response = False, cut, print
    made._answer(204)
    assert made.close_connection


@pytest.mark.parametrize(("length", "status"), [("", 411), ("11", 413), ("-1", 413), ("\u00b2", 413)])
def test_a_body_that_is_not_read_ends_its_connection(length: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "BODY_LIMIT", 10)
    with (
        serve(Webhook(SECRET), print) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as link,
        link.makefile("rb") as file,
    ):
        head = f"content-length: {length}\r\n" if length else ""
        link.sendall(f"POST / HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
        answer = file.read()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_a_server_answers_what_became_of_a_delivery(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webhook, "BODY_LIMIT", 10)
    got: list[Any] = []

    def handle(event: Any) -> None:
        got.append(event.payload)
        if event.payload == 5:
            raise KeyError("no")

    with serve(Webhook(SECRET, clock=lambda: NOW), handle) as port:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

        def post(body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
            link.putrequest("POST", "/", skip_accept_encoding=True)
            for name, value in headers.items():
                link.putheader(name, value)
            link.endheaders(body)
            answer = link.getresponse()
            answer.read()
            return answer.status, answer.getheader("content-length")

        length = {"content-length": "1"}
        assert post(b"1", {**delivery(1), **length}) == (204, None)
        assert post(b"1", {**delivery(1), **length}) == (204, None)
        assert post(b"2", {**delivery(1), **length}) == (400, "0")
        ten = b"1" + b" " * 9
        assert post(ten, {**delivery(2, body=ten), "content-length": "10"}) == (204, None)
        assert got == [1, 1]
        assert post(b"", {"content-length": "11"}) == (413, "0")
        assert post(b"", {}) == (411, "0")
        assert post(b"", {"content-length": "x"}) == (413, "0")
        assert post(b"5", {**delivery(3, body=b"5"), **length}) == (500, "0")
        link.close()
        assert post(b"5", {**delivery(3, body=b"5"), **length}) == (500, "0"), (
            "it was not handled, so it is no duplicate"
        )
        assert got == [1, 1, 5, 5]
        link.close()
    assert "KeyError" in capsys.readouterr().err
