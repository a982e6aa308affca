"""Frames on their way: a run that was sent, a message that waits to be, and what is to be sent again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from glue.contract import Outbound
from glue.transport.member import Member

if TYPE_CHECKING:
    from glue.transport.channel import Channel


class Flight:
    """A run of frames that was sent and is not yet acknowledged by all members."""

    __slots__ = ("first", "item", "number", "sent_at", "since", "size", "stop")

    def __init__(self, first: int, item: Outbound, number: int, sent_at: float, since: float, size: int) -> None:
        self.first = first
        self.stop = first + len(item.bodies)
        self.item = item
        self.number = number  # counts transmissions of frames on this channel: that of the first frame
        self.sent_at = sent_at
        self.since = since  # when the message was handed to transport
        self.size = size  # bytes


class Pending:
    """A message waiting to be sent, of which `offset` frames have been."""

    __slots__ = ("barriers", "item", "offset", "since")

    def __init__(self, item: Outbound, since: float, barriers: list[tuple[Channel, int]]) -> None:
        self.item = item
        self.since = since
        self.barriers = barriers  # not before these channels have everything below the number acknowledged
        self.offset = 0


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
