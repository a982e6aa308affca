"""A keeper as the home of consumers: gives `glue.consumers.MovingHome` time, topics and the thread of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from glue.consumers.home import ConsumerAlert, Message
from glue.consumers.moving import MovingHome
from glue.consumers.positions import Positions
from glue.contract import Delivery, Event, Publication
from glue.contract.matching import covers
from glue.endpoint.core import EndpointCore
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receivers import Receiver
from glue.storage import FileLog, Record

if TYPE_CHECKING:
    from glue.endpoint.keeper import Writer


class HomeRunner:
    """Runs a `MovingHome` in the thread that stores. `publish` may be called from there."""

    def __init__(
        self,
        core: EndpointCore,
        log: FileLog,
        kept: Callable[[], Sequence[str]],
        publish: Callable[[list[Publication]], None],
        alert: Callable[[ConsumerAlert], None],
    ) -> None:
        """`kept` are the patterns that go into this log. Raises StorageError."""
        self._core = core
        self._kept = kept
        self._publish = publish
        positions = Positions(log.directory, log.id)
        if positions.damaged:
            core.statistics["damaged positions of consumers"] += 1
        self.home = MovingHome(
            core.identity.endpoint_id, log, positions, core.statistics, self.covers, self._others, alert,
            core.settings.consumer_alert, directory=log.directory, now=core.requests.clock(),
        )  # fmt: skip
        self.home.may_read = None if core.guard is None else core.guard.lets_hear

    def covers(self, pattern: str) -> bool:
        """Whether all of a pattern is kept in this log."""
        is_all = self._core.identity.endpoint_id in self._core.durability.covering(pattern)
        return is_all and any(covers(kept, pattern) for kept in self._kept())

    def _others(self, pattern: str) -> list[str]:
        me = self._core.identity.endpoint_id
        return [keeper for keeper in self._core.durability.covering(pattern) if keeper != me]

    def wants(self, topic: str) -> bool:
        """Whether a consumer with this home is for a topic, which is then kept here, whatever `replicas` says."""
        return any(consumer.wants(topic) for consumer in [*self.home.consumers.values()])

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds)."""
        return self.home.deadline

    def advance(self, now: float) -> None:
        """Do what is due."""
        self._send(self.home.advance(now))

    def appended(self, begin: int, end: int, records: Sequence[Record]) -> None:
        """Nothing is given away before it is synced."""

    def synced(self, durable: int) -> None:
        """Give away what has become durable."""
        if self.home.consumers:
            self.advance(self._core.requests.clock())

    def take_all(self, peer: str, life: int, payloads: Sequence[Any]) -> None:
        """Take what an endpoint asks."""
        requests = self._core.requests
        for payload in payloads:
            self._send(self.home.take(requests.clock(), requests.unix_time(), peer, life, payload))

    def close(self, now: float) -> None:
        """Store how far everything was given away."""
        self.home.close(now)

    def _send(self, messages: Sequence[Message]) -> None:
        if messages:
            self._publish([Publication(topic, [payload], 0.0, False, len(payload)) for topic, payload in messages])


class Asked(Receiver):
    """Receives what members ask of the homes at this endpoint, and hands it to the threads that store."""

    def __init__(self, writers: Callable[[], Sequence[Writer]], owner: SubscriptionOwner, counts: bool) -> None:
        """`counts`: this receiver tells when a delivery is handled."""
        super().__init__()
        self._writers = writers
        self._owner = owner
        self._counts = counts

    def _deliver(self, event: Event) -> None:
        """Take a delivery."""
        if not isinstance(event, Delivery):
            return
        peer, life, payloads = event.publisher_id, event.incarnation, [*event.payloads]
        for writer in self._writers():
            runner = writer.keeping.consumers
            if runner is not None:
                writer.call(partial(runner.take_all, peer, life, payloads))
        self._owner.settled("handled", len(payloads))
        if self._counts:
            self._owner.handled(event)
