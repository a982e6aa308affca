"""Who has to wait before publishing: a full queue stops the classes one after the other, the least urgent first.

So bulk never takes the room that something more urgent would need, and what all of them hold stays bounded.
"""

from __future__ import annotations

from glue.contract import BULK

SHARES = 2.0, 1.5, 1.0, 0.75, 0.75
"""Of `queue_limit`, by class (normal, the default, takes it as it is): how much, of all classes together, may wait to
be acknowledged before this one is stopped. A stream is taken in by a quarter of the limit at once, at most; so those of
normal and below do not stop what is more urgent, though one or two at a time go beyond their limit by that."""

AGAIN = 0.5, 0.5, 0.5, 0.75, 0.75
"""Of that, how much is left when this class may go on. Of large messages few fit in: some stay on their way.
Bulk, which has the same room, goes on with them: else it would wait for as long as they keep coming."""

OPEN = BULK + 1


class Admission:
    """Which classes may publish now: those below `closed_from`, which is OPEN while all may."""

    __slots__ = ("closed_from", "limits")

    def __init__(self, queue_limit: int) -> None:
        self.limits = [queue_limit * share for share in SHARES]  # bytes beyond which each class is stopped
        self.closed_from = OPEN

    def update(self, backlog: int) -> bool:
        """Told how many bytes wait to be acknowledged; whether a class that was stopped may go on.

        A class is stopped beyond its limit and goes on well below, so that nobody is woken for every message.
        """
        before = now = self.closed_from
        while now < OPEN and backlog <= self.limits[now] * AGAIN[now]:
            now += 1
        while now and backlog > self.limits[now - 1]:
            now -= 1
        self.closed_from = now
        return now > before
