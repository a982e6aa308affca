"""What this endpoint says of itself, and when.

An announcement is repeated twice at short intervals after a start and after each change of interests, so that a
lost one is hardly noticed; then every interval, slightly varied, and a little earlier if something is sent anyway:
at rest, being woken costs an endpoint and its peers more than what is done then. Bodies are encoded once and kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from glue.contract import Interest
from glue.discovery.interests import Log
from glue.discovery.wire import Announcement

START_REPEATS = (0.1, 0.2)  # seconds from each announcement to the next after a start
CHANGE_REPEATS = (0.05, 0.1)  # the same after a change of interests
MIN_GAP = 0.01  # seconds between announcements, however fast the interests change
JITTER = 0.1  # by this share intervals are longer at most, so that endpoints started together do not go on in step
RIDE = 0.15  # of an interval: so much earlier an announcement may leave with something else

FULL_BODY = 1400  # bytes at most, even where the network takes larger frames
CALM_BODY = 512  # bytes of one that repeats what most know, or answers an address that has yet to prove itself


class Announcer:
    """The content of this endpoint's announcements and the timer for them.

    The next is `due` then; from `rides_from` on it goes with whatever is sent.
    """

    __slots__ = (
        "_announced_at", "_bodies", "_interval", "_name", "_random", "_repeats", "due", "log", "rides_from", "size",
    )  # fmt: skip

    def __init__(self, name: str, interval: float, random: Random) -> None:
        self.due = self.rides_from = 0.0
        self.log = Log()
        self.size = FULL_BODY
        self._name = name
        self._interval = interval
        self._random = random
        self._repeats: Sequence[float] = START_REPEATS
        self._announced_at = -math.inf
        self._bodies: dict[int, bytes] = {}  # by size

    def fit(self, size: int) -> None:
        """No body may exceed `size` bytes."""
        self.size = min(size, FULL_BODY)
        self._bodies.clear()

    def change(self, now: float, item: Interest) -> int:
        """Announce these changes as soon as may be; returns how many withdrawn interests were not announced."""
        unknown = self.log.record(item.added, item.removed)
        self._bodies.clear()
        self._repeats = CHANGE_REPEATS
        self.due = self.rides_from = max(now, self._announced_at + MIN_GAP)
        return unknown

    def announce(self, now: float) -> bytes:
        """The body of an announcement to all that is sent now; sets the timer for the next."""
        self._announced_at = now
        if self._repeats:
            delay, *self._repeats = self._repeats
            self.due = self.rides_from = now + min(delay, self._interval)
            return self._body(self.size)
        self.due = now + self._interval * self._random.uniform(1.0, 1.0 + JITTER)
        self.rides_from = self.due - RIDE * self._interval
        return self.calm_body

    def stop(self) -> None:
        """Announce nothing any more."""
        self.due = self.rides_from = math.inf

    @property
    def calm_body(self) -> bytes:
        """The body of an announcement to one."""
        return self._body(min(CALM_BODY, self.size))

    def _body(self, size: int) -> bytes:
        body = self._bodies.get(size)
        if body is None:
            body = self._bodies[size] = Announcement.encode(self._name, self._interval, self.log, size)
        return body
