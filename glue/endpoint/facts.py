"""Facts that endpoints tell, as a tool reads them: a peer may tell anything, so only what is expected counts.

The facts are the sections of `glue.endpoint.sections`.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from glue.endpoint.activity import PEERS


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


class Path(NamedTuple):
    """How reliable messages fare from one endpoint to another (ids)."""

    sender: str
    receiver: str
    loss: float | None
    """The share of the latest frames that was lost; None before it was measured."""
    round_trip: float | None
    """Seconds; None before it was measured."""
    unicast: bool
    """Whether the receiver is served apart from the others."""


def paths_of(sender: str, activity: Any) -> list[Path]:
    """Return the paths that an endpoint tells in its section "activity", to as many receivers as it may tell of."""
    found = {}
    for one in entries(activity, "paths")[:PEERS]:
        if receiver := text(one, "peer"):
            trip = number(one, "round_trip")
            found[receiver] = Path(sender, receiver, share(one.get("loss")), trip or None, one.get("unicast") is True)
    return list(found.values())
