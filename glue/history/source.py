"""A reader's state of a publisher that serves its history, and of a keeper; and the limits of readers."""

from __future__ import annotations

from collections import OrderedDict
from math import inf

from glue.contract import Delivery
from glue.history.stream import Key
from glue.history.wire import Request, Start
from glue.topics.index import Index

STREAMS = 65_536
"""Streams that a reader follows, of some 400 bytes: 26 MB. The one that was quiet for longest is forgotten."""
HELD = 4 << 20
"""Bytes of live messages held at most while history is read; what finds no room is read from history."""
COST = 128
"""Bytes that a message is taken to weigh beside its payload."""
VALUE = 512
"""Bytes that a decoded JSON value is taken to weigh."""
REPEAT = 0.1
"""Seconds after which a request that nobody answered is repeated; each time twice as long, up to REPEAT_LIMIT."""
REPEAT_LIMIT = 3.0
CHECK = 2.0
"""Seconds between two looks at a source's last numbers: two announcement intervals."""
CHECK_SOON = 0.05
"""Seconds until the next look if the source did not know this reader's interest."""
GRACE = 0.5
"""Seconds for which the first messages of a publisher wait for the news that it serves its history. Usually the news is
there before them; half an announcement interval bridges some losses. After it, live messages come first."""
LATE = 1.0
"""Seconds, an announcement interval, after which a publisher or a keeper is met late: a reader of what is published
"from now on" may have missed some of it."""
RETURN = 3.0
"""Seconds for which messages of a publisher that was silent wait for the news that it still serves its history."""
SILENCE = 0.05
"""Seconds of silence after which another keeper is asked, or twice the time of a keeper's last answer."""
EMPTY = 64
"""Pages in a row with nothing of what is missing, after which a keeper counts as without it: it may go on for ever."""

GONE = "no longer kept"
"""The cause of a gap in history: the message existed, and whoever was asked has it no more."""
LEFT = "publisher left"
"""The cause of a gap if the publisher left with what it remembered."""
FOUND_LATE = "found too late"
"""The cause of a gap if history is there, but later messages of it were handed over before whoever has it was known."""
REFUSED = "refused"
"""The cause of a gap if the program reads too slowly, and the publisher serves no history."""

SCAN, LIVE = "scan", "live"
"""The states of a source: its history is read; it has been read, and live messages follow."""


class Source:
    """A reader's state of a publisher that serves its history."""

    __slots__ = (
        "after", "asked", "behind", "check_at", "due", "index", "life", "name", "patterns", "repeat", "start", "state",
        "unsure", "until", "verified",
    )  # fmt: skip

    def __init__(self, life: int, name: str, start: Start) -> None:
        self.life = life
        self.start = start  # where the reader begins
        self.name = name
        self.state = SCAN
        self.index: Index[str] = Index()  # of what it offers
        self.patterns: set[str] = set()
        self.after = self.until = 0
        self.behind: OrderedDict[Key, None] = OrderedDict()  # streams with something to ask for
        self.asked: Request | None = None
        self.due = inf  # when to repeat the request
        self.repeat = REPEAT
        self.check_at = inf
        self.unsure = False  # whether a stream began live in its middle, and is to be compared with the next check
        self.verified: int | None = None  # up to which place streams that began before the scan were compared

    def lengthen(self) -> None:
        """Wait longer for the answer to a repeated request."""
        self.repeat = min(2 * self.repeat, REPEAT_LIMIT)

    def covers(self, life: int, topic: str) -> bool:
        """Whether it serves a topic of that life."""
        return self.life == life and bool(self.index.match(topic))


class Keeper:
    """One life of a keeper, with its patterns."""

    __slots__ = ("_empty", "index", "lacks_until", "late", "life", "patterns", "silence", "silent_until")

    def __init__(self, life: int) -> None:
        self.life = life
        self.index: Index[str] = Index()
        self.patterns: dict[str, tuple[str, int]] = {}  # with the place and the replicas
        self.silent_until = self.lacks_until = -inf
        self.silence = SILENCE
        self.late: tuple[Request, float] | None = None  # what it was passed over with, and when it was asked
        self._empty = 0  # pages in a row with nothing

    def gives_nothing(self, gave: bool) -> bool:
        """Note whether a page gave anything; returns whether too many in a row did not."""
        self._empty = 0 if gave else self._empty + 1
        return self._empty > EMPTY

    @property
    def is_partial(self) -> bool:
        """Whether it may leave topics to other keepers."""
        return any(replicas for _, replicas in self.patterns.values())

    def keeps(self, topic: str, place: str) -> int | None:
        """The replicas that it wants of a topic in a place, 0 for all; None if it does not keep it there."""
        found = [self.patterns[pattern] for pattern in self.index.match(topic)]
        replicas = [number for where, number in found if where == place]
        return None if not replicas else max(replicas) if all(replicas) else 0


def weight(delivery: Delivery) -> int:
    """Bytes that a delivery is taken to weigh while it waits."""
    payloads = delivery.payloads
    if delivery.length is not None:
        return (delivery.length + COST) * len(payloads)
    if payloads and payloads[0].__class__ is bytes:
        return sum(map(len, payloads)) + COST * len(payloads)
    return VALUE * len(payloads)
