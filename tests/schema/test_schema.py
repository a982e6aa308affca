"""Types and schemas: values come back, differences are told in words, and hostile schemas cost little."""

from __future__ import annotations

import datetime
import enum
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Literal

import msgspec
import orjson
import pydantic
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from glue import ConfigurationError, PayloadError
from glue.contract import PeerInterest
from glue.contract.counters import Counters
from glue.schema import Adapter, MismatchedValueError, TypeDirectory, adapter_of, differences, type_interest


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass
class Everything:
    number: int
    name: str | None
    when: datetime.datetime
    id: uuid.UUID
    colour: Colour
    kind: Literal["a", "b"]
    points: list[Point]
    pair: tuple[int, str]
    tags: set[str]
    table: dict[str, list[int]]
    either: Point | str
    anything: Any = None
    day: datetime.date = datetime.date(2026, 11, 24)
    flags: tuple[bool, ...] = ()
    origin: Point = field(default_factory=lambda: Point(1.0))


def there_and_back(adapter: Adapter[Any], value: Any) -> Any:
    return adapter.decode(orjson.loads(bytes(adapter.encode(value))))


def test_a_dataclass_of_everything_comes_back() -> None:
    value = Everything(
        1, None, datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC), uuid.uuid4(), Colour.BLUE, "b",
        [Point(1.0, 2.0)], (1, "x"), {"t"}, {"a": [1, 2]}, Point(3.0), {"any": [None]}, flags=(True, False),
    )  # fmt: skip
    adapter = adapter_of(Everything)
    assert there_and_back(adapter, value) == value


LEAVES: list[tuple[Any, Any]] = [
    (int, st.integers(-(2**53), 2**53)), (str, st.text()), (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)), (int | None, st.none() | st.integers(0, 9)),
    (list[int], st.lists(st.integers(0, 9))), (dict[str, str], st.dictionaries(st.text(), st.text())),
]  # fmt: skip


@given(st.data())
@settings(max_examples=100)
def test_generated_dataclasses_come_back(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(range(len(LEAVES))), min_size=1, max_size=6))
    inner = make_dataclass("Inner", [(f"f{place}", LEAVES[kind][0]) for place, kind in enumerate(kinds)])
    outer = make_dataclass("Outer", [("one", inner), ("many", list[inner])])  # type: ignore[valid-type]

    def draw() -> Any:
        return inner(*[data.draw(LEAVES[kind][1]) for kind in kinds])

    value = outer(draw(), [draw(), draw()])
    assert there_and_back(adapter_of(outer), value) == value


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({}, "Point.x: required, and missing"), ({"x": "1"}, "Point.x: expected a number"),
        (7, "Point: expected an object"),
        ({"x": True}, "Point.x: expected a number"), ({"x": 1, "y": None}, "Point.y"), (b"bytes", "Point: expected"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_says_where(payload: Any, told: str) -> None:
    with pytest.raises(MismatchedValueError) as raised:
        adapter_of(Point).decode(payload)
    assert str(raised.value).startswith(told)


def test_unknown_fields_are_ignored_and_defaults_used() -> None:
    assert adapter_of(Point).decode({"x": 1, "z": 2}) == Point(1.0, 0.0)


def test_a_failing_class_is_a_mismatch() -> None:
    @dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise RuntimeError("negative")

    with pytest.raises(MismatchedValueError, match="negative"):
        adapter_of(Positive).decode({"number": -1})


@dataclass
class Unsupported:
    data: bytes


@dataclass
class Recursive:
    inner: Recursive | None = None


def test_types_that_cannot_travel() -> None:
    for kind in (Unsupported, Recursive, int, dict, 7):
        with pytest.raises(ConfigurationError):
            adapter_of(kind)  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match="expected a Point"):
        adapter_of(Point).encode("x")  # type: ignore[arg-type]


def test_the_hash_depends_on_the_schema_alone() -> None:
    like: Any = make_dataclass("Point", [("x", float), ("y", float, 0.0)])
    one, other = adapter_of(Point), adapter_of(like)
    assert one.hash == other.hash
    assert len(one.hash) == 8
    assert one.hash != adapter_of(make_dataclass("Point", [("x", int), ("y", float, 0.0)])).hash


