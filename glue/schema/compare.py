"""Incompatibilities of a reader with a writer, found in the two JSON Schemas, in words.

A field may be added if the reader has a default for it; the reader ignores unknown fields. The schemas may come from
the network, so depth and number of steps are bounded; the rest counts as equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, repeat
from math import inf
from typing import Any, Final

DEPTH: Final = 32
STEPS: Final = 10_000
"""Comparisons of two parts; a reference that is followed counts as one, and so does each value of an enumeration."""
PARTS: Final = 8
"""Names in a reference, such as the two of `#/$defs/Place`."""
DIFFERENCES: Final = 20
"""Differences that are told."""


def differences(writer: Any, reader: Any) -> list[str]:
    """Why values of the writer's type do not fit the reader's; empty if they do."""
    return _Comparison(writer, reader).found()


class _Comparison:
    def __init__(self, writer: Any, reader: Any) -> None:
        self._writer, self._reader = writer, reader
        self._steps = 0

    def found(self) -> list[str]:
        """The differences."""
        return self._compare(self._writer, self._reader, "", 0)[:DIFFERENCES]

    def _compare(self, writer: Any, reader: Any, path: str, depth: int) -> list[str]:
        self._steps += 1
        if depth > DEPTH or self._steps > STEPS:
            return []
        writer, reader = self._resolved(writer, self._writer), self._resolved(reader, self._reader)
        if not isinstance(writer, dict) or not isinstance(reader, dict) or not reader or not writer:
            return []
        for one in _alternatives(writer):
            if one is not writer:
                found = self._compare(one, reader, path, depth + 1)
                if found:
                    return found
        if len(_alternatives(writer)) > 1:
            return []
        choices = _alternatives(reader)
        if len(choices) > 1:
            tried = [self._compare(writer, one, path, depth + 1) for one in choices]
            return [] if [] in tried else [f"{_at(path)} is {_kind(writer)} there, and {_kind(reader)} here"]
        return self._compare_types(writer, reader, path, depth)

    def _compare_types(self, writer: dict[str, Any], reader: dict[str, Any], path: str, depth: int) -> list[str]:
        known = reader.get("enum")
        if isinstance(known, list):
            written = writer.get("enum")
            if isinstance(written, list):
                self._steps += len(written) + len(known)
                read = {_plain(one) for one in known}
                more = [one for one in written if _plain(one) not in read]
                return [f"{_at(path)} may be {more[0]!r:.40} there, which is unknown here"] if more else []
        one, other = writer.get("type"), reader.get("type")
        if one is None or other is None:
            return []
        if one != other and not (one == "integer" and other == "number"):
            return [f"{_at(path)} is {_kind(writer)} there, and {_kind(reader)} here"]
        if other == "array":
            return self._compare_lists(writer, reader, path, depth)
        if other != "object":
            wanted = reader.get("format")
            is_other = wanted is not None and writer.get("format") != wanted
            return [f"{_at(path)} is {_kind(writer)} there, and {_kind(reader)} here"] if is_other else []
        return self._compare_fields(writer, reader, path, depth)

    def _compare_lists(self, writer: dict[str, Any], reader: dict[str, Any], path: str, depth: int) -> list[str]:
        """Compare the places that have schemas of their own, as in a tuple, and then all that follow."""
        (fewest, most), (least, room) = _lengths(writer), _lengths(reader)
        if fewest > room:
            return [f"{_at(path)} has a length of at least {fewest} there, and of at most {room} here"]
        if most < least:
            return [f"{_at(path)} has a length of at most {most} there, and of at least {least} here"]
        longest = min(most, room)
        count = int(min(max(len(_places(writer)), len(_places(reader))), longest, STEPS))
        found: list[str] = []
        for place, (one, other) in enumerate(zip(_values(writer, count), _values(reader, count), strict=True)):
            if place >= longest or len(found) >= DIFFERENCES:
                break
            found += self._compare(one, other, f"{path}[{place if place < count else ''}]", depth + 1)
        return found

    def _compare_fields(self, writer: dict[str, Any], reader: dict[str, Any], path: str, depth: int) -> list[str]:
        found: list[str] = []
        here, there = _object(reader.get("properties")), _object(writer.get("properties"))
        needed = _names(reader.get("required"))
        for name, wanted in here.items():
            place = f"{path}.{name}" if path else name
            if name in there:
                found += self._compare(there[name], wanted, place, depth + 1)
            elif name in needed:
                found.append(f"{_at(place)} is required here, and missing there")
            if len(found) >= DIFFERENCES:
                return found
        return found + self._compare_others(writer, reader, path, depth)

    def _compare_others(self, writer: dict[str, Any], reader: dict[str, Any], path: str, depth: int) -> list[str]:
        """Compare the fields that the reader does not name with its schema for them, if it has one."""
        others = reader.get("additionalProperties")
        if others is not False and not isinstance(others, dict):
            return []
        here, there = _object(reader.get("properties")), _object(writer.get("properties"))
        found: list[str] = []
        for name in [name for name in there if name not in here]:
            place = f"{path}.{name}" if path else name
            if others is False:
                found.append(f"{_at(place)} is unknown here, and refused")
            else:
                found += self._compare(there[name], others, place, depth + 1)
            if len(found) >= DIFFERENCES:
                break
        return found + self._compare(writer.get("additionalProperties"), others, f"{path}{{}}", depth + 1)

    def _resolved(self, schema: Any, root: Any) -> Any:
        """A schema without a reference at its top; references within the document only."""
        for _ in range(DEPTH):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                return schema
            self._steps += 1
            parts = reference[2:].split("/", PARTS)
            if len(parts) > PARTS:
                return {}
            schema = root
            for part in parts:
                schema = schema.get(part) if isinstance(schema, dict) else None
        return {}


def _alternatives(schema: dict[str, Any]) -> list[Any]:
    found = schema.get("anyOf", schema.get("oneOf"))
    return found if isinstance(found, list) and found else [schema]


def _places(schema: dict[str, Any]) -> list[Any]:
    """The schemas of the first values of a list, where they have their own."""
    found = schema.get("prefixItems")
    return found if isinstance(found, list) else []


def _values(schema: dict[str, Any], count: int) -> Iterator[Any]:
    """The schemas of the first `count` values of a list, and that of all others."""
    return islice(chain(_places(schema)[:count], repeat(schema.get("items", {}))), count + 1)


def _lengths(schema: dict[str, Any]) -> tuple[float, float]:
    """How many values a list has at least, and at most."""
    least, most = schema.get("minItems"), schema.get("maxItems")
    return least if isinstance(least, int) else 0, max(most, 0) if isinstance(most, int) else inf


def _plain(value: Any) -> Any:
    """Return a key that is equal for equal values of an enumeration; all lists are equal, and all objects."""
    return (value.__class__, value) if isinstance(value, (str, int, float)) else value.__class__


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> set[str]:
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _at(path: str) -> str:
    return f"field {path!r:.100}" if path else "the value"


def _kind(schema: dict[str, Any]) -> str:
    kinds = [one.get("format", one.get("type")) for one in _alternatives(schema)[:4] if isinstance(one, dict)]
    return " or ".join(one[:40] if isinstance(one, str) else "another" for one in kinds)
