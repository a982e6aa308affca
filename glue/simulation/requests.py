"""Requests and replies in virtual time: the replies to a call come while the world passes the time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

from glue.contract import Delivery, Event, Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.request import CURRENT, Request
from glue.endpoint.request_methods import RequestMethods, is_address
from glue.endpoint.requests import TIMEOUT, Requests
from glue.endpoint.responder import BaseResponder, RequestHandler
from glue.errors import ClosedError, GlueError
from glue.model import StackRequest
from glue.requests import Call, Reply
from glue.requests.wire import encode_reply, reply_topic
from glue.simulation.hosts import Hosts

STEP = 0.001
"""Seconds between two looks at a call, at least: the clocks of hosts drift."""


class SimulatedCall:
    """A request, or one to all; `replies` come while time passes, and never if the endpoint crashes."""

    def __init__(self, then: Callable[[Reply], object] | None) -> None:
        self.replies: list[Reply] = []
        self.is_over = False
        self._then = then
        self._calls: list[Call] = []
        self._left = 0

    def begin(self, calls: list[Call]) -> None:
        """For the endpoint: these calls were made."""
        self._calls, self._left = calls, len(calls)

    def ended(self, call: Call) -> None:
        """For the endpoint: one of its calls has ended."""
        self._left -= 1
        self.is_over = not self._left
        self.add(cast(Reply, call.replies[0]))

    def add(self, reply: Reply) -> None:
        """For the endpoint: a reply has come."""
        self.replies.append(reply)
        if self._then is not None:
            self._then(reply)

    @property
    def calls(self) -> list[Call]:
        """For the endpoint: the calls that have not ended."""
        return [call for call in self._calls if not call.is_over]


class SimulatedResponder(BaseResponder):
    """A responder of a simulated endpoint. The handler takes no time; for a slow handler, see `Request.later`.

    An exception of the handler is an answer, except an AssertionError, which `World.run` raises.
    """

    def __init__(
        self,
        pattern: str,
        handler: RequestHandler,
        requests: Requests,
        owner: SubscriptionOwner,
        limit: int,
        order: Callable[[StackRequest], None],
        close: Callable[[BaseResponder], None],
    ) -> None:
        """Use `SimulatedEndpoint.respond`."""
        super().__init__(pattern, handler, requests, owner, limit, close)
        self._order = order

    def _deliver(self, event: Event) -> None:
        """Handle requests."""
        if not isinstance(event, Delivery):
            return
        replies = []
        for opened in self._opened(event, self._requests.clock()):
            reply = self._call(opened) if isinstance(opened, Request) else encode_reply(*opened)
            if reply is not None:
                replies.append(reply)
        if replies:
            self._publish(reply_topic(event.publisher_id, event.incarnation), replies)
        self._owner.settled("handled", len(event.payloads))
        self._owner.handled(event)

    def _call(self, request: Request) -> bytes | None:
        token = CURRENT.set(request)
        try:
            answer = self._handler(request)
        except AssertionError:
            raise
        except Exception as error:  # an answer
            return self._failed(request, error)
        finally:
            CURRENT.reset(token)
        return self._answered(request, answer)

    def _publish(self, topic: str, replies: list[bytes]) -> None:
        with contextlib.suppress(ClosedError):
            self._order(self._requests.publication(topic, replies))


class SimulatedRequests(RequestMethods):
    """The methods of a simulated endpoint for requests and replies."""

    world: Hosts

    def _running(self) -> EndpointCore:
        raise NotImplementedError

    def _order(self, request: StackRequest) -> None:
        raise NotImplementedError

    def _order_request(self, request: StackRequest) -> None:
        self._order(request)

    def _make_responder(self, pattern: str, handler: RequestHandler) -> SimulatedResponder:
        core = self._running()

        def order(request: StackRequest) -> None:
            if self._core is core:  # else that life is over
                self._order(request)

        return SimulatedResponder(
            pattern, handler, core.requests, self._owner, core.settings.message_limit, order, self._close_responder
        )

    def respond(self, pattern: str, handler: RequestHandler) -> SimulatedResponder:
        """As `glue.Endpoint.respond`."""
        self._running()
        return cast(SimulatedResponder, self._respond(pattern, handler))

    def request(
        self,
        topic: str,
        payload: Any,
        timeout: float = TIMEOUT,
        *,
        retry: bool = False,
        then: Callable[[Reply], object] | None = None,
    ) -> SimulatedCall:
        """Ask a topic or a receiver at this instant, as `glue.Endpoint.request` does.

        `then` is called with the reply.
        """
        if is_address(topic):
            return self._request_receiver(topic, payload, timeout, then)
        core, found = self._running(), SimulatedCall(then)
        tails = self._tails(topic, (payload,), timeout)
        call, publication = self._receive_replies().call(topic, tails, timeout, retry, found)
        self._start(core, found, [call], [publication])
        return found

    def _request_receiver(
        self, address: str, payload: Any, timeout: float, then: Callable[[Reply], object] | None
    ) -> SimulatedCall:
        found, endpoint = SimulatedCall(then), cast(Any, self)

        def take(error: BaseException | None, answer: Any) -> None:
            found.is_over = True
            found.add(Reply(answer, address, "", None if error is None else cast(GlueError, error)))

        endpoint.ask(address, payload, timeout, take)
        return found

    def request_all(
        self, topic: str, payload: Any, timeout: float = TIMEOUT, *, then: Callable[[Reply], object] | None = None
    ) -> SimulatedCall:
        """Ask all responders at this instant; `then` is called with each reply."""
        core, found = self._running(), SimulatedCall(then)
        (tail,) = self._tails(topic, (payload,), timeout)
        self._start(core, found, *self._receive_replies().call_all(topic, tail, timeout, found))
        return found

    def _start(
        self, core: EndpointCore, found: SimulatedCall, calls: list[Call], publications: list[Publication]
    ) -> None:
        found.begin(calls)
        for publication in publications:
            self._order(publication)
        self._watch(core, found)

    def _watch(self, core: EndpointCore, found: SimulatedCall) -> None:
        """Look after a call when something is due, as long as this life lasts."""
        calls = found.calls
        if self._core is not core or not calls:
            return
        self._advance(calls)
        if calls := found.calls:
            left = core.requests.seconds_left(calls)
            self.world.after(max(left, STEP), lambda: self._watch(core, found))
