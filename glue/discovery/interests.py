"""The interests of an endpoint, as a log of operations that its peers follow (see `follower`).

An endpoint may have ten thousand interests, and a frame holds a few dozen. Therefore the owner numbers the changes of
its interests ("+pattern", "-pattern"), and each announcement carries the newest changes. A follower with a gap asks for
the operations from its own version on. Once most of the log is history, the owner starts another *epoch*. The log of
an epoch begins with the current set: the *base*. A follower with a complete previous epoch knows the base already. Any
other follower builds the base up beside the old set, which stays valid until then.

Announced interests may match too much (topics filters exactly), but never too little. A pattern too long for a frame
is cut at a level and ends with "#". A peer with too many patterns counts as interested in everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

EVERYTHING = "#"

MAX_PATTERN = 512  # bytes of JSON, quotes included, so that an operation always fits beside the rest of a frame
SLACK = 64  # operations that a log may hold beyond twice its set before an epoch ends


def widened(pattern: str) -> str:
    """Return a pattern that fits in an operation and matches at least the same topics.

    A pattern with a too long first level becomes "#". By the rules of MQTT, "#" matches no topic that starts with
    "$". Therefore a topic with a too long first level that starts with "$" cannot be announced.
    """
    if len(orjson.dumps(pattern)) <= MAX_PATTERN:
        return pattern
    room = MAX_PATTERN - len('"/#"')
    end = -1
    while True:
        following = pattern.find("/", end + 1)
        if following < 0 or following > room:
            break
        if len(orjson.dumps(pattern[:following])) - len('""') > room:
            break
        end = following
    return f"{pattern[:end]}/{EVERYTHING}" if end >= 0 else EVERYTHING


class InterestLog:
    """The owner's log: this endpoint's interests and the operations of the current epoch.

    The first `base` operations sum up the previous epoch at its version `previous`.
    """

    __slots__ = ("_counts", "_operations", "base", "epoch", "previous")

    def __init__(self) -> None:
        self.epoch = 0
        self.previous = 0
        self.base = 0
        self._operations: list[bytes] = []
        self._counts: dict[str, int] = {}  # patterns that are widened alike share one operation

    @property
    def version(self) -> int:
        """How many operations this epoch has."""
        return len(self._operations)

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and version."""
        return self.epoch, len(self._operations)

    def record(self, added: Iterable[str], removed: Iterable[str]) -> int:
        """Note a change; returns how many of the removed patterns were not there, which changes nothing."""
        if len(self._operations) > 2 * len(self._counts) + SLACK:
            self._compact()
        for pattern in added:
            self._add(widened(pattern))
        return sum(not self._remove(widened(pattern)) for pattern in removed)

    def newest(self, room: int) -> Sequence[bytes]:
        """The newest operations, as many as fit in `room` bytes of JSON."""
        first = len(self._operations)
        while first > 0 and room >= len(self._operations[first - 1]):
            first -= 1
            room -= len(self._operations[first]) + 1
        return self._operations[first:]

    def frames(self, first: int, room: int, limit: int) -> Iterator[tuple[int, Sequence[bytes], bool]]:
        """Operations from version `first` on, in at most `limit` frames with at most `room` bytes of JSON each.

        Each as (its first version, its operations, whether it is the last frame); at least one operation each.
        """
        end = first
        for number in range(1, limit + 1):
            first, left = end, room
            while end < self.version and (end == first or left >= len(self._operations[end])):
                left -= len(self._operations[end]) + 1
                end += 1
            is_last = number == limit or end == self.version
            yield first, self._operations[first:end], is_last
            if is_last:
                return

    def _add(self, pattern: str) -> None:
        count = self._counts.get(pattern, 0)
        self._counts[pattern] = count + 1
        if count == 0:
            self._operations.append(orjson.dumps("+" + pattern))

    def _remove(self, pattern: str) -> bool:
        count = self._counts.pop(pattern, 0)
        if count > 1:
            self._counts[pattern] = count - 1
        elif count == 1:
            self._operations.append(orjson.dumps("-" + pattern))
        return count > 0

    def _compact(self) -> None:
        # Before a change, never after it: the epoch ends as announced, so that complete followers can continue.
        self.previous = self.version
        self._operations = [orjson.dumps("+" + pattern) for pattern in self._counts]
        self.base = self.version
        self.epoch += 1
