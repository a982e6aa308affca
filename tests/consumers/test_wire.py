"""What members and homes tell each other: every limit at its value and one beyond, and the payloads as they travel."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers.position import Position
from glue.consumers.wire import check_name, consumer_of, done_entries, encode, member_of, parse, text
from glue.contract.heads import MalformedError
from glue.topics.bundle import MessageGroup
from tests.support.bounds import Limit, check_limit


def head_of(size: int) -> bytes:
    """A payload whose JSON object has so many bytes."""
    return b'{"a":"' + b"x" * (size - 8) + b'"}\n'


LIMITS: list[Limit] = [
    ("name", lambda size: consumer_of({"name": "n" * size, "pattern": "a/#"}), [1, 200], [0, 201]),
    ("name", lambda name: consumer_of({"name": name, "pattern": "a"}), ["n"], ["a/b", "+", "#", "\0", 7, None]),
    ("pattern", lambda pattern: consumer_of({"name": "n", "pattern": pattern}), ["a", "a/+"], ["", "#/a", 7, None]),
    ("member", lambda size: member_of({"member": "m" * size}), [1, 100], [0, 101]),
    ("key", lambda size: text({"key": "k" * size}, "key"), [1, 1000], [0, 1001]),
    ("rows", lambda count: done_entries({"shares": [[1, 1, 1]] * count}, "shares"), [0, 4096], [4097]),
    ("shares", lambda one: done_entries({"shares": [one]}, "shares"), [[1, 1, 1], [2, 3, 4]], [[1, 2, 1]]),
    ("integer", lambda one: done_entries({"shares": [one]}, "shares"), [], [[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
    ("no line feed", lambda size: parse(head_of(size)), [8, (1 << 20) - 1], [1 << 20]),
    ("no line feed", parse, [b"{}\n"], [b"{}", b"", b"x"]),
    ("no object", parse, [b"{}\n"], [b"[]\n", b"1\n", b"null\n"]),
    ("not JSON", parse, [b"{}\n"], [b"{\n", b"\n", b"\xff\n"]),
    ("no bundle", parse, [b"{}\n"], [b"{}\nx", b"{}\n{}"]),
    ("a JSON document", parse, [], ["{}\n", None, bytearray(b"{}\n")]),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_keeps_the_limits_is_taken_and_what_is_beyond_is_malformed(limit: Limit) -> None:
    check_limit(limit, MalformedError)


def test_payloads_are_a_line_and_perhaps_a_bundle_and_come_back() -> None:
    assert encode({"ask": "where", "name": "n"}) == b'{"ask":"where","name":"n"}\n'
    assert parse(b'{"ask":"where"}\n') == ({"ask": "where"}, [])
    groups = [MessageGroup("a/b", 3, 17, [b"x", b"y"], 1), MessageGroup("a/c", 1, 18, [b"zz"], 2)]
    head, found = parse(encode({"tell": "shares"}, groups))
    assert head == {"tell": "shares"}
    assert [(one.topic, one.sequence, one.payloads) for one in found] == [("a/b", 3, [b"x", b"y"]), ("a/c", 1, [b"zz"])]
    assert done_entries({}, "shares") == []
    assert done_entries({"shares": [[1, 2, 3], [4, 5, 5]]}, "shares") == [(1, 2, 3), (4, 5, 5)]
    assert not check_name("")


@pytest.mark.parametrize(
    ("value", "is_good"),
    [([0, []], True), ([(1 << 62) - 1, []], True), ([1 << 62, []], False), ([-1, []], False), ([0], False),
     ([0, [[1, 2]], 3], False), ([0, [[1]]], False), ([0, [[1, 2, 3]]], False), ([0, [1]], False), ([0, {}], False),
     ({}, False), ([0.0, []], False), ([0, [[2, 1 << 62]]], False), ([0, [[-1, 2]]], False)],
)  # fmt: skip
def test_positions_are_read_within_their_limits(value: Any, is_good: bool) -> None:
    if is_good:
        assert Position.decode(value).encode() == value
    else:
        with pytest.raises(ValueError, match=r"no (position|range of offsets|offset)"):
            Position.decode(value)


def test_a_position_counts_its_gaps() -> None:
    position = Position(3)
    assert [position.done(first, stop) for first, stop in ((5, 7), (9, 10), (5, 7), (1, 3), (6, 9))] == [2, 1, 0, 0, 2]
    assert (position.gaps, position.encode()) == (1, [3, [[5, 10]]])
    assert position.done(0, 5) == 2
    assert (position.gaps, position.encode(), position.next) == (0, [10, []], 10)
    position.done(12, 14)
    position.skip_to(12)
    assert position.encode() == [14, []]
