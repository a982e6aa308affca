"""A subscription in virtual time. Its handler takes a given duration, by default none."""

from __future__ import annotations

from glue.contract import Delivery, Missed
from glue.endpoint.handlers import Handler
from glue.endpoint.message import Gap, Message
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.queues import Kept, PokedRoom
from glue.endpoint.wanted import Queue
from glue.simulation.host import Host
from glue.simulation.hosts import Hosts

PAUSE = 0.05
"""Seconds until a subscription on a paused host looks again."""


class SimulatedSubscription:
    """Messages on the topics that match one pattern. Without a handler, `received` lists them."""

    def __init__(
        self,
        pattern: str,
        handler: Handler | None,
        handling_time: float,
        owner: SubscriptionOwner,
        waiting: Queue,
        host: Host,
        world: Hosts,
    ) -> None:
        self.pattern = pattern
        self.received: list[Message] = []
        self.closed = False
        self._handler = self.received.append if handler is None else handler
        self._handling_time = handling_time
        self._owner = owner
        self._waiting = waiting
        self._host = host
        self._world = world
        self._is_busy = False
        self._takes_copies = isinstance(waiting, PokedRoom)
        if isinstance(waiting, PokedRoom):
            waiting.poke = lambda: world.after(0.0, self._look)

    def _deliver(self, event: Delivery | Missed) -> None:
        """Take a delivery or a gap. Messages are handled one at a time, in order."""
        if self.closed:
            if isinstance(event, Delivery):
                self._owner.settled("unread", len(event.payloads))
                self._owner.handled(event)
            return
        if isinstance(event, Missed):
            self._waiting.put_gap(event)
        else:
            if not isinstance(self._waiting, Kept):
                self._owner.handled(event)
            if self._waiting.put(event) and self._waiting.cause == "disconnected":
                self.close()
        self._look()

    def _look(self) -> None:
        """Handle what waits, or begin to."""
        if self.closed:
            return
        if self._host.is_paused:
            self._world.after(PAUSE, self._look)
            return
        if not self._handling_time:
            while self._handle():
                pass
        elif not self._is_busy and self._waiting:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        self._world.after(self._handling_time, self._finish)

    def _finish(self) -> None:
        """Handle the first waiting message after the handling time, unless the host is paused."""
        try:
            if not self._host.is_paused:
                self._handle()
        finally:
            self._is_busy = False
            if self._waiting and not self.closed:
                self._begin()

    def _handle(self) -> bool:
        """Handle the next message. Return whether one was waiting."""
        while not self.closed and (found := self._waiting.take()) is not None:
            if isinstance(found, Message):
                self._handler(found)
                return True
            self._owner.tell_gap(Gap.of(found, self.pattern))
        return False

    def close(self) -> None:
        """End the subscription and drop waiting messages. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        self._waiting.close()
        self._owner.unsubscribe(self)

    def __repr__(self) -> str:
        return f"<SimulatedSubscription {self.pattern!r}{' closed' if self.closed else ''}>"
