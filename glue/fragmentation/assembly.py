"""Incomplete messages of each peer, and their fragments.

Fragments are kept by place, so it is known exactly which have arrived. A duplicate cannot stand in for a missing one,
and memory grows with what arrived, never with what was announced.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from glue.contract.pieces import Pieces

FRAGMENT_COST = 150  # bytes of bookkeeping a fragment: a bytes object and its place in a dict
MESSAGE_COST = 1000  # bytes of bookkeeping a message, so that a million tiny first fragments meet the budget, too
FEW = 8  # parts in which a whole message stays; more parts are joined
FINISHED = 1024  # message numbers remembered per peer, so that late fragments do not start a message again
EXPIRY = 30.0  # seconds without a new fragment of a best-effort message: far more than any is under way
RELIABLE_EXPIRY = 600.0
"""The same for a reliable message. Transport goes on in its middle whenever the sender, or the way from it, is back,
and takes what was acknowledged as delivered. So this is the longest interruption after which nothing is missing."""
EXPIRIES = RELIABLE_EXPIRY, EXPIRY  # by message number modulo 2


class Assembly:
    """One message under assembly."""

    __slots__ = ("_ahead", "_begun", "_in_order", "_since", "count", "held", "size", "total", "touched")

    def __init__(self, size: int, total: int) -> None:
        self.size = size
        self.total = total
        self.count = -(-total // size)
        self.held = MESSAGE_COST  # bytes, bookkeeping included
        self.touched = 0.0  # when the newest fragment came
        self._since = math.inf  # when the oldest fragment was handed to its sender's transport, as far as is known
        self._begun: list[bytes | memoryview] = []  # the fragments before the first gap, in larger pieces
        self._in_order = 0  # their number
        self._ahead: dict[int, bytes] = {}  # fragments after the first gap, by place

    @property
    def complete(self) -> bool:
        """Whether every fragment has arrived."""
        return self._in_order == self.count

    def put(self, now: float, index: int, bodies: Sequence[bytes], age: float) -> int:
        """Add fragments from place `index` on; returns how many were new. The first fragment for a place wins."""
        self.touched = now
        self._since = min(self._since, now - age)
        ahead = self._ahead
        if index == self._in_order and not ahead:
            self._begun += bodies.parts if isinstance(bodies, Pieces) else bodies
            new = len(bodies)
            self._in_order += new
        else:
            before = self._in_order + len(ahead)
            for place, body in enumerate(bodies, index):
                if place >= self._in_order and place not in ahead:
                    ahead[place] = body
            while ahead and (following := ahead.pop(self._in_order, None)) is not None:
                self._begun.append(following)
                self._in_order += 1
            new = self._in_order + len(ahead) - before
        self.held += new * (self.size + FRAGMENT_COST)
        return new

    def message(self, now: float) -> tuple[Sequence[bytes], float]:
        """Return the whole message as one body, and its age in seconds."""
        parts = self._begun
        several = 1 < len(parts) <= FEW
        bodies = [memoryview(part) for part in parts] if several else [b"".join(parts)]
        return Pieces(bodies, sum(map(len, parts)), 1), now - self._since


class Shelf:
    """The messages of one life of a peer that are under assembly.

    Reliable messages (of even numbers) and best-effort ones are in rows of their own. In each row the message that has
    waited longest for a fragment comes first.
    """

    __slots__ = ("_finished", "absent", "held", "incarnation", "rows")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.absent = False  # whether discovery lost the peer
        self.rows: tuple[OrderedDict[int, Assembly], ...] = OrderedDict(), OrderedDict()
        self.held = 0  # bytes, bookkeeping included
        self._finished: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def row(self, message: int) -> OrderedDict[int, Assembly]:
        """Return the row of a message number."""
        return self.rows[message % 2]

    def oldest(self) -> int:
        """Return the number of the message that has waited longest for a fragment; there must be one."""
        firsts = [next(iter(row.items())) for row in self.rows if row]
        return min(firsts, key=lambda first: first[1].touched)[0]

    def put(self, now: float, message: int, index: int, bodies: Sequence[bytes], age: float) -> int:
        """Add fragments to a message; returns how many were new."""
        row = self.row(message)
        row.move_to_end(message)
        return row[message].put(now, index, bodies, age)

    def finished(self, message: int) -> bool:
        """Whether a message was completed or given up lately."""
        return message in self._finished

    def remember(self, message: int) -> None:
        """Note that a message is complete or given up: later fragments of it are late."""
        self._finished[message] = None
        if len(self._finished) > FINISHED:
            self._finished.popitem(last=False)
