"""Optional metadata of a message: properties, and the codec of the payload.

Most messages have neither. Then there is no object, and nothing on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from glue.contract.frozen import Frozen

PROPERTIES: Final = 64
"""Properties of a message at most."""

PROPERTIES_SIZE: Final = 8192
"""Bytes of UTF-8 in the names and values of all properties of a message."""

CODEC_LIMIT: Final = 2**16 - 1
"""The largest number of a codec."""

CODEC_NAME_LIMIT: Final = 64
"""Bytes of UTF-8 in the name of a codec."""

DELAYED: Final = "$delayed"
"""The property with the identity of a delayed message, so that a second copy is known; programs cannot set it."""

NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
"""The properties of a message that has none."""

MEMORY_CODECS: Final[frozenset[int]] = frozenset({3, 4, 5})
"""Codecs of arrays and tables, whose values lie in the memory of the payload."""

CodecTag = int | str
"""A codec on the wire: a number for glue's own codecs, a name for those of programs."""


class Metadata(Frozen):
    """The properties of messages (None: none), and the codec of their payloads (None: bytes or JSON)."""

    properties: Mapping[str, str] | None = None
    codec: CodecTag | None = None

    @property
    def size(self) -> int:
        """Bytes that the properties take."""
        return properties_size(self.properties) if self.properties else 0


def properties_size(properties: Mapping[str, str]) -> int:
    """Bytes of UTF-8 in names and values. Raises UnicodeEncodeError for a lone surrogate."""
    return sum([len(name.encode()) + len(value.encode()) for name, value in properties.items()])


def fault_of_properties(properties: Any) -> str:
    """Describe the mistake in properties; "" for well-formed properties."""
    if not isinstance(properties, Mapping):
        return "expected a mapping of strings to strings"
    if len(properties) > PROPERTIES:
        return f"{len(properties)} properties; expected at most {PROPERTIES}"
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            return f"{name!r:.80}: {value!r:.80}; expected strings"
        if not name:
            return "the name of a property is empty"
    try:
        size = properties_size(properties)
    except UnicodeEncodeError:
        return "a lone surrogate is no Unicode"
    return f"{size} bytes; expected at most {PROPERTIES_SIZE}" if size > PROPERTIES_SIZE else ""


def is_codec(tag: Any) -> bool:
    """Whether this can stand for a codec on the wire."""
    if tag.__class__ is int:
        return 1 <= int(tag) <= CODEC_LIMIT
    if tag.__class__ is not str or not tag:
        return False
    try:
        return len(tag.encode()) <= CODEC_NAME_LIMIT
    except UnicodeEncodeError:
        return False
