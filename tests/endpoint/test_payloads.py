"""What may be published, that it arrives equal, and what the errors say about the rest."""

from __future__ import annotations

import collections
import datetime
import enum
import math
from array import array
from typing import Any

import numpy
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glue
from glue.endpoint.encoding import encoded
from tests.support.lan import PATIENCE, Ear, Lan, listen


class Colour(enum.StrEnum):
    RED = "red"


class Point(collections.UserDict[str, int]):
    """Looks like a dict, and is none."""


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


BYTES_LIKE = [
    b"",
    b"bytes",
    bytearray(b"array"),
    memoryview(b"view"),
    memoryview(b"every second")[::2],
    array("i", [1, 2]),
]
JSON_VALUES = [
    "", "text", "grün, 水, 🜁", "\0", 'quoted "text"\n', "null", 0, -1, 1 << 53, -(1 << 63), (1 << 64) - 1, 0.0, -0.5,
    1e300, 5e-324, True, False, None, [], {}, [1, "two", None, 3.0], {"a": {"b": [{"c": None}]}}, {"": "empty key"},
    {"ключ": "Wert"}, nested(250), list(range(10_000)), "x" * 100_000, collections.OrderedDict(a=1), Colour.RED,
]  # fmt: skip


def test_everything_arrives_in_order_and_equal(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    for payload in (*BYTES_LIKE, *JSON_VALUES):
        a.publish("t", payload)
    ear.wait(len(BYTES_LIKE) + len(JSON_VALUES))
    arrived = ear.payloads
    assert arrived == [*map(bytes, BYTES_LIKE), *JSON_VALUES]
    assert {type(payload) for payload in arrived[: len(BYTES_LIKE)]} == {bytes}
    assert [type(payload) for payload in arrived[-11:-7]] == [type(payload) for payload in JSON_VALUES[-11:-7]]


def test_booleans_integers_and_floats_keep_their_types(lan: Lan) -> None:
    a = lan.start("a")
    ear = listen(a, "t")
    a.publish_many("t", [True, 1, 1.0, -0.0, None])
    assert [repr(payload) for payload in map(_payload, ear.wait(5))] == ["True", "1", "1.0", "-0.0", "None"]


def _payload(message: glue.Message) -> Any:
    return message.payload


def test_a_tuple_arrives_as_a_list(lan: Lan) -> None:
    a = lan.start("a")
    ear = listen(a, "t")
    a.publish("t", (1, ("two",)))
    ear.wait(1)
    assert ear.payloads == [[1, ["two"]]]


def test_what_is_changed_after_publishing_arrives_as_it_was(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    buffer, value = bytearray(b"before"), ["before"]
    a.publish("t", buffer)
    a.publish("t", value)
    buffer[:] = b"after!"
    value[0] = "after"
    ear.wait(2)
    assert ear.payloads == [b"before", ["before"]]


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (math.nan, "NaN or an infinity: JSON has no such numbers"),
        (math.inf, "NaN or an infinity"),
        ([1, {"deep": [-math.inf]}], "NaN or an infinity"),
        ((None, (math.nan,)), "NaN or an infinity"),
        ({1, 2}, "cannot publish a set: .*; a payload is bytes-like or a JSON value"),
        pytest.param(object(), "cannot publish a object", id="an object"),
        (1j, "cannot publish a complex"),
        ({"a": b"bytes"}, "cannot publish a dict: .*bytes"),
        ([b"bytes"], "cannot publish a list: .*bytes"),
        ({1: "one"}, "cannot publish a dict: Dict key must be str"),
        ({None: "none"}, "Dict key must be str"),
        ("\ud800", "surrogates not allowed"),
        ({"\udfff": 1}, "surrogates not allowed"),
        (1 << 64, "Integer exceeds 64-bit range"),
        (-(1 << 63) - 1, "Integer exceeds 64-bit range"),
        (nested(300), "Recursion limit reached"),
        (datetime.datetime(2026, 1, 1), "cannot publish a datetime"),
        (Point(x=1), "cannot publish a Point"),
        (len, "cannot publish a builtin_function_or_method"),
    ],
    ids=str,
)
def test_what_is_neither_bytes_nor_json_is_refused_and_why(payload: Any, complaint: str) -> None:
    with pytest.raises(glue.PayloadError, match=complaint):
        encoded(payload)


def test_a_list_within_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(glue.PayloadError, match="Recursion limit"):
        encoded(circle)


def test_a_released_view_is_refused() -> None:
    view = memoryview(b"gone")
    view.release()
    with pytest.raises(glue.PayloadError, match="cannot publish a memoryview"):
        encoded(view)


def test_a_refused_payload_takes_nothing_with_it(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    a.publish("t", "before")
    with pytest.raises(glue.PayloadError):
        a.publish("t", math.nan)
    with pytest.raises(glue.PayloadError):
        a.publish_many("t", ["many", {1, 2}])
    a.publish("t", "after")
    ear.wait_until(lambda heard: heard[-1:] != [] and heard[-1].payload == "after")
    assert [message.sequence for message in ear.heard] == list(range(1, 1 + len(ear.heard)))
    assert ear.payloads[0] == "before"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_any_json_value_survives_encoding(value: Any) -> None:
    body, json = encoded(value)
    assert json
    assert orjson.loads(body) == value


def test_messages_are_of_any_type_at_both_ends_of_one_topic(lan: Lan) -> None:
    a, b = lan.pair()
    first, second = Ear(), Ear()
    b.subscribe("t", first)
    b.subscribe("t", second)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish_many("t", [b"\xff", "text", b"", {"a": 1}])
    for ear in (first, second):
        ear.wait(4)
        assert ear.payloads == [b"\xff", "text", b"", {"a": 1}]


def test_a_payload_that_needs_a_codec_is_refused_where_there_is_none() -> None:
    with pytest.raises(glue.PayloadError, match="a ndarray needs the codec 'numpy', which only messages have"):
        encoded(numpy.zeros(3))
