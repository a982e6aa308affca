"""A responder of a threaded endpoint, whose handler is called where subscriptions are handled."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from glue.contract import Delivery, Event
from glue.drivers.leader import ThreadDriver
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.request import CURRENT, Request
from glue.endpoint.requests import Requests
from glue.endpoint.responder import BaseResponder, RequestHandler
from glue.errors import ClosedError
from glue.requests.wire import encode_reply, reply_topic

GATHER = 0.001
"""Seconds that answers wait for those to the requests that came with theirs."""


class Responder(BaseResponder):
    """A responder of a threaded endpoint; a context manager. Its handler is called for one request at a time."""

    _COUNTS = False  # the driver counts

    def __init__(
        self,
        pattern: str,
        handler: RequestHandler,
        requests: Requests,
        owner: SubscriptionOwner,
        limit: int,
        driver: ThreadDriver,
        close: Callable[[BaseResponder], None],
    ) -> None:
        """Use `Endpoint.respond`."""
        super().__init__(pattern, handler, requests, owner, limit, close)
        self._driver = driver
        self._is_at_work = False
        self._queue: deque[tuple[Delivery, float]] = deque()  # with when they came

    def _deliver(self, event: Event) -> None:
        """Handle requests, or let them wait while another thread is at work here."""
        if not isinstance(event, Delivery):
            return
        arrived, lock = self._requests.clock(), self._requests.lock
        with lock:
            if self._is_at_work:
                self._owner.keep(event)
                self._queue.append((event, arrived))
                return
            self._is_at_work = True
        self._handle(event, arrived)
        while True:
            with lock:
                if not self._queue:
                    self._is_at_work = False
                    return
                event, arrived = self._queue.popleft()
            if self._is_awaited(event):
                self._handle(event, arrived)
            else:
                self._requests.statistics["requests of callers that left"] += len(event.payloads)
                self._owner.settled("unread", len(event.payloads))
            self._owner.handled(event)

    def _handle(self, delivery: Delivery, arrived: float) -> None:
        """Call the handler for each request; answers that are given within a millisecond leave together."""
        topic, clock = reply_topic(delivery.publisher_id, delivery.incarnation), self._requests.clock
        replies: list[bytes] = []
        since = arrived
        for opened in self._opened(delivery, arrived):
            if isinstance(opened, Request):
                reply = self._call(opened)
            else:
                reply = encode_reply(*opened)
            if reply is not None:
                replies.append(reply)
                now = clock()
                if now - since > GATHER:
                    self._publish(topic, replies)
                    replies, since = [], now
        if replies:
            self._publish(topic, replies)
        self._owner.settled("handled", len(delivery.payloads))

    def _call(self, request: Request) -> bytes | None:
        """Call the handler; returns the reply, None if there is none yet."""
        token = CURRENT.set(request)
        try:
            answer = self._handler(request)
        except BaseException as error:  # sys.exit too: it is the handler's own affair
            return self._failed(request, error)
        finally:
            CURRENT.reset(token)
        return self._answered(request, answer)

    def _publish(self, topic: str, replies: list[bytes]) -> None:
        driver = self._driver
        if driver.replier and len(replies) == 1 and driver.reply(topic, replies[0]):
            return
        with contextlib.suppress(ClosedError):  # then the caller is told that this endpoint left
            driver.publish((self._requests.publication(topic, replies),), True)
            driver.expect_answer()

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
