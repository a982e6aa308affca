"""How findings name endpoints and machines."""

from __future__ import annotations

from collections.abc import Sequence

from glue.doctor.lanes import place
from glue.doctor.seen import EndpointSeen, Seen

MOST = 3  # names in a sentence


def some(names: Sequence[str]) -> str:
    """A list as words: the first few names, and how many more."""
    if len(names) > MOST:
        return f"{', '.join(names[:MOST])} and {len(names) - MOST} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def of(endpoint: EndpointSeen) -> str:
    """An endpoint."""
    return f"{endpoint.name} ({endpoint.address})" if endpoint.address else endpoint.name


def machine(seen: Seen, address: str) -> str:
    """A machine, by the endpoints on it."""
    if not address:
        return "this machine"
    return f"{some(sorted(one.name for one in seen.endpoints if place(one) == address))} ({address})"


def pairs(seen: Seen, found: Sequence[tuple[str, str]]) -> str:
    """Directions between machines."""
    return some([f"from {machine(seen, source)} to {machine(seen, target)}" for source, target in found])


def seconds(value: float) -> str:
    """A time, rounded."""
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"
