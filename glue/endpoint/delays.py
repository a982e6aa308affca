"""Messages that are published later: by a delay, or at a time of the wall clock. Their publisher keeps them.

A delay is measured by the monotonic clock. A time of the wall clock is turned into a delay at the call, so a clock that
is set later moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Final

from glue.contract import Alarm, Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.fork import heirs
from glue.endpoint.message import MESSAGE_COST
from glue.endpoint.receipt import Receipt
from glue.endpoint.receivers import AlarmReceiver
from glue.errors import ConfigurationError, WouldBlockError
from glue.model import StackRequest

DELAYED: Final = 65_536
"""Messages that wait at once in an endpoint, with 40 MB of bookkeeping."""
DELAYED_SIZE: Final = 64 << 20
"""Bytes of payload that wait at once, as for retained values."""
LONGEST: Final = 10**9
"""Seconds of delay at most: 31 years."""


class Delayed(AlarmReceiver):
    """A message that waits to be published.

    `topic` is the topic. `receipt` is the receipt, if `publish` was called with `receipt=True`; it is incomplete until
    the message is published.
    """

    def __init__(self, delays: Delays, publication: Publication, receipt: Receipt | None) -> None:
        super().__init__()
        self.topic = publication.topic
        self.receipt = receipt
        self._delays = delays
        self._publication: Publication | None = publication

    @property
    def waiting(self) -> bool:
        """Whether it is neither published nor cancelled; once the endpoint is closed it never will be."""
        return self._publication is not None

    def cancel(self) -> bool:
        """Take the message back; False if it was published, or cancelled before."""
        publication = self._delays.take(self)
        if publication is not None:
            self._delays.order(Alarm(self, math.inf))
        return publication is not None

    def rung(self, now: float) -> Sequence[Publication]:
        """Publish it, unless it was cancelled."""
        publication = self._delays.take(self)
        return () if publication is None else (publication,)

    def __repr__(self) -> str:
        return f"<Delayed {self.topic!r}{' waiting' if self.waiting else ''}>"


class Delays:
    """The delayed messages of one endpoint. Its methods may be called from any thread."""

    def __init__(self, order: Callable[[StackRequest], Any]) -> None:
        """`order` passes a request to the stack; it drops it if the endpoint is closed."""
        self.order = order
        self._count = self._size = 0
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock."""
        self._lock = RLock()

    def add(self, publication: Publication, seconds: float, now: float, receipt: Receipt | None) -> Delayed:
        """Keep a message for so many seconds from `now` (monotonic). Raises WouldBlockError if too many wait."""
        size = publication.size + MESSAGE_COST
        with self._lock:
            if self._count >= DELAYED or self._size + size > DELAYED_SIZE:
                raise WouldBlockError(
                    f"{self._count} delayed messages of {self._size} bytes wait; "
                    f"the limits are {DELAYED} messages and {DELAYED_SIZE} bytes"
                )
            self._count += 1
            self._size += size
        publication.published_at += seconds
        delayed = Delayed(self, publication, receipt)
        self.order(Alarm(delayed, now + seconds))
        return delayed

    def take(self, delayed: Delayed) -> Publication | None:
        """Take out a message, to be published or not."""
        with self._lock:
            publication, delayed._publication = delayed._publication, None
            if publication is not None:
                self._count -= 1
                self._size -= publication.size + MESSAGE_COST
            return publication


def seconds_of(delay: float | None, deliver_at: float | None, wall_clock: float) -> float:
    """The seconds until a message is to be published. Raises ConfigurationError."""
    if delay is not None and deliver_at is not None:
        raise ConfigurationError("delay and deliver_at: give only one of them")
    for name, value in (("delay", delay), ("deliver_at", deliver_at)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not is_number:
            raise ConfigurationError(f"{name}={value!r}: expected a number of seconds")
    seconds = max(0.0, deliver_at - wall_clock) if deliver_at is not None else delay or 0.0
    if not 0 <= seconds <= LONGEST:
        raise ConfigurationError(f"{seconds} seconds of delay: expected 0 to {LONGEST}")
    return seconds


class DelayMethods:
    """The methods for delayed messages that every kind of endpoint has."""

    _core: EndpointCore
    _delays: Delays | None = None  # set by the first delayed message

    def _running(self) -> Any:
        """The driver. Raises ClosedError."""
        raise NotImplementedError

    def _order_quietly(self, request: StackRequest) -> None:
        """Pass a request to the stack; a closed endpoint drops it."""
        raise NotImplementedError

    def _publish_later(
        self, publication: Publication, delay: float | None, deliver_at: float | None, receipt: Receipt | None
    ) -> Delayed:
        """Keep a message until its time. Raises ConfigurationError, WouldBlockError, ClosedError."""
        self._running()
        seconds = seconds_of(delay, deliver_at, self._core.requests.unix_time())
        if self._delays is None:
            self._delays = Delays(self._order_quietly)
        return self._delays.add(publication, seconds, self._core.requests.clock(), receipt)
