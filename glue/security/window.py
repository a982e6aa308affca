"""The replay window: which datagrams of a sender have been accepted (RFC 4303, section 3.4.3).

All below the first accepted datagram counts as seen. Otherwise a window that begins empty would accept the replay of
what was sent before.
"""

from __future__ import annotations

from typing import Final

WIDTH: Final = 4096
"""Datagrams by which one may be late: 5.9 MB of a stream, or 40 ms of 100,000 datagrams a second; 512 bytes of bits."""

_ALL: Final = (1 << WIDTH) - 1


class ReplayWindow:
    """The accepted numbers of one sender, as a bit for each of the last `WIDTH`."""

    __slots__ = ("_seen", "highest")

    def __init__(self, highest: int = -1) -> None:
        """All numbers up to `highest` count as seen; -1: all below the first that is accepted."""
        self.highest = highest
        self._seen = _ALL  # bit 0 is the highest

    def is_new(self, first: int, count: int = 1) -> bool:
        """Whether none of `count` numbers from `first` on was accepted, and none is too old to tell."""
        if first > self.highest:
            return True
        last = first + count - 1
        if self.highest - first >= WIDTH or last > self.highest:
            return False
        return not self._seen >> (self.highest - last) & ((1 << count) - 1)

    def is_old(self, number: int) -> bool:
        """Whether a number lies below the window."""
        return self.highest - number >= WIDTH

    def accept(self, first: int, count: int = 1) -> None:
        """Mark `count` numbers from `first` on, for which `is_new` holds, as seen."""
        last = first + count - 1
        if first > self.highest:
            below = self.highest
            self.highest = last
            if below < 0:
                return  # the first: all below counts as seen, and so does it
            shift = last - below
            self._seen = ((self._seen << shift) | ((1 << count) - 1)) & _ALL if shift < WIDTH else (1 << count) - 1
            self._seen &= _ALL
        else:
            self._seen |= ((1 << count) - 1) << (self.highest - last)
