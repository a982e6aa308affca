"""Results of messages to receivers, and payloads, as they travel."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

import glue
from glue.endpoint.receiver_partitions import _number
from glue.endpoint.receiver_payloads import answer_of, body_of, copied
from glue.endpoint.receiver_results import given_back, local_answer, result_of, settled_by
from glue.receivers.context import AgainError, Call, Mail
from glue.receivers.outbox import GIVE_UP
from glue.receivers.store import FencedError
from glue.receivers.wire import AGAIN, ANSWER, FAILED, Result


def test_what_became_of_a_message_is_a_result() -> None:
    assert result_of(1, True, AgainError("moved"), None) == Result(1, AGAIN)
    assert result_of(1, False, FencedError.of("k", 1, 2), None) == Result(1, AGAIN)
    assert result_of(1, False, ValueError("m" * 3000), None) == Result(
        1, FAILED, orjson.dumps(["ValueError", "m" * 2000]), True
    )
    assert result_of(1, False, ValueError("\ud800"), None) == Result(1, FAILED, b'["ValueError","?"]', True)
    assert result_of(1, False, None, "answer") is None
    assert result_of(1, True, None, "answer") == Result(1, ANSWER, b'"answer"', True)
    wrong = result_of(7, True, None, object())
    assert wrong is not None
    assert (wrong.seq, wrong.status, wrong.is_json, orjson.loads(wrong.body)[0]) == (7, FAILED, True, "PayloadError")


def test_a_result_becomes_an_answer_or_an_error() -> None:
    found: list[Any] = []
    take = settled_by("sum/x", lambda error, answer: found.append((type(error), str(error or ""), answer)), KeyError)
    assert take is not None
    assert settled_by("sum/x", None, KeyError) is None
    nothing = type(None)
    for result, expected in (
        (None, (KeyError, "", None)),
        (Result(1, ANSWER, b"[1]", True), (nothing, "", [1])),
        (Result(1, ANSWER, b"[1]", False), (nothing, "", b"[1]")),
        (Result(1, ANSWER, b"[1", True), (glue.RemoteError, "sum/x: MalformedError: its answer is no JSON", None)),
        (Result(1, FAILED, b'["KeyError","k"]', True), (glue.RemoteError, "sum/x: KeyError: k", None)),
        (Result(1, FAILED, b'["RequestCycleError","c"]', True), (glue.RequestCycleError, "c", None)),
        (Result(1, FAILED, b'["RequestRefusedError","r"]', True), (glue.RequestRefusedError, "r", None)),
        (Result(1, FAILED, b"[1", True), (glue.RemoteError, "sum/x: Error", None)),
        (Result(1, FAILED, b"5", True), (glue.RemoteError, "sum/x: Error", None)), (Result(1, 0), (nothing, "", None)),
    ):  # fmt: skip
        take(result)
        assert len(found) == 1
        kind, text, answer = found.pop()
        assert (kind, text, answer) == expected


def test_an_answer_of_this_program_is_as_one_from_elsewhere() -> None:
    found: list[Any] = []
    take = local_answer(lambda error, answer: found.append((error, answer)))
    take(None, (1, 2))
    take(None, b"raw")
    wrong = ValueError()
    take(wrong, None)
    assert found == [(None, [1, 2]), (None, b"raw"), (wrong, None)]
    take(None, object())
    assert isinstance(found[3][0], glue.PayloadError)
    assert found[3][1] is None


def test_what_was_not_handled_is_sent_again_as_it_was() -> None:
    assert given_back({"a": 1}, "sum/x", 10.0) == (b'{"a":1}', True, 10.0 + GIVE_UP, 0.0, (), None)
    assert given_back(Mail(b"raw"), "sum/x", 10.0)[:2] == (b"raw", False)
    settled: list[Any] = []
    call = Call([1], lambda error, answer: settled.append((error, answer)), until=12.5, path=("a/1",))
    body, is_json, until, within, path, taker = given_back(call, "sum/x", 10.0)
    assert (body, is_json, until, within, path, call.settle) == (b"[1]", True, 12.5, 2.5, ("a/1",), None)
    assert taker is not None
    taker(None)
    assert isinstance(settled[0][0], glue.RequestTimeoutError)
    assert str(settled[0][0]) == "sum/x did not answer in time"
    late = given_back(Call([1], lambda error, answer: None, until=9.0), "sum/x", 10.0)
    assert late[2:4] == (10.001, 0.001)
    told = given_back(Call([1], lambda error, answer: None, is_request=False), "sum/x", 10.0)
    assert told[2:4] == (10.0 + GIVE_UP, 0.0)


def test_payloads_travel_as_bytes_or_json() -> None:
    assert body_of(b"raw") == (b"raw", False)
    assert body_of([1, 2]) == (b"[1,2]", True)
    assert answer_of({"a": 1}) == (b'{"a":1}', True)
    value = {"a": [1]}
    assert copied(value) == value
    assert copied(value)["a"] is not value["a"]
    assert [copied(one) for one in (b"x", "t", 5, True, None, 1.5, (1,))] == [b"x", "t", 5, True, None, 1.5, [1]]
    assert copied(bytearray(b"x")) == b"x"
    with pytest.raises(glue.PayloadError):
        copied(object())


def test_records_of_partitions_have_small_numbers() -> None:
    assert [_number(f"r/owner/{text}") for text in ("0", "64", "99999")] == [0, 64, 99_999]
    assert [_number(f"r/owner/{text}") for text in ("", "-1", "100000", "\u0661", "x")] == [None] * 5
