"""Messages published before the subscribers are known.

An endpoint that has just started does not know its peers yet. Its messages wait until discovery's first round is over.
After that, messages without a subscriber wait until the time for late answers is over. Deliveries to the endpoint's own
subscriptions do not wait. Neither do unordered messages: the layers above repeat those anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from glue.contract import Options
from glue.topics.bundle import MessageGroup
from glue.topics.published import PublishedTopic

NOT_FOUND = "messages to nobody at the start"  # held ones; counted among "messages to nobody", too


class Parcel:
    """A published group that has yet to be sent; `is_delivered_here`: this endpoint itself has subscribed to it."""

    __slots__ = ("expires", "group", "is_delivered_here", "options", "priority", "topic")

    def __init__(
        self,
        topic: PublishedTopic,
        group: MessageGroup,
        priority: int,
        expires: float,
        options: Options,
        is_delivered_here: bool,
    ) -> None:
        self.topic = topic
        self.group = group
        self.priority = priority
        self.expires = expires
        self.options = options
        self.is_delivered_here = is_delivered_here

    @property
    def is_lost(self) -> bool:
        """Whether a reliable parcel is lost if no peer wants it: not retained, and not delivered to this endpoint."""
        return self.options.reliable and not (self.options.retain or self.is_delivered_here)


class HeldParcels:
    """The held parcels of one endpoint in the order of publication, and the time of their release.

    The `size` (bytes) counts as backlog of the endpoint. The limit of the backlog bounds it.
    """

    __slots__ = ("_until", "is_complete", "parcels", "retained", "size")

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.retained: set[str] = set()  # topics of retained parcels: no replay before release
        self.size = 0
        self._until = inf
        self.is_complete = False  # whether the first round is over

    @property
    def deadline(self) -> float:
        """When nothing waits any more."""
        return self._until if self.parcels else inf

    def complete(self, until: float) -> None:
        """Note that the first round is over; late answers may arrive until `until` (monotonic seconds)."""
        self.is_complete, self._until = True, until

    def is_over(self, now: float) -> bool:
        """Whether nothing waits any more."""
        return now >= self._until

    def has_to_wait(self, now: float, options: Options, route: Sequence[str]) -> bool:
        """Whether a publication for these peers (`route`, maybe empty) has to wait."""
        return options.ordered and not (route and self.is_complete) and now < self._until

    def add(self, parcel: Parcel) -> None:
        """Hold a parcel."""
        self.parcels.append(parcel)
        self.size += parcel.group.size
        if parcel.options.retain:
            self.retained.add(parcel.group.topic)

    def released(self, match: Callable[[str], Sequence[str]], is_over: bool) -> list[Parcel]:
        """Remove and return parcels with a subscriber, in order; all parcels if the waiting `is_over`."""
        if not (self.is_complete or is_over):
            return []
        parcels = self.parcels
        released = [parcel for parcel in parcels if is_over or match(parcel.group.topic)]
        if released:
            self.parcels = [] if is_over else [parcel for parcel in parcels if not match(parcel.group.topic)]
            self.size -= sum([parcel.group.size for parcel in released])
            self.retained.difference_update([parcel.group.topic for parcel in released])
        return released
