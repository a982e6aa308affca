"""Frames on their way: runs that were sent, messages that wait to be, and what is to be sent again."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from math import inf
from typing import TYPE_CHECKING

from glue.contract import Outbound, advanced
from glue.transport.member import Member

if TYPE_CHECKING:
    from glue.transport.channel import Channel


NOBODY: frozenset[str] = frozenset()


class Flight:
    """A run of frames of one message that was sent and is not yet acknowledged by all members."""

    __slots__ = (
        "begins", "covered_at", "first", "forgone", "item", "mended", "number", "sent_at", "since", "size", "stop",
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
        self.covered_at = -inf  # when parity for it was sent
        self.forgone = NOBODY  # the members that will not get it
        self.mended = NOBODY  # the members that any of this, or of its message before this, was resent to


class Flights:
    """All flights of a channel, in order: those that hold up the sender, and before them those that are kept.

    What all attached members have holds nobody up any more; it is kept for members that are served apart.
    """

    __slots__ = ("_kept", "_open", "kept_size", "messages", "open_size", "repairs")

    def __init__(self) -> None:
        self._open: deque[Flight] = deque()
        self._kept: deque[Flight] = deque()
        self.open_size = 0  # bytes
        self.kept_size = 0
        self.messages = 0  # that were let go of, once for each member that had them
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
        if flight.mended:
            if flight.item.messages:
                self.repairs += flight.item.messages * len(flight.mended)
            else:  # its message goes on
                following = self._kept[0] if self._kept else self._open[0] if self._open else None
                if following is not None:
                    following.mended |= flight.mended

    def leave(self, peer: str) -> None:
        """A member is gone."""
        for flight in self:
            flight.forgone -= {peer}
            flight.mended -= {peer}

    def clear(self) -> None:
        """Nobody needs any of it."""
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


class Barrier:
    """All that was handed to a channel until now, and must not be overtaken.

    `stop` is the frame before which all of it lies; None as long as some of it is neither sent nor expired.
    """

    __slots__ = ("channel", "handed_over", "stop")

    def __init__(self, channel: Channel, stop: int | None) -> None:
        self.channel = channel
        self.stop = stop
        self.handed_over: dict[str, Barrier] = {}  # by peer that gets what was not yet sent on another channel

    def holds(self, peers: Iterable[str]) -> bool:
        """Whether any of these peers has yet to get some of it. What others have yet to get holds up nobody."""
        return any(self._holds(peer) for peer in peers)

    def _holds(self, peer: str) -> bool:
        member = self.channel.members.get(peer)
        if member is not None:
            if self.stop is None or member.next < self.stop:
                return True
            return any(barrier._holds(peer) for barrier in member.held_by)  # what it lacks there was given up
        other = self.handed_over.get(peer) or self.channel.handed_over.get(peer)
        return other is not None and other._holds(peer)

    def is_apart(self, peer: str) -> bool:
        """Whether a peer is served apart on that channel, and so at its own pace."""
        member = self.channel.members.get(peer)
        return member is not None and member.apart


class Pending:
    """A message waiting to be sent, of which `offset` frames have been."""

    __slots__ = ("barriers", "ends", "item", "offset", "since")

    def __init__(self, item: Outbound, since: float, barriers: list[Barrier]) -> None:
        self.item = item
        self.since = since
        self.barriers = barriers  # not before these let it pass
        self.ends: tuple[Barrier, ...] = ()  # those that end with this message
        self.offset = 0

    def take(self, count: int) -> Outbound:
        """The next `count` frames; what is said of the whole message is said of the last of them."""
        item, offset = self.item, self.offset
        self.offset = stop = offset + count
        if not offset and stop == len(item.bodies):
            return item
        header = advanced(item.header, offset) if offset else item.header
        messages, receipts = (item.messages, item.receipts) if stop == len(item.bodies) else (0, ())
        return Outbound(item.peers, item.bodies[offset:stop], header, messages=messages, receipts=receipts)


def rest(peer: str, item: Outbound, skip: int) -> Outbound:
    """What follows the first frames of an item, for one peer."""
    header = advanced(item.header, skip)
    return Outbound((peer,), item.bodies[skip:], header, messages=item.messages, receipts=item.receipts)


def grouped(wanted: dict[int, list[Member]]) -> Iterator[tuple[int, int, list[Member]]]:
    """Runs of consecutive sequences that the same members lost in the same attempt: start, count, members."""
    start, count, key = 0, 0, ()
    members: list[Member] = []
    for sequence in sorted(wanted):
        now_key: tuple[object, ...] = tuple((m.peer, m.attempts(sequence)) for m in wanted[sequence])
        if count and sequence == start + count and now_key == key:
            count += 1
            continue
        if count:
            yield start, count, members
        start, count, key, members = sequence, 1, now_key, wanted[sequence]  # type: ignore[assignment]
    if count:
        yield start, count, members
