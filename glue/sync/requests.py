"""Requests and replies of a threaded endpoint: calls that wait; a responder is in `responder.py`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from glue.contract import Publication
from glue.drivers.leader import ThreadDriver
from glue.endpoint.handlers import is_awaited
from glue.endpoint.request_methods import RequestMethods, ended_and_waiting, is_address, replies_of
from glue.endpoint.requests import OUTSTANDING, TIMEOUT
from glue.errors import ClosedError, ConfigurationError, RequestTimeoutError, WouldBlockError
from glue.model import StackRequest
from glue.requests import Call, Reply

if TYPE_CHECKING:  # imported when used: most programs answer no requests
    from glue.endpoint.responder import RequestHandler
    from glue.sync.responder import Responder

GATHER = 0.001
"""Seconds that `request_many` gathers payloads."""
ROOM = 0.05
"""Seconds between two looks whether a full queue has room for a request."""


class Gate:
    """Lets one thread wait until a call has ended."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ended(self, call: Call) -> None:
        """A call has ended."""
        try:  # noqa: SIM105  # `suppress` takes a microsecond
            self._lock.release()
        except RuntimeError:  # it is open
            pass

    def wait(self, timeout: float) -> bool:
        """Wait until a call has ended since the last wait, `timeout` seconds at most."""
        return self._lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))


