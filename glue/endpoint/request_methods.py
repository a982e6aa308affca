"""The methods for requests and replies that every kind of endpoint has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from glue.contract import Delivery, Event, Subscribe, Unsubscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.owner import OwnerFunctions, SubscriptionOwner
from glue.endpoint.receivers import Receiver
from glue.endpoint.requests import Requests, check_timeout, tails
from glue.endpoint.sealing import require
from glue.errors import ClosedError, ConfigurationError, TopicError
from glue.model import StackRequest
from glue.requests import Call, Reply
from glue.requests.wire import reply_topic, request_topic
from glue.topics import check_topic

if TYPE_CHECKING:  # imported when used: most programs answer no requests
    from glue.endpoint.responder import BaseResponder, RequestHandler

AnyHandler = TypeVar("AnyHandler", bound="RequestHandler")

NO_ID = "0" * 16


class Replies(Receiver):
    """Receives the replies to this life of an endpoint."""

    def __init__(
        self, requests: Requests, owner: SubscriptionOwner, order: Callable[[StackRequest], None], counts: bool
    ) -> None:
        """`order` passes requests to the stack. `counts`: it is this receiver that tells when a delivery is handled."""
        super().__init__()
        self._requests = requests
        self._owner = owner
        self._order = order
        self._counts = counts

    def _deliver(self, event: Event) -> None:
        """Take replies."""
        if not isinstance(event, Delivery):
            return
        publications = self._requests.take(event)
        self._owner.settled("handled", len(event.payloads))
        if self._counts:
            self._owner.handled(event)
        for publication in publications:
            self._order(publication)


class RequestMethods:
    """Responders of an endpoint, and what is checked of its requests."""

    _core: EndpointCore
    _owner: OwnerFunctions
    _replies: Replies | None = None  # set by the first request
    _responders: dict[BaseResponder, None] | None = None  # set by the first responder, the closed ones first
    _COUNTS = True

    def _running(self) -> Any:
        """The driver. Raises ClosedError."""
        raise NotImplementedError

    def _order_request(self, request: StackRequest) -> None:
        """Pass a request to the stack. Raises ClosedError."""
        self._running().order(request)

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack without waiting for a turn; a closed endpoint drops it."""
        with suppress(ClosedError):
            self._order_request(request)

    def _make_responder(self, pattern: str, handler: RequestHandler) -> BaseResponder:
        """A responder of this kind of endpoint."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------- responders

    def respond(self, pattern: str, handler: RequestHandler) -> BaseResponder:
        """Answer requests on topics that match a pattern."""
        raise NotImplementedError

    def responder(self, pattern: str) -> Callable[[AnyHandler], AnyHandler]:
        """Answer with the decorated function, as `respond` does."""

        def decorate(handler: AnyHandler) -> AnyHandler:
            self.respond(pattern, handler)
            return handler

        return decorate

    def _respond(self, pattern: str, handler: RequestHandler) -> BaseResponder:
        """Add a responder: first what receives requests, then what tells of it."""
        from glue.endpoint.responder import check_responder

        check_responder(self._core.requests, pattern, handler)
        check_not_reserved(pattern)
        check_no_address(pattern)
        require(self._core.guard, "respond", (pattern,))
        responder = self._make_responder(pattern, handler)
        requests = self._core.requests
        with requests.lock:
            requests.directory.add(requests.endpoint_id, pattern)
            self._responders = {**(self._responders or {}), responder: None}
        self._order_request(Subscribe(responder, responder.request_pattern))
        self._order_request(Subscribe(responder.announcement, responder.announced_pattern))
        return responder

    def _close_responder(self, responder: BaseResponder) -> None:
        """Take back what tells of a responder; what is under way to it is refused for a while."""
        from glue.endpoint.responder import KEPT

        requests = self._core.requests
        with requests.lock:
            if responder.is_closed:
                return
            responder.is_closed = True
            requests.directory.remove(requests.endpoint_id, responder.pattern)
            closed = [one for one in self._responders or () if one.is_closed]
            leaving = closed[: max(0, len(closed) - KEPT)]
            self._responders = {one: None for one in self._responders or () if one not in leaving}
        self._order_request(Unsubscribe(responder.announcement))
        for one in leaving:
            self._order_request(Unsubscribe(one))

    def _close_quietly(self, responder: BaseResponder) -> None:
        """Close a responder; a closed endpoint has ended all of its responders."""
        with suppress(ClosedError):
            self._close_responder(responder)

    def responders(self, topic: str) -> list[str]:
        """Names of the known responders of a topic, sorted; this endpoint may be among them."""
        check_topic(topic)
        requests = self._core.requests
        return sorted(map(requests.name_of, requests.responders(topic)))

    # ------------------------------------------------------------------------------------------- requests

    def _tails(self, topic: str, payloads: Sequence[Any], timeout: float) -> list[bytes]:
        """Check a request, and encode its payloads. Raises what a request raises for a caller's mistake."""
        requests = self._core.requests
        if topic.__class__ is not str or topic not in requests.checked:
            check_topic(topic)
            check_not_reserved(topic)
            check_no_address(topic)
            check_topic(request_topic(NO_ID, topic))  # which is longer
            requests.note_checked(topic)
        require(self._core.guard, "publish", (topic,))
        check_timeout(timeout)
        return tails(payloads, self._core.settings.message_limit, f"a request on {topic!r:.80}")

    def _receive_replies(self) -> Requests:
        """Subscribe to replies at the first request."""
        requests = self._core.requests
        if self._replies is None:
            with requests.lock:
                if requests.replies is None:
                    requests.replies = Replies(requests, self._owner, self._order_quietly, self._COUNTS)
            topic = reply_topic(requests.endpoint_id, requests.incarnation)
            self._order_request(Subscribe(requests.replies, topic))  # of a second thread, too, which may be faster
            self._replies = requests.replies
        return requests

    def _check_many(self, topic: str, timeout: float, outstanding: int) -> None:
        """Raise what `request_many` raises for a caller's mistake, before the first payload is read."""
        self._tails(topic, (), timeout)
        if isinstance(outstanding, bool) or not isinstance(outstanding, int) or outstanding < 1:
            raise ConfigurationError(f"outstanding={outstanding!r}: expected a number of requests, at least 1")
        self._running()

    def _advance(self, calls: Sequence[Call]) -> None:
        """Do what is due for these calls."""
        for publication in self._core.requests.advance(calls):
            self._order_quietly(publication)


def is_address(topic: Any) -> bool:
    """Whether `request` is given the address of a receiver: a ":" is in the first level."""
    return topic.__class__ is str and ":" in topic and ":" in topic.partition("/")[0]


def check_no_address(topic: str) -> None:
    """Raise TopicError for what `request` takes for the address of a receiver."""
    if is_address(topic):
        raise TopicError(
            f"{topic!r:.80}: a ':' in the first level makes it the address of a receiver, for request, ask and send"
        )


def replies_of(calls: Iterable[Call]) -> Iterator[Reply]:
    """The replies of calls that have ended."""
    for call in calls:
        yield from cast(list[Reply], call.replies)


def ended_and_waiting(calls: Iterable[Call]) -> tuple[list[Call], list[Call]]:
    """Part calls into ended calls and waiting calls."""
    parts: tuple[list[Call], list[Call]] = [], []
    for call in calls:
        parts[not call.is_over].append(call)
    return parts
