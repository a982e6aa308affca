"""Which link of several carries what goes to each peer, as `describe` of an endpoint and `glue doctor` tell it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

PEERS: Final = 64
"""Peers of which the section "paths" tells, with up to eight paths of some 100 bytes each: 50 kB at worst."""
PATHS: Final = 8
"""Paths of one peer of which it tells."""


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


def section_of_paths(discovery: Any, network: Any) -> dict[str, Any]:
    """Return the section "paths": whether each link is up, and the paths to each peer; {} with a single interface."""
    links = getattr(discovery, "links", None)
    if links is None or not links.names or network is None:
        return {}
    up = {name: bool(told.get("up")) for name, told in network.describe().get("links", {}).items()}
    peers = [
        {"name": name, "link": told["link"], "paths": [_told(path) for path in told["paths"][:PATHS]]}
        for name, told in islice(sorted(links.describe().items()), PEERS)
    ]
    return {"links": up, "peers": peers}


def _told(path: dict[str, Any]) -> dict[str, Any]:
    return {name: path[name] for name in ("link", "round_trip", "loss", "answers")}


def _text(path: dict[str, Any]) -> str:
    state = "" if path["answers"] else ", silent"
    return (
        f"{path['link']} to {path['address'][0]} ({path['round_trip'] * 1000:.1f} ms, {path['loss']:.0%} loss{state})"
    )
