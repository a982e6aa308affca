"""Names that were perhaps meant instead of one that is not known, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LOOKED_AT = 1000
"""Names that are compared: each takes some 20 µs."""

SIMILAR, SHORT = 0.75, 0.6
"""The likeness (of 1) of what was perhaps meant: among names that users choose, and among a few short words of glue."""


def nearest(name: str, known: Iterable[str], likeness: float = SIMILAR) -> str:
    """Return the most similar name that is known; "" if none is similar."""
    from difflib import get_close_matches  # only a mistake needs it

    return next(iter(get_close_matches(name, list(islice(known, LOOKED_AT)), n=1, cutoff=likeness)), "")


def near(name: str, known: Iterable[str], likeness: float = SIMILAR) -> str:
    """Return "; did you mean 'NAME'?" for the most similar name that is known; "" if none is similar."""
    found = nearest(name, known, likeness)
    return f"; did you mean {found!r:.80}?" if found else ""
