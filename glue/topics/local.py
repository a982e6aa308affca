"""Deliveries of an endpoint to itself, which wait for the next `receive`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from glue.contract import Delivery, Event
from glue.topics.bundle import LIVE, MessageGroup
from glue.topics.deliveries import deliveries, unwrap
from glue.topics.retained import RetainedValue, kept


class LocalDeliveries:
    """Deliveries with their expiry. Bounded by the caller: the backlog shows their `size`, and `take` takes all."""

    __slots__ = ("_identity", "_statistics", "size", "waiting")

    def __init__(self, identity: tuple[str, str, int], statistics: Counter[str]) -> None:
        """`identity` is name, id and incarnation."""
        self._identity = identity
        self._statistics = statistics
        self.waiting: list[tuple[float, Delivery]] = []
        self.size = 0

    @property
    def endpoint_id(self) -> str:
        """The id of this endpoint."""
        return self._identity[1]

    @property
    def identity(self) -> tuple[str, str, int]:
        """Name, id and incarnation of this endpoint."""
        return self._identity

    def add(self, delivery: Delivery, expires: float, size: int) -> None:
        """Queue a delivery of `size` bytes that expires then (monotonic seconds)."""
        self._statistics["messages to oneself"] += len(delivery.payloads)
        self.waiting.append((expires, unwrap(delivery)))
        self.size += size

    def add_kept(self, delivery: Delivery, value: RetainedValue) -> None:
        """Queue the delivery of a value that was kept."""
        if value.via:
            delivery.via = value.via
        self.add(delivery, value.expires, len(value.payload))

    def hand_over(self, value: RetainedValue, tokens: tuple[Hashable, ...]) -> None:
        """Queue a kept value for these subscriptions."""
        publisher = value.publisher, value.publisher_id, value.incarnation
        for delivery in deliveries(self._statistics, kept(value), *publisher, tokens, value.expires):
            self.add_kept(delivery, value)

    def publish(self, group: MessageGroup, expires: float, tokens: tuple[Hashable, ...]) -> None:
        """Queue what this endpoint published, for its own subscriptions."""
        size = group.size
        live = group.part(0, len(group.payloads))  # a list of its own: that of the group may grow in the outbox
        live.retain = LIVE
        for delivery in deliveries(self._statistics, live, *self._identity, tokens, expires):
            self.add(delivery, expires, size)
            size = 0

    def take(self, now: float, up: list[Event]) -> None:
        """Move what has not expired to `up`."""
        for expires, delivery in self.waiting:
            if expires < now:
                self._statistics["messages expired"] += len(delivery.payloads)
            else:
                up.append(delivery)
        self.waiting.clear()
        self.size = 0
