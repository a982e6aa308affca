"""The methods for presence, promised rates and deadlines that every kind of endpoint has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glue.contract import Delivery, Subscribe, Survey, Unsubscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.receivers import Announcement
from glue.endpoint.sealing import require
from glue.endpoint.wanted import Wanted
from glue.errors import ConfigurationError
from glue.model import StackRequest
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used, which is rarely
    from glue.endpoint.deadlines import DeadlineWatch, Silence


class PublisherAnnouncement(Announcement):
    """Tells the network that this endpoint publishes to some topics; also a context manager."""

    def __init__(self, pattern: str, end: Callable[[PublisherAnnouncement], None], drop: Callable[[Delivery], None]):
        """Use `Endpoint.announce`."""
        super().__init__(drop)
        self.pattern = pattern
        self._end = end

    def close(self) -> None:
        """Take the announcement back, and the promise with it. A second call does nothing."""
        self._end(self)

    def __enter__(self) -> PublisherAnnouncement:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> PublisherAnnouncement:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class PresenceMethods:
    """Presence, announcements and deadlines of an endpoint."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _COUNTS: bool
    _deadlines: dict[Any, DeadlineWatch] | None = None  # by subscription

    def _order_request(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _tell_silence(self, silence: Silence) -> None:
        """Call `on_deadline`."""
        raise NotImplementedError

    def announce(self, pattern: str, *, publish_every: float | None = None) -> PublisherAnnouncement:
        """Announce this endpoint as a publisher of the topics that match a pattern.

        publish_every: a promise that each of these topics has a message at least every so many seconds.

        Others see the announcement in `watch_presence`, and the promise lets their deadlines work. It ends with
        `close()` of the result, or with the endpoint. Raises TopicError, ConfigurationError, ClosedError.
        """
        from glue.endpoint.presence import NEVER, PUBLISHER

        interval = 0
        if publish_every is not None:
            is_number = isinstance(publish_every, (int, float)) and not isinstance(publish_every, bool)
            if not is_number or not 0.001 <= publish_every <= NEVER / 1000:
                raise ConfigurationError(
                    f"publish_every={publish_every!r}: expected seconds, from 0.001 to {NEVER // 1000}"
                )
            interval = math.ceil(publish_every * 1000)
        check_pattern(pattern)
        check_not_reserved(pattern)
        require(self._core.guard, "publish", (pattern,))
        interest = f"{PUBLISHER}{interval}/{pattern}"
        check_pattern(interest)  # which is longer
        announcement = PublisherAnnouncement(
            pattern, lambda token: self._order_quietly(Unsubscribe(token)), self._drop_delivery
        )
        self._order_request(Subscribe(announcement, interest))
        return announcement

    def _drop_delivery(self, delivery: Delivery) -> None:
        """Drop what a peer published where nothing is to be published."""
        self._owner.settled("unread", len(delivery.payloads))
        if self._COUNTS:
            self._owner.handled(delivery)

    def _begin_watch(self, pattern: str, token: Any) -> Survey:
        """Let a new subscription be told of presence; returns the request with which it begins."""
        from glue.endpoint.presence import PresenceWatch

        identity = self._core.identity
        who = identity.name, identity.endpoint_id, identity.incarnation
        observers = self._core.observers
        observers.add(PresenceWatch(pattern, token, who, observers, self._core.statistics))
        return Survey(token)

    def _begin_deadline(self, wanted: Wanted, subscription: Any) -> None:
        """Watch the deadline of a new subscription, if it has one."""
        if wanted.deadline is None:
            return
        from glue.endpoint.deadlines import DeadlineWatch

        watch = DeadlineWatch(
            wanted.patterns, wanted.deadline, wanted.name, self._owner, self._order_quietly,
            self._core.requests.clock, self._tell_silence, self._COUNTS, wanted.qos is not None,
        )  # fmt: skip
        self._deadlines = {**(self._deadlines or {}), subscription: watch}
        self._core.observers.add(watch)
        first, *others = wanted.interests
        self._order_request(Subscribe(watch, first, others, local=False))
        self._order_request(Survey(watch))

    def _end_deadline(self, subscription: Any) -> None:
        """Stop watching the deadline of a subscription that was closed."""
        watch = (self._deadlines or {}).pop(subscription, None)
        if watch is not None:
            self._core.observers.remove(watch)
            watch.close()
            self._order_quietly(Unsubscribe(watch))
