"""Barriers keep order between channels; pending messages wait at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glue.contract import Outbound, advanced
from glue.transport.member import Member


class Barrier:
    """The frames handed to a channel until now; frames of another channel must not overtake them.

    `stop` is the sequence after the last of these frames; None as long as a frame is neither sent nor expired.
    """

    __slots__ = ("_left", "_members", "handed_over", "number", "stop")

    def __init__(
        self, number: int, members: Mapping[str, Member], handed_over: Mapping[str, Barrier], stop: int | None
    ) -> None:
        """`members` and `handed_over` belong to the channel with this number, and change with the channel."""
        self.number = number
        self.stop = stop
        self.handed_over: dict[str, Barrier] = {}  # by peer that gets what was not yet sent on another channel
        self._members = members
        self._left = handed_over

    def holds(self, peers: Iterable[str]) -> bool:
        """Whether any of these peers has yet to get some of the frames. Other peers hold up no message."""
        return any(self.holds_one(peer) for peer in peers)

    def holds_one(self, peer: str) -> bool:
        """Whether this peer has yet to get some of the frames."""
        member = self._members.get(peer)
        if member is not None:
            if self.stop is None or member.next < self.stop:
                return True
            return any(barrier.holds_one(peer) for barrier in member.held_by)  # what it lacks there was given up
        other = self.handed_over.get(peer) or self._left.get(peer)
        return other is not None and other.holds_one(peer)

    def is_detached(self, peer: str) -> bool:
        """Whether a peer is detached on that channel, and so served at its own rate."""
        member = self._members.get(peer)
        return member is not None and member.detached


class PendingMessage:
    """A message waiting to be sent, of which `offset` frames have been."""

    __slots__ = ("barriers", "ends", "item", "offset", "since")

    def __init__(self, item: Outbound, since: float, barriers: list[Barrier]) -> None:
        self.item = item
        self.since = since
        self.barriers = barriers  # not before these let it pass
        self.ends: tuple[Barrier, ...] = ()  # those that end with this message
        self.offset = 0

    def take(self, count: int) -> Outbound:
        """Take the next `count` frames; counts and receipts of the whole message go with its last frame."""
        item, offset = self.item, self.offset
        self.offset = stop = offset + count
        if not offset and stop == len(item.bodies):
            return item
        header = advanced(item.header, offset) if offset else item.header
        messages, receipts = (item.messages, item.receipts) if stop == len(item.bodies) else (0, ())
        return Outbound(item.peers, item.bodies[offset:stop], header, messages=messages, receipts=receipts)


def rest(peer: str, item: Outbound, skip: int) -> Outbound:
    """The frames after the first `skip` of an item, for one peer."""
    header = advanced(item.header, skip)
    return Outbound((peer,), item.bodies[skip:], header, messages=item.messages, receipts=item.receipts)
