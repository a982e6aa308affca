"""The announcements of this endpoint, and their times.

After a start and after each change of interests, the announcement is repeated twice at short intervals, which covers
a loss. Then an announcement goes out every interval, slightly varied, and a little earlier if other data is sent
anyway. At rest, a wakeup costs an endpoint and its peers more than the work itself. Bodies are encoded once and kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from glue.contract import Interest
from glue.discovery.interests import InterestLog
from glue.discovery.wire import Announcement, Operations

START_REPEATS = (0.1, 0.2)  # seconds from each announcement to the next after a start
CHANGE_REPEATS = (0.05, 0.1)  # the same after a change of interests
SETTLED = CHANGE_REPEATS[0]  # seconds after which an announcement has come everywhere, if it was not lost
MIN_GAP = 0.01  # seconds between announcements, however fast the interests change
JITTER = 0.1  # by this share intervals are longer at most, so that endpoints started together do not go on in step
RIDE = 0.15  # of an interval: so much earlier an announcement may leave with something else
IN_STEP = range(2, 9)
"""Numbers of peers with which an endpoint announces in step: with whatever it receives, from `RIDE` before its own time
on. Then few endpoints wake up together, once an interval, instead of each for every announcement. More endpoints would
make bursts that fill buffers."""

FULL_BODY = 1400  # bytes at most, even where the network takes larger frames
CALM_BODY = 512  # bytes of a repeated announcement, or of an answer to an unverified address, at most


class Announcer:
    """The content of this endpoint's announcements and the timer for them.

    The next is `due` then; from `rides_from` on it goes with whatever is sent. Positions in the log are epoch and
    version: all were told what is before `told`, and long enough ago what is before `settled`.
    """

    __slots__ = (
        "_announced_at", "_asleep", "_bodies", "_interval", "_mark", "_marked_at", "_name", "_random", "_repeats",
        "_rest", "due", "log", "rides_from", "settled", "size", "told",
    )  # fmt: skip

    def __init__(self, name: str, interval: float, random: Random, rest: int = 0) -> None:
        self.due = self.rides_from = 0.0
        self.log = InterestLog()
        self.size = FULL_BODY
        self.told = self.settled = self._mark = self.log.position
        self._marked_at = -math.inf  # when all were told what is before the mark
        self._name = name
        self._rest, self._asleep = rest, 0
        self._interval = interval
        self._random = random
        self._repeats: Sequence[float] = START_REPEATS
        self._announced_at = -math.inf
        self._bodies: dict[int, tuple[bytes, int]] = {}  # by size

    def fit(self, size: int) -> None:
        """No body may exceed `size` bytes."""
        self.size = min(size, FULL_BODY)
        self._bodies.clear()

    def change(self, now: float, item: Interest) -> int:
        """Announce these changes as soon as may be; returns how many withdrawn interests were not announced."""
        if not self.is_fresh:
            self.settled = self.log.position
        unknown = self.log.record(item.added, item.removed)
        self._bodies.clear()
        self._repeats = CHANGE_REPEATS
        self.due = self.rides_from = max(now, self._announced_at + MIN_GAP)
        return unknown

    def announce(self, now: float) -> bytes:
        """The body of an announcement to all that is sent now; sets the timer for the next."""
        self._announced_at = now
        if now >= self._marked_at + SETTLED:
            self.settled, self._mark, self._marked_at = self._mark, self.log.position, now
        if self._repeats:
            delay, *self._repeats = self._repeats
            self.due = self.rides_from = now + min(delay, self._interval)
            body, first = self._encoded(self.size)
            if (self.log.epoch, first) <= self.told or self.told[0] != self.log.epoch:  # else some have to ask
                self.told = self.log.position
            return body
        self.told = self.log.position
        self.due = now + self._interval * self._random.uniform(1.0, 1.0 + JITTER)
        self.rides_from = self.due - RIDE * self._interval
        return self.calm_body

    def sleep(self, now: float, cycle: int) -> None:
        """Announce from now on that this endpoint is asleep, or awake; it counted so many changes."""
        self._asleep = cycle
        self._bodies.clear()
        self._repeats = START_REPEATS
        self.due = self.rides_from = now

    @property
    def is_fresh(self) -> bool:
        """Whether there is something that peers may not have heard of."""
        return bool(self._repeats)

    @property
    def calm_until(self) -> float:
        """Before that nothing has to go along with, or before, what is sent."""
        return -math.inf if self.is_fresh or self._asleep % 2 else self.rides_from

    def hurry(self, now: float) -> None:
        """Announce at once, as new listeners may be in reach."""
        if self.due < math.inf:
            self.due = self.rides_from = now

    def stop(self) -> None:
        """Announce nothing any more."""
        self.due = self.rides_from = math.inf
        self._repeats = ()
        self.told = self.log.position

    def news(self, since: tuple[int, int], size: int, frames: int) -> list[tuple[bool, bytes]]:
        """Return what changed since a log position, in at most `frames` bodies of at most `size` bytes.

        Each body comes with True for an announcement and False for operations. If a new epoch began since then, the
        result begins with an announcement.
        """
        epoch, version = since
        told: list[tuple[bool, bytes]] = []
        if epoch != self.log.epoch:
            body, first = self._encoded(size)
            told.append((True, body))
            version = 0 if first else self.log.version
        if version < self.log.version and frames > len(told):
            told += [(False, body) for body in Operations.encode(self.log, version, size, frames - len(told))]
        return told

    @property
    def calm_body(self) -> bytes:
        """The body of an announcement to one."""
        return self._encoded(min(CALM_BODY, self.size))[0]

    def _encoded(self, size: int) -> tuple[bytes, int]:
        """The body of so many bytes at most, and the version of the first operation that it tells."""
        found = self._bodies.get(size)
        if found is None:
            found = Announcement.encode(self._name, self._interval, self.log, size, self._rest, self._asleep)
            self._bodies[size] = found
        return found
