"""The mergeable keys of a model: prefixes of whole levels, each with a kind of value, the same at all endpoints.

A prefix covers the keys that match it as a pattern with a final `#`: "stats/" also covers the key "stats".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import orjson

from glue.errors import ConfigurationError
from glue.model.mergeable.values import KINDS, Value
from glue.model.state.patterns import Pattern, check_key

PREFIXES = 64
"""Prefixes of one model: each key asked for is compared with all of them."""


class Prefixes:
    """A mapping of prefixes, such as "stats/", to names of kinds. Raises ConfigurationError for anything else."""

    __slots__ = ("_kinds", "mark")

    def __init__(self, mergeable: Mapping[str, str]) -> None:
        if not isinstance(mergeable, Mapping) or len(mergeable) > PREFIXES:
            raise ConfigurationError(f"mergeable={mergeable!r:.80}: expected a mapping of up to {PREFIXES} prefixes")
        for prefix, kind in mergeable.items():
            check_key(prefix, "mergeable prefix")
            if not prefix.endswith("/"):
                raise ConfigurationError(f"mergeable prefix {prefix!r:.80}: expected whole levels, as {prefix + '/'!r}")
            if not isinstance(kind, str) or kind not in KINDS:
                raise ConfigurationError(f"mergeable prefix {prefix!r:.80}: kind {kind!r:.80} is none of {_names()}")
            if any(other != prefix and other.startswith(prefix) for other in mergeable):
                raise ConfigurationError(f"mergeable prefix {prefix!r:.80}: another one lies within it")
        self._kinds = {prefix: KINDS[kind] for prefix, kind in mergeable.items()}
        self.mark = hashlib.blake2s(orjson.dumps(sorted(mergeable.items())), digest_size=8).hexdigest()

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def kind(self, key: str) -> type[Value] | None:
        """Return the kind of a key's value; None for a key that is not mergeable."""
        for prefix, kind in self._kinds.items():
            if key.startswith(prefix) or key == prefix[:-1]:
                return kind
        return None

    @property
    def texts(self) -> list[str]:
        """The prefixes themselves."""
        return list(self._kinds)

    def hold_all(self, pattern: Pattern) -> bool:
        """Whether every key that can match is mergeable, so that the read needs no majority."""
        return self.kind(pattern.text) is not None  # no prefix holds a wildcard


def _names() -> str:
    return ", ".join(map(repr, KINDS))
