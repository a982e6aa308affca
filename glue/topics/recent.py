"""A bounded table that forgets what was not used lately, without a cost for each use.

Two generations: what is found in the old one moves to the young one; when the young one is full it becomes the
old one, and what was left in the old one is forgotten. So an entry survives at least `limit` other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class GenerationalCache(Generic[Key, Value]):
    """At most twice `limit` entries; `forget` is told the values of each generation that goes."""

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
        """Remember a value; this may forget others, never this one."""
        if len(self._young) >= self._limit:
            if self._forget is not None:
                self._forget(self._old.values())
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Drop everything, untold."""
        self._young.clear()
        self._old.clear()
