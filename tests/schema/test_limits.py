"""How far two schemas are compared: up to a number of steps, of levels, of references and of differences."""

from __future__ import annotations

from typing import Any

import pytest

from glue.schema import differences

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def fields(count: int, last: dict[str, Any]) -> dict[str, Any]:
    """An object with so many fields, of which the last one is of this type."""
    return of(**{f"f{number}": NUMBER for number in range(count - 1)}, last=last)


def nested(depth: int, inner: dict[str, Any]) -> dict[str, Any]:
    """Lists of lists, so many levels above a value."""
    for _ in range(depth):
        inner = {"type": "array", "items": inner}
    return inner


def chain(count: int, end: dict[str, Any]) -> dict[str, Any]:
    """A schema with so many references one after the other."""
    places = {f"p{number}": {"$ref": f"#/$defs/p{number + 1}"} for number in range(1, count)}
    return {"$ref": "#/$defs/p1", "$defs": {**places, f"p{count}": end}}


def differ(make: Any, count: int) -> bool:
    return bool(differences(make(count, NUMBER), make(count, TEXT)))


def test_each_limit_is_reached_and_not_passed() -> None:
    for make, most in ((fields, 10_000 - 1), (nested, 32), (chain, 31)):
        assert [differ(make, count) for count in (1, most, most + 1)] == [True, True, False], make.__name__


def test_values_of_enumerations_and_references_count_as_steps() -> None:
    def with_enumeration(count: int, last: dict[str, Any]) -> dict[str, Any]:
        return of(one={"type": "string", "enum": ["x"] * count}, last=last)

    assert [differ(with_enumeration, count) for count in (4_998, 4_999)] == [True, False]

    def with_references(count: int, last: dict[str, Any]) -> dict[str, Any]:
        same = {f"f{number}": {"$ref": "#/$defs/n"} for number in range(count)}
        return {**of(**same, last=last), "$defs": {"n": NUMBER}}

    assert [differ(with_references, count) for count in (3_332, 3_333)] == [True, False]


def test_a_reference_has_eight_names() -> None:
    def deep(count: int, end: dict[str, Any]) -> dict[str, Any]:
        within: Any = end
        for _ in range(count - 1):
            within = {"x": within}
        return {"$ref": "#/" + "/".join("x" * count), "x": within}

    assert [differ(deep, count) for count in (2, 8, 9)] == [True, True, False]
    assert differences({"$ref": "#/x/y", "x": 7}, TEXT) == []


def test_twenty_differences_are_told() -> None:
    writer, reader = (of(**{f"f{number}": kind for number in range(30)}) for kind in (NUMBER, TEXT))
    told = differences(writer, reader)
    assert told == [f"field 'f{number}' is number there, and string here" for number in range(20)]


LONG, ALIKE = "c" * 50, {"type": "string", "enum": ["a"]}
SAID: list[tuple[Any, Any, list[str]]] = [
    (NUMBER, {"type": "integer"}, ["the value is number there, and integer here"]), ({"type": "integer"}, NUMBER, []),
    ({"oneOf": [NUMBER, TEXT]}, NUMBER, ["the value is string there, and number here"]),
    ({"oneOf": [NUMBER, TEXT]}, {"anyOf": [TEXT, NUMBER]}, []), ({"anyOf": []}, NUMBER, []), ({}, NUMBER, []),
    ({"anyOf": [TEXT]}, NUMBER, ["the value is string there, and number here"]), (NUMBER, {}, []),
    ({"enum": [1, "x"]}, {"enum": [True, "x"]}, ["the value may be 1 there, which is unknown here"]),
    ({"enum": [[1], {}]}, {"enum": [[2], {"a": 1}]}, []),
    ({"enum": ["x" * 60]}, {"enum": ["y"]}, [f"the value may be '{'x' * 39} there, which is unknown here"]),
    (TEXT, ALIKE, []), (ALIKE, TEXT, []), ({"type": "integer"}, ALIKE, ["the value is integer there, and string here"]),
    (TEXT, {**TEXT, "format": "date"}, ["the value is string there, and date here"]),
    ({**TEXT, "format": "date"}, TEXT, []), ({"type": "array"}, nested(1, NUMBER), []),
    (nested(2, NUMBER), nested(2, TEXT), ["field '[][]' is number there, and string here"]),
    (of(a=of(b=TEXT)), of(a={**of(b=NUMBER, c=NUMBER, d=NUMBER), "required": ["c", 7]}), [
        "field 'a.b' is string there, and number here", "field 'a.c' is required here, and missing there",
    ]),
    (of(), {**of(a=NUMBER), "required": "a"}, []), (of(a=7), of(a=NUMBER), []),
    (of(**{"n" * 120: TEXT}), of(**{"n" * 120: NUMBER}), [f"field '{'n' * 99} is string there, and number here"]),
    (TEXT, {"anyOf": [{"type": "a"}, {"type": "x", "format": "b"}, {"type": 7}, {"type": LONG}, {"type": "e"}]},
     [f"the value is string there, and a or b or another or {LONG[:40]} here"]),
    ({"$ref": "http://x"}, NUMBER, []), ({"$ref": 7, "type": "string"}, NUMBER, [
        "the value is string there, and number here",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader", "told"), SAID)
def test_what_is_said_of_two_schemas(writer: Any, reader: Any, told: list[str]) -> None:
    assert differences(writer, reader) == told
