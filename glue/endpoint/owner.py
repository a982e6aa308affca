"""The functions of an endpoint for its subscriptions and their queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from glue.contract import Delivery
from glue.contract.frozen import Frozen
from glue.endpoint.message import Gap


class SubscriptionOwner(Protocol):
    """The functions of an endpoint that a subscription calls; they are no part of what a user sees."""

    def keep(self, delivery: Delivery, /) -> None:
        """Count a delivery that goes on waiting although the driver has handed it over."""

    def handled(self, delivery: Delivery, /) -> None:
        """Stop counting a delivery: it was read, or will never be."""

    def settled(self, outcome: str, count: int, /) -> None:
        """Count messages with that outcome (`glue.endpoint.accounting.OUTCOMES`)."""

    def failed(self) -> None:
        """Count a handler that raised."""

    def tell_gap(self, gap: Gap, /) -> None:
        """Call `on_gap`: messages are missing here."""

    def unsubscribe(self, subscription: Any, /) -> None:
        """Forget a subscription that was closed."""


class OwnerFunctions(Frozen):
    """A `SubscriptionOwner` as a record of functions, so that a call takes no way through the endpoint."""

    keep: Callable[[Delivery], None]
    handled: Callable[[Delivery], None]
    settled: Callable[[str, int], None]
    failed: Callable[[], None]
    tell_gap: Callable[[Gap], None]
    unsubscribe: Callable[[Any], None]
