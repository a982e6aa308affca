"""Facts that endpoints tell, as commands read them: a peer may tell anything, so only what is expected counts."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from glue.cmd.output import printable, table

NAME: Final = 24
"""Characters of a name that are shown."""
MATRIX: Final = 12
"""Endpoints in a matrix for people; `--json` tells of all."""


def number(facts: Any, name: str) -> float:
    """Return a number of a section; 0.0 if there is none."""
    value = facts.get(name) if isinstance(facts, dict) else None
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def text(facts: Any, name: str) -> str:
    """Return a text of a section; "" if there is none."""
    value = facts.get(name) if isinstance(facts, dict) else None
    return value[:64] if isinstance(value, str) else ""


def entries(facts: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a section."""
    value = facts.get(name) if isinstance(facts, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def share(value: Any) -> float | None:
    """Return a share between 0 and 1; None if it is not known."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


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
