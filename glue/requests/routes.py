"""Which responder is asked: the one with the fewest requests of this endpoint under way, in turns.

A responder is not asked if its handler waits for this request, because then the handler would wait for itself.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from glue.contract.near import near
from glue.errors import NoResponderError, RequestCycleError
from glue.requests.directory import Directory, matches
from glue.requests.wire import PATH_LIMIT, Hop


class Routes:
    """The choice of responders."""

    __slots__ = ("_directory", "_turn", "_under_way")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._turn = count(1)
        self._under_way: dict[str, tuple[int, int]] = {}  # requests without a reply, and when it was its turn

    def choose(self, topic: str, path: tuple[Hop, ...]) -> str:
        """The id of the responder to ask. Raises NoResponderError or RequestCycleError."""
        found = self._directory.find(topic)
        if len(found) == 1 and not path:
            return found[0]
        return self._least_asked(self._without_cycles(topic, found, path))

    def all(self, topic: str, path: tuple[Hop, ...]) -> list[str]:
        """The ids of all responders. Raises likewise."""
        return self._without_cycles(topic, self._directory.find(topic), path)

    def another(self, topic: str, but: Collection[str]) -> str:
        """The id of a responder that is none of these; "" if there is none."""
        found = [endpoint for endpoint in self._directory.find(topic) if endpoint not in but]
        return self._least_asked(found) if found else ""

    def asked(self, endpoint: str, requests: int) -> None:
        """Count requests that are under way to an endpoint."""
        before, _ = self._under_way.get(endpoint, (0, 0))
        self._under_way[endpoint] = before + requests, next(self._turn)

    def answered(self, endpoint: str, requests: int) -> None:
        """Count requests that are under way no more."""
        if endpoint in self._under_way:
            before, turn = self._under_way[endpoint]
            self._under_way[endpoint] = before - requests, turn

    def forget(self, endpoint: str) -> None:
        """An endpoint has left."""
        self._under_way.pop(endpoint, None)

    def _least_asked(self, endpoints: list[str]) -> str:
        return min(endpoints, key=lambda endpoint: self._under_way.get(endpoint, (0, 0)))

    def _without_cycles(self, topic: str, found: Collection[str], path: tuple[Hop, ...]) -> list[str]:
        if not found:
            meant = near(topic, self._directory.patterns())
            raise NoResponderError(f"no responder of {topic!r:.80} is known{meant}; see wait_for_responders")
        if len(path) >= PATH_LIMIT:
            raise RequestCycleError(f"{PATH_LIMIT} handlers wait for each other: {cycle(path)}")
        waiting = {hop[0]: hop for hop in path if matches(hop[2], topic)}
        possible = [endpoint for endpoint in found if endpoint not in waiting]
        if not possible:
            hop = waiting[next(iter(found))]
            hops = path[path.index(hop) :]
            raise RequestCycleError(f"a cycle of requests: {cycle((*hops, hop))}")
        return possible


def cycle(hops: Collection[Hop]) -> str:
    """Handlers that wait for each other, for people."""
    return " → ".join(f"{name} {pattern!r:.80}" for _, name, pattern in hops)
