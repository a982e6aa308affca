"""Incompatibilities of a reader with a writer, found in the two JSON Schemas, in words.

A field may be added if the reader has a default for it; the reader ignores unknown fields. The schemas may come from
the network, so depth and number of steps are bounded; the rest counts as equal.
"""

from __future__ import annotations

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
            return self._compare(writer.get("items", {}), reader.get("items", {}), f"{path}[]", depth + 1)
        if other != "object":
            wanted = reader.get("format")
            is_other = wanted is not None and writer.get("format") != wanted
            return [f"{_at(path)} is {_kind(writer)} there, and {_kind(reader)} here"] if is_other else []
        return self._compare_fields(writer, reader, path, depth)

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
                break
        return found

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
