"""Which link carries what goes to each peer, as `describe` of an endpoint with several interfaces tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def told_of_paths(discovery: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each peer, and its paths as text, the one in use first; nothing with a single interface."""
    links = getattr(discovery, "links", None)
    if links is None or not links.names:
        return
    for name, told in sorted(links.describe().items()):
        paths = sorted(told["paths"], key=lambda path: path["address"] != told["address"])
        others = [_text(path) for path in paths if (path["link"], path["address"]) != (told["link"], told["address"])]
        used = [_text(path) for path in paths if (path["link"], path["address"]) == (told["link"], told["address"])]
        by = used[0] if used else f"{told['link']} to {told['address'][0]}"
        yield name, f"by {by}" + "".join(f"; or {other}" for other in others)


def _text(path: dict[str, Any]) -> str:
    state = "" if path["answers"] else ", silent"
    return (
        f"{path['link']} to {path['address'][0]} ({path['round_trip'] * 1000:.1f} ms, {path['loss']:.0%} loss{state})"
    )
