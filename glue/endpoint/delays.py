"""Messages that are published later: by a delay, or at a time of the wall clock.

Their publisher keeps them, and hands them to the keepers of their topics, which release them if it is gone by then
(see `glue.delayed`). A delay is measured by the monotonic clock. A time of the wall clock is turned into a delay at the
call, so a clock that is set later moves nothing.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from glue.contract import Alarm, Publication
from glue.endpoint.core import EndpointCore
from glue.endpoint.fork import heirs
from glue.endpoint.message import MESSAGE_COST
from glue.endpoint.receipt import Receipt
from glue.endpoint.receivers import AlarmReceiver
from glue.errors import ConfigurationError, WouldBlockError
from glue.model import StackRequest

if TYPE_CHECKING:  # imported when used: most networks have no keepers
    from glue.delayed.wire import Id, Put

DELAYED: Final = 65_536
"""Messages that wait at once in an endpoint, with 40 MB of bookkeeping."""
DELAYED_SIZE: Final = 64 << 20
"""Bytes of payload that wait at once, as for retained values."""
LONGEST: Final = 10**9
"""Seconds of delay at most: 31 years."""
ENDED: Final = 16_384
"""Messages that are over, and are remembered for keepers that were away: 2 MB."""


class Delayed(AlarmReceiver):
    """A message that waits to be published.

    `topic` is the topic. `receipt` is the receipt, if `publish` was called with `receipt=True`; it is incomplete until
    the message is published. With `acks` it tells that keepers hold the message until then, on disk.
    """

    def __init__(self, delays: Delays, publication: Publication, receipt: Receipt | None) -> None:
        super().__init__()
        self.topic = publication.topic
        self.receipt = receipt
        self._delays = delays
        self._publication: Publication | None = publication
        self._number = self._size = 0
        self._due = 0.0
        self._holders: set[str] = set()  # keepers that have it
        self._had: set[str] = set()  # and those that had it

    @property
    def waiting(self) -> bool:
        """Whether it is neither published nor cancelled; once the endpoint is closed it never will be."""
        return self._publication is not None

    def cancel(self) -> bool:
        """Take the message back, from keepers too; False if it was published, or cancelled before."""
        publication = self._delays.take(self)
        if publication is not None:
            self._delays.order(Alarm(self, math.inf))
            for told in self._delays.ended(self, "gone"):
                self._delays.order(told)
        return publication is not None

    def rung(self, now: float) -> Sequence[Publication]:
        """Publish it, unless it was cancelled."""
        publication = self._delays.take(self)
        return () if publication is None else (publication, *self._delays.ended(self, "done"))

    def __repr__(self) -> str:
        return f"<Delayed {self.topic!r}{' waiting' if self.waiting else ''}>"


class Delays(AlarmReceiver):
    """The delayed messages of one endpoint. Its methods may be called from any thread."""

    def __init__(self, order: Callable[[StackRequest], Any], core: EndpointCore) -> None:
        """`order` passes a request to the stack; it drops it if the endpoint is closed."""
        super().__init__()
        self.order = order
        self.numbers = count(1)
        self._core = core
        self._count = self._size = 0
        self._waiting: dict[Delayed, None] = {}
        self._ended: OrderedDict[int, tuple[str, str]] = OrderedDict()  # by number: what became of it, and the topic
        self._after_fork()
        heirs.add(self)
        core.durability.on_placed.append(self._placed)

    def _after_fork(self) -> None:
        """Make the lock."""
        self.lock = RLock()

    def add(self, publication: Publication, seconds: float, now: float, receipt: Receipt | None) -> Delayed:
        """Keep a message for so many seconds from `now` (monotonic). Raises WouldBlockError if too many wait."""
        size = publication.size + MESSAGE_COST
        with self.lock:
            if self._count >= DELAYED or self._size + size > DELAYED_SIZE:
                raise WouldBlockError(
                    f"{self._count} delayed messages of {self._size} bytes wait; "
                    f"the limits are {DELAYED} messages and {DELAYED_SIZE} bytes"
                )
            self._count += 1
            self._size += size
            publication.published_at += seconds
            delayed = Delayed(self, publication, receipt)
            expectation = None if receipt is None else receipt.expectation
            delayed._number = next(self.numbers) if expectation is None else expectation.first
            delayed._due, delayed._size = now + seconds, size
            self._waiting[delayed] = None
        self.order(Alarm(delayed, now + seconds))
        for told in self._handed([delayed], now):
            self.order(told)
        return delayed

    def take(self, delayed: Delayed) -> Publication | None:
        """Take out a message, to be published or not."""
        with self.lock:
            publication, delayed._publication = delayed._publication, None
            if publication is not None:
                self._waiting.pop(delayed, None)
                self._count -= 1
                self._size -= delayed._size
            return publication

    # -------------------------------------------------------------------------------------------- keepers

    def _placed(self, is_more: bool) -> None:
        """Keepers have come or gone: look at all messages in the next turn."""
        self._core.outbox.order(Alarm(self, 0.0))

    def rung(self, now: float) -> Sequence[Publication]:
        """Hand messages to keepers that have come, and tell them what is over."""
        with self.lock:
            waiting, ended = [*self._waiting], [*self._ended.items()]
        found = self._handed(waiting, now)
        holders = self._core.durability.holders
        over: defaultdict[tuple[str, str], list[Id]] = defaultdict(list)
        for number, (kind, topic) in ended:
            for keeper in holders(topic):
                over[keeper, kind].append(self._id(number))
        return [*found, *self._over(over)]

    def _id(self, number: int) -> Id:
        from glue.delayed.wire import Id

        identity = self._core.identity
        return Id(identity.endpoint_id, identity.incarnation, number)

    def _handed(self, waiting: Iterable[Delayed], now: float) -> list[Publication]:
        """Requests that hand messages to those keepers of their topics that lack them."""
        puts: defaultdict[str, list[Put]] = defaultdict(list)
        with self.lock:
            for delayed in waiting:
                publication = delayed._publication
                if publication is None:
                    continue
                keepers = {*self._core.durability.holders(publication.topic)}
                lacking = keepers - delayed._holders
                if lacking and (put := self._put(delayed, publication, now)) is not None:
                    for keeper in sorted(lacking):
                        puts[keeper].append(put)
                    delayed._had |= lacking
                delayed._holders = keepers
        if not puts:
            return []
        from glue.delayed.wire import ask_topic, encode_puts

        return [
            self._publication(ask_topic(keeper), payload)
            for keeper, some in puts.items()
            for payload in encode_puts(some)
        ]

    def _put(self, delayed: Delayed, publication: Publication, now: float) -> Put | None:
        """A message for keepers; None if it has no room for its identity, or is signed or private."""
        from glue.delayed.wire import Put, tagged
        from glue.topics.bundle import KEEP, LIVE, MessageGroup, milliseconds

        guard, options = self._core.guard, publication.options
        id = self._id(delayed._number)
        metadata = tagged(options.metadata, id)
        if metadata is None or (guard is not None and any(guard.rules.marks_of(publication.topic))):
            self._core.statistics["delayed messages not handed to keepers"] += 1
            return None
        publication.options = options.replaced(metadata=metadata)
        group = MessageGroup(
            publication.topic, 1, int(publication.published_at * 1e6), publication.payloads, publication.length,
            options.type, publication.json, KEEP if options.retain else LIVE,
            None if options.lifespan is None else milliseconds(options.lifespan), 0, options.ordered, metadata,
        )  # fmt: skip
        wait = max(0, math.ceil((delayed._due - now) * 1000))
        return Put(id, self._core.identity.name, wait, publication.priority, options.reliable, group)

    def ended(self, delayed: Delayed, kind: str) -> list[Publication]:
        """Requests that tell keepers that a message was published ("done") or cancelled ("gone")."""
        with self.lock:
            if not delayed._had:
                return []
            self._ended[delayed._number] = kind, delayed.topic
            if len(self._ended) > ENDED:
                self._ended.popitem(last=False)
        return self._over({(keeper, kind): [self._id(delayed._number)] for keeper in sorted(delayed._had)})

    def _over(self, ids: dict[tuple[str, str], list[Id]]) -> list[Publication]:
        if not ids:
            return []
        from glue.delayed.wire import ask_topic, encode_ids

        return [
            self._publication(ask_topic(keeper), payload)
            for (keeper, kind), some in ids.items() for payload in encode_ids(kind, some)
        ]  # fmt: skip

    def _publication(self, topic: str, payload: bytes) -> Publication:
        return Publication(topic, [payload], self._core.requests.unix_time(), False, len(payload))


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
