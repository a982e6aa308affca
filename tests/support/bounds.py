"""Bounds of the numbers in a message: what a decoder takes, and what is just too much."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Path = tuple[str | int, ...]
"""Where a number stands in a JSON document."""
Limit = tuple[str, Callable[[Any], Any], list[Any], list[Any]]
"""What the error says, how a value is read, values that are taken, and values that are refused."""

NO_INTEGERS = (True, "1", 1.0, 1.5, None, [1])


def changed(document: Any, path: Path, value: Any) -> Any:
    """A copy of a document with one value replaced; for an empty path, the value."""
    if not path:
        return value
    found = copy.deepcopy(document)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return found


def check_bounds(
    document: Any,
    decode: Callable[[Any], object],
    error: type[Exception],
    bounds: Mapping[Path, tuple[int, int | None]],
) -> None:
    """Each number is taken from its least to its largest value (None: not looked at), and nothing else is."""
    decode(document)
    for path, (least, most) in bounds.items():
        for value in (least, most):
            if value is not None:
                decode(changed(document, path, value))
        for wrong in (least - 1, *([] if most is None else [most + 1]), *NO_INTEGERS):
            with pytest.raises(error):
                print(path, wrong, decode(changed(document, path, wrong)))


def check_limit(limit: Limit, error: type[Exception]) -> None:
    """All good values are taken, and each wrong one is refused in these words."""
    words, read, good, wrong = limit
    for value in good:
        read(value)
    for value in wrong:
        with pytest.raises(error, match=f"^{words}$"):
            print(value, read(value))
