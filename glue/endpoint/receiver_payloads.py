"""Payloads of receivers: bytes and JSON, and values of types, which travel as JSON with the name of their type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import orjson

from glue.endpoint.encoding import encoded
from glue.errors import ConfigurationError, PayloadError
from glue.schema import Adapter, adapter_of

PLAIN_TYPES = frozenset({bytes, str, int, bool, type(None)})
"""Types whose values nobody can change, and which travel as they are."""
JSON_TYPES = frozenset({dict, list, tuple, float})
"""Types that need not be looked at whether they have a type's adapter."""
TAG = "$"
"""What the name of a type begins with: a `Set(21)` travels as {"$Set": {"target": 21}}."""


@cache
def _adapter(kind: Any) -> Adapter[Any]:
    found = adapter_of(kind)
    if found.is_coded:
        raise ConfigurationError(f"type {found.name!r}: receivers take dataclasses and other types that are JSON")
    return found


def decoders(types: Iterable[type]) -> dict[str, Callable[[Any], Any]]:
    """Return the decoders of typed messages, by names on the wire. Raises ConfigurationError."""
    found: dict[str, Callable[[Any], Any]] = {}
    for kind in types:
        adapter = _adapter(kind)
        name = TAG + adapter.name
        if name in found:
            raise ConfigurationError(f"messages: two types have the name {adapter.name!r}")
        found[name] = adapter.decode
    return found


def _is_typed(payload: Any) -> bool:
    kind = type(payload)
    return dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__") or hasattr(kind, "model_json_schema")


def body_of(payload: Any) -> tuple[bytes, bool]:
    """A payload as bytes, and whether they are JSON. Raises PayloadError."""
    if payload.__class__ is bytes:
        return payload, False
    if payload.__class__ not in JSON_TYPES and _is_typed(payload):
        return _typed_body(payload), True
    return encoded(payload)


def _typed_body(payload: Any) -> bytes:
    try:
        adapter = _adapter(payload.__class__)
    except ConfigurationError as error:
        raise PayloadError(str(error)) from None
    return orjson.dumps({TAG + adapter.name: orjson.loads(bytes(adapter.encode(payload)))})


def answer_of(value: Any) -> tuple[bytes, bool]:
    """An answer as bytes, and whether they are JSON; a value of a type is its fields. Raises PayloadError."""
    if value.__class__ not in JSON_TYPES and _is_typed(value):
        return bytes(_adapter(value.__class__).encode(value)), True
    return encoded(value)


def copied(payload: Any) -> Any:
    """A payload as it arrives elsewhere. Raises PayloadError."""
    if payload.__class__ in JSON_TYPES:
        return orjson.loads(encoded(payload)[0])
    if payload.__class__ in PLAIN_TYPES:
        return payload
    body, is_json = body_of(payload)
    return orjson.loads(body) if is_json else body
