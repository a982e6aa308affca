"""Messages being put together, by peer.

A message's fragments are kept by their place, so that it is known exactly which are there: no duplicate can
stand in for a missing one, and memory grows with what arrived, never with what was announced.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from glue.contract.pieces import Pieces

FRAGMENT_COST = 150  # bytes of bookkeeping a fragment: a bytes object and its place in a dict
MESSAGE_COST = 1000  # bytes of bookkeeping a message; so a million tiny first fragments meet the budget too
FEW = 8  # parts in which a message stays until it is known what it consists of; more are joined before
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
        self._since = math.inf  # when, as far as is known, the oldest fragment was handed to its sender
        self._begun: list[bytes | memoryview] = []  # the fragments from place 0 on without a gap, in larger pieces
        self._in_order = 0  # how many they are
        self._ahead: dict[int, bytes] = {}  # those beyond the first gap, by place

    @property
    def complete(self) -> bool:
        """Whether every fragment is there."""
        return self._in_order == self.count

    def put(self, now: float, index: int, bodies: Sequence[bytes], age: float) -> int:
        """Add fragments from place `index` on; return how many were new. The first for a place wins."""
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
        """The whole message, as the one body that it is, and its age in seconds."""
        parts = self._begun
        several = 1 < len(parts) <= FEW
        bodies = [memoryview(part) for part in parts] if several else [b"".join(parts)]
        return Pieces(bodies, sum(map(len, parts)), 1), now - self._since


class Shelf:
    """The messages of one life of a peer that are under assembly.

    Reliable ones (of even numbers) and best-effort ones stand in rows of their own; in each, the one untouched for
    longest comes first.
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
        """Where a message of this number stands."""
        return self.rows[message % 2]

    def oldest(self) -> int:
        """The number of the message untouched for longest; there must be one."""
        firsts = [next(iter(row.items())) for row in self.rows if row]
        return min(firsts, key=lambda first: first[1].touched)[0]

    def put(self, now: float, message: int, index: int, bodies: Sequence[bytes], age: float) -> int:
        """Add fragments to a message; return how many were new."""
        row = self.row(message)
        row.move_to_end(message)
        return row[message].put(now, index, bodies, age)

    def finished(self, message: int) -> bool:
        """Whether a message was completed or given up lately."""
        return message in self._finished

    def remember(self, message: int) -> None:
        """A message is complete, or given up: what still comes of it is late."""
        self._finished[message] = None
        if len(self._finished) > FINISHED:
            self._finished.popitem(last=False)
