"""The state of a receiver: read from memory, written to the store before anything that follows from it leaves."""

from __future__ import annotations

from typing import Any

import orjson

from glue.errors import PayloadError


class State:
    """Keys with JSON values. Reading takes no round trip; what a message changed is written when its handler ends."""

    __slots__ = ("_values", "is_changed")

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values = values or {}
        self.is_changed = False

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Change a value. Raises PayloadError for what is no JSON value."""
        if not isinstance(key, str):
            raise PayloadError(f"state key {key!r:.80}: expected a string")
        try:
            self._values[key] = orjson.loads(orjson.dumps(value))
        except (TypeError, ValueError) as error:
            raise PayloadError(f"state {key!r:.80}: {error}; a value is JSON") from None
        self.is_changed = True

    def delete(self, key: str) -> None:
        """Remove a value; nothing happens if there is none."""
        if key in self._values:
            del self._values[key]
            self.is_changed = True

    @property
    def is_empty(self) -> bool:
        """Whether there is no value."""
        return not self._values

    def all(self) -> dict[str, Any]:
        """Return a copy of all values."""
        return dict(self._values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"<State {self._values!r:.200}>"
