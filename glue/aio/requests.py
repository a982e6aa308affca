"""Requests and replies of an asyncio endpoint: calls to be awaited, and handlers that may be coroutine functions."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import get_ident
from typing import Any, cast

from glue.aio.driver import LoopDriver
from glue.contract import Delivery, Event, Publication
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.request import CURRENT, Request
from glue.endpoint.request_methods import RequestMethods, ended_and_waiting, is_address, replies_of
from glue.endpoint.requests import OUTSTANDING, TIMEOUT, Requests
from glue.endpoint.responder import BaseResponder, RequestHandler, tail_of_error
from glue.errors import ClosedError, RequestTimeoutError
from glue.requests import Call, Reply
from glue.requests.wire import encode_reply, reply_topic

SIDE_BY_SIDE = 64
"""Requests that the coroutines of one responder handle at once; more wait."""


class Gate:
    """Lets one task wait until a call has ended."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ended(self, call: Call) -> None:
        """A call has ended."""
        self._event.set()

    async def wait(self, timeout: float) -> bool:
        """Wait until a call has ended since the last wait, `timeout` seconds at most."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Responder(BaseResponder):
    """A responder of an asyncio endpoint; also an asynchronous context manager.

    An awaitable result of the handler is awaited; such handlers run side by side, 64 at most.
    """

    def __init__(
        self,
        pattern: str,
        handler: RequestHandler,
        requests: Requests,
        owner: SubscriptionOwner,
        limit: int,
        driver: LoopDriver,
        close: Callable[[BaseResponder], None],
    ) -> None:
        """Use `Endpoint.respond`."""
        super().__init__(pattern, handler, requests, owner, limit, close)
        self._driver = driver
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._waiting: deque[tuple[Delivery, Iterator[Request | tuple[int, bytes]]]] = deque()
        self._tasks: set[asyncio.Future[None]] = set()
        self._is_pumping = False

    def _deliver(self, event: Event) -> None:
        """Handle requests, or let them wait while many are at work."""
        if isinstance(event, Delivery):
            self._waiting.append((event, self._opened(event, self._requests.clock())))
            self._pump()

    def _pump(self) -> None:
        """Handle what waits, as long as not too many coroutines are at work."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._waiting and len(self._tasks) < SIDE_BY_SIDE:
                self._handle(*self._waiting[0])
        finally:
            self._is_pumping = False

    def _handle(self, delivery: Delivery, opened: Iterator[Request | tuple[int, bytes]]) -> None:
        replies: list[bytes] = []
        is_over = not self._is_awaited(delivery)
        while not is_over and len(self._tasks) < SIDE_BY_SIDE:
            one = next(opened, None)
            if one is None:
                is_over = True
            elif not isinstance(one, Request):
                replies.append(encode_reply(*one))
            elif (reply := self._call(one)) is not None:
                replies.append(reply)
        if replies:
            self._publish(reply_topic(delivery.publisher_id, delivery.incarnation), replies)
        if is_over:
            self._waiting.popleft()
            self._owner.settled("handled", len(delivery.payloads))
            self._owner.handled(delivery)

    def _call(self, request: Request) -> bytes | None:
        """Call the handler; returns the reply, None if there is none yet."""
        token = CURRENT.set(request)
        try:
            answer = self._handler(request)
            if inspect.isawaitable(answer):
                task = asyncio.ensure_future(self._await(request, answer))  # it takes the context along
                self._tasks.add(task)
                task.add_done_callback(self._done)
                return None
        except (Exception, asyncio.CancelledError) as error:  # the handler's own affair
            return self._failed(request, error)
        finally:
            CURRENT.reset(token)
        return self._answered(request, answer)

    async def _await(self, request: Request, answer: Awaitable[Any]) -> None:
        reply: bytes | None
        try:
            reply = self._answered(request, await answer)
        except asyncio.CancelledError as error:  # no failure of the handler
            reply = self._keep(request, tail_of_error(error)) if request.try_to_claim() else None
            raise
        except Exception as error:  # as above
            reply = self._failed(request, error)
        finally:
            if reply is not None:
                self._publish(reply_topic(request.caller_id, request.incarnation), [reply])

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        self._pump()

    def _publish(self, topic: str, replies: list[bytes]) -> None:
        if get_ident() == self._thread:
            self._queue(topic, replies)
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._queue, topic, replies)

    def _queue(self, topic: str, replies: list[bytes]) -> None:
        with contextlib.suppress(ClosedError):  # then the caller is told that this endpoint left
            self._driver.order(self._requests.publication(topic, replies))

    async def __aenter__(self) -> Responder:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AioRequests(RequestMethods):
    """The methods of `glue.aio.Endpoint` for requests and replies."""

    def _running(self) -> LoopDriver:
        raise NotImplementedError

    def _make_responder(self, pattern: str, handler: RequestHandler) -> Responder:
        core = self._core
        limit = core.settings.message_limit
        return Responder(pattern, handler, core.requests, self._owner, limit, self._running(), self._close_quietly)

    # ------------------------------------------------------------------------------------------ answering

    def respond(self, pattern: str, handler: RequestHandler) -> Responder:
        """As `glue.Endpoint.respond`; the handler may be a coroutine function."""
        self._running()
        return cast(Responder, self._respond(pattern, handler))

    async def wait_for_responders(self, topic: str, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until at least `count` endpoints answer a topic; whether they did in time."""
        return await self._running().wait_until(lambda: len(self._core.requests.responders(topic)) >= count, timeout)

    # --------------------------------------------------------------------------------------------- asking

    async def request(self, topic: str, payload: Any, timeout: float = TIMEOUT, *, retry: bool = False) -> Any:
        """Ask one responder of the topic, or a receiver, and return its answer, as `glue.Endpoint.request` does."""
        if is_address(topic):
            return await cast(Any, self).ask(topic, payload, timeout)
        gate = Gate()
        tails = self._tails(topic, (payload,), timeout)
        calls = [await self._begin(topic, tails, timeout, retry, gate)]
        await self._wait(calls, gate)
        (reply,) = replies_of(calls)
        return reply.payload

    def request_all(self, topic: str, payload: Any, timeout: float = TIMEOUT) -> AsyncIterator[Reply]:
        """Ask all responders of the topic, as `glue.Endpoint.request_all` does; to be read with `async for`.

        Raises NoResponderError at once; the requests leave when the iterator is first read.
        """
        (tail,) = self._tails(topic, (payload,), timeout)
        self._running()
        gate = Gate()
        calls, publications = self._receive_replies().call_all(topic, tail, timeout, gate)
        return self._all(calls, publications, gate)

    async def _all(self, calls: list[Call], publications: list[Publication], gate: Gate) -> AsyncIterator[Reply]:
        waiting = calls
        try:
            for publication, call in zip(publications, calls, strict=True):
                await self._send(publication, call)
            while waiting:
                await self._wait(waiting, gate)
                ended, waiting = ended_and_waiting(waiting)
                for reply in replies_of(ended):
                    yield reply
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
    ) -> AsyncIterator[Reply]:
        """Ask for each payload, as `glue.Endpoint.request_many` does; to be read with `async for`."""
        self._check_many(topic, timeout, outstanding)
        return self._many(topic, iter(payloads), timeout, outstanding, retry)

    async def _many(
        self, topic: str, source: Iterator[Any], timeout: float, outstanding: int, retry: bool
    ) -> AsyncIterator[Reply]:
        gate, calls, room = Gate(), deque[Call](), outstanding
        size = max(1, outstanding // 2)
        try:
            while True:
                while room >= size and (payloads := list(islice(source, size))):
                    tails = self._tails(topic, payloads, timeout)
                    calls.append(await self._begin(topic, tails, timeout, retry, gate))
                    room -= len(tails)
                if not calls:
                    return
                await self._wait([calls[0]], gate)
                call = calls.popleft()
                room += len(call.tails)
                for reply in replies_of([call]):
                    yield reply
        finally:
            self._core.requests.drop(calls)

    # ------------------------------------------------------------------------------------------- in common

    async def _begin(self, topic: str, tails: Sequence[bytes], timeout: float, retry: bool, gate: Gate) -> Call:
        """Send requests to one responder."""
        self._running()
        requests = self._receive_replies()
        call, publication = requests.call(topic, tails, timeout, retry, gate)
        try:
            await self._send(publication, call)
        except BaseException:
            requests.drop([call])
            raise
        return call

    async def _send(self, publication: Publication, call: Call) -> None:
        """Publish a request; wait for room in the queue at most until its caller gives up."""
        try:
            async with asyncio.timeout(call.expires - self._core.requests.clock()):
                await self._running().publish((publication,))
        except TimeoutError:
            raise RequestTimeoutError("the request was not sent in time: the queue is full") from None

    async def _wait(self, calls: Sequence[Call], gate: Gate) -> None:
        """Wait until one of these calls has ended, and do what is due for them meanwhile."""
        requests = self._core.requests
        try:
            while not any(call.is_over for call in calls):
                left = requests.seconds_left(calls)
                if not (left > 0 and await gate.wait(left)):
                    self._advance(calls)
        except BaseException:  # cancelled
            requests.drop(calls)
            raise
