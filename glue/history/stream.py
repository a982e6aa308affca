"""One topic of one life of a publisher, put together by a reader of history.

`next` is the number of the next message to hand over. Messages are handed over in the order of their numbers. A message
that comes too early is held. `want` is the number after the last known message: while `next` is less, and no held
message is next, history is asked.
"""

from __future__ import annotations

import copy
from bisect import insort

from glue.contract import Delivery

Key = tuple[str, int, str]
"""The publisher's id and life, and the topic."""


class Stream:
    """The state of one stream; while `next` is 0, history of this stream begins at the place `newer`.

    `tried` are keepers without the missing messages, asked since `round_since`; in the first round, since `since`.
    `is_kept`: only keepers may have them. While `next` is 0, history may begin with the number `first`. What is from
    before `oldest` is left out at the beginning. `began` is the number that was handed over first, if that was before
    anything was known of its history. `teller`: the keeper that told of it, "" once its publisher did; while it
    `is_unsure`, nothing else speaks for it.
    """

    __slots__ = (
        "began", "first", "held", "is_kept", "is_live", "is_unsure", "name", "newer", "next", "oldest", "round_since",
        "since", "skipped", "teller", "tried", "want",
    )  # fmt: skip

    def __init__(self, name: str, next: int = 0) -> None:
        self.name = name  # the publisher's
        self.next = next  # 0: nothing was handed over, and it begins with what comes first
        self.first = 1
        self.began = 0
        self.oldest = 0.0  # Unix seconds
        self.want = 0
        self.skipped = 0, 0  # from which number on `next` was advanced on a keeper's word, and up to which
        self.newer: int | None = None  # not known yet
        self.held: list[Delivery] = []  # by number
        self.is_kept = False
        self.is_live = False  # whether live messages were handed over, so that history only fills gaps
        self.teller, self.is_unsure = "", False
        self.tried: set[str] = set()
        self.since = self.round_since = 0.0

    def hold(self, delivery: Delivery) -> int:
        """Keep messages that came too early; returns how many, 0 if they are held already."""
        for other in self.held:
            if other.sequence <= delivery.sequence < end_of(other):
                return 0
        delivery.to_owned()
        insort(self.held, delivery, key=_number)
        return len(delivery.payloads)

    def goes_back(self, delivery: Delivery) -> bool:
        """Go back to a live message that cannot be, as a keeper said; returns whether nothing later was handed over."""
        start, until = self.skipped
        if delivery.retained or self.next != until or delivery.sequence < start:
            return False
        self.next, self.skipped = delivery.sequence, (0, 0)
        self.want = end_of(self.held[-1] if self.held else delivery)
        return True

    def leave_out(self, until: int) -> None:
        """Begin with this number, or a later one."""
        if self.next:
            self.next = max(self.next, until)
        else:
            self.first = max(self.first, until)

    def missing(self) -> tuple[int, int] | None:
        """The first and the last number to ask for; None if nothing is missing."""
        first = self.next or self.first
        last = min(self.held[0].sequence, self.want) - 1 if self.held else self.want - 1
        return (first, last) if last >= first else None


def _number(delivery: Delivery) -> int:
    return delivery.sequence


def end_of(delivery: Delivery) -> int:
    """The number after the last message."""
    return delivery.sequence + len(delivery.payloads)


def tail(delivery: Delivery, number: int) -> Delivery | None:
    """The messages from a number on; None if there are none."""
    skip = number - delivery.sequence
    if skip <= 0:
        return delivery
    if skip >= len(delivery.payloads):
        return None
    rest = copy.copy(delivery)
    rest.payloads = delivery.to_owned()[skip:]
    if (encoded := getattr(delivery, "encoded", None)) is not None:
        rest.encoded = encoded[skip:]
    rest.sequence = number
    return rest
