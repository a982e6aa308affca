"""Recorded runs in which everything that is bounded has room for two or three: what is refused, and what is forgotten.

The bounds protect memory, and are so large that no other run meets them. Here they are small while a run lasts.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.recorded import features
from tests.recorded.wild import Wild

BOUNDS: dict[str, dict[str, int]] = {
    "glue.consumers.consumer": {"MEMBERS": 2, "WINDOW": 8},
    "glue.consumers.home": {"CONSUMERS": 2},
    "glue.consumers.voting": {"CHANGES": 4, "STREAMS": 2},
    "glue.delayed.store": {"OWNERS": 1, "ENDED": 2, "MESSAGES": 2},
    "glue.discovery.peers": {"PAST_LIVES": 1, "PAST_PEERS": 1},
    "glue.discovery.membership": {"CLASHES": 1},
    "glue.endpoint.delays": {"ENDED": 2, "DELAYED": 3},
    "glue.endpoint.durability": {"PATTERNS": 2, "KNOWN_TOPICS": 2},
    "glue.endpoint.healed": {"VALUES": 2},
    "glue.endpoint.offers": {"OFFERS": 2, "ALL_OFFERS": 5},
    "glue.endpoint.presence": {"PATTERNS": 5},
    "glue.endpoint.qos_matching": {"VERDICTS": 2, "PEER_STATEMENTS": 1, "STATEMENTS": 2},
    "glue.endpoint.receiver_running": {"MAILBOX": 3, "ACTIVE": 2, "ARRIVED": 3},
    "glue.endpoint.requests": {"KNOWN_TOPICS": 2},
    "glue.endpoint.wills": {"WILLS": 2},
    "glue.fragmentation.assembly": {"FINISHED": 2},
    "glue.fragmentation.layer": {"FORMS": 2},
    "glue.history.eras": {"KNOWN": 2},
    "glue.history.keepers": {"RANGES": 2},
    "glue.history.kept": {"HINTS": 2},
    "glue.history.memory": {"PAGE_MESSAGES": 4},
    "glue.history.reader": {"STREAMS": 3},
    "glue.history.server": {"PAGE_GROUPS": 2, "READER_REQUESTS": 1, "REQUESTS": 2},
    "glue.model.group": {"READS": 2, "WATCHES": 2},
    "glue.receivers.inbox": {"WAITING": 4},
    "glue.requests.directory": {"PEER_PATTERNS": 1, "PATTERNS": 2},
    "glue.requests.requester": {"LATE": 1},
    "glue.topics.copies": {"SEEN": 2},
    "glue.topics.retained": {"RETAINED_VALUES": 3},
    "glue.topics.shared.dispatcher": {"KEYS": 1},
    "glue.topics.shared.sharing": {"MEMBERS": 2, "GROUPS": 1},
}


@contextmanager
def little_room(every: dict[str, dict[str, int]] = BOUNDS) -> Iterator[None]:
    """Let the bounds be small, wherever they are bound to a name."""
    before = []
    try:
        for module, bounds in every.items():
            owner = vars(importlib.import_module(module))
            for name, small in bounds.items():
                value = owner[name]
                assert value > small, (module, name)
                for other in [vars(one) for key, one in sys.modules.items() if key.startswith("glue.")]:
                    if other is owner or (other.get(name) is value and other.get("__name__") != module):
                        before.append((other, name, other[name]))
                        other[name] = small
        yield
    finally:
        for namespace, name, value in reversed(before):
            namespace[name] = value


def little(scene: Callable[[], str]) -> Callable[[], str]:
    """Return the scene with little room."""

    def run() -> str:
        with little_room():
            return scene()

    return run


SMALL: dict[str, Callable[[], str]] = {
    "little-wild": little(lambda: Wild(46, "abcd").live(20)),
    "little-kept": little(features.kept),
    "little-promised": little(features.promised),
    "little-received": little(features.received),
}
