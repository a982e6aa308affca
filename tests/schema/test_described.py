"""The schema of each kind of type, what is said of a value that does not fit, and which types are refused."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal, Optional

import orjson
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.type_pb2 import Option

from glue import ConfigurationError, PayloadError
from glue.schema import MismatchedValueError, adapter_of
from glue.schema.adapters import Adapter, hash_of
from glue.schema.convert import described

np = pytest.importorskip("numpy")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)
    norm: float = field(init=False, default=1.0)


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (int, INTEGER), (float, {"type": "number"}), (str, TEXT), (bool, {"type": "boolean"}), (None, {"type": "null"}),
    (datetime.datetime, {**TEXT, "format": "date-time"}), (datetime.date, {**TEXT, "format": "date"}),
    (datetime.time, {**TEXT, "format": "time"}), (uuid.UUID, {**TEXT, "format": "uuid"}), (Any, {}), (object, {}),
    (Annotated[int, "of things"], INTEGER), (Literal["a", 1], {"enum": ["a", 1]}),
    (Colour, {"enum": ["red", "blue"], "title": "Colour"}), (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": INTEGER}), (set[int], {"type": "array", "items": INTEGER}),
    (Sequence[int], {"type": "array", "items": INTEGER}), (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, TEXT], "minItems": 2, "maxItems": 2}),
    (dict, {"type": "object", "additionalProperties": {}}),
    (Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (int | None, {"anyOf": [INTEGER, {"type": "null"}]}), (Optional[str], {"anyOf": [TEXT, {"type": "null"}]}),  # noqa: UP045
    (Point, {
        "type": "object", "title": "Point", "required": ["x"], "properties": {
            "x": {"type": "number"}, "y": {"type": "number"}, "tags": {"type": "array", "items": TEXT},
        },
    }),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "schema"), SCHEMAS)
def test_a_type_has_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert described(kind)[0] == schema


@pytest.mark.parametrize(("kind", "value", "made"), [
    (float, 7, 7.0), (set[int], [1, 1], {1}), (frozenset[int], [1], frozenset({1})), (Sequence[int], [1], [1]),
    (tuple[int, ...], [1, 2], (1, 2)), (tuple[int, str], [1, "a"], (1, "a")), (list, ["a", 1], ["a", 1]),
    (dict[str, Colour], {"a": "red"}, {"a": Colour.RED}), (int | str, "a", "a"), (Literal["a", 1], 1, 1),
    (datetime.time, "12:30", datetime.time(12, 30)), (Point, {"x": 1, "norm": 9}, Point(1.0)), (None, None, None),
])  # fmt: skip
def test_a_value_is_made_of_json(kind: Any, value: Any, made: Any) -> None:
    found = described(kind)[1](value)
    assert (found, type(found)) == (made, type(made))


def test_a_union_goes_on_to_the_next_type_when_a_class_refuses_its_own_fields() -> None:
    def check(self: Any) -> None:
        if self.x > 1.0:
            raise ValueError("a share is at most 1")

    share = make_dataclass("Share", [("x", float)], namespace={"__post_init__": check})
    convert = described(share | Point)[1]
    assert [type(convert({"x": x})) for x in (0.5, 7.0)] == [share, Point]


@pytest.mark.parametrize("made", [set, frozenset, tuple, list])
def test_a_field_of_several_values_travels_as_a_list_and_comes_back(made: Any) -> None:
    kind = make_dataclass("Tags", [("tags", made[(int, ...) if made is tuple else int])])
    adapter: Adapter[Any] = adapter_of(kind)
    payload = bytes(adapter.encode(kind(made([7]))))
    assert payload == b'{"tags":[7]}'
    assert adapter.decode(orjson.loads(payload)) == kind(made([7]))


Line = make_dataclass("Line", [("points", list[Point]), ("names", dict[str, Point])])
UNFIT: list[tuple[Any, Any, str]] = [
    (int, "x", ": expected an integer, got 'x'"), (int, True, ": expected an integer, got True"),
    (int, 1.0, ": expected an integer, got 1.0"), (float, True, ": expected a number, got True"),
    (str, 7, ": expected a string, got 7"), (bool, 1, ": expected a boolean, got 1"),
    (None, 0, ": expected null, got 0"),
    (datetime.datetime, "x", ": expected a date and time, got 'x'"), (datetime.date, 7, ": expected a date, got 7"),
    (datetime.time, "x", ": expected a time, got 'x'"), (uuid.UUID, "x", ": expected a UUID, got 'x'"),
    (list[int], 7, ": expected a list, got 7"), (list[int], [1, "x"], "[]: expected an integer, got 'x'"),
    (tuple[int, str], [1], ": expected a list of 2, got [1]"),
    (tuple[int, str], ["x", 2], "[0]: expected an integer, got 'x'"),
    (tuple[int, str], [1, 2], "[1]: expected a string, got 2"),
    (tuple[int, tuple[Point, int]], [1, [{}, 2]], "[1][0].x: required, and missing"),
    (tuple[int, ...], [1, "x"], "[]: expected an integer, got 'x'"),
    (tuple[int, str], [1, "a", 2], ": expected a list of 2, got [1, 'a', 2]"),
    (dict[str, int], 7, ": expected an object, got 7"),
    (dict[str, int], {"a": "x"}, "{}: expected an integer, got 'x'"),
    (Literal["a"], "b", ": expected one of ['a'], got 'b'"), (Literal[1], True, ": expected one of [1], got True"),
    (Colour, "green", ": expected a Colour, got 'green'"), (int | None, "x", ": expected one of 2 types, got 'x'"),
    (int, "x" * 60, f": expected an integer, got '{'x' * 39}"), (Point, [], ": expected an object, got []"),
    (Line, {"points": [{}]}, ".points[].x: required, and missing"),
    (Line, {"points": [], "names": {"a": {"x": "1"}}}, ".names{}.x: expected a number, got '1'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "told"), UNFIT)
def test_a_value_that_does_not_fit_is_told_with_its_place(kind: Any, value: Any, told: str) -> None:
    with pytest.raises(MismatchedValueError) as raised:
        described(kind)[1](value)
    assert str(raised.value) == told


@pytest.mark.parametrize("around", [
    lambda kind: list[kind], lambda kind: tuple[kind, ...], lambda kind: tuple[kind], lambda kind: dict[str, kind],  # type: ignore[valid-type]
    lambda kind: make_dataclass("D", [("a", kind)]),
])  # fmt: skip
def test_types_nest_32_levels_deep(around: Any) -> None:
    kind: Any = int
    for _ in range(32):
        kind = around(kind)
    described(kind)
    with pytest.raises(ConfigurationError, match="types nest deeper than 32 levels; a type may not contain itself"):
        described(around(kind))


@pytest.mark.parametrize(("kind", "told"), [
    (bytes, "Bad.a: a <class 'bytes'> cannot travel as JSON; use a dataclass, or convert it yourself"),
    (list[bytes], r"Bad.a\[\]: a <class"), (tuple[bytes, ...], r"Bad.a\[\]: a <class"),
    (tuple[int, bytes], r"Bad.a\[1\]: a <class"), (dict[str, bytes], r"Bad.a{}: a <class"),
    (int | bytes, "Bad.a: a <class"), (dict[int, str], r"Bad.a: dict\[int, str\] has keys that are no strings"),
    (make_dataclass("Inner", [("b", bytes)]), "Bad.a.b: a <class"),
])  # fmt: skip
def test_a_type_that_cannot_travel_is_named_by_its_place(kind: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{told}"):
        adapter_of(make_dataclass("Bad", [("a", kind)]))


# ---------------------------------------------------------------------------------------------- adapters


def test_a_name_and_a_schema_have_limits() -> None:
    def of_size(more: int) -> Any:
        return make_dataclass("Sized", [("a", Literal["x" * more])])

    room = (64 << 10) - len(adapter_of(of_size(1)).document) + 1
    assert len(adapter_of(of_size(room)).document) == 64 << 10
    with pytest.raises(ConfigurationError, match=r"^type 'Sized': its schema has more than 65536 bytes$"):
        adapter_of(of_size(room + 1))
    named: Any = adapter_of(make_dataclass("n" * 128, [("a", int)]))
    assert named.label == f"{'n' * 128}#{named.hash}"
    with pytest.raises(ConfigurationError, match="expected a name of 1 to 128 ASCII letters and digits"):
        adapter_of(make_dataclass("n" * 129, [("a", int)]))
    assert named.hash == hash_of(b'{"properties":{"a":{"type":"integer"}},"required":["a"],"title":"%b",'
                                 b'"type":"object"}' % (b"n" * 128))  # fmt: skip


def test_what_a_type_does_not_encode_is_told() -> None:
    adapter = adapter_of(Point)
    assert not adapter.is_coded
    with pytest.raises(PayloadError, match=r"^expected a Point, got 'x'$"):
        adapter.encode("x")  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match=r"^cannot encode Point\(x=1j, .*Type is not JSON serializable: complex$"):
        adapter.encode(Point(1j))  # type: ignore[arg-type]
    tagged: Any = Point(1.0, tags={"a"})  # type: ignore[arg-type]
    assert bytes(adapter.encode(tagged)) == b'{"x":1.0,"y":0.0,"tags":["a"]}'


def test_what_a_class_raises_is_told_in_500_characters() -> None:
    @dataclass
    class Picky:
        number: int

        def __post_init__(self) -> None:
            raise RuntimeError("x" * 1_000)

    with pytest.raises(MismatchedValueError) as raised:
        adapter_of(Picky).decode({"number": 1})
    assert str(raised.value) == f"Picky: {'x' * 493}"


def test_messages_of_protobuf_have_a_schema_with_their_numbers() -> None:
    def schema(kind: Any) -> Any:
        adapter = adapter_of(kind)
        assert adapter.is_coded
        return adapter.schema

    stamp = {"seconds": {**INTEGER, "number": 1}, "nanos": {**INTEGER, "number": 2}}
    assert schema(Timestamp) == {"type": "object", "title": "Timestamp", "properties": stamp, "required": []}
    assert schema(FieldMask)["properties"] == {"paths": {"type": "array", "items": TEXT, "number": 1}}
    inner = {"type_url": {**TEXT, "number": 1}, "value": {**TEXT, "number": 2}}
    assert schema(Option)["properties"] == {
        "name": {**TEXT, "number": 1},
        "value": {"type": "object", "title": "Any", "properties": inner, "required": [], "number": 2},
    }
    adapter = adapter_of(Timestamp)
    assert adapter.encode(Timestamp(seconds=7)) == b"\x08\x07"
    with pytest.raises(MismatchedValueError, match=r"^Timestamp: expected bytes of protobuf$"):
        adapter.decode({"seconds": 7})
    with pytest.raises(MismatchedValueError, match=r"^Timestamp: "):
        adapter.decode(b"\xff")


def test_arrays_are_a_type_of_their_own() -> None:
    adapter: Any = adapter_of(np.ndarray)
    assert (adapter.name, adapter.schema, adapter.is_coded) == ("ndarray", {"title": "numpy.ndarray"}, True)
    array = np.zeros(2)
    assert adapter.encode(array) is adapter.decode(array) is array
    with pytest.raises(MismatchedValueError, match=r"^ndarray: expected an array, got a int$"):
        adapter.decode(7)
    with pytest.raises(
        ConfigurationError, match=r"^type <class 'int'>: expected a dataclass, msgspec.Struct, pydantic"
    ):
        adapter_of(int)
