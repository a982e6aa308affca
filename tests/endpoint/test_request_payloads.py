"""Payloads and timeouts of requests, and which of their topics need not be checked again."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.endpoint.requests import Requests, check_timeout, tail, tails
from glue.requests.wire import tail_of


def test_payloads_of_requests_are_encoded_and_bounded() -> None:
    assert tails([b"a", b"b"], 1, "a request") == [b"}\na", b"}\nb"]
    assert tails([b"a", [1]], 3, "a request") == [tail_of(b"a", False), tail_of(b"[1]", True)]
    assert tails([], 3, "a request") == []
    for payloads in ([b"abcd"], [b"a", "abcd"]):
        with pytest.raises(glue.MessageTooLargeError, match=r"^a request of [46] bytes; message_limit is 3$"):
            tails(payloads, 3, "a request")
    assert tail(b"abc", 3, "an answer") == tail_of(b"abc", False)


@pytest.mark.parametrize("timeout", [0, -1, True, "1", None, float("inf"), float("nan")])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(glue.ConfigurationError) as caught:
        check_timeout(timeout)
    assert str(caught.value) == f"timeout={timeout!r}: expected a positive number of seconds"


def test_a_timeout_has_a_limit() -> None:
    check_timeout(999_999.9)
    with pytest.raises(glue.ConfigurationError, match=r"^timeout=1000000: expected less than 1000000 seconds$"):
        check_timeout(1_000_000)


def test_of_many_payloads_each_has_to_fit() -> None:
    fitting: list[list[Any]] = [[b"abc", b"a"], [b"a", b"abc"], [b"abc", [1]]]
    too_large: list[list[Any]] = [[b"abcd", b"a"], [b"a", b"abcd"], ["abc", b"a"]]
    for payloads in fitting:
        found = tails(payloads, 3, "a request")
        assert len(found) == 2
    for payloads in too_large:
        with pytest.raises(glue.MessageTooLargeError):
            tails(payloads, 3, "a request")


def test_4096_topics_of_256_characters_need_not_be_checked_again() -> None:
    identity: Any = SimpleNamespace(endpoint_id="a" * 16, name="a", incarnation=7)
    requests = Requests(identity, {}, Counter())
    for topic in ("t" * 257, "t" * 256):
        requests.note_checked(topic)
    assert requests.checked == {"t" * 256}
    for number in range(4095):
        requests.note_checked(f"{number}")
    assert len(requests.checked) == 4096
    requests.note_checked("t")
    assert requests.checked == {"t"}
