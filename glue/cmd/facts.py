"""How commands show what endpoints tell: shares, and a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from glue.cmd.output import printable, table

NAME: Final = 24
"""Characters of a name that are shown."""
MATRIX: Final = 12
"""Endpoints in a matrix for people; `--json` tells of all."""


def percent(value: float | None) -> str:
    """Return a share for people."""
    return "–" if value is None else "0 %" if value == 0 else f"{100 * value:.1f} %"


def matrix(names: dict[str, str], loss: Callable[[str, str], float | None]) -> list[str]:
    """Return the lines of a loss matrix: a row for each sender, a column for each receiver. `names` are by id."""
    rows = [["from \\ to", "", *(str(place) for place in range(1, len(names) + 1))]]
    for place, (sender, name) in enumerate(names.items(), 1):
        cells = ["·" if sender == receiver else percent(loss(sender, receiver)) for receiver in names]
        rows.append([str(place), printable(name, NAME), *cells])
    return table(rows)
