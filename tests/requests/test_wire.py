"""How requests and replies look as payloads."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from glue.contract.heads import MalformedError
from glue.requests.wire import (
    HEAD_LIMIT,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    PATH_LIMIT,
    WITHIN_LIMIT,
    Hop,
    answer_of,
    decode_body,
    decode_reply,
    decode_request,
    encode_reply,
    encode_requests,
    error_tail,
    extra_of,
    first_id,
    refusal_tail,
    tail_of,
)

PATH: tuple[Hop, ...] = (("0" * 16, "a", "ping/#"), ("1" * 16, "ü\n", "pong"))


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("path", [(), PATH])
def test_a_request_is_read_as_it_was_written(json: bool, retry: bool, path: tuple[Hop, ...]) -> None:
    tails = [tail_of(b'"one\\n"', json), tail_of(b"2", json)]
    payloads = encode_requests(7, 2.0, extra_of(retry, path), tails)
    for id, payload, body in zip((7, 8), payloads, (b'"one\\n"', b"2"), strict=True):
        head, found = decode_request(payload)
        assert found == body
        assert (head.id, head.within, head.is_json, head.is_repeatable, head.path) == (id, 2.0, json, retry, path)


def test_a_plain_request_has_thirty_bytes_of_head() -> None:
    assert encode_requests(7, 2.0, b"", [tail_of(b"x", False)]) == [b'{"id":7,"within":2000}\nx']
    assert encode_reply(7, tail_of(b"x", False)) == b'{"id":7}\nx'


def test_the_time_left_is_a_positive_number_of_milliseconds() -> None:
    for within, expected in ((0.0001, 1), (-5.0, 1), (1.5, 1500), (1e12, WITHIN_LIMIT - 1)):
        (payload,) = encode_requests(1, within, b"", [tail_of(b"", False)])
        assert decode_request(payload)[0].within == expected / 1000


@pytest.mark.parametrize("json", [False, True])
def test_a_reply_is_read_as_it_was_written(json: bool) -> None:
    head, body = decode_reply(encode_reply(3, tail_of(b"[1]", json)))
    assert (head.id, head.is_json, head.error, head.refused, body) == (3, json, "", "", b"[1]")


def test_errors_and_refusals_are_read_and_cut() -> None:
    head, _ = decode_reply(encode_reply(3, error_tail("E" * 999, 'says "x"\n\ud800' + "m" * 9999)))
    assert len(head.error) == NAME_LIMIT
    assert head.message.startswith('says "x"\n?')
    assert len(head.message) == MESSAGE_LIMIT
    assert decode_reply(encode_reply(3, refusal_tail("gone")))[0].refused == "gone"


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\n", b"x\n", b"{}\n", b"[]\n", b'{"id":1}', b'{"id":-1,"within":1}\n', b'{"id":1.0,"within":1}\n',
        b'{"id":true,"within":1}\n', b'{"id":1000000000000000,"within":1}\n', b'{"id":1,"within":0}\n',
        b'{"id":1,"within":1000000000}\n', b'{"id":1,"within":"1"}\n', b'{"id":1,"within":1,"path":1}\n',
        b'{"id":1,"within":1,"path":[["a","b"]]}\n', b'{"id":1,"within":1,"path":[["a","b",3]]}\n',
        b'{"id":1,"within":1,"path":' + orjson.dumps([["a", "b", "c"]] * (PATH_LIMIT + 1)) + b"}\n",
        b'{"id":1,"within":1' + b" " * HEAD_LIMIT + b"}\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_request(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"{}\n", b'{"id":"1"}\n', b'{"id":1,"error":2}\n', b'{"id":1,"refused":[]}\n']
)
def test_what_is_no_reply_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_reply(payload)


def test_what_was_published_as_json_is_malformed() -> None:
    for decode in (decode_request, decode_reply):
        with pytest.raises(MalformedError):
            decode({"id": 1, "within": 1})  # type: ignore[arg-type]
    with pytest.raises(MalformedError):
        decode_body(b"{", True)


def test_damage_is_malformed_or_read_and_never_anything_else() -> None:
    rng = Random(1)
    (request,) = encode_requests(71, 2.0, extra_of(True, PATH), [tail_of(b"payload", True)])
    for original in (request, encode_reply(71, error_tail("E", "m")), encode_reply(71, tail_of(b"1", True))):
        for _ in range(3000):
            damaged = bytearray(original)
            for _ in range(rng.randint(1, 3)):
                place = rng.randrange(len(damaged))
                damaged[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
            for decode in (decode_request, decode_reply):
                try:
                    decode(bytes(damaged))
                except MalformedError:
                    continue


DOCUMENT = Path(__file__).parents[2] / "docs" / "wire-format.md"
EXAMPLES = re.findall(r"```payload (request|reply)\n(.*?)\n?```", DOCUMENT.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_the_documented_payloads_are_what_is_written(kind: str, text: str) -> None:
    payload = text.encode() + (b"" if text.count("\n") else b"\n")
    if kind == "request":
        head, body = decode_request(payload)
        extra = extra_of(head.is_repeatable, head.path)
        assert encode_requests(head.id, head.within, extra, [tail_of(body, head.is_json)]) == [payload]
        return
    reply, body = decode_reply(payload)
    tail = tail_of(body, reply.is_json)
    if reply.error:
        tail = error_tail(reply.error, reply.message)
    elif reply.refused:
        tail = refusal_tail(reply.refused)
    assert encode_reply(reply.id, tail) == payload


def test_the_document_has_examples() -> None:
    assert {kind for kind, _ in EXAMPLES} == {"request", "reply"}


@pytest.mark.parametrize("payload", [b"", b"{}", b'{"id":7}', b'{"id":7}\nx', b'{"id":7,"json":1}\n1', {"id": 7}])
def test_a_short_cut_reads_answers_as_the_decoder_does(payload: Any) -> None:
    answer = answer_of(payload, 7)
    if answer is not None:
        head, body = decode_reply(payload)
        assert (head.id, answer[0]) == (7, decode_body(body, head.is_json))
        assert first_id(payload) == 7
    assert answer_of(payload, 8) is None


def test_the_short_cut_leaves_damaged_answers_to_the_decoder() -> None:
    assert answer_of(b'{"id":7,"json":1}\n{', 7) is None
    assert answer_of(b'{"id":7,"refused":"gone"}\n', 7) is None
    assert first_id(b'{"it":7}\n') == -1
