"""The state of comparisons at a keeper: its partners, and the comparison that is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from glue.history.eras import Digests, EraSums
from glue.history.wire import Range


class Partner:
    """One life of a keeper or of a remembering publisher."""

    __slots__ = ("check_at", "compared_at", "is_keeper", "life", "name", "patterns", "rest")

    def __init__(self, life: int, name: str, is_keeper: bool) -> None:
        self.life = life
        self.name = name
        self.is_keeper = is_keeper
        self.patterns: set[str] = set()
        self.check_at = inf
        self.compared_at = -inf  # when a comparison began that was answered
        self.rest = 0.0  # seconds to the next one at least, as it looks at many streams for each


class Work:
    """A comparison that is under way, of one pattern of this keeper."""

    __slots__ = (
        "after", "began_at", "counted_from", "counting", "empty", "eras", "fetched", "is_keeper",
        "is_refused", "lacks_room", "mine", "pattern", "peer", "sums", "theirs", "todo", "turn_from", "wanted",
    )  # fmt: skip

    def __init__(self, peer: str, is_keeper: bool, pattern: str, todo: list[str], began_at: float) -> None:
        self.peer = peer
        self.is_keeper = is_keeper
        self.pattern = pattern
        self.todo = todo  # further patterns
        self.began_at = self.turn_from = began_at  # its turn is without the time in which this keeper counts
        self.counted_from = began_at
        self.sums = EraSums((0, 0))
        self.counting: Iterator[None] | None = None  # adds what is here to `sums`
        self.mine: Digests = ("", "", "")
        self.theirs: Digests | None = None
        self.eras: list[int] = []  # to compare; the first one is under way
        self.after = 0
        self.wanted: deque[Range] = deque()
        self.fetched = 0
        self.empty = 0  # pages in a row that had nothing
        self.lacks_room = False  # what may be missing was not asked for
        self.is_refused = False  # something that was fetched did not become durable
