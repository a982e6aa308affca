"""Requests and replies of one endpoint, as far as threads, asyncio and the simulator share them.

The state machines of `glue.requests` decide; here they get time, a lock, and the endpoint's topics. Calls come from any
thread, replies from the thread that received them, news of peers from within a turn.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, Protocol

from glue.contract import Delivery, Event, PeerInterest, PeerRemoved, Publication
from glue.endpoint.encoding import encoded
from glue.endpoint.fork import heirs
from glue.endpoint.message import Peer
from glue.endpoint.options import class_of
from glue.endpoint.request import CURRENT
from glue.errors import ConfigurationError, GlueError, MessageTooLargeError, RequestError, RequestTimeoutError
from glue.requests import Call, Directory, Memory, Requester
from glue.requests.requester import Sending, Waiter
from glue.requests.wire import WITHIN_LIMIT, Hop, tail_of

TIMEOUT = 5.0
"""Seconds that a request waits for its answer, unless it says so."""
OUTSTANDING = 64
"""Requests of `request_many` that are unanswered at once, unless it says so."""


KNOWN_TOPICS, KNOWN_LENGTH = 4096, 256
"""Topics that need not be checked again, and their characters: some 2 MB."""


class Named(Protocol):
    """One life of an endpoint."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    @property
    def endpoint_id(self) -> str:
        """The endpoint's id."""

    @property
    def incarnation(self) -> int:
        """The number of this life."""


