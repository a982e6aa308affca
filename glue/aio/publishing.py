"""Publishing from asyncio: at once, in streams, and later."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, overload

from glue.aio.driver import LoopDriver
from glue.aio.keeping import AioKeeping
from glue.endpoint.delay_methods import DelayMethods
from glue.endpoint.durability import Acks
from glue.endpoint.options import Priority, Reliability
from glue.endpoint.receipt import AwaitableReceipt

if TYPE_CHECKING:
    from glue.endpoint.delays import Delayed


class AioPublishing(AioKeeping, DelayMethods):
    """The methods of `glue.aio.Endpoint` that publish."""

    _driver: LoopDriver | None

    def _running(self) -> LoopDriver:
        raise NotImplementedError

    @overload
    async def publish(
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
        block: bool = True,
        receipt: Literal[False] = False,
    ) -> None: ...

    @overload
    async def publish(
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
        block: bool = True,
        receipt: Literal[True],
        acks: Acks | None = None,
    ) -> AwaitableReceipt: ...

    @overload
    async def publish(
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
        block: bool = True,
        receipt: bool = False,
        acks: Acks | None = None,
        delay: float,
    ) -> Delayed: ...

    @overload
    async def publish(
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
        block: bool = True,
        receipt: bool = False,
        acks: Acks | None = None,
        deliver_at: float,
    ) -> Delayed: ...

    async def publish(
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
        block: bool = True,
        receipt: bool = False,
        acks: Acks | None = None,
        delay: float | None = None,
        deliver_at: float | None = None,
    ) -> AwaitableReceipt | Delayed | None:
        """Send a payload to every endpoint that subscribes to the topic.

        topic: levels separated by "/", such as "home/kitchen/temperature".
        payload: bytes-like (arrives as bytes), any JSON value (arrives equal), or what `codec` encodes.
        type: a tag that tells the kind of payload, and arrives as `Message.type`; glue does not look at it.
        retain: keep the payload as the topic's last value for late joiners; an empty one (b"" or "") clears the value.
        lifespan: seconds after which the message is no longer handed to a handler or an iterator; None: no limit.
        reliability: "reliable" (in order, once, resent until acknowledged) or "best-effort".
        priority: "urgent", "high", "normal" or "bulk"; no message holds back more urgent messages on other topics.
        key: messages of one key stay in order at one member of each group; see docs/shared-subscriptions.md.
        properties: up to 64 strings by name, 8 kB in all, which arrive as `Message.properties`; see docs/codecs.md.
        codec: how the payload is encoded, such as "msgpack"; None: chosen by the payload's type.
        block: wait while more than `queue_limit` bytes are unacknowledged; False: raise WouldBlockError at once.
        receipt: return a receipt, which can be awaited: `await (await endpoint.publish(..., receipt=True))`.
        acks: with a receipt, the keepers that must have the message on disk before it is true: "disk" for one,
            "replicas" for as many as `keep` says, or a number; see docs/storage.md.
        delay: publish it in so many seconds, and return a `Delayed` message, which can be cancelled. Keepers of the
            topic publish it if this endpoint is gone by then; with `acks` the receipt tells that they have it.
        deliver_at: publish it at this time of the wall clock (Unix seconds), likewise.

        If the call is cancelled, nothing was published. Raises what `glue.Endpoint.publish` raises.
        """
        driver = self._running()
        ticket = None
        if acks is not None:
            ticket = self._durable_receipt(topic, acks, receipt, delay, deliver_at)
        elif receipt:
            ticket = AwaitableReceipt(driver.wait_until)
        try:
            publication = self._core.publication(
                topic,
                payload,
                time.time(),
                type,
                retain,
                lifespan,
                reliability,
                ticket,
                priority,
                key,
                properties,
                codec,
            )
            if delay is not None or deliver_at is not None:
                return self._publish_later(publication, delay, deliver_at, ticket)
            await driver.publish((publication,), block)
        except BaseException:
            if acks is not None:
                self._drop([ticket])
            raise
        return ticket

    async def publish_many(self, topic: str, payloads: Iterable[Any], *, priority: Priority = "normal") -> None:
        """Publish a stream of payloads on one topic, as `publish` with its other defaults would; faster."""
        driver = self._running()
        source, count = iter(payloads), 1
        while chunk := list(islice(source, count)):
            publications = self._core.publications(topic, chunk, time.time(), priority)
            await driver.publish(publications)
            count = self._core.chunk_count(count, publications)
