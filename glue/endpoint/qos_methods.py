"""The methods for quality of service of every kind of endpoint: they combine existing options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from glue.contract import Delivery, Event, Subscribe, Survey, Unsubscribe
from glue.endpoint.core import EndpointCore
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.receivers import Announcement
from glue.endpoint.sealing import require
from glue.endpoint.wanted import Queue, Wanted
from glue.errors import ConfigurationError
from glue.model import StackRequest
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used: most programs name no quality of service
    from glue.endpoint.qos import QoS
    from glue.endpoint.qos_matching import Matching, QoSMismatch, Requested
    from glue.endpoint.qos_terms import Statement


class QoSMethods:
    """Offers and requests of an endpoint."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _COUNTS: bool
    _matching: Matching | None = None  # set by the first offer or request
    _stated: dict[Statement, Announcement] | None = None
    _requested: dict[Any, Requested] | None = None  # by subscription

    def _order_request(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _tell_qos_mismatch(self, mismatch: QoSMismatch) -> bool:
        """Call `on_qos_mismatch`; returns whether there is one."""
        raise NotImplementedError

    def _qos_matching(self) -> Matching:
        """Return the `Matching`; the first call asks for offers and requests."""
        if self._matching is None:
            from glue.endpoint.qos_matching import Matching

            core, identity = self._core, self._core.identity
            matching = Matching(
                (identity.name, identity.endpoint_id, identity.incarnation), self._owner, core.statistics,
                core.requests.clock, self._tell_qos_mismatch, self._COUNTS,
            )  # fmt: skip
            self._stated, self._requested = {}, {}
            core.observers.add(matching)
            self._order_request(Survey(matching))
            self._matching = matching
        return self._matching

    def _state_terms(self, statement: Statement) -> None:
        """Tell the peers of an offer or a request."""
        check_pattern(statement.interest)  # which is longer
        matching = self._qos_matching()
        if matching.add(statement):
            announcement = Announcement(self._drop_stated)
            cast("dict[Statement, Announcement]", self._stated)[statement] = announcement
            self._order_request(Subscribe(announcement, statement.interest))

    def _withdraw_terms(self, statement: Statement) -> None:
        """Take back an offer or a request."""
        if self._matching is not None and self._matching.remove(statement):
            announcement = (self._stated or {}).pop(statement, None)
            if announcement is not None:
                self._order_quietly(Unsubscribe(announcement))

    def _drop_stated(self, delivery: Delivery) -> None:
        """Drop what a peer published where nothing is to be published."""
        self._settle(delivery, "unread")

    # -------------------------------------------------------------------------------------------- requests

    def _begin_request(self, wanted: Wanted, subscription: Any, waiting: Queue) -> None:
        """Let a new subscription have what its quality of service admits; before it begins."""
        from glue.endpoint.history_room import HistoryRoom
        from glue.endpoint.qos_matching import TOPIC, Requested
        from glue.endpoint.qos_terms import terms_of

        assert wanted.qos is not None
        matching = self._qos_matching()
        requested = Requested(terms_of(wanted.qos), wanted.patterns, matching)
        matching.begin(subscription, requested)
        for statement in requested.statements:
            self._state_terms(statement)
        cast("dict[Any, Requested]", self._requested)[subscription] = requested
        deliver = subscription._deliver

        def admits(delivery: Delivery) -> bool:
            if requested.admits(delivery):
                return True
            self._owner.settled("left out", len(delivery.payloads))
            return False

        if isinstance(waiting, HistoryRoom):
            waiting.reader.admits = admits

        def take(event: Event) -> None:
            if not isinstance(event, Delivery):
                deliver(event)
            elif event.topic == TOPIC:
                requested.handle(event.payloads[0])
                self._settle(event, "handled")
            elif isinstance(waiting, HistoryRoom):  # which asks when the message's turn is there
                if requested.judge(event):
                    matching.left_out(requested.statements, event)
                deliver(event)
            elif requested.admits(event):
                deliver(event)
            else:
                self._settle(event, "left out")
                matching.left_out(requested.statements, event)

        subscription._deliver = take

    def _settle(self, delivery: Delivery, outcome: str) -> None:
        """Count a delivery that goes no further."""
        self._owner.settled(outcome, len(delivery.payloads))
        if self._COUNTS:
            self._owner.handled(delivery)

    def _end_request(self, subscription: Any) -> None:
        """Take back the request of a subscription that was closed."""
        requested = (self._requested or {}).pop(subscription, None)
        if requested is not None:
            cast("Matching", self._matching).end(subscription)
            for statement in requested.statements:
                self._withdraw_terms(statement)

    # ---------------------------------------------------------------------------------------------- offers

    def _offer(self, qos: QoS, pattern: str) -> Offer:
        """Offer topics with a quality of service: tell of it, remember what is published, promise a rate."""
        from glue.endpoint.qos_terms import OFFER, Statement, terms_of

        settings = self._core.settings
        lease = settings.announce_interval * settings.lease_intervals
        if qos.liveliness is not None and qos.liveliness < lease:
            raise ConfigurationError(
                f"liveliness={qos.liveliness!r}: this endpoint is missed after {lease:g} s, announce_interval times "
                f"lease_intervals; start it with announce_interval={qos.liveliness / settings.lease_intervals:.3g}"
            )
        require(self._core.guard, "publish", (pattern,))
        statement = Statement(OFFER, terms_of(qos, lease), pattern)
        check_pattern(statement.interest)  # before anything is promised
        endpoint = cast(Any, self)
        if qos.is_kept:
            count = qos.count if qos.count is not None else qos.history.depth
            endpoint.remember(pattern, last=count, age=qos.age, size=qos.size)
        promise = None if qos.deadline is None else endpoint.announce(pattern, publish_every=qos.deadline)
        self._state_terms(statement)

        def close() -> None:
            self._withdraw_terms(statement)
            if promise is not None:
                promise.close()

        return Offer(publishing_options(qos), close)


class Offer:
    """An offer to peers; `options` are the options of `publish` that it stands for."""

    def __init__(self, options: dict[str, Any], close: Callable[[], None]) -> None:
        self.options = options
        self._close = close

    def close(self) -> None:
        """Take the offer back. What is remembered stays. A second call does nothing."""
        close, self._close = self._close, lambda: None
        close()


def publishing_options(qos: QoS) -> dict[str, Any]:
    """The options of `publish` that a quality of service stands for."""
    options: dict[str, Any] = {}
    if qos.reliability != "reliable":
        options["reliability"] = qos.reliability
    if qos.lifespan is not None:
        options["lifespan"] = qos.lifespan
    if qos.priority != "normal":
        options["priority"] = qos.priority
    if qos.is_kept and qos.history.depth == 1:
        options["retain"] = True
    if qos.durability == "persistent":
        options.update(receipt=True, acks="disk")
    return options
