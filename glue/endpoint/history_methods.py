"""The methods for history that every kind of endpoint has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from glue.contract import Delivery, Event, Publication, Record, Subscribe, Unsubscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.queues import waiting_room
from glue.endpoint.receivers import Announcement, Receiver
from glue.endpoint.wanted import Queue, Wanted
from glue.errors import ConfigurationError
from glue.history.names import OWN, ask_topic, page_topic
from glue.model import StackRequest

if TYPE_CHECKING:  # imported when used: most programs have no history
    from glue.endpoint.history import History
    from glue.storage import Log

ROOM = 8 << 20
"""Bytes that wait at most for the reader of a subscription with history, and are asked for at once."""


class HistoryReceiver(Receiver):
    """Receives pages for the readers of this endpoint, or requests to it."""

    def __init__(
        self,
        take: Callable[[Delivery], list[Publication]],
        owner: OwnerFunctions,
        order: Callable[[StackRequest], None],
        counts: bool,
    ) -> None:
        """`take` returns what to publish. `counts`: it is this receiver that tells when a delivery is handled."""
        super().__init__()
        self._take = take
        self._owner = owner
        self._order = order
        self._counts = counts

    def _deliver(self, event: Event) -> None:
        """Take a delivery."""
        if not isinstance(event, Delivery):
            return
        publications = self._take(event)
        self._owner.settled("handled", len(event.payloads))
        if self._counts:
            self._owner.handled(event)
        for publication in publications:
            self._order(publication)


class HistoryMethods:
    """Memory of what an endpoint published, and subscriptions that begin with what others remember."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _COUNTS: bool
    _served: dict[str, Announcement] | None = None  # set by the first `remember`; by pattern
    _reads: History | None = None  # its pages are received
    _asked: History | None = None  # its requests are received

    def _order_request(self, request: StackRequest) -> None:
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        raise NotImplementedError

    def _wake_soon(self) -> None:
        """Have a turn run soon, from any thread, without waiting for one."""
        raise NotImplementedError

    def remember(
        self, pattern: str, *, last: int | None = None, age: float | str | None = None, size: int | str | None = None
    ) -> None:
        """Keep what this endpoint publishes from now on, for subscriptions that start later.

        pattern: the topics; a topic that matches several patterns obeys the first in the alphabet.
        last: how many messages of each topic are kept; None: no limit.
        age: how many seconds, or text such as "10m" or "2h"; None: no limit.
        size: how many bytes for all topics of this pattern, 512 for each message included, or text such as "64MB"; the
            default is 64 MiB.

        The oldest messages go first. The messages are in memory, and end with this endpoint. A second call with the
        same pattern changes its limits. Subscribers read them with `subscribe(..., start=)`.

        Raises TopicError, ConfigurationError, ClosedError.
        """
        from glue.endpoint.history_options import limits_of  # imported when used: most programs have no history

        limits = limits_of(pattern, last, age, size)
        check_not_reserved(pattern)
        history = self._history()
        with history.lock:
            history.memory.remember(limits)
            served = self._served
            if served is not None and pattern in served:
                return
            announcement = Announcement(self._drop_offer)
            self._served = {**(served or {}), pattern: announcement}
        self._order_request(Record(pattern, history.record))
        self._receive_requests(history)
        self._order_request(Subscribe(announcement, OWN + pattern))
        self._change_offer(OWN + pattern, True)

    def _receive_requests(self, history: History) -> None:
        """Receive requests for history from now on."""
        with history.lock:
            if self._asked is history:
                return
            self._asked = history
        asks = HistoryReceiver(history.take_requests, self._owner, self._order_quietly, self._COUNTS)
        self._order_request(Subscribe(asks, ask_topic(self._core.identity.endpoint_id)))

    def _serve_kept(self, interest: str, log: Log) -> None:
        """Serve the content of a log to readers of history."""
        history = self._history()
        history.serve(log)
        self._receive_requests(history)
        self._change_offer(interest, True)

    def _serve_no_more(self, interest: str) -> None:
        """Serve what was kept under this interest no more."""
        self._change_offer(interest, False)

    def forget(self, pattern: str) -> None:
        """Drop what `remember` kept for this pattern, and keep no more. Raises ConfigurationError for another one."""
        served = self._served or {}
        if pattern not in served:
            raise ConfigurationError(f"{pattern!r} is not remembered; what is: {', '.join(served) or 'nothing'}")
        history = self._history()
        with history.lock:
            self._served = {one: announcement for one, announcement in served.items() if one != pattern}
            history.memory.forget(pattern)
        self._order_request(Record(pattern, None))
        self._order_request(Unsubscribe(served[pattern]))
        self._change_offer(OWN + pattern, False)

    def _change_offer(self, interest: str, is_offered: bool) -> None:
        """Tell the subscriptions of this endpoint itself."""
        core, id = self._core, self._core.identity.endpoint_id
        history = self._history()
        with history.lock:
            if is_offered and core.offers.add(id, interest):
                history.changed(id, [interest], [])
            elif not is_offered and core.offers.remove(id, interest):
                history.changed(id, [], [interest])
        self._wake_soon()

    def _drop_offer(self, delivery: Delivery) -> None:
        self._core.statistics["messages to history that are no requests"] += len(delivery.payloads)
        self._owner.settled("unread", len(delivery.payloads))
        if self._COUNTS:
            self._owner.handled(delivery)

    def _history(self) -> History:
        return self._core.open_history(self._wake_soon)

    def _waiting_room(self, wanted: Wanted, policy: str, limit: int | None) -> Queue:
        """Where the messages of a new subscription wait. Raises ConfigurationError."""
        core = self._core
        if wanted.consumer is not None:
            return cast(Any, self)._consumer_room(wanted, policy, limit)  # type: ignore[no-any-return]
        policy, limit = wanted.queueing(policy, limit)
        if not wanted.has_history:
            return waiting_room(policy, limit, core.settings.receive_limit, self._owner, core.requests.clock)
        if policy != "block" or limit is not None:
            raise ConfigurationError(
                f"policy={policy!r}, limit={limit!r}: with start or last nothing is dropped; leave them out"
            )
        from glue.endpoint.history_options import start_of

        found = start_of(wanted.start, wanted.last, core.requests.unix_time())
        history = self._history()
        room = history.room(wanted.name, found, min(ROOM, core.settings.receive_limit), self._owner, wanted.local)
        self._receive_pages(history)
        return room

    def _receive_pages(self, history: History) -> None:
        """Receive pages of history from now on."""
        if self._reads is not history:
            self._reads = history
            identity = self._core.identity
            pages = HistoryReceiver(self._take_pages, self._owner, self._order_quietly, self._COUNTS)
            self._order_request(Subscribe(pages, page_topic(identity.endpoint_id, identity.incarnation)))

    def _take_pages(self, delivery: Delivery) -> list[Publication]:
        history = self._history()
        for room in history.take_pages(delivery):
            room.poke()
        return history.requests(self._core.requests.clock())
