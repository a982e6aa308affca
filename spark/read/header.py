"""Meaning of one header: from the JSON object of docs/wire-format.md to columns of `frames`.

This module reads single headers. `templates` calls this module for a header of each template. Therefore both give equal
results.
"""

from __future__ import annotations

from typing import Any

from spark.read.entries import ENTRIES, LIMIT, VERSION

CARRIED_WINDOW = 4096
"""Window of an acknowledgement carried by data."""

INTEGERS = (
    "network", "incarnation", "counter", "channel", "sequence", "attempt", "age_ms", "ack_channel", "ack_next",
    "ack_held_us", "ack_window", "fragment_message", "fragment_size", "fragment_total", "fragment_index", "token",
    "echo",
)  # fmt: skip
"""Integer columns from a header."""
TEXTS = ("sender", "kind", "called")
"""String columns from a header."""

_HEX = frozenset("0123456789abcdef")
_ACK = {"held_us": "ack_held_us", "window": "ack_window", "channel": "ack_channel", "next": "ack_next"}
_COLUMNS = {
    "ack": _ACK,
    "mended": _ACK,
    "parity": {"first": "sequence"},
    "fragment": {name: f"fragment_{name}" for name in ("message", "size", "total", "index")},
}
"""Column names by kind or layer, for fields with another name."""


def _columns_of(layer: str, kind: str) -> tuple[str | None, ...]:
    """Return the integer columns that an entry fills, in its order; None for a field without a column."""
    renamed = _COLUMNS.get(kind or layer, {})
    names = [renamed.get(name, name) for name in ENTRIES[layer][kind]]
    return tuple(name if name in INTEGERS else None for name in names)


_TRANSPORT = {kind: _columns_of("transport", kind) for kind in ENTRIES["transport"]}
_FRAGMENT = _columns_of("fragment", "")
_GLUE = _columns_of("glue", "")
_SENDER = ENTRIES["glue"][""].index("sender")
_CALLED = ENTRIES["discovery"]["probe"].index("called")
_DISCOVERY = ENTRIES["discovery"]["want"]  # the fields of all kinds
_TOKEN, _ECHO = map(_DISCOVERY.index, ("token", "echo"))


class MalformedHeaderError(ValueError):
    """A header that violates the wire format. The message is the cause under which the header is counted."""


def interpret(header: Any) -> dict[str, Any]:
    """Return the columns of a header, parsed from JSON. Raises MalformedHeaderError.

    Integers in the result are the same objects as in `header`.
    """
    columns = _glue(header)
    for entry in header.values():
        if not isinstance(entry, list):
            raise MalformedHeaderError("malformed header")
    if "transport" in header:
        columns |= _transport(header["transport"])
    elif "discovery" in header:
        columns |= _discovery(header["discovery"])
    if "fragment" in header:
        columns |= _numbers(header["fragment"], _FRAGMENT)
    return columns


def _glue(header: Any) -> dict[str, Any]:
    if not isinstance(header, dict):
        raise MalformedHeaderError("other UDP")
    entry = header.get("glue")
    if not isinstance(entry, list):
        raise MalformedHeaderError("other UDP")
    if len(entry) < 2 or not _is_integer(entry[0]):
        raise MalformedHeaderError("malformed header")
    if entry[0] != VERSION:
        raise MalformedHeaderError("other version")
    columns = _numbers(entry, _GLUE)
    sender = entry[_SENDER]
    if columns["network"] > 0xFFFF or not isinstance(sender, str) or len(sender) != 16 or not _HEX.issuperset(sender):
        raise MalformedHeaderError("malformed header")
    return {"version": entry[0], "sender": sender, **columns}


def _transport(entry: list[Any]) -> dict[str, Any]:
    kind = entry[0] if entry else None
    if not isinstance(kind, str):
        raise MalformedHeaderError("malformed header")
    columns: dict[str, Any] = {"kind": kind}
    if kind in _TRANSPORT:
        columns |= _numbers(entry, _TRANSPORT[kind])
        if kind in ("data", "group"):
            columns["ack_window"] = CARRIED_WINDOW
    return columns


def _discovery(entry: list[Any]) -> dict[str, Any]:
    if len(entry) < len(_DISCOVERY) or not isinstance(entry[-1], str):
        raise MalformedHeaderError("malformed header")
    columns = {"kind": entry[-1], **_numbers([entry[_TOKEN], entry[_ECHO]], ("token", "echo"))}
    if entry[-1] == "probe" and isinstance(entry[_CALLED], str):
        columns["called"] = entry[_CALLED]
    return columns


def _numbers(entry: list[Any], names: tuple[str | None, ...]) -> dict[str, Any]:
    if len(entry) != len(names):
        raise MalformedHeaderError("malformed header")
    columns = {name: value for name, value in zip(names, entry, strict=True) if name is not None}
    for value in columns.values():
        if not _is_integer(value) or not 0 <= value < LIMIT:
            raise MalformedHeaderError("malformed header")
    return columns


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
