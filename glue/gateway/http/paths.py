"""How well the endpoints of the network hear each other: what each of them tells of its paths to the others."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from glue.aio import Endpoint
from glue.aio.examining import ask_all
from glue.endpoint.activity import paths
from glue.endpoint.facts import Path, paths_of

TOLD: Final = "activity"
"""The section of facts that has the paths."""
ASK_TIME: Final = 0.5
"""Seconds for the endpoints to answer; a few milliseconds are the rule."""
FRESH: Final = 1.0
"""Seconds for which an answer holds: however many pages are open, the endpoints are asked once a second at most."""


def own_paths(endpoint: Endpoint) -> list[Path]:
    """Return the paths from an endpoint of this process."""
    return paths_of(endpoint.id, {"paths": paths(endpoint._core)})


def shown(path: Path) -> dict[str, Any]:
    """Return what clients see of a path, beside its ends; what was not measured is None."""
    return {
        "loss": path.loss,
        "round_trip_ms": None if path.round_trip is None else round(path.round_trip * 1e3, 3),
        "served_by": "unicast" if path.unicast else "multicast",
    }


class Paths:
    """Asks the endpoints of the network for their paths, once for all clients that want to know them now."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._asking = asyncio.Lock()
        self._found: tuple[list[Path], dict[str, str]] = [], {}
        self._at = -math.inf

    async def get(self) -> tuple[list[Path], dict[str, str]]:
        """Return the paths, and the names of the endpoints that told theirs, by id.

        Endpoints with the setting `doctor=False` tell nothing. Raises ClosedError, ConfigurationError for an endpoint
        with a discovery layer in place of ours.
        """
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() >= self._at + FRESH:
                endpoint = self._endpoint
                found, names = own_paths(endpoint), {endpoint.id: endpoint.name}
                for one in await ask_all(endpoint, [TOLD], ASK_TIME):
                    found += paths_of(one.id, one.sections.get(TOLD))
                    names[one.id] = one.name
                self._found, self._at = (found, names), loop.time()
            return self._found