class SyncRequests(RequestMethods):
    """The methods of `glue.Endpoint` for requests and replies."""

    _COUNTS = False  # the driver counts

    def _running(self) -> ThreadDriver:
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        with contextlib.suppress(ClosedError):
            self._running().order(request, wait=False)

    def _make_responder(self, pattern: str, handler: RequestHandler) -> Responder:
        if is_awaited(handler):
            raise ConfigurationError(f"handler={handler!r}: a coroutine function is for glue.aio.Endpoint")
        from glue.sync.responder import Responder

        core = self._core
        limit = core.settings.message_limit
        return Responder(
            pattern, handler, core.requests, self._owner, limit, self._running(), self._close_quietly
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------ answering

    def respond(self, pattern: str, handler: RequestHandler) -> Responder:
        """Answer requests on topics that match a pattern.

        pattern: a topic in which `+` is any one level, and a last `#` all the rest.
        handler: called with each `Request`, one at a time; what it returns is the answer: bytes or a JSON value.

        What the handler raises is raised at the caller as RemoteError, with its name and message. To answer later, from
        any thread, the handler calls `Request.later`, and then `Request.reply` or `Request.fail` is called. If several
        responders of this endpoint match, the first one answers. Raises TopicError, ConfigurationError, ClosedError.
        """
        self._running()
        return cast("Responder", self._respond(pattern, handler))

    def wait_for_responders(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` endpoints answer a topic; whether they did in time."""
        return self._running().wait_until(lambda: len(self._core.requests.responders(topic)) >= count, timeout)

    # --------------------------------------------------------------------------------------------- asking

    def request(self, topic: str, payload: Any, timeout: float = TIMEOUT, *, retry: bool = False) -> Any:
        """Ask one responder of the topic, or a receiver, and return the answer: bytes or a JSON value.

        topic: levels separated by "/", without wildcards. With a ":" in the first level it is the address of a
            receiver, `subnet:kind/id` or `:kind/id`, and this is `ask`; `retry` means nothing then.
        payload: bytes-like or any JSON value.
        timeout: seconds to wait for the answer; the responder drops the request after that.
        retry: if the responder leaves, ask another one, or wait for one; without it, ResponderLostError is raised.

        A responder acts once on a request, also on one that is repeated; but with `retry` another responder may act,
        too. Raises NoResponderError at once if no responder is known, RemoteError with what the handler raised,
        ResponderLostError, RequestTimeoutError, RequestRefusedError, RequestCycleError, and what `publish` raises.
        """
        if is_address(topic):
            return cast(Any, self).ask(topic, payload, timeout)
        gate = Gate()
        call = self._begin(topic, self._tails(topic, (payload,), timeout), timeout, retry, gate)
        self._wait([call], gate)
        self._running().answered()
        (reply,) = replies_of([call])
        return reply.payload

    def request_all(self, topic: str, payload: Any, timeout: float = TIMEOUT) -> Iterator[Reply]:
        """Ask all responders of the topic; returns an iterator over the replies, in the order of arrival.

        Each responder has one `Reply`, also if failed, gone or too late. Raises NoResponderError at once,
        RequestCycleError, and what `publish` raises.
        """
        (tail,) = self._tails(topic, (payload,), timeout)
        self._running()
        gate, requests = Gate(), self._receive_replies()
        calls, publications = requests.call_all(topic, tail, timeout, gate)
        try:
            for publication, call in zip(publications, calls, strict=True):
                self._send(publication, call.expires)
        except BaseException:
            requests.drop(calls)
            raise
        return self._all(calls, gate)

    def _all(self, calls: list[Call], gate: Gate) -> Iterator[Reply]:
        waiting = calls
        try:
            while waiting:
                self._wait(waiting, gate)
                ended, waiting = ended_and_waiting(waiting)
                yield from replies_of(ended)
        finally:
            self._core.requests.drop(waiting)

    def request_many(
        self,
        topic: str,
        payloads: Iterable[Any],
        timeout: float = TIMEOUT,
        *,
        outstanding: int = OUTSTANDING,
        retry: bool = False,
    ) -> Iterator[Reply]:
        """Ask the responders of the topic for each payload; returns an iterator over the replies, in the same order.

        At most `outstanding` requests are unanswered at once, and requests that are close together leave together. The
        rest is as for `request`, but errors of a request are in its `Reply`. While the iterator is not read,
        nothing is sent.
        """
        self._check_many(topic, timeout, outstanding)
        return self._many(topic, iter(payloads), timeout, outstanding, retry)

    def _many(
        self, topic: str, source: Iterator[Any], timeout: float, outstanding: int, retry: bool
    ) -> Iterator[Reply]:
        gate, calls, room = Gate(), deque[Call](), outstanding
        size = max(1, outstanding // 2)
        try:
            while True:
                while room >= size and (payloads := gathered(source, size)):
                    tails = self._tails(topic, payloads, timeout)
                    calls.append(self._begin(topic, tails, timeout, retry, gate))
                    room -= len(tails)
                if not calls:
                    return
                self._wait([calls[0]], gate)
                self._running().answered()
                call = calls.popleft()
                room += len(call.tails)
                yield from replies_of([call])
        finally:
            self._core.requests.drop(calls)

    # ------------------------------------------------------------------------------------------- in common

    def _begin(self, topic: str, tails: Sequence[bytes], timeout: float, retry: bool, gate: Gate) -> Call:
        """Send requests to one responder."""
        self._running()
        requests = self._receive_replies()
        call, publication = requests.call(topic, tails, timeout, retry, gate)
        try:
            if not self._running().ask(publication, cast(Any, self._replies), lambda: call.is_over):
                self._send(publication, call.expires)
        except BaseException:
            requests.drop([call])
            raise
        return call

    def _send(self, publication: Publication, until: float) -> None:
        """Publish a request; wait for room in the queue at most until its caller gives up (monotonic seconds)."""
        driver, core = self._running(), self._core
        half = core.settings.queue_limit // 2
        while True:
            try:
                driver.publish((publication,), False)
            except WouldBlockError as error:
                left = until - time.monotonic()
                if left <= 0:
                    raise RequestTimeoutError(f"the request was not sent in time: {error}") from error
                driver.wait_until(lambda: core.backlog <= half, min(left, ROOM))
            else:
                return

    def _wait(self, calls: Sequence[Call], gate: Gate) -> None:
        """Wait until one of these calls has ended, and do what is due for them meanwhile."""
        requests, driver = self._core.requests, cast(Any, self)._driver
        try:
            if self._replies is not None:
                driver.await_answers(self._replies, lambda: any(call.is_over for call in calls))
            while not any(call.is_over for call in calls):
                left = requests.seconds_left(calls)
                if not (left > 0 and driver.wait_for(gate, left)):
                    self._advance(calls)
        except BaseException:  # Ctrl-C
            requests.drop(calls)
            raise


def gathered(source: Iterator[Any], size: int) -> list[Any]:
    """Return the payloads that the source gives within a millisecond, so many at most; none only at its end."""
    found: list[Any] = []
    for payload in source:
        found.append(payload)
        if len(found) >= size:
            break
        if len(found) == 1:
            until = time.monotonic() + GATHER
        elif time.monotonic() > until:
            break
    return found
