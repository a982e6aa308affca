"""A bounded cache that forgets entries not used lately, without bookkeeping per use.

The cache has two generations. A hit in the old generation moves the entry to the young generation. A full young
generation becomes the old generation, and the former old generation is forgotten. An entry survives at least `limit`
other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class GenerationalCache(Generic[Key, Value]):
    """A cache of at most twice `limit` entries; calls `forget` with the values of each dropped generation."""

    __slots__ = ("_forget", "_limit", "_old", "_young")

    def __init__(self, limit: int, forget: Callable[[Iterable[Value]], None] | None = None) -> None:
        self._limit = limit
        self._forget = forget
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """The value, or None if it was never put or is forgotten."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Store a value; may forget older entries."""
        if len(self._young) >= self._limit:
            if self._forget is not None:
                self._forget(self._old.values())
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Drop all entries without a call of `forget`."""
        self._young.clear()
        self._old.clear()
