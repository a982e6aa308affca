"""Best effort: frames are numbered, so that duplicates are dropped; they are never acknowledged and never resent."""

from __future__ import annotations

from collections import Counter

from glue.contract import Inbound, Outbound
from glue.transport.incoming import IncomingPeer
from glue.transport.wire import BEST, KEY

_pack = BEST.packer("sequence")


class BestEffort:
    """Both ends of what an endpoint sends and hears with best effort."""

    __slots__ = ("_sequence", "_statistics")

    def __init__(self, statistics: Counter[str]) -> None:
        self._sequence = 0  # of the next frame
        self._statistics = statistics

    def send(self, item: Outbound) -> Outbound:
        """Number the frames of a message: by unicast to one, by multicast to several."""
        item.header[KEY] = _pack(self._sequence)
        self._sequence += len(item.bodies)
        self._statistics["best-effort frames sent"] += len(item.bodies)
        self._statistics["messages unconfirmed"] += item.messages * len(item.peers)
        if len(item.peers) > 1:
            item.peers = ()
        return item

    def take(self, run: Inbound, age_ms: int, source: IncomingPeer) -> list[Inbound]:
        """What of a run was not had before."""
        run.age = age_ms / 1000
        fresh = source.best.take(run)
        had = sum(len(part.bodies) for part in fresh)
        self._statistics["best-effort frames received"] += had
        self._statistics["duplicate frames"] += len(run.bodies) - had
        for part in fresh:
            part.reliable = False
        return fresh
