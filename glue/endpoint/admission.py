"""Admission of publications by priority: a filling queue stops the least urgent class first, then the next.

Therefore bulk messages leave room for more urgent ones, and the queue stays bounded.
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
    """The priority classes that may publish now: all below `closed_from`. OPEN admits every class."""

    __slots__ = ("closed_from", "limits")

    def __init__(self, queue_limit: int) -> None:
        self.limits = [queue_limit * share for share in SHARES]  # bytes beyond which each class is stopped
        self.closed_from = OPEN

    def update(self, backlog: int) -> bool:
        """Set the number of unacknowledged bytes; returns whether a stopped class may publish again.

        A class stops above its limit and resumes well below, so that waiting callers do not wake for every message.
        """
        before = now = self.closed_from
        while now < OPEN and backlog <= self.limits[now] * AGAIN[now]:
            now += 1
        while now and backlog > self.limits[now - 1]:
            now -= 1
        self.closed_from = now
        return now > before
