"""The sections of facts that an endpoint tells a peer that asks: `glue doctor` and other tools of operators.

A section is a function of the endpoint that returns what JSON can hold, 20 kB at most. It is called in a turn, so it
must not wait, and not take longer than a millisecond. `SECTIONS` is the one place where sections are registered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from glue.endpoint.core import EndpointCore
from glue.settings import Settings

COUNTERS = "network", "serialization", "security", "discovery", "endpoint"
"""Layers whose counters are in the report; those of the others tell about messages."""
MOST_COUNTERS = 48  # of a layer: causes are known words, of which no layer has more


class Subject(Protocol):
    """The part of an endpoint that a section may read: an endpoint of any kind (`glue.endpoint.base.BaseEndpoint`)."""

    settings: Settings
    _core: EndpointCore
    _network: Any
    _clock_origin: float | None

    @property
    def name(self) -> str:
        """The endpoint's name."""

    @property
    def id(self) -> str:
        """The endpoint's id."""

    @property
    def incarnation(self) -> int:
        """The number of its life."""

    @property
    def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """All counters by layer."""


def _report(endpoint: Subject) -> dict[str, Any]:
    """The endpoint's identity, and how it takes part in the network."""
    core, settings = endpoint._core, endpoint.settings
    security, network = core.security, endpoint._network
    counters = {}
    for layer, counted in endpoint.statistics.items():
        if layer in COUNTERS:
            counters[layer] = {cause: count for cause, count in sorted(counted.items())[:MOST_COUNTERS] if count}
    return {
        **_place(),
        "name": endpoint.name,
        "id": endpoint.id,
        "incarnation": endpoint.incarnation,
        "unix_time": core.requests.unix_time(),
        "clock_moved": _clock_moved(endpoint),
        "network_id": settings.network_id,
        "multicast_address": settings.multicast_address,
        "announce_interval": settings.announce_interval,
        "sealed": security is not None,
        "epoch": None if security is None else security.key.newest.number,
        "load": _load(),
        "peers": len(core.peers),
        "waiting": core.waiting,
        "receive_limit": settings.receive_limit,
        "network": None if network is None else network.describe(),
        "counters": counters,
    }


def _clock_moved(endpoint: Subject) -> float:
    """By how much the wall clock was set (seconds) since the start; negative: back."""
    origin, requests = endpoint._clock_origin, endpoint._core.requests
    return 0.0 if origin is None else round(requests.unix_time() - requests.clock() - origin, 3)


def _load() -> float:
    """Programs ready to run on this machine, for each of its processors, over the last minute; 0 where unknown."""
    try:
        return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    except OSError:
        return 0.0


@cache
def _place() -> dict[str, Any]:
    """The program and its machine, which stay the same."""
    import platform  # here: few programs are asked
    import socket

    return {
        "version": sys.modules["glue"].__version__,  # it is above this room, and has been imported
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}"[:64],
        "host": socket.gethostname()[:64],
        "pid": os.getpid(),
    }


def _links(endpoint: Subject) -> dict[str, Any]:
    """The ways from and to its peers: see `glue.discovery.exam.Exam.describe_links`."""
    exam = exam_of(endpoint._core)
    return {} if exam is None else exam.describe_links()


def _activity(endpoint: Subject) -> dict[str, Any]:
    """The traffic sent and received: see `glue.endpoint.activity`."""
    from glue.endpoint.activity import activity  # here: few programs are asked

    return activity(endpoint._core, endpoint.statistics)


def _paths(endpoint: Subject) -> dict[str, Any]:
    """Which of its interfaces carries what: see `glue.endpoint.paths`."""
    from glue.endpoint.paths import section_of_paths  # as above

    return section_of_paths(endpoint._core.stack.layers["discovery"], endpoint._network)


SECTIONS: dict[str, Callable[[Subject], Any]] = {
    "report": _report, "links": _links, "activity": _activity, "paths": _paths,
}  # fmt: skip
"""Each section by its name, of at most 32 characters."""


def exam_of(core: EndpointCore) -> Any:
    """The exam of an endpoint; None with a discovery layer in place of ours."""
    examined = getattr(core.stack.layers["discovery"], "examined", None)
    return None if examined is None else examined.exam


def section_of(endpoint: Subject, name: str) -> Any:
    """The content of the section with this name; None for an unknown section."""
    function = SECTIONS.get(name)
    return None if function is None else function(endpoint)
