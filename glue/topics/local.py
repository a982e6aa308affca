"""Deliveries of an endpoint to itself, which wait for the next `receive`."""

from __future__ import annotations

from collections import Counter

from glue.contract import Delivery, Event


class LocalDeliveries:
    """Deliveries with their expiry. Bounded by the caller: the backlog shows their `size`, and `take` takes all."""

    __slots__ = ("_statistics", "_waiting", "size")

    def __init__(self, statistics: Counter[str]) -> None:
        self._statistics = statistics
        self._waiting: list[tuple[float, Delivery]] = []
        self.size = 0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def add(self, delivery: Delivery, expires: float, size: int) -> None:
        """Queue a delivery of `size` bytes that expires then (monotonic seconds)."""
        self._statistics["messages to oneself"] += len(delivery.payloads)
        self._waiting.append((expires, delivery))
        self.size += size

    def take(self, now: float, up: list[Event]) -> None:
        """Move what has not expired to `up`."""
        for expires, delivery in self._waiting:
            if expires < now:
                self._statistics["messages expired"] += len(delivery.payloads)
            else:
                up.append(delivery)
        self._waiting.clear()
        self.size = 0