class Requests:
    """The requests that an endpoint sends, and the state for its answers to others."""

    def __init__(
        self,
        identity: Named,
        peers: Mapping[str, Peer],
        statistics: Counter[str],
    ) -> None:
        """`peers` are those known now, by id; `statistics` are the endpoint's."""
        self.endpoint_id, self.name, self.incarnation = identity.endpoint_id, identity.name, identity.incarnation
        self.statistics = statistics
        self.clock, self.unix_time = time.monotonic, time.time
        self._peers = peers
        self.directory = Directory(statistics)
        self.memory = Memory(statistics)
        self._requester = Requester(self.directory, self.name_of, statistics)
        self.checked: set[str] = set()  # topics that requests may have
        self.replies: Any = None  # what receives the replies; made by the first request
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock; again in a forked child, where no thread can release it."""
        self.lock = RLock()

    def use_clocks(self, monotonic: Callable[[], float], unix_time: Callable[[], float]) -> None:
        """Read the time there."""
        self.clock, self.unix_time = monotonic, unix_time

    def note_checked(self, topic: str) -> None:
        """Note that requests may have this topic."""
        if len(topic) <= KNOWN_LENGTH:
            if len(self.checked) >= KNOWN_TOPICS:
                self.checked.clear()
            self.checked.add(topic)

    def name_of(self, endpoint_id: str) -> str:
        """The name of an endpoint, or else its id."""
        if endpoint_id == self.endpoint_id:
            return self.name
        peer = self._peers.get(endpoint_id)
        return endpoint_id if peer is None else peer.name

    def is_there(self, endpoint_id: str, incarnation: int) -> bool:
        """Whether this life of an endpoint is known now; this endpoint itself is."""
        peer = self._peers.get(endpoint_id)
        return endpoint_id == self.endpoint_id or (peer is not None and peer.incarnation == incarnation)

    def responders(self, topic: str) -> tuple[str, ...]:
        """Ids of the endpoints that answer a well-formed topic, this one included."""
        with self.lock:
            return self.directory.find(topic)

    # ------------------------------------------------------------------------------------------------ calls

    def call(
        self, topic: str, tails: Sequence[bytes], timeout: float, retry: bool, waiter: Waiter
    ) -> tuple[Call, Publication]:
        """Begin a call of some requests. Raises NoResponderError, RequestCycleError, RequestTimeoutError."""
        now, path, expires = self._limits(timeout)
        call = Call(topic, tails, path, expires, retry, waiter)
        with self.lock:
            return call, self._publication(self._requester.ask(now, call, path))

    def call_all(self, topic: str, tail: bytes, timeout: float, waiter: Waiter) -> tuple[list[Call], list[Publication]]:
        """Begin a call to each responder. Raises likewise."""
        now, path, expires = self._limits(timeout)
        with self.lock:
            responders = self._requester.responders(topic, path)
            calls = [Call(topic, [tail], path, expires, False, waiter, responder) for responder in responders]
            return calls, [self._publication(self._requester.ask(now, call, path)) for call in calls]

    def _limits(self, timeout: float) -> tuple[float, tuple[Hop, ...], float]:
        """The time, the handlers that wait for a call of now, and when it expires."""
        now, current = self.clock(), CURRENT.get()
        if current is None:
            return now, (), now + timeout
        if current.expires <= now:
            raise RequestTimeoutError(f"the caller of {current!r}, for which this is asked, waits no more")
        return now, current.path, min(now + timeout, current.expires)

    def advance(self, calls: Sequence[Call]) -> list[Publication]:
        """Do what is due for these calls."""
        now = self.clock()
        with self.lock:
            return self._publications([one for call in calls for one in self._requester.advance(now, call)])

    def seconds_left(self, calls: Sequence[Call]) -> float:
        """Seconds until something is due for one of these calls."""
        return min(call.due for call in calls) - self.clock()

    def drop(self, calls: Sequence[Call]) -> None:
        """Drop calls that are not awaited any more."""
        with self.lock:
            for call in calls:
                self._requester.drop(call, RequestError("dropped"))

    def close(self, error: GlueError) -> None:
        """End all calls with this error."""
        with self.lock:
            self._requester.drop_all(error)

    # ------------------------------------------------------------------------------------- replies and news

    def take(self, delivery: Delivery) -> list[Publication]:
        """Take replies; returns what to publish."""
        now = self.clock()
        with self.lock:
            return self._publications(
                self._requester.take(now, delivery.publisher_id, delivery.publisher, delivery.payloads)
            )

    def note(self, now: float, event: Event) -> list[Publication]:
        """Take news of peers, within a turn; returns what to publish."""
        with self.lock:
            if isinstance(event, PeerInterest):
                if self.directory.change(event):
                    return self._publications(self._requester.appeared(now, event.peer))
            elif isinstance(event, PeerRemoved):
                self.directory.forget(event.peer)
                return self._publications(self._requester.lost(now, event))
            return []

    def _publications(self, sendings: Sequence[Sending]) -> list[Publication]:
        return [self._publication(sending) for sending in sendings] if sendings else []

    def _publication(self, sending: Sending) -> Publication:
        return self.publication(sending.topic, sending.payloads)

    def publication(self, topic: str, payloads: list[bytes]) -> Publication:
        """A publication of encoded requests, or replies."""
        size = max(map(len, payloads))
        length = size if len(payloads) == 1 else None
        return Publication(topic, payloads, self.unix_time(), False, length, class_of("normal", size))


def check_timeout(timeout: float) -> None:
    """Raise ConfigurationError unless a call can wait for so long."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise ConfigurationError(f"timeout={timeout!r}: expected a positive number of seconds")
    if timeout * 1000 >= WITHIN_LIMIT:
        raise ConfigurationError(f"timeout={timeout!r}: expected less than {WITHIN_LIMIT // 1000} seconds")


def tails(payloads: Sequence[Any], limit: int, what: str) -> list[bytes]:
    """The payloads of requests, encoded. Raises as `tail` does."""
    if {*map(type, payloads)} == {bytes} and max(map(len, payloads)) <= limit:
        return [b"}\n" + payload for payload in payloads]
    return [tail(payload, limit, what) for payload in payloads]


def tail(payload: Any, limit: int, what: str) -> bytes:
    """A payload of a request, or of a reply, encoded. Raises PayloadError and MessageTooLargeError."""
    body, json = (payload, False) if payload.__class__ is bytes else encoded(payload)
    if len(body) > limit:
        raise MessageTooLargeError(f"{what} of {len(body)} bytes; message_limit is {limit}")
    return tail_of(body, json)
