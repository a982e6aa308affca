"""Adapters between a program's types and payloads: dataclasses, msgspec, pydantic, protobuf and numpy.

Only dataclasses need no library. The others are recognized by what the class has; nothing is imported but what defines
the class, except for msgspec.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import orjson

from glue.contract.hashing import blake2s
from glue.contract.heads import Document
from glue.errors import ConfigurationError, PayloadError
from glue.schema.announced import NAME
from glue.schema.convert import DEPTH, MismatchedValueError, Schema, described

T = TypeVar("T")

SCHEMA_LIMIT: Final = 64 << 10
"""Bytes of a schema as JSON."""


class Adapter(Generic[T]):
    """One type: `name`, `schema` and `hash`, and the conversion of values to payloads and back."""

    def __init__(
        self,
        kind: type[T],
        schema: Schema,
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
        is_coded: bool = False,
    ) -> None:
        """`encode` returns what `publish` takes, or a Document. `decode` gets a payload, and may raise Exceptions."""
        self.kind = kind
        self.name = getattr(kind, "__name__", str(kind))
        if not NAME.fullmatch(self.name):
            raise ConfigurationError(f"type {self.name!r:.80}: expected a name of 1 to 128 ASCII letters and digits")
        self.schema = schema
        self.document = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
        if len(self.document) > SCHEMA_LIMIT:
            raise ConfigurationError(f"type {self.name!r}: its schema has more than {SCHEMA_LIMIT} bytes")
        self.hash = hash_of(self.document)
        self.is_coded = is_coded
        """Whether its payloads are no JSON, so that no other codec can be chosen."""
        self._encode = encode
        self._decode = decode

    @property
    def label(self) -> str:
        """Name and hash, as in `Temperature#1a2b3c4d`."""
        return f"{self.name}#{self.hash}"

    def encode(self, value: T) -> Any:
        """Return the payload for a value. Raises PayloadError."""
        if not isinstance(value, self.kind):
            raise PayloadError(f"expected a {self.name}, got {value!r:.80}")
        try:
            return self._encode(value)
        except Exception as error:  # the type's own affair
            raise PayloadError(f"cannot encode {value!r:.80}: {error}") from error

    def decode(self, payload: Any) -> T:
        """The value of a payload. Raises MismatchedValueError."""
        try:
            return self._decode(payload)
        except MismatchedValueError as error:
            raise MismatchedValueError(f"{self.name}{error}") from None
        except Exception as error:  # what a library or a class raises
            raise MismatchedValueError(f"{self.name}: {error}"[:500]) from None


def hash_of(document: bytes) -> str:
    """The hash of a canonical schema: 8 hexadecimal digits."""
    return blake2s(document, digest_size=4).hexdigest()


def adapter_of(kind: type[T]) -> Adapter[T]:
    """The adapter of a type. Raises ConfigurationError for a type without one."""
    base: Any = kind
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        schema, convert = described(kind)
        return Adapter(kind, schema, _dumped, convert)
    if hasattr(kind, "__struct_fields__"):
        return _of_msgspec(base)
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        schema = base.model_json_schema()
        return Adapter(base, schema, lambda value: Document(value.model_dump_json().encode()), base.model_validate)
    if hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializeToString"):
        return Adapter(base, _protobuf_schema(base.DESCRIPTOR), _serialized, _parsed_by(base), True)
    if (getattr(kind, "__module__", ""), getattr(kind, "__name__", "")) == ("numpy", "ndarray"):
        return Adapter(base, {"title": "numpy.ndarray"}, lambda value: value, _instance_of(base), True)
    raise ConfigurationError(
        f"type {kind!r:.80}: expected a dataclass, msgspec.Struct, pydantic model, protobuf message or numpy.ndarray"
    )


def _dumped(value: Any) -> Document:
    return Document(orjson.dumps(value, default=_listed))


def _listed(value: Any) -> Any:
    """A set as a list, since JSON has none."""
    if isinstance(value, (set, frozenset)):
        return [*value]
    raise TypeError(f"a {type(value).__name__} cannot travel as JSON")


def _of_msgspec(kind: Any) -> Adapter[Any]:
    import msgspec  # it defines the class

    schema = msgspec.json.schema(kind)
    return Adapter(
        kind, schema, lambda value: Document(msgspec.json.encode(value)), lambda payload: msgspec.convert(payload, kind)
    )


def _serialized(value: Any) -> bytes:
    data: bytes = value.SerializeToString()
    return data


def _parsed_by(kind: Any) -> Callable[[Any], Any]:
    def parse(payload: Any) -> Any:
        if payload.__class__ is not bytes:
            raise MismatchedValueError(": expected bytes of protobuf")
        message = kind()
        message.ParseFromString(payload)
        return message

    return parse


def _instance_of(kind: type) -> Callable[[Any], Any]:
    def check(payload: Any) -> Any:
        if isinstance(payload, kind):
            return payload
        raise MismatchedValueError(f": expected an array, got a {type(payload).__name__}")

    return check


_PROTOBUF: Final = {
    1: "number", 2: "number", 3: "integer", 4: "integer", 5: "integer", 6: "integer", 7: "integer", 8: "boolean",
    9: "string", 12: "string", 13: "integer", 14: "integer", 15: "integer", 16: "integer", 17: "integer",
    18: "integer",
}  # fmt: skip
"""JSON types of the field types of descriptor.proto; 10 and 11 are messages."""


def _protobuf_schema(descriptor: Any, depth: int = 0) -> Schema:
    """The fields of a message. Protobuf has no required fields."""
    if depth > DEPTH:
        return {}
    properties: Schema = {}
    for field in descriptor.fields:
        inner: Schema
        if field.type in (10, 11):
            inner = _protobuf_schema(field.message_type, depth + 1)
        else:
            inner = {"type": _PROTOBUF[field.type]}
        is_list = getattr(field, "is_repeated", None)
        if is_list is None:
            is_list = field.label == 3
        properties[field.name] = {**({"type": "array", "items": inner} if is_list else inner), "number": field.number}
    return {"type": "object", "title": descriptor.name, "properties": properties, "required": []}
