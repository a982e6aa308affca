"""The methods for delayed messages; `delays.py` is imported with the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from glue.contract import Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.durability import HELD, Acks
from glue.endpoint.receipt import Receipt
from glue.model import StackRequest

if TYPE_CHECKING:
    from glue.endpoint.delays import Delayed, Delays


class DelayMethods:
    """The methods for delayed messages that every kind of endpoint has."""

    _core: EndpointCore
    _delays: Delays | None = None  # set by the first delayed message

    def _running(self) -> Any:
        """The driver. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _publish_later(
        self, publication: Publication, delay: float | None, deliver_at: float | None, receipt: Receipt | None
    ) -> Delayed:
        """Keep a message until its time. Raises ConfigurationError, WouldBlockError, ClosedError."""
        from glue.endpoint.delays import seconds_of

        self._running()
        seconds = seconds_of(delay, deliver_at, self._core.requests.unix_time())
        if receipt is not None and receipt.expectation is not None:  # it is about keepers, not about the publication
            publication.options = publication.options.replaced(receipt=None)
        return self._open_delays().add(publication, seconds, self._core.requests.clock(), receipt)

    def _open_delays(self) -> Delays:
        if self._delays is None or self._delays._core is not self._core:  # of this life
            from glue.endpoint.delays import Delays

            self._delays = Delays(self._order_quietly, self._core)
        return self._delays

    def _delayed_receipt(self, topic: str, acks: Acks) -> Any:
        """Return the receipt of a message that keepers are to hold until it is due. Raises ConfigurationError."""
        delays, endpoint = self._open_delays(), cast(Any, self)
        with delays.lock:  # expected in the order of their numbers
            receipt = endpoint._make_receipt(HELD + topic, 1, acks)
            self._core.durability.addressed(receipt.expectation, next(delays.numbers))
        return receipt
