"""The deliveries to a keeper: some to store, and some that other keepers store, to hold for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import RLock

from glue.contract import Delivery, Event
from glue.endpoint.fork import heirs
from glue.endpoint.keeper import DeliveryWriter, Kept, own
from glue.endpoint.message import delivery_weight
from glue.endpoint.owner import SubscriptionOwner

SETTLE = 2.0
"""Seconds for which a keeper stores everything after another one came: until all publishers know of that."""
SPARES = 16 << 20
"""Bytes held in memory at most of topics that other keepers keep."""


class PlacedKept(Kept):
    """Hands a pattern's messages to the log's writer, except those of topics that other keepers keep.

    The exceptions stay in memory for as long as the death of a keeper may be unknown: if one has died, they are stored.
    """

    def __init__(
        self,
        writer: DeliveryWriter,
        owner: SubscriptionOwner,
        counts: bool,
        is_chosen: Callable[[str], bool],
        clock: Callable[[], float],
        lease: float,
    ) -> None:
        """`is_chosen` tells whether a topic is to be kept here; `lease` is that of peers, in seconds."""
        super().__init__(writer, owner, counts)
        self._is_chosen = is_chosen
        self._clock = clock
        self._age = 2 * lease + SETTLE
        self._all_until = clock() + SETTLE
        self._spares: deque[tuple[float, int, Delivery]] = deque()
        self._size = 0  # bytes of the spares
        self.on_missed: Callable[[], None] = lambda: None
        """Called when messages did not come."""
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock; again in a forked child."""
        self._lock = RLock()

    def _deliver(self, event: Event) -> None:
        """Take a delivery, which counts as unhandled until it is stored."""
        if not isinstance(event, Delivery):
            self.on_missed()
            return
        own(event)
        self._owner.settled("handled", len(event.payloads))
        now, is_chosen = self._clock(), self._is_chosen(event.topic)
        with self._lock:
            is_spare = not is_chosen and now >= self._all_until
            if is_spare:
                self._hold(now, event)
        if not is_spare:
            self._submit(event, is_counted=self._counts)
        elif self._counts:
            self._owner.handled(event)

    def _hold(self, now: float, event: Delivery) -> None:
        size = delivery_weight(event)
        self._spares.append((now, size, event))
        self._size += size
        while self._spares and (self._size > SPARES or now - self._spares[0][0] > self._age):
            self._size -= self._spares.popleft()[1]

    def placed(self, is_more: bool) -> None:
        """A keeper has come or gone: store the spares of topics that are to be kept here from now on."""
        with self._lock:
            now = self._clock()
            if is_more:
                self._all_until = now + SETTLE
            spares, self._spares, self._size = self._spares, deque(), 0
            for at, _, event in spares:
                if now - at > self._age:
                    continue
                if self._is_chosen(event.topic):
                    self._submit(event, is_counted=False)
                else:
                    self._hold(at, event)
