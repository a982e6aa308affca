"""Keys, and patterns of keys: levels between slashes, `+` for one level, a last `#` for all the rest.

The rules are those of topics. A replica has few watches, so each pattern is a matcher of its own and needs no index.
"""

from __future__ import annotations

from itertools import takewhile

from glue.errors import ModelError

KEY_LIMIT = 1024
"""Bytes of UTF-8 in a key or a pattern: a log entry with a thousand of them is about a megabyte."""


NAME_LIMIT = 128
"""Characters of a model's name, which is part of its topics."""


def check_key(key: object, what: str = "key") -> str:
    """Return the key; raise ModelError unless values can be kept under it."""
    if not isinstance(key, str):
        raise ModelError(f"{what} {key!r:.80}: expected a string")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise ModelError(f"{what} {key!r:.80}: lone surrogate at character {error.start}") from None
    if not 1 <= size <= KEY_LIMIT:
        raise ModelError(f"{what} {key!r:.80}: {size} bytes; expected 1 to {KEY_LIMIT} bytes of UTF-8")
    if "+" in key or "#" in key:
        raise ModelError(f"{what} {key!r:.80}: '+' and '#' are wildcards; they are for patterns")
    return key


def check_name(name: object) -> None:
    """Raise ModelError unless a model can have this name."""
    check_key(name, "model name")
    if len(str(name)) > NAME_LIMIT or "/" in str(name):
        raise ModelError(f"model name {name!r:.80}: expected at most {NAME_LIMIT} characters and no slash")


class Pattern:
    """A pattern of keys. Raises ModelError if it is malformed."""

    __slots__ = ("_levels", "_open_end", "_wild", "prefix", "text")

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text or len(text.encode(errors="replace")) > KEY_LIMIT:
            raise ModelError(f"pattern {text!r:.80}: expected a string of 1 to {KEY_LIMIT} bytes of UTF-8")
        levels = text.split("/")
        self.text = text
        self._open_end = levels[-1] == "#"
        self._levels = levels[:-1] if self._open_end else levels
        self._wild = self._open_end or "+" in levels
        literal = "/".join(takewhile(lambda level: level not in ("+", "#"), levels))
        self.prefix = literal + "/" if "+" in levels and levels[0] != "+" else literal
        """What each key begins with that matches."""
        for level in self._levels:
            if level != "+" and ("+" in level or "#" in level):
                raise ModelError(f"pattern {text!r:.80}: in {level!r:.80}; a wildcard is a whole level, '#' the last")

    @property
    def key(self) -> str | None:
        """The only key that can match a pattern without wildcards; None for other patterns."""
        return None if self._wild else self.text

    def matches(self, key: str) -> bool:
        """Whether the pattern matches this key; `a/#` also matches `a`."""
        if not self._wild:
            return key == self.text
        levels = key.split("/")
        if len(levels) < len(self._levels) or (len(levels) > len(self._levels) and not self._open_end):
            return False
        return all(mine in ("+", theirs) for mine, theirs in zip(self._levels, levels, strict=False))
