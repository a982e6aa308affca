"""Frames on their way: runs of frames that were sent and are not yet acknowledged by all members."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sized
from math import inf

from glue.contract import Outbound

NOBODY: frozenset[str] = frozenset()


class Flight:
    """A run of frames of one message that was sent and is not yet acknowledged by all members."""

    __slots__ = (
        "begins", "covered_at", "first", "forgone", "item", "number", "repaired", "sent_at", "since", "size", "stop",
    )  # fmt: skip

    def __init__(
        self, first: int, item: Outbound, number: int, sent_at: float, since: float, size: int, begins: bool
    ) -> None:
        self.first = first
        self.stop = first + len(item.bodies)
        self.item = item
        self.number = number  # counts transmissions of frames on this channel: that of the first frame
        self.sent_at = sent_at
        self.since = since  # when the message was handed to transport
        self.size = size  # bytes
        self.begins = begins  # whether it is the beginning of its message
        self.covered_at = -inf  # when repair symbols for it were sent
        self.forgone = NOBODY  # the members that will not get it
        self.repaired = NOBODY  # the members that any of this, or of its message before this, was resent to


class Flights:
    """All flights of a channel, in order: first kept flights, then open flights, which hold up the sender.

    All attached members have acknowledged a kept flight; detached members may still need its frames.
    """

    __slots__ = ("_kept", "_open", "kept_size", "messages", "open_size", "repairs")

    def __init__(self) -> None:
        self._open: deque[Flight] = deque()
        self._kept: deque[Flight] = deque()
        self.open_size = 0  # bytes
        self.kept_size = 0
        self.messages = 0  # released, once for each member with the message
        self.repairs = 0  # of those, how many took repairs

    def __bool__(self) -> bool:
        return bool(self._open or self._kept)

    def __iter__(self) -> Iterator[Flight]:
        yield from self._kept
        yield from self._open

    def append(self, flight: Flight) -> None:
        """Add what was sent just now."""
        self._open.append(flight)
        self.open_size += flight.size

    def find(self, sequence: int) -> Flight:
        """The flight that holds a frame which is not yet acknowledged by all."""
        row = self._open if self._open and sequence >= self._open[0].first else self._kept
        return row[bisect_right(row, sequence, key=_first) - 1]

    def sent_since(self, time: float, end: int) -> int:
        """The first frame that was first sent after that time; `end` if there is none."""
        for flight in reversed(self._open):
            if flight.sent_at <= time:
                break
            end = flight.first
        return end

    def since(self, sequence: int) -> list[Flight]:
        """The flights from that frame on which not all attached members have, in order."""
        found = []
        for flight in reversed(self._open):
            if flight.first < sequence:
                break
            found.append(flight)
        return found[::-1]

    def release(self, base: int, needed: int, members: Sized) -> None:
        """All attached members have what is below `base`, and all members what is below `needed`."""
        row = self._open
        while row and row[0].stop <= base:
            flight = row.popleft()
            self.open_size -= flight.size
            if flight.stop > needed:
                self._kept.append(flight)
                self.kept_size += flight.size
            else:
                self._finish(flight, members)
        row = self._kept
        while row and row[0].stop <= needed:
            self.kept_size -= row[0].size
            self._finish(row.popleft(), members)

    def _finish(self, flight: Flight, members: Sized) -> None:
        self.messages += flight.item.messages * (len(members) - len(flight.forgone))
        if flight.repaired:
            if flight.item.messages:
                self.repairs += flight.item.messages * len(flight.repaired)
            else:  # its message goes on
                following = self._kept[0] if self._kept else self._open[0] if self._open else None
                if following is not None:
                    following.repaired |= flight.repaired

    def leave(self, peer: str) -> None:
        """A member is gone."""
        for flight in self:
            flight.forgone -= {peer}
            flight.repaired -= {peer}

    def clear(self) -> None:
        """Drop all flights: no member needs them."""
        self._open.clear()
        self._kept.clear()
        self.open_size = self.kept_size = 0

    def message_after(self, size: int) -> int:
        """Where the first message begins before which at least `size` kept bytes lie; else where the last begins."""
        begins = 0
        for flight in self:
            if flight.begins:
                begins = flight.first
                if size <= 0:
                    break
            size -= flight.size
        return begins


def _first(flight: Flight) -> int:
    return flight.first
