"""Best effort: frames are numbered, so that duplicates are dropped; they are never acknowledged and never resent."""

from __future__ import annotations

from collections import Counter

from glue.contract import Inbound, Outbound
from glue.transport.incoming import IncomingPeer
from glue.transport.wire import BEST, KEY

_pack = BEST.packer("sequence")


class BestEffort:
    """The sending and the receiving end of an endpoint's best-effort frames."""

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
        """The frames of a run without duplicates; `age_ms` is the time since the sender took them."""
        run.age = age_ms / 1000
        fresh = source.best.take(run)
        had = sum(len(part.bodies) for part in fresh)
        self._statistics["best-effort frames received"] += had
        self._statistics["duplicate frames"] += len(run.bodies) - had
        for part in fresh:
            part.reliable = False
        return fresh
