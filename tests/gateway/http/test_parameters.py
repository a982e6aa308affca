"""What clients of an HTTP door may write in a query, a header and a document, and what just goes too far."""

from __future__ import annotations

import time
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import MultiDict

from glue.errors import ConfigurationError
from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import flag, number, start_time, text_of
from glue.gateway.http.sender import Sender
from glue.gateway.http.subscriptions import Subscription, changed
from glue.gateway.http.topics import acks_of, options_of, payload_of

KNOWN = Subscription("s", "t", "http://10.0.0.1/")


def request(*pairs: tuple[str, str], kind: str = "") -> Any:
    """A request with this query and content type."""
    return SimpleNamespace(query=MultiDict(pairs), content_type=kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("sent", "sent"), ("disk", "disk"), ("replicas", "replicas"), ("1", 1), ("64", 64)]
    + [(wrong, None) for wrong in ("0", "65", "064", "-1", "1.0", "", "many", "\u0663")],
)
def test_acks_are_a_word_or_a_number_of_keepers(text: str, expected: Any) -> None:
    assert acks_of(request()) is None
    if expected is not None:
        assert acks_of(request(("acks", text))) == expected
        return
    with pytest.raises(ProblemError):
        acks_of(request(("acks", text)))


def test_options_of_a_message_are_those_of_the_query() -> None:
    assert options_of(request()) == {}
    assert options_of(request(("acks", "disk"))) == {"retain": False}
    given = {"type": "state", "priority": "high", "key": "k", "reliability": "best-effort"}
    pairs = [*given.items(), ("retain", "yes"), ("lifespan", "0.001"), ("property", "a=1=2"), ("property", "b=")]
    assert options_of(request(*pairs)) == {
        **given, "retain": True, "lifespan": 0.001, "properties": {"a": "1=2", "b": ""},
    }  # fmt: skip
    for wrong in (("lifespan", "0"), ("lifespan", "1e10"), ("property", "a"), ("property", "=1"), ("retain", "maybe")):
        with pytest.raises(ProblemError):
            options_of(request(wrong))


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/json", b'{"a":1}', {"a": 1}), ("application/x+json", b"1", 1), ("text/plain", b"1", "1"),
        ("application/x-www-form-urlencoded", b"1", 1), ("application/x-www-form-urlencoded", b"on", "on"),
        ("application/octet-stream", b"1", b"1"), ("application/json", b"{", None), ("text/plain", b"\xff", None),
        ("application/x-www-form-urlencoded", b"\xff", None),
    ],
)  # fmt: skip
def test_a_body_is_what_its_type_says(kind: str, body: bytes, expected: Any) -> None:
    if expected is not None:
        assert payload_of(request(kind=kind), body) == expected
        return
    with pytest.raises(ProblemError):
        payload_of(request(kind=kind), body)


def test_flags_and_numbers_have_their_words_and_bounds() -> None:
    words = ("1", "true", "TRUE", "yes", "", "0", "false", "no")
    assert [flag(request(("f", word)), "f") for word in words] == [True] * 5 + [False] * 3
    assert not flag(request(), "f")
    assert number(request(), "n", 7.0, 9.0, 1.0) == 7.0
    assert [number(request(("n", text)), "n", 7.0, 9.0, 1.0) for text in ("1", "9", "1e0")] == [1.0, 9.0, 1.0]
    for wrong in ("0.99", "9.01", "x", "nan", "inf", ""):
        with pytest.raises(ProblemError, match="expected a number from 1 to 9") as caught:
            number(request(("n", wrong)), "n", 7.0, 9.0, 1.0)
        assert caught.value.status == 400
    assert number(request(("n", "0")), "n", 7.0, 9.0) == 0.0
    with pytest.raises(ProblemError, match=r"^f='2': expected 1 or 0$") as caught:
        flag(request(("f", "2")), "f")
    assert caught.value.status == 400
    for document, word in (({}, "is missing"), ({"a": 1}, "is no string"), ({"a": ""}, "is empty")):
        with pytest.raises(ProblemError, match=word) as caught:
            text_of(document, "a")
        assert (caught.value.status, caught.value.more) == (400, {"pointer": "/a"})
    assert text_of({"a": "b"}, "a") == "b"


def test_a_time_is_a_duration_a_date_or_unix_seconds() -> None:
    assert start_time("1700000000.5") == 1_700_000_000.5
    assert start_time("2023-11-14T22:13:20") == start_time("2023-11-14T23:13:20+01:00") == 1_700_000_000
    for text, seconds in (("10m", 600), ("2h", 7200), ("90", 90)):
        assert abs(time.time() - seconds - start_time(text)) < 60
    for beyond in ("9" * 30 + "d", "9" * 19, "9" * 400, "0001-01-01T00:00:00+14:00"):
        with pytest.raises(ProblemError, match="expected such as 10m"):
            start_time(beyond)
    assert start_time("100000001") == 100_000_001.0, "since 1973 a number is a date"
    assert start_time("100000000") < time.time() - 99_999_999
    for wrong in ("soon", "2023-13-01", "1e9", "1.7.5"):
        with pytest.raises(ProblemError, match="expected such as 10m, 2h, or a time as ISO 8601") as caught:
            start_time(wrong)
        assert caught.value.status == 400


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("parallel", [1, 64], [0, 65, True, 1.0, "1", None]),
        ("timeout", [0.1, 1, 60.0], [0.09, 60.1, True, "1", None]),
        ("give_up_after", [1e-6, 366 * 86_400, None], [0, 366 * 86_400 + 1, True, "1"]),
        ("state", ["active", "paused"], ["gone", None, 1]),
    ],
)
def test_the_members_of_a_subscription_have_bounds(name: str, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert getattr(changed(KNOWN, {name: value}, Limits()), name) == value
    for value in wrong:
        with pytest.raises(ConfigurationError, match=name):
            changed(KNOWN, {name: value}, Limits())


def test_a_server_says_when_to_come_again_in_seconds_or_by_a_date() -> None:
    sender: Any = SimpleNamespace(_unix_time=lambda: 1_700_000_000.0)
    assert Sender._retry_after(sender, None) is None
    assert [Sender._retry_after(sender, text) for text in ("0", "120", "999999999")] == [0.0, 120.0, 999_999_999.0]
    assert Sender._retry_after(sender, formatdate(1_700_000_090, usegmt=True)) == 90.0
    assert Sender._retry_after(sender, formatdate(1_600_000_000, usegmt=True)) == 0.0
    assert [Sender._retry_after(sender, text) for text in ("soon", "-1", "1.5", "", "9" * 10)] == [None] * 5
