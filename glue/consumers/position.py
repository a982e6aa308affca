"""A position in a log: which messages a reader is done with.

A reader may be done with messages out of order. Therefore a position is an offset, with everything below done, and
the ranges of offsets beyond it that are done, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from glue.contract.ranges import RangeSet

OFFSET_LIMIT = 1 << 62
"""Offsets are below this number."""


class Position:
    """How far a reader is in one log. Everything below `next` is done."""

    __slots__ = ("_beyond", "next")

    def __init__(self, next: int = 0) -> None:
        self.next = next
        self._beyond = RangeSet()

    @property
    def beyond(self) -> Iterator[tuple[int, int]]:
        """The ranges above `next` that are done: first offset, and the one after the last."""
        return iter(self._beyond)

    @property
    def gaps(self) -> int:
        """Count the runs of unfinished offsets below a finished one."""
        return len(self._beyond)

    def is_done(self, offset: int) -> bool:
        """Whether the reader is done with the message of this offset."""
        return offset < self.next or offset in self._beyond

    def done(self, first: int, stop: int) -> int:
        """The reader is done with the offsets from `first` to `stop` - 1; returns how many of them are new."""
        first = max(first, self.next)
        if stop <= first:
            return 0
        fresh = sum(end - begin for begin, end in self._beyond.add(first, stop))
        begin, end = next(iter(self._beyond))
        if begin <= self.next:
            self.skip_to(end)
        return fresh

    def skip_to(self, offset: int) -> None:
        """Everything below this offset is done."""
        if offset > self.next:
            self.next = offset
            self._beyond.drop_below(offset)
            begin, end = next(iter(self._beyond), (offset + 1, 0))
            if begin <= offset:
                self.next = end
                self._beyond.drop_below(end)

    def left(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """The ranges from `first` to `stop` - 1 that are not done."""
        return self._beyond.gaps(max(first, self.next), stop)

    def encode(self) -> list[Any]:
        """As a JSON value."""
        return [self.next, [[first, stop] for first, stop in self._beyond]]

    @classmethod
    def decode(cls, value: Any) -> Position:
        """The position of a JSON value. Raises ValueError."""
        if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
            raise ValueError("no position")
        found = cls(_offset(value[0]))
        for one in value[1]:
            if not isinstance(one, list) or len(one) != 2:
                raise ValueError("no range of offsets")
            found.done(_offset(one[0]), _offset(one[1]))
        return found


def _offset(value: Any) -> int:
    if type(value) is not int or not 0 <= value < OFFSET_LIMIT:
        raise ValueError("no offset")
    return value
