"""From an application's values to bytes: what may be published, and how it travels."""

from __future__ import annotations

import math
from typing import Any

import orjson

from glue.contract.heads import Document
from glue.errors import PayloadError

# Dataclasses and dates would travel, but arrive as something else.
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


class NeedsCodecError(Exception):
    """A payload is of a type with a codec of its own, named `codec`; only messages have codecs."""

    def __init__(self, codec: str) -> None:
        super().__init__(codec)
        self.codec = codec


def encoded(payload: Any, with_codec: bool = False) -> tuple[bytes, bool]:
    """The payload as bytes, and whether they are JSON; raises PayloadError for what is neither.

    With `with_codec`, raises NeedsCodecError, else PayloadError, if the type of the payload has a codec.

    Bytes-like objects (whatever `memoryview` takes) travel as they are. Anything else must be a JSON value: None,
    bool, int from -2**63 to 2**64 - 1, finite float, str, list (or tuple, which arrives as a list), dict with str
    keys, nested to a depth of 254. Enum members arrive as their values and UUIDs as strings, as orjson has it.
    """
    if isinstance(payload, (bytes, bytearray)):
        return bytes(payload), payload.__class__ is Document
    try:
        document = orjson.dumps(payload, option=_STRICT)
    except (TypeError, ValueError) as error:
        from glue.codecs import codec_of_type  # imported here: most programs publish bytes and JSON

        codec = codec_of_type(type(payload))
        if codec is not None and with_codec:
            raise NeedsCodecError(codec) from None
        if codec is not None:
            raise PayloadError(
                f"a {type(payload).__name__} needs the codec {codec!r}, which only messages have; "
                "send bytes or a JSON value"
            ) from None
        return _buffer(payload, error), False
    if b"null" in document and not _finite(payload):
        raise PayloadError("cannot publish NaN or an infinity: JSON has no such numbers; send None or a string")
    return document, True


def _buffer(payload: Any, error: Exception) -> bytes:
    """The bytes of a bytes-like object; PayloadError, for it is no JSON value either for that reason."""
    try:
        return bytes(memoryview(payload))
    except (TypeError, ValueError):
        raise PayloadError(
            f"cannot publish a {type(payload).__name__}: {error}; a payload is bytes-like or a JSON value"
        ) from None


def _finite(value: Any) -> bool:
    """Whether every float in a JSON value is finite (orjson writes the others as null)."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return True
