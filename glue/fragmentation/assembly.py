"""Messages being put together, by peer.

A message's fragments are kept by their place, so that it is known exactly which are there: no duplicate can
stand in for a missing one, and memory grows with what arrived, never with what was announced.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

FRAGMENT_COST = 150  # bytes of bookkeeping a fragment: a bytes object and its place in a dict
MESSAGE_COST = 1000  # bytes of bookkeeping a message; so a million tiny first fragments meet the budget too
FINISHED = 1024  # message numbers remembered per peer, so that late fragments do not start a message again


class Assembly:
    """One message under assembly."""

    __slots__ = ("_fragments", "_since", "count", "held", "size", "total", "touched")

    def __init__(self, size: int, total: int) -> None:
        self.size = size
        self.total = total
        self.count = -(-total // size)
        self.held = MESSAGE_COST  # bytes, bookkeeping included
        self.touched = 0.0  # when the newest fragment came
        self._since = math.inf  # when, as far as is known, the oldest fragment was handed to its sender
        self._fragments: dict[int, bytes] = {}

    @property
    def complete(self) -> bool:
        """Whether every fragment is there."""
        return len(self._fragments) == self.count

    def put(self, now: float, index: int, bodies: Sequence[bytes], age: float) -> int:
        """Add fragments from place `index` on; return how many were new. The first for a place wins."""
        fragments, before = self._fragments, len(self._fragments)
        self.touched = now
        self._since = min(self._since, now - age)
        if index == before and index not in fragments:  # the common case: in order, so nothing beyond is there
            places = range(index, index + len(bodies))
            if fragments.keys().isdisjoint(places):
                fragments.update(zip(places, bodies, strict=True))
                self.held += sum(map(len, bodies)) + FRAGMENT_COST * len(bodies)
                return len(bodies)
        for place, body in enumerate(bodies, index):
            if place not in fragments:
                fragments[place] = body
                self.held += len(body) + FRAGMENT_COST
        return len(fragments) - before

    def message(self, now: float) -> tuple[bytes, float]:
        """The whole message and its age in seconds."""
        fragments = self._fragments
        return b"".join([fragments[place] for place in range(self.count)]), now - self._since


class Shelf:
    """The messages of one life of a peer that are under assembly."""

    __slots__ = ("_finished", "assemblies", "held", "incarnation")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.assemblies: dict[int, Assembly] = {}
        self.held = 0  # bytes, bookkeeping included
        self._finished: OrderedDict[int, None] = OrderedDict()

    def finished(self, message: int) -> bool:
        """Whether a message was completed or given up lately."""
        return message in self._finished

    def finish(self, message: int) -> None:
        """A message is complete, or given up."""
        del self.assemblies[message]
        self._finished[message] = None
        if len(self._finished) > FINISHED:
            self._finished.popitem(last=False)
