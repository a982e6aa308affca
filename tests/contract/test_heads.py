"""Payloads of a JSON object and bytes: each limit at its value and one beyond, and what is no such payload."""

from __future__ import annotations

import pytest

from glue.contract.heads import MalformedError, integer, loads, rows, split
from tests.support.bounds import Limit, check_limit

GREATEST = (1 << 53) - 1


def head_of(size: int) -> bytes:
    """A payload whose JSON object has so many bytes."""
    return b'{"a":"' + b"x" * (size - 8) + b'"}\n'


LIMITS: list[Limit] = [
    ("integer", integer, [0, 1, GREATEST], [-1, GREATEST + 1, True, 1.0, "1", None]),
    ("integer", lambda value: integer(value, 2), [2], [1]),
    ("integer", lambda value: integer(value, -3, 3), [-3, 0, 3], [-4, 4]),
    ("rows", lambda count: rows([[1]] * count, 1, 9), [0, 9], [10]),
    ("row", lambda width: rows([[1] * 5, [1] * width], 5, 9), [5], [0, 4, 6]),
    ("rows", lambda value: rows(value, 1, 9), [[[1]], []], [{}, "x", None]),
    ("row", lambda value: rows(value, 1, 9), [[["x"]]], [[1], ["x"], [{"a": 1}]]),
    ("no line feed", lambda size: split(head_of(size), 1000), [8, 999], [1000]),
    ("no line feed", lambda payload: split(payload, 1000), [b"{}\n"], [b"{}", b"", b"x"]),
    ("no object", lambda payload: split(payload, 1000), [b"{}\n"], [b"[]\n", b"1\n", b"null\n"]),
    ("not JSON", lambda payload: split(payload, 1000), [b"{}\n"], [b"{\n", b"\n", b"\xff\n", b"[" * 900 + b"\n"]),
    ("a JSON document", lambda payload: split(payload, 1000), [b"{}\n"], ["{}\n", None, bytearray(b"{}\n")]),
    ("not JSON", loads, [b"[]", b"1"], [b"", b"{"]),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


def test_a_payload_is_an_object_and_what_is_behind_its_line() -> None:
    assert split(b'{"a":[1]}\nx\ny', 100) == ({"a": [1]}, b"x\ny")
    assert split(b"{}\n", 3) == ({}, b"")
    assert rows([[1, "a"], [2, None]], 2, 2) == [[1, "a"], [2, None]]
    assert integer(7) == 7