def made(**fields: Any) -> Any:
    """A schema; a tuple is a type with a default."""
    parts = [(name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in fields.items()]
    return adapter_of(make_dataclass("Made", sorted(parts, key=len))).schema


Place: Any = make_dataclass("Place", [("x", float)])
CLOSED = {**made(a=int), "additionalProperties": False}


@pytest.mark.parametrize(
    ("writer", "reader", "told"),
    [
        (made(a=int), made(a=int), None),
        (made(a=int), made(a=float), None),
        (made(a=float), made(a=int), "field 'a' is number there, and integer here"),
        (made(a=int), made(a=int, b=(int, 0)), None),
        (made(a=int, b=int), made(a=int), None),
        (made(a=int), made(a=int, b=int), "field 'b' is required here, and missing there"),
        (made(a=int), made(a=int | None), None),
        (made(a=int | None), made(a=int), "field 'a' is null there, and integer here"),
        (made(a=list[int]), made(a=list[str]), "field 'a[]' is integer there, and string here"),
        (made(a=Point), made(a=Point), None),
        (made(a=Colour), made(a=Literal["red"]), "field 'a' may be 'blue' there, which is unknown here"),
        (made(a=datetime.date), made(a=datetime.datetime), "field 'a' is date there, and date-time here"),
        (made(a=str), made(a=int | bool), "field 'a' is string there, and integer or boolean here"),
        (made(a=tuple[int, str]), made(a=tuple[int, str]), None),
        (made(a=tuple[int, str]), made(a=tuple[int, int]), "field 'a[1]' is string there, and integer here"),
        (
            made(a=tuple[int, int, int]),
            made(a=tuple[int, int]),
            "field 'a' has a length of at least 3 there, and of at most 2 here",
        ),
        (
            made(a=tuple[int]),
            made(a=tuple[int, int]),
            "field 'a' has a length of at most 1 there, and of at least 2 here",
        ),
        (made(a=tuple[int, ...]), made(a=tuple[int, int]), None),
        (made(a=list[str]), made(a=tuple[str, int]), "field 'a[1]' is string there, and integer here"),
        (made(a=tuple[str, int]), made(a=list[str]), "field 'a[1]' is integer there, and string here"),
        (made(a=dict[str, int]), made(a=dict[str, int]), None),
        (made(a=dict[str, str]), made(a=dict[str, int]), "field 'a{}' is string there, and integer here"),
        (made(a=Place), made(a=dict[str, float]), None),
        (made(a=Place), made(a=dict[str, str]), "field 'a.x' is number there, and string here"),
        (made(a=int, b=int), CLOSED, "field 'b' is unknown here, and refused"),
        (made(a=int), CLOSED, None),
    ],
)
def test_old_and_new_schemas(writer: Any, reader: Any, told: str | None) -> None:
    assert differences(writer, reader) == ([] if told is None else [told])


def test_hostile_schemas_end_soon() -> None:
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    wide = {"type": "object", "properties": {str(number): {"type": "string"} for number in range(20_000)}}
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    fork: Any = {"type": "string"}
    for _ in range(30):
        fork = {"anyOf": [fork, fork, fork]}
    record = made(a=int, pair=tuple[int, str])
    schema: Any
    for schema in (
        deep,
        wide,
        loop,
        fork,
        7,
        None,
        [],
        {"type": []},
        {"properties": 7, "type": "object", "required": 3},
        {"type": "array", "prefixItems": 7, "minItems": "2", "maxItems": -2},
        {"type": "array", "prefixItems": [7, None], "items": 3, "minItems": -1, "maxItems": 1 << 63},
        {"type": "object", "properties": {"x": 3}, "additionalProperties": [False]},
    ):
        assert len(differences(schema, schema)) <= 20
        for reader in (record, record["properties"]["pair"]):
            assert len(differences(schema, reader)) <= 20
            assert len(differences(reader, schema)) <= 20


class Counted(list[Any]):
    """A list that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        return super().__iter__()


def test_a_costly_part_of_a_schema_is_read_few_times_however_often_it_is_referred_to() -> None:
    many = Counted(["a"] * 9_000)
    bomb = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/b"}] * 2000}}, "b": {"enum": many}}
    reader = made(a=Literal["a", "b"])
    assert differences(bomb, reader) == differences(reader, bomb) == []
    assert many.reads < 10


def test_a_long_reference_is_not_followed() -> None:
    lines = 0

    def note(*_: object) -> Any:
        nonlocal lines
        lines += 1
        return note

    bomb = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/b"}] * 10}}, "b": {"$ref": "#" + "/" * 20_000}}
    sys.settrace(note)
    differences(bomb, made(a=int))
    sys.settrace(None)
    assert lines < 5_000


def test_announced_types_are_checked_and_bounded() -> None:
    statistics = Counters()
    directory = TypeDirectory(statistics)
    good = type_interest("publish", "Point", "0123abcd", "home/#")
    bad = ["$glue/typed/publish/Point/0123abcd", "$glue/typed/other/P/0123abcd/a", "$glue/typed/publish/P/xyz/a",
           "$glue/typed/publish/P\n/0123abcd/a", "$glue/typed/publish/P/0123abcd/#/a"]  # fmt: skip
    (told,) = directory.change(PeerInterest("p", [good, good, "home/#", *bad], []))
    assert (told.label, told.pattern, told.way) == ("Point#0123abcd", "home/#", "publish")
    assert statistics["malformed types"] == len(bad)
    many = [type_interest("publish", "P", f"{number:08x}", "a") for number in range(2000)]
    assert len(directory.change(PeerInterest("p", many, []))) == 1023
    directory.change(PeerInterest("p", [], [good]))
    directory.forget("p")
    assert list(directory) == []


def test_types_of_other_libraries() -> None:
    struct = msgspec.defstruct("Struct", [("x", int), ("y", str, "z")])
    model = pydantic.create_model("Model", x=(int, ...), y=(str, "z"))
    for kind in (struct, model):
        adapter = adapter_of(kind)
        assert there_and_back(adapter, kind(x=1)) == kind(x=1, y="z")
        with pytest.raises(MismatchedValueError):
            adapter.decode({"y": "z"})
        assert differences(made(a=int), adapter.schema) == ["field 'x' is required here, and missing there"]
        assert differences(made(x=int), adapter.schema) == []


def test_protobuf_messages_travel_as_protobuf() -> None:
    adapter = adapter_of(Timestamp)
    assert adapter.decode(adapter.encode(Timestamp(seconds=7))).seconds == 7
    with pytest.raises(MismatchedValueError):
        adapter.decode(b"\xff")
    with pytest.raises(MismatchedValueError):
        adapter.decode({"seconds": 7})
