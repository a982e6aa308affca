"""Stores of mergeable keys for tests, and merges between them."""

from __future__ import annotations

from collections import Counter

from glue.model.mergeable import Prefixes
from glue.model.mergeable.store import Delta, Store
from glue.model.mergeable.wire import Push, decode_stored, encode

PREFIXES = Prefixes({"c/": "counter", "s/": "set", "r/": "register", "m/": "multi"})


def store(number: int) -> Store:
    made = Store(PREFIXES, f"{number:016x}", Counter())
    made.is_watched = True
    return made


def travelled(delta: Delta) -> Delta:
    """As it comes out of the wire."""
    return decode_stored(PREFIXES, encode(PREFIXES, Push(delta)))


def merge(target: Store, delta: Delta) -> None:
    assert target.merge(travelled(delta), 0) is not None, target.statistics
