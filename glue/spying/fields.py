"""Payloads for people: the numbers in a value, which can be plotted, and a value as indented lines."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator
from typing import Any, Final

FIELDS: Final = 64
"""Numbers of one value that are found."""
DEPTH: Final = 8
LINES: Final = 500
"""Lines of one value that are shown."""
ITEMS: Final = 16
"""Items of a list that are searched for numbers."""


def numbers(value: Any) -> dict[str, float]:
    """The numbers in a value by their path, such as `celsius`, `motors[0].speed`; "" is the value itself.

    A text or bytes that are a number count as one. True and false count as 1 and 0.
    """
    found: dict[str, float] = {}
    for path, number in _numbers(value, "", 0):
        if len(found) >= FIELDS:
            break
        found[path] = number
    return found


def _numbers(value: Any, path: str, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            return
        if math.isfinite(number):
            yield path, number
    elif isinstance(value, (str, bytes)) and depth == 0 and len(value) <= 32:
        try:
            yield from _numbers(float(value), path, 1)
        except ValueError:
            return
    elif isinstance(value, dict) and depth < DEPTH:
        for name, inner in value.items():
            yield from _numbers(inner, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < DEPTH:
        for place, inner in enumerate(value[:ITEMS]):
            yield from _numbers(inner, f"{path}[{place}]", depth + 1)


def value_lines(value: Any) -> list[str]:
    """A value as lines: JSON indented, text as it is, other bytes in rows of hexadecimal and characters."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = ""
        if not text or not all(one.isprintable() or one in "\n\t\r" for one in text):
            return _cut([_hex(data, place) for place in range(0, len(data), 16)])
        return _cut(text.splitlines())
    if isinstance(value, str):
        return _cut(value.splitlines())
    try:
        return _cut(json.dumps(value, ensure_ascii=False, indent=2).splitlines())
    except (TypeError, ValueError, RecursionError):
        return _cut(brief(value).splitlines())


def brief(value: Any) -> str:
    """The representation of any value; of one that is too deep, or has too large an integer, only its outside."""
    for represent in (repr, reprlib.repr):
        try:
            return represent(value)
        except Exception:  # such as a recursion, or the class's own affair
            continue
    return object.__repr__(value)


def _hex(data: bytes, place: int) -> str:
    row = data[place : place + 16]
    text = "".join(chr(one) if 32 <= one < 127 else "." for one in row)
    return f"{place:06x}  {row.hex(' '):47}  {text}"


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= LINES:
        return lines or [""]
    return [*lines[:LINES], f"... and {len(lines) - LINES} more lines"]
