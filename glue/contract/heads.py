"""JSON in payloads: documents that are JSON already, and the form of many payloads, a JSON object and bytes behind it.

Readers check each member that they take. A peer may send anything. Therefore all functions raise MalformedError, with a
word for what is wrong.
"""

from __future__ import annotations

from typing import Any

import orjson

from glue.contract.header import INTEGER_LIMIT


class Document(bytes):
    """An encoded JSON document, which is published as it is."""

    __slots__ = ()


class MalformedError(ValueError):
    """A payload has another form than its reader expects."""


def split(payload: Any, limit: int) -> tuple[dict[str, Any], bytes]:
    """Return the JSON object before the first line feed, within `limit` bytes, and the rest."""
    if payload.__class__ is not bytes:
        raise MalformedError("a JSON document")
    end = payload.find(b"\n", 0, limit)
    if end < 0:
        raise MalformedError("no line feed")
    head = loads(payload[:end])
    if not isinstance(head, dict):
        raise MalformedError("no object")
    return head, payload[end + 1 :]


def loads(document: bytes) -> Any:
    """Return a JSON value."""
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        raise MalformedError("not JSON") from None


def integer(value: Any, least: int = 0, most: int = INTEGER_LIMIT - 1) -> int:
    """Return an integer within bounds."""
    if value.__class__ is not int or not least <= value <= most:
        raise MalformedError("integer")
    return int(value)


def rows(value: Any, width: int, most: int) -> list[list[Any]]:
    """Return a list of at most `most` lists of one width."""
    if not isinstance(value, list) or len(value) > most:
        raise MalformedError("rows")
    if any(not isinstance(row, list) or len(row) != width for row in value):
        raise MalformedError("row")
    return value
