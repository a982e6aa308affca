"""Dataclasses and their fields: JSON Schema, and values made of decoded JSON.

A converter is made once for a type, and called for each message. It ignores unknown fields, uses defaults for missing
fields, and raises MismatchedValueError with the path of the first value that does not fit.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from glue.errors import ConfigurationError

DEPTH = 32
"""Levels of types within each other."""

Convert = Callable[[Any], Any]
Schema = dict[str, Any]


class MismatchedValueError(ValueError):
    """A value does not fit its type; the message says where, and what was expected."""


def described(kind: Any, where: str = "", depth: int = 0) -> tuple[Schema, Convert]:
    """The JSON Schema of a type, and its converter. Raises ConfigurationError for a type that JSON cannot carry."""
    if depth > DEPTH:
        raise ConfigurationError(f"{where}: types nest deeper than {DEPTH} levels; a type may not contain itself")
    if kind is Any or kind is object:
        return {}, _same
    if kind in _PLAIN:
        return dict(_PLAIN[kind][0]), _PLAIN[kind][1]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return described(arguments[0], where, depth)
    if origin is Union or origin is types.UnionType:
        return _union(arguments, where, depth)
    if origin is Literal:
        return {"enum": list(arguments)}, _one_of(list(arguments))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind], "title": kind.__name__}, _member_of(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, where, depth)
    if origin in (list, set, frozenset, Sequence) or kind in (list, set, frozenset):
        inner, convert = described(arguments[0] if arguments else Any, f"{where}[]", depth + 1)
        made: Any = list if origin is Sequence else origin or kind
        return {"type": "array", "items": inner}, _list_of(convert, made)
    if origin is tuple:
        return _tuple(arguments, where, depth)
    if origin in (dict, Mapping) or kind is dict:
        if arguments and arguments[0] is not str:
            raise ConfigurationError(f"{where}: {kind} has keys that are no strings, which JSON cannot carry")
        inner, convert = described(arguments[1] if arguments else Any, f"{where}{{}}", depth + 1)
        return {"type": "object", "additionalProperties": inner}, _dict_of(convert)
    raise ConfigurationError(f"{where}: a {kind!r:.80} cannot travel as JSON; use a dataclass, or convert it yourself")


def _same(value: Any) -> Any:
    return value


def _instance(expected: str, *kinds: type) -> Convert:
    def convert(value: Any) -> Any:
        if value.__class__ in kinds:
            return value
        raise MismatchedValueError(f": expected {expected}, got {_shown(value)}")

    return convert


def _number(value: Any) -> float:
    if value.__class__ is float or value.__class__ is int:
        return float(value)
    raise MismatchedValueError(f": expected a number, got {_shown(value)}")


def _parsed(expected: str, parse: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            try:
                return parse(value)
            except ValueError:
                pass
        raise MismatchedValueError(f": expected {expected}, got {_shown(value)}")

    return convert


_PLAIN: dict[Any, tuple[Schema, Convert]] = {
    int: ({"type": "integer"}, _instance("an integer", int)),
    float: ({"type": "number"}, _number),
    str: ({"type": "string"}, _instance("a string", str)),
    bool: ({"type": "boolean"}, _instance("a boolean", bool)),
    None: ({"type": "null"}, _instance("null", type(None))),
    type(None): ({"type": "null"}, _instance("null", type(None))),
    datetime.datetime: (
        {"type": "string", "format": "date-time"}, _parsed("a date and time", datetime.datetime.fromisoformat),
    ),
    datetime.date: ({"type": "string", "format": "date"}, _parsed("a date", datetime.date.fromisoformat)),
    datetime.time: ({"type": "string", "format": "time"}, _parsed("a time", datetime.time.fromisoformat)),
    uuid.UUID: ({"type": "string", "format": "uuid"}, _parsed("a UUID", uuid.UUID)),
}  # fmt: skip


def _shown(value: Any) -> str:
    return f"{value!r:.40}"


def _within(place: str, error: MismatchedValueError) -> MismatchedValueError:
    return MismatchedValueError(f"{place}{error}")


def _list_of(convert: Convert, made: Callable[[Any], Any]) -> Convert:
    def converted(value: Any) -> Any:
        if not isinstance(value, list):
            raise MismatchedValueError(f": expected a list, got {_shown(value)}")
        try:
            return made([convert(one) for one in value])
        except MismatchedValueError as error:
            raise _within("[]", error) from None

    return converted


def _tuple(arguments: Sequence[Any], where: str, depth: int) -> tuple[Schema, Convert]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner, one = described(arguments[0], f"{where}[]", depth + 1)
        return {"type": "array", "items": inner}, _list_of(one, tuple)
    parts = [described(kind, f"{where}[{place}]", depth + 1) for place, kind in enumerate(arguments)]
    count = len(parts)

    def convert(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != count:
            raise MismatchedValueError(f": expected a list of {count}, got {_shown(value)}")
        made = []
        for place, (_, make) in enumerate(parts):
            try:
                made.append(make(value[place]))
            except MismatchedValueError as error:
                raise _within(f"[{place}]", error) from None
        return tuple(made)

    schema = {"type": "array", "prefixItems": [inner for inner, _ in parts], "minItems": count, "maxItems": count}
    return schema, convert


def _dict_of(convert: Convert) -> Convert:
    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchedValueError(f": expected an object, got {_shown(value)}")
        try:
            return {key: convert(one) for key, one in value.items()}
        except MismatchedValueError as error:
            raise _within("{}", error) from None

    return converted


def _one_of(values: list[Any]) -> Convert:
    def convert(value: Any) -> Any:
        if any(value == one and value.__class__ is one.__class__ for one in values):
            return value
        raise MismatchedValueError(f": expected one of {_shown(values)}, got {_shown(value)}")

    return convert


def _member_of(kind: type[enum.Enum]) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise MismatchedValueError(f": expected a {kind.__name__}, got {_shown(value)}") from None

    return convert


def _union(arguments: Sequence[Any], where: str, depth: int) -> tuple[Schema, Convert]:
    parts = [described(kind, where, depth + 1) for kind in arguments]

    def convert(value: Any) -> Any:
        for _, make in parts:
            try:
                return make(value)
            except (TypeError, ValueError):  # also of a class that checks its fields itself
                continue
        raise MismatchedValueError(f": expected one of {len(parts)} types, got {_shown(value)}")

    return {"anyOf": [schema for schema, _ in parts]}, convert


def _dataclass(kind: type, where: str, depth: int) -> tuple[Schema, Convert]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    parts: list[tuple[str, Convert, bool]] = []
    properties: Schema = {}
    for field in fields:
        schema, convert = described(hints[field.name], f"{where or kind.__name__}.{field.name}", depth + 1)
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        properties[field.name] = schema
        parts.append((field.name, convert, not has_default))
    required = [name for name, _, is_required in parts if is_required]

    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MismatchedValueError(f": expected an object, got {_shown(value)}")
        found = {}
        for name, convert, is_required in parts:
            if name in value:
                try:
                    found[name] = convert(value[name])
                except MismatchedValueError as error:
                    raise _within(f".{name}", error) from None
            elif is_required:
                raise MismatchedValueError(f".{name}: required, and missing")
        return kind(**found)

    return {"type": "object", "title": kind.__name__, "properties": properties, "required": required}, converted
