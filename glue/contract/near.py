"""Names that were perhaps meant instead of one that is not known, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LOOKED_AT = 1000
"""Names that are compared: each takes some 20 µs."""


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'NAME'?" for the most similar name that is known; "" if none is similar."""
    from difflib import get_close_matches  # only a mistake needs it

    found = get_close_matches(name, list(islice(known, LOOKED_AT)), n=1, cutoff=0.75)
    return f"; did you mean {found[0]!r:.80}?" if found else ""
