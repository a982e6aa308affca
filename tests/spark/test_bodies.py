"""Bodies whatever a peer put into them: columns are what they should be or null, and the frame counts all the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from spark.read.bodies import Bodies
from tests.spark.test_read_limits import APPEND, VOTE

HUGE = 2**53 - 1


def held(*bodies: bytes) -> Bodies:
    sizes = np.array([*map(len, bodies)], np.int64)
    return Bodies(np.frombuffer(b"".join(bodies), np.uint8), np.cumsum(sizes) - sizes, sizes)


def column(name: str, *documents: Any) -> list[Any]:
    """The column of a block whose first frame is of another kind."""
    found = held(b"{}", *(json.dumps(document).encode() for document in documents))
    values: list[Any] = found.column(
        name, range(1, len(documents) + 1), len(documents) + 1, np.zeros(9, np.int64)
    ).to_pylist()
    assert values.pop(0) is None
    return values


@pytest.mark.parametrize(
    ("name", "key", "good", "wrong"),
    [
        ("name", "name", ["hall", ""], [7, None, ["hall"], True]),
        ("interval_ms", "interval_ms", [0, 1000, HUGE], [-1, HUGE + 1, 1.0, True, "1", None]),
        ("interest_epoch", "epoch", [0, 5], [-1, "5", None]),
        ("interest_version", "version", [0, 5], [-1, [5]]),
        ("operations", "operations", [[], ["+a", "-b"]], ["+a", [7], ["+a", 7], {"+a": 1}, None, 7]),
    ],
)
def test_an_announcement_has_what_is_as_it_should_be(name: str, key: str, good: list[Any], wrong: list[Any]) -> None:
    assert column(name, *({key: value} for value in [*good, *wrong])) == [*good, *[None] * len(wrong)]
    assert column(name, {}, [], 7, key, {"other": good[0]}) == [None] * 5
    cut = held(json.dumps({key: good[0]}).encode()[:-1], b"")
    assert cut.column(name, [0, 1], 2, np.zeros(2, np.int64)).to_pylist() == [None, None]


def test_members_are_a_list_of_ids() -> None:
    assert column("members", ["a", "b"], [], ["a", 7], [7], "ab", {"a": 1}, None) == [["a", "b"], [], *[None] * 5]


def test_a_body_that_several_columns_need_is_parsed_once() -> None:
    found = held(b'{"name":"hall"}')
    assert found.json(0) is found.json(0)


def said(*groups: tuple[dict[str, Any], list[bytes]], cut: int | None = None) -> list[tuple[Any, ...]] | None:
    """The kinds and terms of what a bundle of these groups says."""
    entries = [{"sequence": 1, "at": 0, **entry} for entry, _ in groups]
    body = json.dumps({"groups": entries}).encode() + b"\n" + b"".join(b"".join(payloads) for _, payloads in groups)
    (rows,) = held(body[:cut]).column("consensus", [0], 1, np.zeros(1, np.int64)).to_pylist()
    return rows and [(row["kind"], row["term"]) for row in rows]


MODEL = {"topic": "$glue/model/m/all"}
VOTES = [json.dumps([*VOTE[:3], term, *VOTE[4:]]).encode() for term in (3, 4, 5)]
SIZE = len(VOTES[0])
LOG = json.dumps(APPEND).encode()
ONE = ({**MODEL, "length": len(LOG)}, [LOG])


def test_messages_of_a_model_are_where_the_index_says() -> None:
    votes = [("vote?", term) for term in (3, 4, 5)]
    other = ({"topic": "other", "length": 2, "count": 3}, [b"ab"] * 3)
    assert said(ONE, ({**MODEL, "length": SIZE}, VOTES[:1])) == [("append", 4), votes[0]], "a count of one is left out"
    assert said(({**MODEL, "length": SIZE, "count": 3}, VOTES), other, ONE) == [*votes, ("append", 4)]
    assert said(other, ({**MODEL, "lengths": [0, SIZE, 0]}, VOTES[:1]), ONE) == [votes[0], ("append", 4)]
    assert said(({"topic": "other", "lengths": [2, 0, 1]}, [b"abc"]), ONE) == [("append", 4)]
    assert said(({"topic": "other", "length": 2}, [b"ab"]), ONE) == [("append", 4)]


def test_a_model_whose_index_claims_more_than_there_is_says_what_is_there() -> None:
    votes = ({**MODEL, "length": SIZE, "count": HUGE // SIZE}, VOTES)
    assert said(votes) == [("vote?", 3), ("vote?", 4), ("vote?", 5)]
    assert said(votes, ONE) == [("vote?", 3), ("vote?", 4), ("vote?", 5)]
    assert said(({**MODEL, "length": 0, "count": HUGE}, []), ONE) == [("append", 4)]
    assert said(({**MODEL, "lengths": []}, []), ONE) == [("append", 4)], "no message at all"
    assert said(({"topic": "other", "length": HUGE}, []), ONE) is None
    assert said(ONE, ({**MODEL, "length": SIZE, "count": 2}, VOTES[:2]), cut=-1) == [("append", 4), ("vote?", 3)]
