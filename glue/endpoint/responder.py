"""A responder: the requests that match a pattern, and the answers of its handler.

Every kind of endpoint shares this part. A request is looked at when it arrives, even while the handler is at work,
since its age counts from there. Then it is handled, or dropped if its caller has given up or left meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from glue.contract import Delivery
from glue.contract.heads import MalformedError
from glue.endpoint.callbacks import Failures
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receivers import Announcement, Receiver
from glue.endpoint.request import Request
from glue.endpoint.requests import Requests, tail
from glue.errors import ConfigurationError, GlueError
from glue.requests.wire import (
    GONE,
    REQUEST,
    Hop,
    RequestHead,
    announcement,
    decode_body,
    decode_request,
    encode_reply,
    error_tail,
    refusal_tail,
    reply_topic,
    request_topic,
)
from glue.topics import check_pattern

RequestHandler = Callable[[Request], Any]
"""Called with each request; it returns the answer."""

KEPT = 64
"""Closed responders that go on refusing requests: those that callers sent before they knew of it."""


class BaseResponder(Receiver):
    """Answers requests on topics that match a pattern, until it is closed."""

    _COUNTS = True  # a handled delivery is counted here, not by the driver

    def __init__(
        self,
        pattern: str,
        handler: RequestHandler,
        requests: Requests,
        owner: SubscriptionOwner,
        limit: int,
        close: Callable[[BaseResponder], None],
    ) -> None:
        """`limit` is the largest answer in bytes; `close` ends a responder."""
        super().__init__()
        self.pattern = pattern
        self.is_closed = False
        self.announcement = Announcement(self._drop)
        self.announced_pattern = announcement(pattern)
        self.request_pattern = request_topic(requests.endpoint_id, pattern)
        self._handler = handler
        self._requests = requests
        self._owner = owner
        self._limit = limit
        self._close = close
        self._prefix = len(request_topic(requests.endpoint_id, ""))
        self._hop: Hop = (requests.endpoint_id, requests.name, pattern)
        self._failures = Failures(f"the responder of {pattern!r}")

    def close(self) -> None:
        """Answer no more requests. A request that is being handled is still answered. A second call does nothing."""
        self._close(self)

    # --------------------------------------------------------------------------------------- from a request

    def _opened(self, delivery: Delivery, arrived: float) -> Iterator[Request | tuple[int, bytes]]:
        """The requests of a delivery that are to be handled, and replies (id and end) that are known already."""
        statistics, clock = self._requests.statistics, self._requests.clock
        arrived -= getattr(delivery, "age", 0.0)
        is_chosen = self._is_chosen(delivery)
        topic, path = delivery.topic[self._prefix :], (self._hop,)
        for payload in delivery.payloads:
            try:
                found = REQUEST.match(payload) if payload.__class__ is bytes else None
                if found is not None:
                    id, within, json = found.groups()
                    head, body, expires = None, payload[found.end() :], arrived + int(within) / 1000
                    value = body if json is None else decode_body(body, True)
                else:
                    head, body = decode_request(payload)
                    expires, value = arrived + head.within, decode_body(body, head.is_json)
            except MalformedError:
                statistics["malformed requests"] += 1
                continue
            if not is_chosen:
                continue
            now = clock()
            if expires <= now:
                statistics["requests expired"] += 1
                continue
            if head is None and not self.is_closed:
                yield Request(
                    topic, value, delivery.publisher, delivery.publisher_id, delivery.incarnation, int(id), expires,
                    False, path, self,
                )  # fmt: skip
                continue
            head = head or RequestHead(int(id), 0.0, False, False, ())
            refusal = self._refusal(now, delivery, head, expires)
            if refusal is None:
                yield self._request(delivery, head, value, expires)
            elif refusal:
                yield head.id, refusal

    def _request(self, delivery: Delivery, head: RequestHead, value: Any, expires: float) -> Request:
        path = (*head.path, self._hop) if head.path else (self._hop,)
        return Request(
            delivery.topic[self._prefix :], value, delivery.publisher, delivery.publisher_id, delivery.incarnation,
            head.id, expires, head.is_repeatable, path, self,
        )  # fmt: skip

    def _is_chosen(self, delivery: Delivery) -> bool:
        """Whether this responder answers: it is the first open one of the endpoint's matching responders."""
        tokens: Any = delivery.tokens
        if len(tokens) == 1:
            return True
        return next((token for token in tokens if not token.is_closed), tokens[0]) is self

    def _refusal(self, now: float, delivery: Delivery, head: RequestHead, expires: float) -> bytes | None:
        """The end of the reply to a request that is not to be handled, b"" for no reply; None: it is to be handled."""
        if self.is_closed:
            self._requests.statistics["requests refused: no responder"] += 1
            return refusal_tail(GONE)
        if head.is_repeatable:
            with self._requests.lock:
                key = delivery.publisher_id, delivery.incarnation, head.id
                return self._requests.memory.begin(now, key, expires)
        return None

    def _is_awaited(self, delivery: Delivery) -> bool:
        """Whether the caller is still there, for what had to wait."""
        return self._requests.is_there(delivery.publisher_id, delivery.incarnation)

    def _drop(self, delivery: Delivery) -> None:
        self._requests.statistics["messages to responders that are no requests"] += len(delivery.payloads)
        self._owner.settled("unread", len(delivery.payloads))
        if self._COUNTS:
            self._owner.handled(delivery)

    # ---------------------------------------------------------------------------------------- to its answer

    def _answered(self, request: Request, answer: Any) -> bytes | None:
        """The reply with what a handler returned; None if the request was answered, or will be later."""
        if request.is_later or not request.try_to_claim():
            return None
        if answer.__class__ is bytes and len(answer) <= self._limit and not request.is_repeatable:
            return b'{"id":%d}\n%b' % (request.id, answer)  # as below
        return self._keep(request, self._tail(request, answer))

    def _failed(self, request: Request, error: BaseException) -> bytes | None:
        """The reply with what a handler raised; None if the request was answered. Call it where that is handled."""
        return self._keep(request, self._failed_tail(request, error)) if request.try_to_claim() else None

    def _tail(self, request: Request, value: Any) -> bytes:
        """The end of the reply with an answer; an answer that cannot travel becomes an error."""
        try:
            return tail(value, self._limit, "an answer")
        except GlueError as error:
            return self._failed_tail(request, error)

    def _failed_tail(self, request: Request, error: BaseException) -> bytes:
        """Return the end of the reply for an error of the handler; call it where the error is handled."""
        self._failures.note(request)
        self._owner.failed()
        return tail_of_error(error)

    def _keep(self, request: Request, tail: bytes) -> bytes:
        """The reply; its end is remembered if the request may come again."""
        if request.is_repeatable:
            with self._requests.lock:
                self._requests.memory.answer((request.caller_id, request.incarnation, request.id), tail)
        return encode_reply(request.id, tail)

    def answer(self, request: Request, value: Any) -> None:
        """Send an answer that the handler gives by `Request.reply`."""
        self._send_late(request, tail(value, self._limit, "an answer"))

    def answer_error(self, request: Request, error: BaseException) -> None:
        """Send an error that the handler gives by `Request.fail`."""
        self._send_late(request, tail_of_error(error))

    def _send_late(self, request: Request, end: bytes) -> None:
        reply = self._keep(request, end)
        if request.expires <= self._requests.clock():
            self._requests.statistics["answers too late"] += 1
            return
        self._publish(reply_topic(request.caller_id, request.incarnation), [reply])

    def _publish(self, topic: str, replies: list[bytes]) -> None:
        """Publish replies."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<Responder {self.pattern!r}{' closed' if self.is_closed else ''}>"


def tail_of_error(error: BaseException) -> bytes:
    """The name of an error and its message, and never where it was raised."""
    try:
        text = str(error)
    except Exception:  # the error's own affair
        text = ""
    return error_tail(type(error).__name__, text)


def check_responder(requests: Requests, pattern: str, handler: object) -> None:
    """Raise TopicError or ConfigurationError for what cannot be a responder."""
    check_pattern(pattern)
    check_pattern(request_topic(requests.endpoint_id, pattern))  # which is longer
    if not callable(handler):
        raise ConfigurationError(f"handler={handler!r}: expected something to call with each request")
