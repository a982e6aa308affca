"""Publishing from a program that blocks: at once, in streams, and later."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, overload

from glue.drivers.leader import ThreadDriver
from glue.endpoint.delay_methods import DelayMethods
from glue.endpoint.durability import Acks
from glue.endpoint.options import Priority, Reliability
from glue.endpoint.receipt import WaitingReceipt
from glue.sync.keeping import SyncKeeping

if TYPE_CHECKING:
    from glue.endpoint.delays import Delayed

GATHER = 0.001  # seconds that publish_many may take to gather; a slow source is read one payload at a time


class SyncPublishing(SyncKeeping, DelayMethods):
    """The methods of `glue.Endpoint` that publish."""

    _driver: ThreadDriver | None

    def _running(self) -> ThreadDriver:
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
        block: bool = True,
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
        block: bool = True,
        receipt: Literal[True],
        acks: Acks | None = None,
    ) -> WaitingReceipt: ...

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
        block: bool = True,
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
        block: bool = True,
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
        block: bool = True,
        receipt: bool = False,
        acks: Acks | None = None,
        delay: float | None = None,
        deliver_at: float | None = None,
    ) -> WaitingReceipt | Delayed | None:
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
        receipt: return a receipt, which names the peers that have the message and is true once all peers have it.
        acks: with a receipt, the keepers that must have the message on disk before it is true: "disk" for one,
            "replicas" for as many as `keep` says, or a number; see docs/storage.md.
        delay: publish it in so many seconds, and return a `Delayed` message, which can be cancelled. Keepers of the
            topic publish it if this endpoint is gone by then; with `acks` the receipt tells that they have it.
        deliver_at: publish it at this time of the wall clock (Unix seconds), likewise.

        An empty payload that clears a value arrives as b"". The priorities are described in docs/delivery.md. A receipt
        can be waited for; it is false if the message went to no peer.

        Raises TopicError, PayloadError, MessageTooLargeError, ConfigurationError, ClosedError.
        """
        driver = self._driver
        is_late = delay is not None or deliver_at is not None
        if driver is not None and driver.replier and reliability == "reliable" and priority == "normal":
            is_plain = not (retain or receipt or is_late or acks or properties or codec)
            is_plain = is_plain and type is None and lifespan is None and key is None
            if is_plain and driver.reply(topic, payload):
                return None
        driver = self._running()
        ticket = None
        if acks is not None:
            ticket = self._durable_receipt(topic, acks, receipt, delay, deliver_at)
        elif receipt:
            ticket = WaitingReceipt(driver.wait_until)
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
            if is_late:
                return self._publish_later(publication, delay, deliver_at, ticket)
            driver.publish((publication,), block)
        except BaseException:
            if acks is not None:
                self._drop([ticket])
            raise
        return ticket

    def publish_many(self, topic: str, payloads: Iterable[Any], *, priority: Priority = "normal") -> None:
        """Publish a stream of payloads on one topic, faster than `publish` and with the same defaults.

        The source may be a generator that never ends. Payloads are gathered for up to a millisecond. Therefore the
        last payloads before a pause of the source may wait until the source continues. For a source that pauses
        often, use `publish`. Raises what `publish` raises; the last payloads before the faulty one may be missing.
        """
        driver = self._running()
        source = iter(payloads)
        count, began = 1, time.monotonic()
        while chunk := list(islice(source, count)):
            in_time = int(len(chunk) * GATHER / (time.monotonic() - began + 1e-9))  # as many as it gives in GATHER
            publications = self._core.publications(topic, chunk, time.time(), priority)
            driver.publish(publications, True)
            count = max(1, min(in_time, self._core.chunk_count(count, publications)))
            began = time.monotonic()
