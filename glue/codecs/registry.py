"""The codecs known to this program: glue's own by number, registered ones by name.

The number or name travels with the messages. Nothing is imported before a codec is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, cast

from glue.errors import ConfigurationError, GlueError, MissingExtraError

NAME_LIMIT: Final = 64
"""Bytes of a codec's name: it travels with each group of messages."""

GROUP: Final = "glue.codecs"
"""The entry point group in which an installed package offers codecs."""


class Codec(Protocol):
    """Turns values into bytes and back. Both functions may be called by several threads at once."""

    @property
    def name(self) -> str:
        """The name by which programs choose the codec; it is the same at both ends."""

    def encode(self, value: Any) -> bytes | bytearray | memoryview:
        """Encode a value. The result must not change later. What it raises becomes a PayloadError."""

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode bytes from the network, which may be malformed: then raise any Exception, and do nothing else."""


class UnknownCodecError(GlueError, LookupError):
    """No codec has this name or number here. The message says what to install or to register."""


class _BuiltIn:
    def __init__(self, name: str, module: str, package: str, extra: str) -> None:
        self.name, self.module, self.package, self.extra = name, module, package, extra


BUILT_IN: Final = {
    1: _BuiltIn("msgpack", "glue.codecs.msgpack", "msgpack", "codecs"),
    2: _BuiltIn("cbor", "glue.codecs.cbor", "cbor2", "codecs"),
    3: _BuiltIn("numpy", "glue.codecs.arrays", "numpy", "numpy"),
    4: _BuiltIn("arrow", "glue.codecs.arrow", "pyarrow", "arrow"),
    5: _BuiltIn("arrow-table", "glue.codecs.arrow", "pyarrow", "arrow"),
}
"""glue's own codecs by their number on the wire. A number is never used again for another codec."""

TYPES: Final = {
    ("numpy", "ndarray"): "numpy",
    ("pyarrow.lib", "RecordBatch"): "arrow",
    ("pyarrow.lib", "Table"): "arrow-table",
}
"""Payload types, by module and name, that choose their codec."""

_NUMBERS: Final = {one.name: number for number, one in BUILT_IN.items()}
UNKNOWN_LIMIT: Final = 256
"""Names of unknown codecs in received messages that are remembered: to look for one takes milliseconds."""

_loaded: dict[str, Codec] = {}
_unknown: set[str] = set()
_types: dict[type, str] = {}


def register(codec: Codec, *types: type) -> None:
    """Make a codec known to this program; payloads of these `types` use it without being told.

    Another codec of the same name is replaced. Raises ConfigurationError for an object that is no codec, a name that is
    too long, or a name of glue's own codecs.
    """
    name = getattr(codec, "name", None)
    if not isinstance(name, str) or not 1 <= len(name.encode("utf-8", "replace")) <= NAME_LIMIT:
        raise ConfigurationError(f"codec {codec!r:.80}: its name is {name!r:.80}; expected 1 to {NAME_LIMIT} bytes")
    for function in ("encode", "decode"):
        if not callable(getattr(codec, function, None)):
            raise ConfigurationError(f"codec {name!r}: it has no function {function!r}")
    if name in _NUMBERS:
        raise ConfigurationError(f"codec {name!r}: glue has a codec of this name; choose another one")
    _loaded[name] = codec
    _unknown.discard(name)
    _types.update(dict.fromkeys(types, name))


def tag_of(name: str) -> int | str:
    """How a codec is called on the wire."""
    return _NUMBERS.get(name, name)


def name_of_tag(tag: int | str) -> str:
    """The name of a codec that the wire calls so; an unknown number has itself as name."""
    if isinstance(tag, str):
        return tag
    return BUILT_IN[tag].name if tag in BUILT_IN else str(tag)


def codec_named(name: str) -> Codec:
    """The codec of this name. Raises UnknownCodecError, or MissingExtraError if its library is not installed."""
    found = _loaded.get(name)
    if found is None:
        found = _loaded[name] = _load(name)
    return found


def codec_of_tag(tag: int | str) -> Codec:
    """The codec that the wire calls so. Raises likewise."""
    if isinstance(tag, str) and tag in _NUMBERS:
        raise UnknownCodecError(f"codec {tag!r}: its number belongs here, not its name")
    name = name_of_tag(tag)
    if name in _unknown and name not in _loaded:
        raise _is_unknown(name)
    try:
        return codec_named(name)
    except UnknownCodecError:
        if len(_unknown) >= UNKNOWN_LIMIT:
            _unknown.clear()
        _unknown.add(name)
        raise


def codec_of_type(kind: type) -> str | None:
    """The codec that payloads of this type choose; None for none."""
    return _types.get(kind) or TYPES.get((kind.__module__, kind.__name__))


def codec_for(codec: Any) -> tuple[Codec, int | str]:
    """A codec by the name that a caller gave, with its tag. Raises ConfigurationError and MissingExtraError."""
    if not isinstance(codec, str):
        raise ConfigurationError(f"codec={codec!r:.80}: expected the name of a codec, such as 'msgpack'")
    try:
        return codec_named(codec), tag_of(codec)
    except UnknownCodecError as error:
        raise ConfigurationError(str(error)) from None


def _load(name: str) -> Codec:
    number = _NUMBERS.get(name)
    if number is not None:
        return _load_built_in(BUILT_IN[number])
    from importlib.metadata import entry_points  # imported here: it takes as long as all of glue

    for point in entry_points(group=GROUP, name=name):
        made = point.load()
        codec: Codec = made() if isinstance(made, type) else made
        if getattr(codec, "name", None) != name:
            raise UnknownCodecError(f"codec {name!r}: the entry point {point.value!r} gives one of another name")
        return codec
    raise _is_unknown(name)


def _is_unknown(name: str) -> UnknownCodecError:
    known = ", ".join(sorted({*_NUMBERS, *_loaded}))
    return UnknownCodecError(f"codec {name!r} is unknown here; known are {known}; glue.codecs.register adds one")


def _load_built_in(wanted: _BuiltIn) -> Codec:
    try:
        module = import_module(wanted.module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != wanted.package:
            raise
        raise MissingExtraError.of(f"the codec {wanted.name!r}", wanted.package, wanted.extra) from error
    make = cast(Callable[[str], Codec], module.make)
    return make(wanted.name)
