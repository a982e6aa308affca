"""Publishing in virtual time: a call takes effect at this instant, and never waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from glue.contract import Publication
from glue.endpoint.admission import SHARES
from glue.endpoint.core import EndpointCore
from glue.endpoint.delay_methods import DelayMethods
from glue.endpoint.durability import Acks
from glue.endpoint.options import Priority, Reliability
from glue.endpoint.receipt import Receipt
from glue.settings import Settings
from glue.simulation.host import Host
from glue.simulation.keeping import SimulatedKeeping

if TYPE_CHECKING:
    from glue.endpoint.delays import Delayed


class SimulatedPublishing(SimulatedKeeping, DelayMethods):
    """The methods of a simulated endpoint that publish."""

    host: Host
    settings: Settings

    def _running(self) -> EndpointCore:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError

    @overload
    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
        block: bool = False,
        receipt: Literal[False] = False,
    ) -> None: ...

    @overload
    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
        block: bool = False,
        receipt: Literal[True],
        acks: Acks | None = None,
    ) -> Receipt: ...

    @overload
    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
        block: bool = False,
        receipt: bool = False,
        acks: Acks | None = None,
        delay: float,
    ) -> Delayed: ...

    @overload
    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
        block: bool = False,
        receipt: bool = False,
        acks: Acks | None = None,
        deliver_at: float,
    ) -> Delayed: ...

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        type: str | None = None,
        retain: bool = False,
        lifespan: float | None = None,
        reliability: Reliability = "reliable",
        priority: Priority = "normal",
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        codec: str | None = None,
        block: bool = False,
        receipt: bool = False,
        acks: Acks | None = None,
        delay: float | None = None,
        deliver_at: float | None = None,
    ) -> Receipt | Delayed | None:
        """Publish a message as `glue.Endpoint.publish` does, without ever waiting.

        Raises WouldBlockError while `queue_limit` is exceeded. `block` has no effect, because virtual time does not
        pass during a call.
        """
        core = self._running()
        now = self.host.unix_time
        ticket = None
        if acks is not None:
            ticket = self._durable_receipt(topic, acks, receipt, delay, deliver_at)
        elif receipt:
            ticket = Receipt()
        with self._dropped_unless_published(ticket):
            publication = core.publication(
                topic, payload, now, type, retain, lifespan, reliability, ticket, priority, key, properties, codec
            )
            if delay is not None or deliver_at is not None:
                return self._publish_later(publication, delay, deliver_at, ticket)
            self._queue([publication])
        return ticket

    def publish_many(self, topic: str, payloads: Iterable[Any], *, priority: Priority = "normal") -> None:
        """Publish these payloads on one topic at this instant. If the call raises, it publishes none."""
        self._queue(self._running().publications(topic, payloads, self.host.unix_time, priority))

    def _queue(self, publications: list[Publication]) -> None:
        core = self._core
        if publications and core.backlog > self.settings.queue_limit * SHARES[publications[0].priority]:
            raise core.would_block(core.backlog)
        for publication in publications:
            core.outbox.add(publication)
        self._wake()
